"""Puts the policy's operators into torch.fx graphs, and keeps what was decided, with reasons."""

from dataclasses import dataclass, field, replace

import torch

from . import estimate, graph, operators, policy

KEY = "spillway_autovm"  # of a graph module's meta


@dataclass(frozen=True)
class Settings:
    """What the insertions depend on, beside the graph. size_bytes: None for thresholds that are tuned; distance:
    None for one that is, where the other is; times: None for those of the graph's device."""

    budget_bytes: int
    size_bytes: int | None = None
    distance: int | None = None
    times: estimate.Times | None = None

    def limits_of(self, operations, storages, device_type, report):
        """Tuned, where what there is does not fit."""
        limits = policy.Limits(graph.SMALLEST_BYTES if self.size_bytes is None else self.size_bytes,
                               policy.Limits.distance if self.distance is None else self.distance)
        if self.size_bytes is None and policy.peak_bytes(operations, storages) > self.budget_bytes:
            limits, tried = estimate.tune(operations, storages, self.budget_bytes, limits,
                                          self.times or estimate.Times.of(device_type), self.distance is None)
            report.tuned(tried)
        return limits


@dataclass
class Report:
    """What was decided on a graph, or on a forward and a backward graph together."""

    lines: list = field(default_factory=list)
    insertions: int = 0
    offloaded_bytes: int = 0

    def __str__(self):
        return "\n".join(self.lines)

    def __deepcopy__(self, memo):
        return self  # AOTAutograd compiles the backward graph from a copy; it is the same report

    def inserted(self, kind, name, size_bytes, node, why):
        self.insertions += 1
        self.offloaded_bytes += size_bytes if kind == policy.PRE_EVICT else 0
        where = "after" if kind == policy.PRE_EVICT else "before"
        self.lines.append(f"{kind} {name}, {size_bytes} bytes, {where} {node}: {why}")

    def stays(self, name, why):
        line = f"stays {name}: {why}"
        if line not in self.lines:
            self.lines.append(line)

    def tuned(self, tried):
        if len(tried) > 1:
            self.lines.append("thresholds: " + ", ".join(
                f"{limits.size_bytes} bytes {limits.distance} operations {estimated_ns / 1e6:.1f} ms"
                for limits, estimated_ns in tried))


def put(module, reading, insertion, report):
    """One operator into the graph; False where no tensor there can be named."""
    anchor = reading.nodes[insertion.position]
    storage = reading.storages[insertion.storage]
    is_prefetch = insertion.kind == policy.PREFETCH
    if is_prefetch:
        overload, tensor = operators.PREFETCH, reading.tensor_node(insertion.storage, reading.order[anchor])
    else:
        last = _last_part(anchor)
        overload, tensor = operators.PRE_EVICT, (_saved(reading, insertion.storage)
                                                 or reading.tensor_node(insertion.storage, reading.order[last] + 1))
    if tensor is None:
        report.stays(storage.name, "no node is a tensor of it alone")
        return False
    place = (module.graph.inserting_before(anchor) if is_prefetch
             else module.graph.inserting_after(max(last, tensor, key=reading.order.get)))
    with place:
        node = module.graph.call_function(overload, (tensor,))
        node.meta["val"] = None
    report.inserted(insertion.kind, storage.name, storage.size_bytes, anchor.name, insertion.why)
    return True


def _saved(reading, number):
    """The tensor of this storage that the graph gives out: that one is real memory in any case."""
    for node in reading.outputs:
        if isinstance(node, torch.fx.Node) and number in reading.numbers_of(node):
            return node
    return None


def _last_part(node):
    """Behind an operator with several results stand the nodes that take them apart."""
    while node.next.op == "call_function" and node.next.target is graph.operator.getitem:
        node = node.next
    return node


def one_graph(module, settings):
    """A graph by itself: joint, or with one pass only."""
    reading = graph.Reading(module)
    report = Report()
    for number, storage in enumerate(reading.storages):
        if storage.is_output and not storage.stays:
            reading.change(number, stays="the graph returns it")
    limits = settings.limits_of(reading.operations, reading.storages, reading.device_type(), report)
    plan = policy.make_plan(reading.operations, reading.storages, settings.budget_bytes, limits)
    _say_dynamic(reading.operations, reading.storages, limits, report)
    for insertion in plan.insertions:
        put(module, reading, insertion, report)
    for number, why in plan.stays:
        report.stays(reading.storages[number].name, why)
    _done(module, report)
    return report


def _say_dynamic(operations, storages, limits, report):
    """Also where what is known fits."""
    for number, why in policy.choose(operations, storages, limits)[1]:
        if why == graph.DYNAMIC:
            report.stays(storages[number].name, why)


def _done(module, report):
    module.graph.lint()
    module.recompile()
    module.meta[KEY + "_report"] = report


