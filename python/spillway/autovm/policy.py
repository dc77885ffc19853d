"""AutoVM's policy (chapter 3 of the thesis): which tensors of a graph move, and when.

Pure functions from a sequence of operations with the storages that they use, sizes, limits and a budget, to
what is to be inserted, each with its reason. They know nothing of PyTorch, so that tests can work graphs out
by hand.

    plan = make_plan(operations, storages, budget_bytes, Limits(size_bytes=1 << 20, distance=10))

Offload (3.3.1.1, 3.3.2.1): a tensor that the backward pass uses is pre-evicted after its last use in the
forward pass, if it is not smaller than the size threshold and its reuse distance, in operations, not shorter
than the other one. Weights stay, and nothing is offloaded in the backward pass (3.3.1.3).

Prefetch (3.3.1.4, 3.3.2.2): what was offloaded comes back before its first use in the backward pass. Where
run times are not known, as early as the tensor fits beside the working set of every operation until then
(listing 3.4); where they are, as late as the copy is hidden (listing 3.3). A tensor that does not fit beside
those working sets is not prefetched, but paged in on demand. Prefetches begin in the order of their uses
(figure 3.5).

A graph without a backward pass: the thesis leaves it out (3.5, limitation 1); the same rules are then applied
to the longest time in which a tensor is not used.
"""

from dataclasses import dataclass, field

PRE_EVICT, PREFETCH = "pre_evict", "prefetch"


@dataclass(frozen=True)
class Storage:
    """Memory that tensors lie in. `stays`: why it is never moved; empty where it may be."""

    name: str
    size_bytes: int
    is_input: bool = False   # there before the first operation
    is_output: bool = False  # there after the last one
    stays: str = ""


@dataclass(frozen=True)
class Operation:
    """One that touches memory; `uses`: indices of the storages that it reads or writes."""

    name: str
    uses: tuple
    backward: bool = False
    runtime_ns: float | None = None  # None: not known


@dataclass(frozen=True)
class Limits:
    size_bytes: int = 1 << 20  # smaller tensors stay
    distance: int = 10         # so do those with fewer operations between their two uses


@dataclass(frozen=True)
class Insertion:
    """`position` is the operation after which a pre-eviction comes, or before which a prefetch does."""

    kind: str
    storage: int
    position: int
    why: str


@dataclass(frozen=True)
class Gap:
    """The operations between which a storage is not used."""

    last_use: int
    next_use: int

    @property
    def distance(self):
        return self.next_use - self.last_use - 1


@dataclass
class Plan:
    insertions: list = field(default_factory=list)
    stays: list = field(default_factory=list)  # (storage, why) of what is not moved, or not prefetched


def uses_of(operations, storages):
    """The operations that use each storage, in order."""
    uses = [[] for _ in storages]
    for position, operation in enumerate(operations):
        for storage in dict.fromkeys(operation.uses):
            uses[storage].append(position)
    return uses


def working_set_bytes(operation, storages):
    return sum(storages[storage].size_bytes for storage in dict.fromkeys(operation.uses))


def peak_bytes(operations, storages):
    """The most that is alive at one operation."""
    change = [0] * (len(operations) + 1)
    for storage, uses in zip(storages, uses_of(operations, storages)):
        if not uses and not storage.is_input:
            continue
        begin = 0 if storage.is_input else uses[0]
        end = len(operations) if storage.is_output or storage.is_input else uses[-1] + 1
        change[begin] += storage.size_bytes
        change[end] -= storage.size_bytes
    peak = alive = 0
    for bytes_more in change:
        alive += bytes_more
        peak = max(peak, alive)
    return peak


def gap_of(uses, operations):
    """Between the last use in the forward pass and the first one in the backward pass; in a graph without a
    backward pass the longest time between two uses. None where there is none."""
    if any(operation.backward for operation in operations):
        forward = [use for use in uses if not operations[use].backward]
        backward = [use for use in uses if operations[use].backward]
        return Gap(forward[-1], backward[0]) if forward and backward else None
    gaps = [Gap(one, other) for one, other in zip(uses, uses[1:])]
    return max(gaps, key=lambda gap: gap.distance, default=None)


