"""Operators that the recorder (recorder.py) cannot run as it runs others.

They read values, copy between host and device, have results of a size or layout that PyTorch's shape
functions do not know, or launch other kernels than their name says. Each function gets the recorder, the
operator and its arguments, notes the kernels, and returns the results.
"""

import torch

from . import host_memory, kernels, says, values
from .device import META, on_device
from .launcher import Launcher
from .operator_facts import OperatorFacts

aten = torch.ops.aten


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
        Launcher(recorder, "copy in").emit("copy in", "copy_in", [], [to], sync=waits)
        return to
    if not on_device(to):
        _copied_out(recorder, source)
        if not host_memory.is_large(to):
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
    return recorder.taken_apart(func, args, kwargs)


def _nonzero(recorder, func, args, kwargs):
    results = values.nonzero(args[0])
    recorder.born(results)
    launcher = Launcher(recorder, "aten::nonzero")
    for part in ("count", "select", "write"):
        launcher.emit("aten::nonzero " + part, "elementwise", [args[0]], [results])
    launcher.emit("copy out", "copy_out", [args[0]], [], moved=8, sync=True)
    return results


def _indexed(recorder, func, args, kwargs):
    indices = []
    for index in args[1]:
        if isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8):
            indices += _nonzero(recorder, func, (index,), {}).unbind(1)
        elif isinstance(index, torch.Tensor) and not on_device(index):
            indices.append(index.to(META))
        else:
            indices.append(index)
    args = (args[0], indices, *args[2:])
    if "index_put" in func._schema.name and not on_device(args[2]):
        args = (args[0], indices, args[2].to(META), *args[3:])
    known = recorder.known.setdefault(func, OperatorFacts(func))
    if known.composite:
        return recorder.taken_apart(func, args, kwargs)
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
    return recorder.taken_apart(func, args, kwargs)


def _layout(x, weight):
    """cuDNN's of a result, which PyTorch's shape functions do not know."""
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(x.dim())
    if last is not None and (x.is_contiguous(memory_format=last)
                             or weight.is_contiguous(memory_format=last)):
        return last
    return torch.contiguous_format


def _launched(recorder, operator, args, kwargs, results):
    """The results, made by the operator's own kernels."""
    recorder.born(results)
    launcher = Launcher(recorder, operator)
    kernels.KERNELS[operator](launcher, args, kwargs, results)
    launcher.end()
    return results


def _convolution(recorder, func, args, kwargs):
    shape = func(*args, **kwargs)
    results = torch.empty_like(shape, memory_format=_layout(*args[:2]))
    return _launched(recorder, "aten::convolution", args, kwargs, results)


def _convolution_backward(recorder, func, args, kwargs):
    _, x, weight, sizes, *_, mask = args
    last = _layout(x, weight)
    results = (torch.empty_like(x, memory_format=last) if mask[0] else None,
               torch.empty_like(weight, memory_format=last) if mask[1] else None,
               torch.empty(weight.shape[0] if not sizes else sizes, dtype=x.dtype,
                           device=META) if mask[2] else None)
    return _launched(recorder, "aten::convolution_backward", args, kwargs, results)


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


SPECIAL = {"_cudnn_rnn_backward": _recurrent_backward, "_local_scalar_dense": _item, "item": _item,
            "copy_": _copy, "_to_copy": _to_copy,
            "nonzero": _nonzero, "index": _indexed, "index_put": _indexed, "_index_put_impl_": _indexed,
            "masked_select": _selected, "native_dropout": _dropout,
            "convolution": _convolution, "convolution_backward": _convolution_backward,
            "clone": _clone, "equal": _equal}
