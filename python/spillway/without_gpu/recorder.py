"""Sees every operator below autograd, and notes the kernels that it would launch on a GPU."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from . import costs, host_memory, target
from .device import on_device
from .launcher import Launcher, tensors_in
from .operator_facts import OperatorFacts
from .special_operators import SPECIAL
from .storages import Storages
from .values import Values

_EXPLICIT = torch._C.DispatchKey.CompositeExplicitAutograd
# Whose results lie in memory as their second argument, which PyTorch's shape functions do not know.
_LAID_OUT = {"_adaptive_avg_pool2d_backward", "max_pool2d_with_indices_backward", "avg_pool2d_backward"}
# After these a known value is still known: a flag of broken numbers stays 0.
_KEEPS = {"copy_", "_amp_foreach_non_finite_check_and_unscale_"}
_KEPT = 400_000  # kernels of a program in which no iteration has begun yet
# A large tensor of these has no contents on the host, even where the program names that device.
_FILLED = {"randn", "rand", "zeros", "ones", "full"}


class Recorder(TorchDispatchMode):
    supports_higher_order_operators = True

    def __init__(self):
        super().__init__()
        self.known = {}
        self.count = 0  # of kernels, since the program began
        self.begun = False
        self.clock_ns = 0
        self.storages = Storages(lambda: self.count)
        self.values = Values(self.storages)
        self.kernels = []  # since the iteration began that is recorded; before that, the last ones
        self.first = 0  # which of the program's the first of these is
        self.living = set()  # when the iteration began

    def launched(self, name, work, operands, sync):
        self.count += 1
        self.clock_ns += costs.kernel_ns(work, target.machine())
        reads, writes = [], []
        for storage, (read, written) in operands.items():
            if read or storage.written:
                reads.append(storage)
            if written:
                writes.append(storage)
                storage.written = True
        self.kernels.append((name, work, reads, writes, sync))
        if len(self.kernels) > _KEPT and not self.begun:
            self.first += len(self.kernels) // 2
            del self.kernels[:len(self.kernels) // 2]

    def begin(self):
        self.begun = True
        self.kernels = []
        self.first = self.count
        self.living = set(self.storages.living())

    def synchronizes(self):
        """The host has waited for the device."""
        if self.kernels:
            self.kernels[-1] = (*self.kernels[-1][:-1], True)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if getattr(func, "_schema", None) is None or func.namespace in ("profiler", "prim", "prims"):
            return func(*args, **kwargs)
        known = self.known.get(func)
        if known is None:
            known = self.known[func] = OperatorFacts(func)
        if not _touches_device(args, kwargs):
            return self.on_host(known, func, args, kwargs)
        special = SPECIAL.get(known.short)
        if special is not None:
            return special(self, func, args, kwargs)
        if known.perhaps_view:
            with self:
                results = func.decompose(*args, **kwargs)
            if results is not NotImplemented:
                return results
        if known.view or known.silent:
            results = func(*args, **kwargs)
            if not known.view:
                self.born(results)
            return results
        if known.composite:
            try:
                return self.taken_apart(func, args, kwargs)
            except NotImplementedError:
                pass
        return self.run(known, func, args, kwargs)

    def run(self, known, func, args, kwargs):
        if known.in_place:
            results = args[0] if func._schema.returns else None
        elif known.short in _LAID_OUT:
            results = torch.empty_like(args[1])
        else:
            results = func(*_with_tensors(func, args), **kwargs)
        made = results
        if known.writes:
            schema = func._schema.arguments
            made = [kwargs.get(schema[place].name) if place >= len(args) else args[place]
                    for place in known.writes]
            self.values.changed([self.storages.of(tensor) for tensor in tensors_in(made)
                                 if on_device(tensor)] if known.short not in _KEEPS else [])
            made += [x for x in tensors_in(results) if not any(x is y for y in made)]
        self.born(results)
        launcher = Launcher(self, known.name)
        known.kernels(launcher, args, kwargs, made if known.writes else results)
        launcher.end()
        self.values.note(known.short, args, results)
        return results

    def taken_apart(self, func, args, kwargs):
        """As PyTorch makes it of other operators, which are recorded instead."""
        with self:
            return func._op_dk(_EXPLICIT, *args, **kwargs)

    def born(self, results):
        for tensor in tensors_in(results):
            if on_device(tensor):
                self.storages.of(tensor)

    def on_host(self, known, func, args, kwargs):
        named = kwargs.get("device") is not None and known.short not in _FILLED
        if known.composite and not named and _is_large(args, kwargs):
            return self.taken_apart(func, args, kwargs)
        return host_memory.run(known, func, args, kwargs)


def _with_tensors(func, args):
    """An operator that is taken apart hands numbers on where the next one takes tensors (x % 7)."""
    places = [place for place, (argument, value) in enumerate(zip(func._schema.arguments, args))
              if type(value) in (int, float) and isinstance(argument.type, torch.TensorType)]
    if not places:
        return args
    args = list(args)
    device = tensors_in(args)[0].device
    for place in places:
        args[place] = torch.scalar_tensor(args[place], device=device,
                                          dtype=torch.int64 if type(args[place]) is int else None)
    return args


def _is_large(args, kwargs):
    """Of a size, so that its contents are left out (host_memory.py)."""
    if not args or kwargs.get("dtype", torch.float32) not in (None, torch.float32, torch.float16,
                                                              torch.bfloat16, torch.float64):
        return False
    if isinstance(args[0], torch.Tensor):
        return args[0].numel() >= 1 << 18
    if not isinstance(args[0], (list, tuple)) or not all(isinstance(x, int) for x in args[0]):
        return False
    size = 1
    for length in args[0]:
        size *= length
    return size >= 1 << 18


def _touches_device(args, kwargs):
    return any(map(_is_on_device, args)) or any(
        _is_on_device(value) or isinstance(value, torch.device) and value.type == "meta"
        for value in kwargs.values())


def _is_on_device(value):
    """A tensor, or a list with one."""
    if isinstance(value, torch.Tensor):
        return on_device(value)
    return isinstance(value, (list, tuple)) and any(
        isinstance(item, torch.Tensor) and on_device(item) for item in value)