def choose(operations, storages, limits):
    """Listing 3.1: the storages to offload, as {storage: gap}, and (storage, why) of the others that the
    backward pass uses."""
    chosen, stays = {}, []
    two_passes = any(operation.backward for operation in operations)
    for number, (storage, uses) in enumerate(zip(storages, uses_of(operations, storages))):
        gap = gap_of(uses, operations)
        if gap is None:
            continue
        if storage.stays:
            stays.append((number, storage.stays))
        elif storage.size_bytes < limits.size_bytes:
            stays.append((number, f"{storage.size_bytes} bytes, the size threshold is {limits.size_bytes}"))
        elif gap.distance < limits.distance:
            if two_passes:  # in one pass nearly everything is used again at once
                stays.append((number, f"used again after {gap.distance} operations, the threshold is "
                                      f"{limits.distance}"))
        else:
            chosen[number] = gap
    return chosen, stays


def offloads(operations, storages, chosen):
    """Listing 3.2: each after its last use in the forward pass."""
    return [Insertion(PRE_EVICT, storage, gap.last_use,
                      f"last use before the gap is {operations[gap.last_use].name}; used again after "
                      f"{gap.distance} operations, by {operations[gap.next_use].name}")
            for storage, gap in sorted(chosen.items(), key=lambda item: item[1].last_use)]


def prefetches(operations, storages, first_uses, budget_bytes, link_bytes_per_s=None, not_before=None):
    """Listings 3.3 and 3.4. first_uses: {storage: the operation that needs it}; not_before: {storage: the
    operation after which it has left}, where that is in the same sequence. Returns insertions, and
    (storage, why) of those that are paged in on demand."""
    first_backward = next((at for at, operation in enumerate(operations) if operation.backward), 0)
    working_set = [working_set_bytes(operation, storages) for operation in operations]
    starts, stays = [], []
    for storage, use in sorted(first_uses.items(), key=lambda item: item[1]):
        size = storages[storage].size_bytes
        earliest = first_backward if not_before is None else max(first_backward, not_before[storage] + 1)
        start = _start(operations, working_set, size, use, earliest, budget_bytes, link_bytes_per_s)
        if start is None:
            stays.append((storage, "paged in on demand: it does not fit beside the working set before "
                                   + operations[use].name))
            continue
        for at in range(start, use):
            working_set[at] += size
        starts.append([storage, start, use])
    _in_order_of_uses(starts, storages, working_set, budget_bytes, not_before)
    return [Insertion(PREFETCH, storage, start,
                      f"for {operations[use].name}, {use - start} operations ahead: it fits beside their "
                      "working sets") for storage, start, use in starts], stays


def _start(operations, working_set, size, use, earliest, budget_bytes, link_bytes_per_s):
    """The operation with which the copy begins; None: it is not to be prefetched."""
    known = link_bytes_per_s is not None and all(
        operation.runtime_ns is not None for operation in operations[earliest:use])
    copy_ns = size / link_bytes_per_s * 1e9 if known else 0
    start, covered_ns = None, 0.0
    for at in range(use - 1, earliest - 1, -1):
        if known and covered_ns >= copy_ns:
            break
        if working_set[at] + size > budget_bytes:
            if known:
                return None  # listing 3.3, step 3
            break
        covered_ns += operations[at].runtime_ns or 0.0
        start = at
    return start


def _in_order_of_uses(starts, storages, working_set, budget_bytes, not_before):
    """Figure 3.5: one that is used sooner begins no later, by beginning earlier where it fits; else the
    other one begins later."""
    for at in range(len(starts) - 2, -1, -1):
        (storage, start, _), (_, next_start, _) = starts[at], starts[at + 1]
        size = storages[storage].size_bytes
        gone = not_before is None or not_before[storage] < next_start
        if start > next_start and gone and all(
                working_set[between] + size <= budget_bytes for between in range(next_start, start)):
            for between in range(next_start, start):
                working_set[between] += size
            starts[at][1] = next_start
    for one, other in zip(starts, starts[1:]):
        other[1] = max(other[1], one[1])


def make_plan(operations, storages, budget_bytes, limits, link_bytes_per_s=None):
    """All of it, of one sequence."""
    plan = Plan()
    peak = peak_bytes(operations, storages)
    if peak <= budget_bytes:  # section 6.4: what fits is only slowed down
        plan.stays = [(number, f"everything fits: {peak} of {budget_bytes} bytes")
                      for number in choose(operations, storages, limits)[0]]
        return plan
    chosen, plan.stays = choose(operations, storages, limits)
    back, on_demand = prefetches(operations, storages,
                                 {storage: gap.next_use for storage, gap in chosen.items()}, budget_bytes,
                                 link_bytes_per_s, {storage: gap.last_use for storage, gap in chosen.items()})
    plan.stays += on_demand
    plan.insertions = offloads(operations, storages, chosen) + back
    return plan
