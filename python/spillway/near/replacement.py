"""The step of an optimizer, replaced where its bits can be had.

PyTorch's step() asks `_init_group` of each group for the tensors to update, states included, and
updates them. Here the first group's call asks for those of all groups, updates what it can in one
native call, and each group's call then hands out what is left. So closures, hooks, schedulers,
profilers, the making of states and errors are PyTorch's; an error while states are made finds
nothing updated. Nothing runs outside step().
"""

import functools
import weakref

import torch
from torch.autograd.graph import increment_version

from . import choices, memory, native, report, rules, trial

_BITS = {native.FUSED_CPU: "fused=True", native.LOOP_CPU: "fused=False"}


@functools.lru_cache(maxsize=None)
def pool(threads):
    return native.Pool(threads)


@functools.lru_cache(maxsize=None)
def update(options):
    return native.Update(native.Options(**dict(options)))


def replace(optimizer, threads=None, proven=False):
    """See optimize(). proven: without a trial of the bits."""
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
        replacement = Replacement(optimizer, threads, proven)
        optimizer.spillway.groups = [replacement.expected(group) for group in optimizer.param_groups]
        optimizer._init_group = replacement.init_group
    return optimizer


class _Left:
    """A group's lists, as PyTorch filled them, without what Spillway updates."""

    def __init__(self, group, lists, returned):
        self.group = group
        self.lists = lists
        self.returned = returned

    def __getitem__(self, role):
        return self.lists.get(role) or ()

    def keep(self, kept):
        """Only the entries whose indices these are."""
        for entries in self.lists.values():
            if entries:  # some are empty, without amsgrad or momentum
                entries[:] = [entries[index] for index in kept]


class _Taken:
    """A tensor that Spillway updates."""

    def __init__(self, left, index):
        self.left = left
        self.index = index
        self.tensors = {role: choices.local(entries[index]) for role, entries in left.lists.items()
                        if entries and entries[index] is not None}
        self.step = self.tensors.pop("step", None)
        self.is_first = False  # its state is made in this step
        parameter = self.tensors["parameter"]
        self.elements = parameter.numel()
        self.bytes = self.elements * parameter.element_size()  # of each of them
        self.at = {role: tensor.data_ptr() for role, tensor in self.tensors.items()}

    def add(self, role, tensor):
        self.tensors[role] = tensor
        self.at[role] = tensor.data_ptr()

    def written(self):
        return [tensor for role, tensor in self.tensors.items() if role != "gradient"]


