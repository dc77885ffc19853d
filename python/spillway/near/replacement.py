"""The step of an optimizer, replaced where its bits can be had.

PyTorch's step() asks `_init_group` of each group for the tensors to update, states included, and
updates them. Here the first group's call asks for those of all groups, updates what it can, and each
group's call then hands out what is left. So closures, hooks, schedulers, profilers, the making of
states and errors are PyTorch's; an error while states are made finds nothing updated. What lies on the
CPU has been updated when step() returns; what lies on a GPU is only issued there (later.py).
"""

import functools
import weakref

import torch
from torch.autograd.graph import increment_version

from . import choices, lists, memory, native, placement, report, rules, trial
from .later import Later


@functools.lru_cache(maxsize=None)
def pool(threads):
    return native.Pool(threads)


@functools.lru_cache(maxsize=None)
def update(options):
    return native.Update(native.Options(**dict(options)))


def replace(optimizer, threads=None, proven=False, places=None):
    """See optimize(). proven: without a trial of the bits. places: a placement.Places."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(f"spillway.near: {type(optimizer).__name__} is no optimizer of torch.optim")
    if threads is not None and threads < 1:
        raise ValueError(f"spillway.near: threads={threads}: at least 1 computes")
    if isinstance(getattr(optimizer, "spillway", None), report.Report):
        return optimizer
    native.library()
    optimizer.spillway = report.Report(type(optimizer).__name__)
    optimizer.spillway.reason = choices.why_not_kind(optimizer)
    if optimizer.spillway.reason is None:
        replacement = Replacement(optimizer, threads, proven, places or placement.Places())
        optimizer.spillway.groups = [replacement.expected(group) for group in optimizer.param_groups]
        optimizer._init_group = replacement.init_group
    return optimizer


class Replacement:
    def __init__(self, optimizer, threads, proven, places):
        self._optimizer = weakref.ref(optimizer)  # it owns this object: states go as soon as it goes
        self._kind = type(optimizer)
        self._rule = rules.RULES[self._kind]
        self._threads = threads
        self._proven = proven
        self._places = places
        self._later = Later()
        self._only_later = False  # nothing in the last step was updated inside it
        self._left = {}  # by id of the group: what its call in this step is to hand out

    # What PyTorch calls

    def init_group(self, group, *entries):
        """In the place of the optimizer's `_init_group`."""
        optimizer = self._optimizer()
        if _compiling():
            return self._kind._init_group(optimizer, group, *entries)
        if group is optimizer.param_groups[0]:
            self._left = {}
            why = self._why_not_asked([one for each in optimizer.param_groups for one in each["params"]])
            if why is None:
                self._left = {id(left.group): left for left in self._begin(optimizer)}
            else:
                self._later.pause()
                optimizer.spillway.groups = [report.nothing(each["params"], why)
                                             for each in optimizer.param_groups]
        left = self._left.pop(id(group), None)
        if left is None:
            returned = self._kind._init_group(optimizer, group, *entries)
            if "step" in self._rule.roles and getattr(optimizer, "found_inf", None) is None:
                self._later.leave(entries[self._rule.roles.index("step")])
            return returned
        for own, rest in zip(entries, left.lists.values()):
            own.extend(rest)
        return left.returned

    # A step

    def _why_not_asked(self, parameters):
        if self._places.are_idle(parameters):
            return placement.FITS
        return placement.RESTS if self._only_later and self._later.rests() else None

    def _begin(self, optimizer):
        """Updates what it can, and returns what is left of all groups."""
        lefts = lists.collect(optimizer, self._kind, self._rule.roles)
        told = optimizer.spillway
        told.groups = [report.Group() for _ in lefts]
        scale, found_inf = (getattr(optimizer, name, None) for name in ("grad_scale", "found_inf"))
        calls = {}
        for left, group in zip(lefts, told.groups):
            self._choose(left, group, scale, found_inf, calls)
        taken = [one for ones in calls.values() for one in ones]
        if taken and self._overlap(lefts, taken, scale):
            self._give_up(taken, "tensors of this step share memory")
            taken, calls = [], {}
        made = self._made_momentum(taken)
        if taken:
            refused = self._run(calls, taken, scale, found_inf)
            self._give_up(refused, placement.BETTER)
            gone = set(map(id, refused))
            taken = [one for one in taken if id(one) not in gone]
            made = [(one, buffer) for one, buffer in made if id(one) not in gone]
        told.warn(choices.MISREAD)
        for left in lefts:
            left.keep()
        for one in taken:
            one.told.take(one.elements)
        if taken:
            told.steps += 1
            told.updates += len(taken)
        for one, buffer in made:  # only now do they hold anything
            optimizer.state[one.whole]["momentum_buffer"] = buffer
        return lefts

    def _choose(self, left, told, scale, found_inf, calls):
        """A group's tensors that Spillway may update, by (place, options), into `calls`."""
        reasons, options = {}, {}
        for index, parameter in enumerate(left["parameter"]):
            tensor = choices.local(parameter)
            place = self._places.of(tensor)
            if place not in reasons:
                reasons[place] = self._why_not_step(left, place, scale, found_inf)
            why = reasons[place]
            if why is None and place is not None and tensor.nbytes < place.least_bytes:
                why = choices.SMALL  # without a closer look: there may be many
            why = why or self._why_not_tensor(left, index, place)
            if why is None:
                kind = place, parameter.dtype
                if kind not in options:
                    options[kind] = self._options(left.group, place, left.way, parameter.dtype)
                key, why = options[kind]
            if why is None:
                told.of(place, left.way)
                one = lists.Taken(left, index, place, told)
                calls.setdefault((place, key), []).append(one)
            else:
                left.kept.append(index)
                told.left[why] += 1

    @staticmethod
    def _give_up(ones, reason):
        """PyTorch updates these after all."""
        for one in ones:
            one.left.kept.append(one.index)
            one.told.left[reason] += 1

    def _why_not_step(self, left, place, scale, found_inf):
        group = left.group
        reason = place and place.why_not_now()
        if reason is not None:
            return reason
        if place is not None and place.at_once:
            if found_inf is not None and found_inf.item() != 0:
                return "infinite gradients, which skip the step"
        elif place is not None and not all(place.holds_number(one) for one in (scale, found_inf)):
            return "a scale of gradients that is no float32 on their device"
        if (scale is not None or found_inf is not None) and not group.get("fused"):
            return "a scale of gradients without fused=True"
        return (choices.why_not_group(self._kind, group, left.way) or choices.why_not_gradients(
            self._kind, group, place, left.way, left["gradient"], left["first"]))

    @staticmethod
    def _why_not_tensor(left, index, place):
        beside = left.entries(index)
        parameter, step = beside.pop("parameter"), beside.pop("step", None)
        reason = choices.why_not_parameter(parameter, place) if place is None else None
        if step is not None:
            reason = reason or choices.why_not_step(step, parameter, place, left.way)
        if reason is not None or choices.all_plain(parameter, beside.values()):
            return reason
        reason = choices.why_not_parameter(parameter, place)
        for role, tensor in beside.items():
            what = "gradient" if role == "gradient" else "state"
            reason = reason or choices.why_not_beside(parameter, tensor, what)
        if left.way == "fused" and choices.misread(parameter, beside.values()):
            return choices.MISREAD
        return reason

    def _options(self, group, place, way, dtype):
        """(those of an update of such tensors, None), or (None, why there is none)."""
        reason = choices.why_not_type(place, way, dtype)
        if reason is not None:
            return None, reason
        try:
            key = rules.options(self._kind, group, dtype, place, way)
            update(key)
        except native.Refused as why:
            return None, str(why)
        try:
            proven = self._proven or trial.same_bits(self._kind, group, dtype, key, place, way)
        except torch.OutOfMemoryError:
            return None, "the device has no memory free to compare the bits"
        if not proven:
            return None, f"the bits of PyTorch {torch.__version__} are others here ({place.describe()})"
        return key, None

    @staticmethod
    def _overlap(lefts, taken, scale):
        written = [(at, at + one.bytes) for one in taken for role, at in one.at.items() if role != "gradient"]
        written += [memory.storage_extent(one.step) for one in taken if one.step is not None]
        gradients = [(one.at["gradient"], one.at["gradient"] + one.bytes) for one in taken]
        for left in lefts:
            for role, entries in left.lists.items():
                for index in left.kept if entries else ():
                    around = entries[index] is not None and memory.storage_extent(
                        choices.local(entries[index]))
                    if around:
                        (gradients if role == "gradient" else written).append(around)
        if scale is not None:  # gradients are written
            written, gradients = written + gradients, []
        return memory.overlap(written, gradients)

    def _made_momentum(self, taken):
        """SGD's buffers at the first step, which PyTorch makes later: of whom, and which."""
        if self._rule.number != native.SGD:
            return []
        made = [(one, torch.empty_like(one.left["gradient"][one.index])) for one in taken
                if self._rule.keeps_states(one.left.group) and "first" not in one.tensors]
        for one, buffer in made:
            one.add("first", choices.local(buffer))
            one.is_first = True
        return made

    def _run(self, calls, taken, scale, found_inf):
        """Those of a GPU that are not updated after all."""
        try:
            threads = pool(self._threads or torch.get_num_threads())
        except native.Refused:  # no more threads are to be had: this one computes
            threads = None
        numbers = {id(left): self._numbers(left.group) for left in {
            id(one.left): one.left for one in taken}.values()}
        later = self._later.prepare([(place, update(key), ones) for (place, key), ones in calls.items()
                                     if not place.at_once], numbers, scale is not None)
        self._run_now([(update(key), ones) for (place, key), ones in calls.items() if place.at_once],
                      numbers, threads, scale)
        self._only_later = len(later) == len(calls)
        return self._later.run(later, threads, scale, found_inf) if later else []

    @staticmethod
    def _run_now(calls, numbers, threads, scale):
        taken = [one for _, ones in calls for one in ones]
        steps = [one.step for one in taken if one.step is not None]
        if steps:
            torch._foreach_add_(steps, 1)
        try:
            divisor = {} if scale is None else {"gradient_scale": scale.item()}
            named = [(how, [one.native(one.number(), {**numbers[id(one.left)], **divisor}, scale is not None)
                            for one in ones]) for how, ones in calls]
        except BaseException:  # nothing has been updated: the step can be tried again
            if steps:
                torch._foreach_sub_(steps, 1)
            raise
        for how, tensors in named:
            how.run(tensors, threads)
        # As PyTorch does, but for fused=True: autograd refuses a backward pass through what was changed.
        increment_version([tensor for one in taken if not one.left.group.get("fused")
                           for tensor in one.written()])

    def _numbers(self, group):
        rate = group["lr"]
        return {**self._rule.step(group),
                "learning_rate": rate.item() if isinstance(rate, torch.Tensor) else rate}

    # Before the first step

    def expected(self, group):
        told = report.Group()
        way = rules.way(self._kind, group, group["params"])
        reasons = {}
        for parameter in group["params"]:
            place = self._places.of(choices.local(parameter))
            if place not in reasons:
                reasons[place] = place and place.why_not_now()
            why = reasons[place] or choices.why_not_group(self._kind, group, way)
            why = why or choices.why_not_parameter(parameter, place)
            if why is None:
                why = self._options(group, place, way, choices.local(parameter).dtype)[1]
            if why is None:
                told.of(place, way)
                told.take(choices.local(parameter).numel())
            else:
                told.left[why] += 1
        return told


def _compiling():
    """A compiler asks for the lists, and computes by itself."""
    return torch.compiler.is_compiling() or torch._guards.TracingContext.try_get() is not None
