"""Sees each operator of an iteration, and makes the calls of the plan behind those that they belong behind.

The calls are the runtime's own (src/interpose/host/memory_wishes.cc). They name a whole storage, return at once and
change no contents, so results have the same bits:

    int spillway_prefetch(void* start, size_t bytes);
    int spillway_pre_evict_to(void* start, size_t bytes, int storage);   // -1: the run has no such tier
"""

import atexit
import ctypes

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

from .matching import LEAST_BYTES, Matcher, PlanError

# By these nothing is launched.
_SILENT = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted", "resize_",
           "resize_as_", "set_", "lift_fresh", "is_same_size", "is_pinned", "record_stream", "_unsafe_view"}


def runtime():
    """(prefetch, pre_evict_to) of this process; None where it does not run under Spillway."""
    library = ctypes.CDLL(None)
    prefetch, pre_evict = (getattr(library, name, None) for name in ("spillway_prefetch", "spillway_pre_evict_to"))
    if prefetch is None or pre_evict is None:
        return None
    prefetch.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    pre_evict.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return prefetch, pre_evict


class _Facts:
    """What a schema says of an operator."""

    def __init__(self, func):
        schema = func._schema
        self.name = schema.name
        self.changes = [_changes(argument) for argument in schema.arguments]
        self.named = {argument.name: _changes(argument) for argument in schema.arguments}
        aliases = [value.alias_info for value in schema.returns]
        self.made = [alias is None or alias.is_write for alias in aliases]
        view = bool(aliases) and not any(self.made) and not any(self.changes)
        self.silent = view or schema.name.partition("::")[2] in _SILENT
        self.composite = torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeExplicitAutograd")


def _changes(argument):
    return argument.alias_info is not None and argument.alias_info.is_write


class Follower(TorchDispatchMode):
    supports_higher_order_operators = True  # such as checkpoints

    @classmethod
    def ignore_compile_internals(cls):
        return True  # else PyTorch would run compiled functions uncompiled, with other bits

    def __init__(self, program, optimizer, functions):
        super().__init__()
        self.program = program
        self.prefetch, self.pre_evict = functions
        self.device = optimizer.param_groups[0]["params"][0].device.type
        self.matcher = Matcher(program)
        self.facts = {}
        self.made = []  # calls of this iteration
        self.follows = self.entered = False
        self.hook = optimizer.register_step_post_hook(self._after_step)
        atexit.register(self.end)  # before what PyTorch needs for modes is gone

    # From one step to the next.

    def _after_step(self, *_):
        if self.follows:
            self._may_refuse(self.matcher.end)
            self.program.iterations += 1
            self.program.carried_out = self.made
        if not self.entered and _get_current_dispatch_mode() is None:  # else a later step may
            self.__enter__()
            self.entered = True
        self.follows = self.entered
        if self.follows:
            self.made = []
            self.matcher.begin()
            self._carry_out(self.matcher.first_calls)

    def end(self):
        self.follows = False
        self.hook.remove()
        atexit.unregister(self.end)
        if self.entered and _get_current_dispatch_mode() is self:
            self.__exit__(None, None, None)
            self.entered = False

    def _may_refuse(self, step, *arguments):
        try:
            return step(*arguments)
        except PlanError:
            self.follows = False  # the script may go on without the plan
            self.hook.remove()
            raise

    # Operators.

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if not self.follows or getattr(func, "_schema", None) is None or func.namespace in ("profiler", "spillway"):
            return func(*args, **kwargs)
        facts = self.facts.get(func)
        if facts is None:
            facts = self.facts[func] = _Facts(func)
        if facts.silent:
            return func(*args, **kwargs)
        storages = {}
        for value, changed in zip(args, facts.changes):
            self._add(storages, value, changed)
        for name, value in kwargs.items():
            self._add(storages, value, facts.named.get(name, False))
        results = func(*args, **kwargs)
        for value, made in zip(results if len(facts.made) > 1 else (results,), facts.made):
            self._add(storages, value, made)
        if storages:
            self._carry_out(self._may_refuse(self.matcher.operator, facts.name, facts.composite, storages))
        return results

    def _add(self, storages, value, changed):
        if isinstance(value, torch.Tensor):
            if value.device.type != self.device:
                return
            try:
                storage = value.untyped_storage()
                address, nbytes = storage.data_ptr(), storage.nbytes()
            except (RuntimeError, NotImplementedError):
                return  # without memory of its own: sparse, fake
            if address and nbytes >= LEAST_BYTES:
                entry = storages.setdefault(address, [nbytes, changed])
                entry[1] = entry[1] or changed
        elif isinstance(value, (list, tuple)):
            for item in value:
                self._add(storages, item, changed)

    def _carry_out(self, calls):
        for kernel, (what, tensor, to) in calls:
            if tensor.address is None:
                continue  # in the first iteration: where it lies is known from its first use on
            if what == "prefetch":
                self.prefetch(tensor.address, tensor.nbytes)
            elif self.pre_evict(tensor.address, tensor.nbytes, to == "storage") < 0:
                self.follows = False
                self.hook.remove()
                raise PlanError(f"spillway: {self.program.file}: the plan pre-evicts to {to}, and this run has none: "
                                f"give it some (--{'storage' if to == 'storage' else 'host-memory'}), or plan with "
                                "--policy g10_gds, without host memory, or --set storage.capacity=0, without storage")
            self.made.append((kernel, what, tensor.number, tensor.size_bytes))