class Replacement:
    def __init__(self, optimizer, threads, proven):
        self._optimizer = weakref.ref(optimizer)  # it owns this object: states go as soon as it goes
        self._kind = type(optimizer)
        self._rule = rules.RULES[self._kind]
        self._threads = threads
        self._proven = proven
        self._left = {}  # by id of the group: what its call in this step is to hand out

    # What PyTorch calls

    def init_group(self, group, *lists):
        """In the place of the optimizer's `_init_group`."""
        optimizer = self._optimizer()
        if _compiling():
            return self._kind._init_group(optimizer, group, *lists)
        if group is optimizer.param_groups[0]:
            self._left = {}
            self._left = {id(left.group): left for left in self._begin(optimizer)}
        left = self._left.pop(id(group), None)
        if left is None:
            return self._kind._init_group(optimizer, group, *lists)
        for entries, rest in zip(lists, left.lists.values()):
            entries.extend(rest)
        return left.returned

    # A step

    def _begin(self, optimizer):
        """Updates what it can, and returns what is left of all groups."""
        lefts = self._collect(optimizer)
        told = optimizer.spillway
        told.groups = [report.Group(_BITS[rules.variant(left.group)]) for left in lefts]
        found_inf = getattr(optimizer, "found_inf", None)
        scale = getattr(optimizer, "grad_scale", None)
        reasons = [self._why_not_step(left, scale, found_inf) for left in lefts]
        taken, calls = [], {}
        for left, group, reason in zip(lefts, told.groups, reasons):
            kept, options = [], {}
            for index, parameter in enumerate(left["parameter"]):
                why = reason or self._why_not_tensor(left, index)
                if why is None:
                    dtype = parameter.dtype
                    if dtype not in options:
                        options[dtype] = self._options(left.group, dtype)
                    key, why = options[dtype]
                if why is None:
                    taken.append(_Taken(left, index))
                    calls.setdefault(key, []).append(taken[-1])
                    group.take(taken[-1].elements)
                else:
                    kept.append(index)
                    group.left[why] += 1
            left.kept = kept
        if taken and self._overlap(lefts, taken, scale):
            for left, group in zip(lefts, told.groups):
                count, group.tensors, group.elements = group.tensors, 0, 0
                if count:
                    group.left["tensors of this step share memory"] += count
            return lefts
        made = self._made_momentum(taken)
        for left in lefts:
            left.keep(left.kept)
        if taken:
            self._run(calls, taken, scale)
            told.steps += 1
        for parameter, buffer in made:  # only now do they hold anything
            optimizer.state[parameter]["momentum_buffer"] = buffer
        return lefts

    def _collect(self, optimizer):
        """All groups' lists, from PyTorch. Where it fails, the states that it began are gone."""
        new = [parameter for group in optimizer.param_groups for parameter in group["params"]
               if parameter.grad is not None and not optimizer.state.get(parameter)]
        try:
            lefts = []
            for group in optimizer.param_groups:
                lists = {role: [] for role in self._rule.roles}
                returned = self._kind._init_group(optimizer, group, *lists.values())
                lefts.append(_Left(group, lists, returned))
            return lefts
        except BaseException:
            for parameter in new:
                optimizer.state.pop(parameter, None)
            raise

    def _why_not_step(self, left, scale, found_inf):
        group = left.group
        if found_inf is not None and found_inf.item() != 0:
            return "infinite gradients, which skip the step"
        if (scale is not None or found_inf is not None) and not group.get("fused"):
            return "a scale of gradients without fused=True"
        return (choices.why_not_group(self._kind, group)
                or choices.why_not_gradients(self._kind, group, left["gradient"], left["first"]))

    def _why_not_tensor(self, left, index):
        beside = {role: entries[index] for role, entries in left.lists.items()
                  if entries and entries[index] is not None}
        parameter, step = beside.pop("parameter"), beside.pop("step", None)
        reason = None if step is None else choices.why_not_step(step)
        if reason is not None or choices.all_plain(parameter, beside.values()):
            return reason
        reason = choices.why_not_parameter(parameter)
        for role, tensor in beside.items():
            what = "gradient" if role == "gradient" else "state"
            reason = reason or choices.why_not_beside(parameter, tensor, what)
        return reason

    def _options(self, group, dtype):
        """(those of an update of such tensors, None), or (None, why there is none)."""
        reason = choices.why_not_type(group, dtype)
        if reason is not None:
            return None, reason
        try:
            key = rules.options(self._kind, group, dtype)
            update(key)
        except native.Refused as why:
            return None, str(why)
        if not self._proven and not trial.same_bits(self._kind, group, dtype, key):
            return None, (f"the bits of PyTorch {torch.__version__} are others here "
                          f"({torch.backends.cpu.get_cpu_capability()})")
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
        """SGD's buffers at the first step, which PyTorch makes later, by parameter."""
        if self._rule.number != native.SGD:
            return []
        made = [(one, torch.empty_like(one.left["gradient"][one.index])) for one in taken
                if self._rule.keeps_states(one.left.group) and "first" not in one.tensors]
        for one, buffer in made:
            one.add("first", choices.local(buffer))
            one.is_first = True
        return [(one.left["parameter"][one.index], buffer) for one, buffer in made]

    def _run(self, calls, taken, scale):
        try:
            threads = pool(self._threads or torch.get_num_threads())
        except native.Refused:  # no more threads are to be had: this one computes
            threads = None
        numbers = {id(left): self._numbers(left.group, scale) for left in {
            id(one.left): one.left for one in taken}.values()}
        steps = [one.step for one in taken if one.step is not None]
        if steps:
            torch._foreach_add_(steps, 1)
        try:
            named = [(update(key), [self._native(one, numbers[id(one.left)], scale) for one in ones])
                     for key, ones in calls.items()]
        except BaseException:  # nothing has been updated: the step can be tried again
            if steps:
                torch._foreach_sub_(steps, 1)
            raise
        for how, tensors in named:
            how.run(tensors, threads)
        # As PyTorch does, but for fused=True: autograd refuses a backward pass through what was changed.
        increment_version([tensor for one in taken if not one.left.group.get("fused")
                           for tensor in one.written()])

    def _numbers(self, group, scale):
        rate = group["lr"]
        return {**self._rule.step(group),
                "learning_rate": rate.item() if isinstance(rate, torch.Tensor) else rate,
                "gradient_scale": 1.0 if scale is None else scale.item()}

    @staticmethod
    def _native(one, numbers, scale):
        if one.step is not None:
            number = one.step.item()
        else:
            number = 1 if one.is_first else 2
        at = one.at
        return native.in_place(
            native.Step(step=number, **numbers), one.elements, at["parameter"], at["gradient"],
            at.get("first"), at.get("second"), at.get("max_second"),
            gradient_out=None if scale is None else at["gradient"])

    # Before the first step

    def expected(self, group):
        told = report.Group(_BITS[rules.variant(group)])
        reason = choices.why_not_group(self._kind, group)
        for parameter in group["params"]:
            why = reason or choices.why_not_parameter(parameter)
            if why is None:
                why = self._options(group, choices.local(parameter).dtype)[1]
            if why is None:
                told.take(choices.local(parameter).numel())
            else:
                told.left[why] += 1
        return told


def _compiling():
    """A compiler asks for the lists, and computes by itself."""
    return torch.compiler.is_compiling() or torch._guards.TracingContext.try_get() is not None
