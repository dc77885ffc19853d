"""Sees every operator below autograd, and notes the kernels that it would launch on a GPU."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from . import costs, host_memory, kernels, says, target, values
from .device import META, on_device
from .launcher import Launcher, tensors_in
from .storages import Storages
from .values import Values

aten = torch.ops.aten
_EXPLICIT = torch._C.DispatchKey.CompositeExplicitAutograd
# In place, and yet more than a change of contents: these run.
_SHAPED = {"resize_", "resize_as_", "set_", "squeeze_", "unsqueeze_", "t_", "transpose_", "as_strided_",
           "swapdims_", "swapaxes_", "sparse_resize_", "_coalesced_", "detach_", "resize"}
# Results of these share memory or have none of it: nothing is launched.
_SILENT = {"sparse_coo_tensor", "empty", "empty_like", "empty_strided", "new_empty",
           "new_empty_strided", "empty_permuted",
           "_sparse_coo_tensor_with_dims_and_tensors", "_sparse_coo_tensor_unsafe", "_coalesced_",
           "sparse_resize_", "_indices", "_values", "is_coalesced", "is_pinned", "lift_fresh",
           "_reshape_alias", "_unsafe_view", "set_", "resize_", "resize_as_", "sym_size", "dim",
           "_sparse_coo_tensor_with_dims", "record_stream", "is_same_size", "sparse_dim", "dense_dim"}
# Composites that are one kernel of their own on cuda.
_WHOLE = {"_foreach", "_fused", "embedding_bag", "_amp_foreach", "native_dropout", "cudnn_batch_norm",
          "_cudnn_rnn", "_index_put", "native_group_norm", "convolution", "_scaled_dot", "slice_scatter",
          "cat"}


# Whose results lie in memory as their second argument, which PyTorch's shape functions do not know.
_LAID_OUT = {"_adaptive_avg_pool2d_backward", "max_pool2d_with_indices_backward", "avg_pool2d_backward"}


# After these a known value is still known: a flag of broken numbers stays 0.
_KEEPS = {"copy_", "_amp_foreach_non_finite_check_and_unscale_"}


class _Known:
    """What is asked of each operator, found out once."""

    def __init__(self, func):
        schema = func._schema
        self.name = schema.name
        self.short = schema.name.partition("::")[2]
        written = [argument.alias_info is not None and argument.alias_info.is_write
                   for argument in schema.arguments]
        self.writes = [place for place, writes in enumerate(written) if writes]
        self.written_names = [argument.name for argument in schema.arguments
                              if argument.alias_info is not None and argument.alias_info.is_write]
        shared = [value.alias_info for value in schema.returns]
        self.view = bool(shared) and not self.writes and all(
            alias is not None and not alias.is_write for alias in shared)
        self.in_place = (self.writes == [0] and len(shared) <= 1
                         and all(alias is not None for alias in shared)
                         and self.short not in _SHAPED)
        has = torch._C._dispatch_has_kernel_for_dispatch_key
        # A view where that can be had, else a copy, as of reshape: PyTorch takes it apart.
        self.perhaps_view = self.view and has(func.name(), "CompositeImplicitAutograd")
        self.composite = (has(func.name(), "CompositeExplicitAutograd") and not self.view
                          and not has(func.name(), "CPU")
                          and not self.short.startswith(tuple(_WHOLE)) and self.short not in _SILENT)
        self.silent = self.short in _SILENT
        self.kernels = kernels.kernels_for(self.name) or kernels.elementwise


class Recorder(TorchDispatchMode):
    supports_higher_order_operators = True

    def __init__(self):
        super().__init__()
        self.known = {}
        self.count = 0  # of kernels, since the program began
        self.clock_ns = 0
        self.storages = Storages(lambda: self.count)
        self.values = Values(self.storages)
        self.kernels = None  # of the iteration that is recorded
        self.living = None  # when it began

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
        if self.kernels is not None:
            self.kernels.append((name, work, reads, writes, sync))

    def begin(self):
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
            known = self.known[func] = _Known(func)
        if not _touches_device(args, kwargs):
            return self.on_host(known, func, args, kwargs)
        special = _SPECIAL.get(known.short)
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
                with self:
                    return func._op_dk(_EXPLICIT, *args, **kwargs)
            except NotImplementedError:
                pass
        return self.run(known, func, args, kwargs)

    def run(self, known, func, args, kwargs):
        if known.in_place:
            results = args[0] if func._schema.returns else None
        elif known.short in _LAID_OUT:
            results = torch.empty_like(args[1])
        else:
            results = func(*args, **kwargs)
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

    def born(self, results):
        for tensor in tensors_in(results):
            if on_device(tensor):
                self.storages.of(tensor)

    def on_host(self, known, func, args, kwargs):
        if known.composite and kwargs.get("device", None) is None or known.short in _FILLED:
            if known.composite and _is_large(args, kwargs):
                with self:
                    return func._op_dk(_EXPLICIT, *args, **kwargs)
        return host_memory.run(known, func, args, kwargs)


_FILLED = {"randn", "rand", "zeros", "ones", "full"}


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
    for value in args:
        if isinstance(value, torch.Tensor):
            if on_device(value):
                return True
        elif isinstance(value, (list, tuple)):
            for item in value:
                if isinstance(item, torch.Tensor) and on_device(item):
                    return True
    for value in kwargs.values():
        if isinstance(value, torch.Tensor):
            if on_device(value):
                return True
        elif isinstance(value, torch.device) and value.type == "meta":
            return True
        elif isinstance(value, (list, tuple)):
            for item in value:
                if isinstance(item, torch.Tensor) and on_device(item):
                    return True
    return False


def _copied_out(recorder, source):
    launcher = Launcher(recorder, "copy out")
    launcher.emit("copy out", "copy_out", [source], [], sync=True)


def _item(recorder, func, args, kwargs):
    _copied_out(recorder, args[0])
    return recorder.values.item(args[0])


def _copy(recorder, func, args, kwargs):
    to, source = args[:2]
    waits = not (len(args) > 2 and args[2] or kwargs.get("non_blocking"))
    if not on_device(source):
        recorder.values.note("copy_", args, to)
        if source.numel() > 1 or to.numel() > 1:
            launcher = Launcher(recorder, "copy in")
            launcher.emit("copy in", "copy_in", [], [to], sync=waits)
        else:
            Launcher(recorder, "copy in").emit("copy in", "copy_in", [], [to], sync=waits)
        return to
    if not on_device(to):
        _copied_out(recorder, source)
        if not host_memory._large(to):
            to.copy_(recorder.values.on_host(source).expand(to.shape))
        return to
    known = recorder.known[func]
    same = to.dtype == source.dtype and to.is_contiguous() and source.is_contiguous() and (
        to.shape == source.shape)
    recorder.values.note("copy_", args, to)
    launcher = Launcher(recorder, "copy within" if same else known.name)
    if same:
        launcher.emit("copy within", "copy", [source], [to])
    else:
        known.kernels(launcher, args, kwargs, to)
    return to


def _to_copy(recorder, func, args, kwargs):
    source = args[0]
    device = kwargs.get("device")
    if on_device(source) and device is not None and device.type != "meta":
        _copied_out(recorder, source)
        dtype = kwargs.get("dtype") or source.dtype
        if source.is_floating_point() and source.numel() * source.element_size() >= 1 << 20:
            return torch.empty(source.shape, dtype=dtype, device="cpu")
        return recorder.values.on_host(source, dtype)
    if not on_device(source):
        # cast on the host, then copied, as PyTorch does it: copied, then cast
        results = torch.empty_strided(source.shape, source.stride(), dtype=source.dtype, device=META)
        recorder.born(results)
        if source.numel():
            _copy(recorder, aten.copy_.default,
                  (results, source, kwargs.get("non_blocking", False)), {})
        dtype = kwargs.get("dtype")
        if dtype is not None and dtype != source.dtype:
            with recorder:
                return results.to(dtype)
        return results
    with recorder:
        return func._op_dk(_EXPLICIT, *args, **kwargs)


def _nonzero(recorder, func, args, kwargs):
    results = values.nonzero(args[0])
    recorder.born(results)
    launcher = Launcher(recorder, "aten::nonzero")
    for part in ("count", "select", "write"):
        launcher.emit("aten::nonzero " + part, "elementwise", [args[0]], [results])
    launcher.emit("copy out", "copy_out", [args[0]], [], moved=8, sync=True)
    return results


def _indexed(recorder, func, args, kwargs):
    if any(isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8)
           for index in args[1]):
        indices = []
        for index in args[1]:
            if isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8):
                found = _nonzero(recorder, func, (index,), {})
                indices += found.unbind(1)
            else:
                indices.append(index)
        args = (args[0], indices, *args[2:])
    indices = [index.to(META) if isinstance(index, torch.Tensor) and not on_device(index) else index
               for index in args[1]]
    args = (args[0], indices, *args[2:])
    if "index_put" in func._schema.name and not on_device(args[2]):
        args = (args[0], indices, args[2].to(META), *args[3:])
    known = recorder.known.setdefault(func, _Known(func))
    if known.composite:
        with recorder:
            return func._op_dk(_EXPLICIT, *args, **kwargs)
    return recorder.run(known, func, args, kwargs)


def _selected(recorder, func, args, kwargs):
    return _indexed(recorder, aten.index.Tensor, (args[0], [args[1]]), {})


def _dropout(recorder, func, args, kwargs):
    x = args[0]
    results = torch.empty_like(x), torch.empty_like(x, dtype=torch.bool)
    recorder.born(results)
    Launcher(recorder, "aten::native_dropout").emit("aten::native_dropout", "elementwise", [x],
                                                    list(results))
    return results


def _clone(recorder, func, args, kwargs):
    source = args[0]
    if source.layout == torch.sparse_coo:
        with recorder:
            return torch.sparse_coo_tensor(source._indices().clone(), source._values().clone(),
                                           source.shape, check_invariants=False,
                                           is_coalesced=source.is_coalesced())
    with recorder:
        return func._op_dk(_EXPLICIT, *args, **kwargs)


def _layout(x, weight):
    """cuDNN's of a result, which PyTorch's shape functions do not know."""
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(x.dim())
    if last is not None and (x.is_contiguous(memory_format=last)
                             or weight.is_contiguous(memory_format=last)):
        return last
    return torch.contiguous_format


def _convolution(recorder, func, args, kwargs):
    shape = func(*args, **kwargs)
    results = torch.empty_like(shape, memory_format=_layout(*args[:2]))
    recorder.born(results)
    launcher = Launcher(recorder, "aten::convolution")
    kernels.KERNELS["aten::convolution"](launcher, args, kwargs, results)
    launcher.end()
    return results


def _convolution_backward(recorder, func, args, kwargs):
    _, x, weight, sizes, *_, mask = args
    last = _layout(x, weight)
    results = (torch.empty_like(x, memory_format=last) if mask[0] else None,
               torch.empty_like(weight, memory_format=last) if mask[1] else None,
               torch.empty(weight.shape[0] if not sizes else sizes, dtype=x.dtype,
                           device=META) if mask[2] else None)
    recorder.born(results)
    launcher = Launcher(recorder, "aten::convolution_backward")
    kernels.KERNELS["aten::convolution_backward"](launcher, args, kwargs, results)
    launcher.end()
    return results


def _recurrent_backward(recorder, func, args, kwargs):
    """Shapes for which PyTorch has no function."""
    x, weights, _, _, hx, cx = args[:6]
    results = (torch.empty_like(x), torch.empty_like(hx), None if cx is None else torch.empty_like(cx),
               [torch.empty_like(weight) for weight in weights])
    recorder.born(results)
    kernels.recurrent(Launcher(recorder, "aten::_cudnn_rnn_backward"), args, kwargs, results)
    return results


def _equal(recorder, func, args, kwargs):
    _copied_out(recorder, args[0])
    says.once("item", "{place} compares values that are on the device; without a GPU they are equal")
    return True


_SPECIAL = {"_cudnn_rnn_backward": _recurrent_backward, "_local_scalar_dense": _item, "item": _item,
            "copy_": _copy, "_to_copy": _to_copy,
            "nonzero": _nonzero, "index": _indexed, "index_put": _indexed, "_index_put_impl_": _indexed,
            "masked_select": _selected, "native_dropout": _dropout,
            "convolution": _convolution, "convolution_backward": _convolution_backward,
            "clone": _clone, "equal": _equal}
