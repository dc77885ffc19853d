"""The kernels of pools. Where windows are large, what they compute takes longer than what they move."""

import math

from .launcher import tensors_in

_OPERATIONS = 10  # for each element of a window: its indices are most of it


def _of_each(value, dimensions):
    """PyTorch takes one number for all dimensions."""
    value = list(value) if isinstance(value, (list, tuple)) else [value]
    return value * dimensions if len(value) == 1 else value


def _window(x, size):
    return math.prod(_of_each(size, x.dim() - 2))


def _windows_of_element(x, size, stride):
    """At most."""
    sizes = _of_each(size, x.dim() - 2)
    strides = _of_each(stride, x.dim() - 2) or sizes
    return math.prod(math.ceil(a / b) for a, b in zip(sizes, strides))


def _pool(launch, args, kwargs, results):
    x, result = args[0], tensors_in(results)[0]
    window = x.numel() / max(result.numel(), 1) if "adaptive" in launch.name else _window(x, args[1])
    kind = "average_pool" if launch.name == "aten::avg_pool2d" else "pool"
    launch.emit(launch.name, kind, [x], tensors_in(results), flops=_OPERATIONS * result.numel() * window)


def _max_backward(launch, args, kwargs, results):
    gradient, x, size, stride = args[:4]
    result = tensors_in(results)[0]
    launch.emit("fill", "fill", [], [result])
    launch.emit(launch.name, "pool_backward", [gradient, args[-1], result], [result],
                flops=_OPERATIONS * result.numel() * _windows_of_element(x, size, stride))


def _average_backward(launch, args, kwargs, results):
    gradient, x, size, stride = args[:4]
    result = tensors_in(results)[0]
    launch.emit(launch.name, "average_pool_backward", [gradient], [result],
                flops=_OPERATIONS * result.numel() * _windows_of_element(x, size, stride))


def _adaptive_average_backward(launch, args, kwargs, results):
    launch.emit(launch.name, "pool_backward", args[:1], tensors_in(results))


POOLS = {"aten::max_pool2d_with_indices": _pool, "aten::max_pool3d_with_indices": _pool,
         "aten::adaptive_max_pool2d": _pool, "aten::avg_pool2d": _pool, "aten::_adaptive_avg_pool2d": _pool,
         "aten::max_pool2d_with_indices_backward": _max_backward,
         "aten::avg_pool2d_backward": _average_backward,
         "aten::_adaptive_avg_pool2d_backward": _adaptive_average_backward}