# --- A forward and a backward graph ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Saved:
    """A storage that the forward graph leaves for the backward graph, and that is to be offloaded."""

    output: int        # which of the forward graph's outputs lies there
    placeholders: tuple  # those of the backward graph, by name
    size_bytes: int
    next_use: str
    distance: int


@dataclass
class Pair:
    """Plain data: both graphs are compiled later, one without the other, and after further passes."""

    settings: Settings
    saved: list
    report: Report


def decide(forward, backward, returned, settings):
    """What to offload between the two; `returned`: how many outputs the program gets. Leaves the decision in the
    meta of both modules."""
    one, other = graph.Reading(forward, False), graph.Reading(backward, True)
    storages, operations, number_in_other, links = _together(one, other, returned)
    report, saved = Report(), []
    peak = policy.peak_bytes(operations, storages)
    limits = settings.limits_of(operations, storages, one.device_type(), report)
    _say_dynamic(operations, storages, limits, report)
    if peak <= settings.budget_bytes:
        report.lines.append(f"nothing is inserted: the graphs' {peak} bytes fit in {settings.budget_bytes}")
    else:
        chosen, stays = policy.choose(operations, storages, limits)
        for number, why in stays:
            report.stays(storages[number].name, why)
        for number, gap in chosen.items():
            output, placeholders = links[number]
            saved.append(Saved(output, tuple(placeholders), storages[number].size_bytes,
                               operations[gap.next_use].name, gap.distance))
    pair = Pair(settings, saved, report)
    forward.meta[KEY], backward.meta[KEY] = (pair, "forward"), (pair, "backward")
    return pair


def _together(one, other, returned):
    """One sequence of both graphs: a placeholder of the second that is an output of the first is that."""
    by_name = {node.name: node for node in one.outputs[returned:] if isinstance(node, torch.fx.Node)}
    output_at = {node.name: at for at, node in enumerate(one.outputs)
                 if at >= returned and isinstance(node, torch.fx.Node)}
    storages, same, links = list(one.storages), {}, {}
    for node in one.outputs[:returned]:
        for number in one.numbers_of(node) if isinstance(node, torch.fx.Node) else ():
            storages[number] = replace(storages[number], is_output=True, stays=storages[number].stays or
                                       "the program gets it as well")
    for node in other.order:
        if node.op != "placeholder":
            continue
        for number in other.numbers_of(node):
            source = by_name.get(node.name)
            if source is not None and len(one.numbers_of(source)) == 1:
                (same[number],) = one.numbers_of(source)
                links.setdefault(same[number], (output_at[node.name], []))[1].append(node.name)
    for number, storage in enumerate(other.storages):
        if number not in same:
            same[number] = len(storages)
            storages.append(replace(storage, stays=storage.stays or "made in the backward pass"))
    for number in links:  # given from one graph to the other, and dead after that
        if not storages[number].stays:
            storages[number] = replace(storages[number], is_output=False)
    operations = one.operations + [
        replace(operation, uses=tuple(same[number] for number in operation.uses))
        for operation in other.operations]
    return storages, operations, same, links


def insert(module):
    """Into a forward or a backward graph on which `decide` has decided. Returns how many."""
    decided = module.meta.get(KEY)
    if decided is None:
        return 0
    pair, which = decided
    if not pair.saved:
        return 0
    reading = graph.Reading(module, which == "backward")
    before = pair.report.insertions
    if which == "forward":
        _insert_offloads(module, reading, pair)
    else:
        _insert_prefetches(module, reading, pair)
    _done(module, pair.report)
    return pair.report.insertions - before


def _insert_offloads(module, reading, pair):
    uses = policy.uses_of(reading.operations, reading.storages)
    offloads = []
    for saved in pair.saved:
        node = reading.outputs[saved.output]
        numbers = reading.numbers_of(node)
        if len(numbers) != 1 or not uses[numbers[0]] or reading.storages[numbers[0]].is_input:
            pair.report.stays(str(node), "another pass has changed what the graph saves")
            continue
        last = uses[numbers[0]][-1]
        offloads.append(policy.Insertion(
            policy.PRE_EVICT, numbers[0], last,
            f"last use in the forward pass is {reading.operations[last].name}; used again after "
            f"{saved.distance} operations, by {saved.next_use}"))
    for offload in sorted(offloads, key=lambda one: one.position):
        put(module, reading, offload, pair.report)


def _insert_prefetches(module, reading, pair):
    uses = policy.uses_of(reading.operations, reading.storages)
    names = {name for saved in pair.saved for name in saved.placeholders}
    first_uses = {number: uses[number][0] for node in reading.order
                  if node.op == "placeholder" and node.name in names
                  for number in reading.numbers_of(node) if uses[number]}
    prefetches, on_demand = policy.prefetches(reading.operations, reading.storages, first_uses,
                                              pair.settings.budget_bytes)
    for prefetch in prefetches:
        put(module, reading, prefetch, pair.report)
    for number, why in on_demand:
        pair.report.stays(reading.storages[number].name, why)
