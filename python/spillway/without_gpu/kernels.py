"""Which kernels an operator launches on a GPU: how many, of what kind, with what scratch memory.

An operator that nothing is known of is one kernel that moves its operands. What is known here was read
off recorded steps (traces/) and PyTorch's CUDA sources. Each function gets the launcher (recorder.py),
the operator's arguments and its results.
"""

import math

import torch

from . import multi_tensor, pools, products, reductions, target
from .attention import ATTENTION
from .launcher import tensors_in

KERNELS = {**products.PRODUCTS, **pools.POOLS, **ATTENTION}


def kernels_of(*names):
    def register(function):
        for name in names:
            KERNELS["aten::" + name] = function
        return function

    return register


@kernels_of("sum", "mean", "amax", "amin", "prod", "any", "all", "max", "min", "argmax", "argmin",
            "linalg_vector_norm", "norm", "var", "std", "var_mean", "std_mean", "nansum", "logsumexp")
def reduction(launch, args, kwargs, results):
    values = tensors_in(args)[0]
    result = tensors_in(results)
    if not result:
        result = [values]
    reduce(launch, values, result, dims=args[1] if len(args) > 1 else None)


def reduce(launch, values, results, dims=None):
    outputs = max(results[0].numel(), 1)
    strides = [(stride, size, place) for place, (stride, size) in enumerate(
        zip(values.stride(), values.shape)) if size > 1 and stride > 0]
    fastest = True
    if outputs > 1 and strides and isinstance(dims, (list, tuple, int)):
        reduced = {dim % values.dim() for dim in ([dims] if isinstance(dims, int) else dims)}
        fastest = min(strides)[2] in reduced
    wide = 8 if values.dtype in (torch.int64, torch.float64) else 4
    buffer, semaphores = (0, 0)
    if values.numel() > outputs:
        buffer, semaphores = reductions.buffers(values.numel(), outputs, fastest,
                                                target.machine().processors, wide)
    scratch = []
    if buffer:
        scratch = [launch.scratch(buffer), launch.scratch(semaphores)]
        launch.emit("memset", "fill", [], scratch[1:], moved=semaphores)
    launch.emit(launch.name, "reduce", [values, *scratch[1:]], [*results, *scratch])


def _contiguous(launch, operand):
    """The operand, or a copy of it in order, which these kernels need."""
    if operand.is_contiguous():
        return operand
    copied = launch.scratch(launch.bytes_of(operand))
    launch.emit("copy", "broadcast", [operand], [copied])
    return copied


@kernels_of("native_layer_norm", "_fused_rms_norm", "native_group_norm")
def norm(launch, args, kwargs, results):
    x, *weights = tensors_in(args)
    launch.emit(launch.name, "norm", [_contiguous(launch, x), *weights], tensors_in(results))
    if launch.name == "aten::native_group_norm":
        x = tensors_in(args)[0]
        launch.emit(launch.name, "elementwise", [x, *results[1:]], [results[0]])


@kernels_of("native_layer_norm_backward", "_fused_rms_norm_backward", "native_group_norm_backward")
def norm_backward(launch, args, kwargs, results):
    gradient, x, *more = tensors_in(args)
    given = [_contiguous(launch, gradient), _contiguous(launch, x), *more]
    results = [result for result in results if result is not None]
    launch.emit(launch.name, "norm_backward", given, results[:1])
    if len(results) > 1:
        launch.emit(launch.name + " (weights)", "norm_backward", given[:4], results[1:])


@kernels_of("native_batch_norm", "_native_batch_norm_legit")
def batch_norm(launch, args, kwargs, results):
    x, weight, bias, mean, variance, training = args[:6]
    out, saved_mean, saved_scale = results
    given = [tensor for tensor in (weight, bias) if tensor is not None]
    if training:
        channels = x.shape[1]
        flags, staging = launch.scratch(4 * -(-channels // 32)), launch.scratch(2048 * channels)
        launch.emit("fill", "fill", [], [flags])
        launch.emit(launch.name + " (statistics)", "batch_norm", [x, flags],
                    [saved_mean, saved_scale, staging, flags])
        running = [tensor for tensor in (mean, variance) if tensor is not None]
        launch.emit(launch.name + " (running)", "elementwise", [saved_mean, saved_scale, *running],
                    running or [saved_scale])
    launch.emit(launch.name, "batch_norm", [x, saved_mean, saved_scale, *given], [out])


@kernels_of("native_batch_norm_backward")
def batch_norm_backward(launch, args, kwargs, results):
    gradient, x, weight = args[:3]
    saved = [tensor for tensor in args[5:7] if tensor is not None]
    channels = x.shape[1]
    flags, staging = launch.scratch(4 * -(-channels // 32)), launch.scratch(1024 * channels)
    sums = [launch.scratch(4 * channels) for _ in range(2)]
    launch.emit("fill", "fill", [], [flags])
    launch.emit(launch.name + " (sums)", "batch_norm_backward", [x, gradient, *saved, flags],
                [*[result for result in results[1:] if result is not None], *sums, staging, flags])
    if results[0] is not None:
        launch.emit(launch.name, "batch_norm_backward", [x, gradient, *saved, weight, *sums], [results[0]])


@kernels_of("nll_loss_backward", "nll_loss2d_backward")
def cleared_first(launch, args, kwargs, results):
    gradient, _, *given = tensors_in(args)  # of what it is the loss of only the shape
    result = tensors_in(results)[0]
    launch.emit("fill", "fill", [], [result])
    launch.emit(launch.name, "gather", [gradient, *given, result], [result],
                moved=64 * given[0].numel())


@kernels_of("nll_loss_forward", "nll_loss2d_forward")
def gathered_loss(launch, args, kwargs, results):
    given = tensors_in(args)
    launch.emit(launch.name, "gather", given, tensors_in(results),
                moved=32 * given[1].numel())


@kernels_of("embedding", "index_select", "index", "gather", "_unsafe_index")
def look_up(launch, args, kwargs, results):
    result = tensors_in(results)[0]
    launch.emit(launch.name, "gather", tensors_in(args), [result],
                moved=2 * launch.bytes_of(result))


@kernels_of("_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(launch, args, kwargs, results):
    table, rows = args[:2]
    launch.emit(launch.name, "gather", tensors_in(args), tensors_in(results),
                moved=rows.numel() * table.shape[-1] * table.element_size())


def sort_by_key(launch, keys, scratch):
    """cub's radix sort of 64-bit keys: one kernel for few, else eight passes."""
    if keys.numel() < 4096:
        launch.emit("radix_sort", "sort", [keys, *scratch], scratch)
        return
    launch.emit("memset", "fill", [], scratch)
    launch.emit("memset", "fill", scratch, scratch)
    for name in ("histogram", "exclusive_sum"):
        launch.emit("radix_sort " + name, "sort", [keys, *scratch], scratch)
    for _ in range(8):
        launch.emit("memset", "fill", scratch, scratch, moved=4096)
        launch.emit("radix_sort", "sort", [keys, *scratch], scratch)


@kernels_of("embedding_dense_backward")
def embedding_backward(launch, args, kwargs, results):
    gradient, rows = args[:2]
    result = tensors_in(results)[0]
    if rows.numel() <= 3072:
        launch.emit("fill", "fill", [], [result])
        launch.emit(launch.name, "scatter", [gradient, rows, result], [result],
                    moved=3 * launch.bytes_of(gradient))
        return
    sorted_rows = [launch.scratch(8 * rows.numel()) for _ in range(4)]
    launch.emit("copy", "copy", [rows], sorted_rows[:1])
    launch.emit("arange", "fill", [], sorted_rows[1:])
    sort_by_key(launch, rows, sorted_rows)
    launch.emit("fill", "fill", [], [result])
    for part in ("init", "unique_by_key", "partials", "scan_init", "scan", "segments", "offsets"):
        launch.emit(launch.name + " " + part, "sort", sorted_rows, sorted_rows)
    segments = min(rows.numel(), args[2]) + rows.numel() // 10
    partial = launch.scratch(4 * segments * gradient.shape[-1])
    launch.emit(launch.name, "scatter", [gradient, *sorted_rows], [partial])
    launch.emit(launch.name, "scatter", [partial, *sorted_rows, result], [result],
                moved=3 * launch.bytes_of(gradient))


@kernels_of("index_put_", "_index_put_impl_", "index_put")
def put(launch, args, kwargs, results):
    target_, indices, values = args[:3]
    accumulate = len(args) > 3 and args[3]
    given = tensors_in(indices)
    if accumulate:
        keys = [launch.scratch(8 * given[0].numel()) for _ in range(4)]
        for index in given:
            for part in ("min", "check", "assert", "max", "check", "assert", "remainder", "times"):
                launch.emit("index " + part, "elementwise", [index], keys[:1])
        launch.emit("index add", "elementwise", keys[:1], keys[:1])
        if not values.is_contiguous():
            copied = launch.scratch(launch.bytes_of(values))
            launch.emit("copy", "copy", [values], [copied])
        launch.emit("index divide", "elementwise", keys[:1], keys[:1])
        launch.emit("arange", "fill", [], keys[1:])
        sort_by_key(launch, given[0], keys)
        given = [*given, *keys]
    launch.emit(launch.name, "scatter", [*given, values, target_], [target_],
                moved=3 * launch.bytes_of(values))


@kernels_of("scatter_add_", "scatter_", "index_add_", "index_copy_", "masked_scatter_",
            "scatter_reduce_")
def scatter(launch, args, kwargs, results):
    values = tensors_in(args)[-1]
    launch.emit(launch.name, "scatter", tensors_in(args), [args[0]],
                moved=3 * launch.bytes_of(values))


@kernels_of("_embedding_bag_backward", "_embedding_bag_sparse_backward")
def embedding_bag_backward(launch, args, kwargs, results):
    rows = tensors_in(results)[-1]
    launch.emit(launch.name, "gather", tensors_in(args)[:4], [rows], moved=2 * launch.bytes_of(rows))


@kernels_of("sort", "topk", "kthvalue", "unique_dim", "_unique2", "unique_consecutive", "argsort",
            "randperm")
def sort(launch, args, kwargs, results):
    given, results = tensors_in(args), tensors_in(results)
    for _ in range(4):
        launch.emit(launch.name, "sort", [*given, *results], results)


@kernels_of("cat", "stack")
def concatenate(launch, args, kwargs, results):
    parts = tensors_in(args)
    result = tensors_in(results)[0]
    for first in range(0, len(parts), 128):
        launch.emit(launch.name, "cat", parts[first:first + 128], [result],
                    moved=2 * sum(map(launch.bytes_of, parts[first:first + 128])))


@kernels_of("_softmax", "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data")
def softmax(launch, args, kwargs, results):
    launch.emit(launch.name, "softmax", tensors_in(args), tensors_in(results))


@kernels_of("_cudnn_rnn", "_cudnn_rnn_backward")
def recurrent(launch, args, kwargs, results):
    """cuDNN's kernels are not known by number: one for each step and layer, and one for its input."""
    given = tensors_in(args)
    results = [result for result in tensors_in(results) if result.numel()]
    x = given[0]
    weights = sum(tensor.numel() for tensor in args[1 if isinstance(args[1], (list, tuple)) else 0]
                  if isinstance(tensor, torch.Tensor))
    layers = max(1, len(given[1:-2]) // 4)
    length = max(x.shape[0] * x.shape[1], 1) if x.dim() == 3 else x.shape[0]
    backward = 2 if launch.name.endswith("backward") else 1
    for layer in range(layers):
        launch.emit(launch.name, "recurrent", given, results,
                    flops=backward * 2 * weights * length / layers, dtype=x.dtype)


def kernels_for(name):
    """The function for an operator, None if nothing is known of it."""
    if name.startswith(("aten::_foreach_", "aten::_fused_adam", "aten::_fused_sgd",
                        "aten::_fused_adagrad", "aten::_amp_foreach_")):
        return multi_tensor.foreach
    return KERNELS.get(name)


def elementwise(launch, args, kwargs, results):
    """What is not known otherwise: one kernel."""
    given, made = tensors_in((args, list(kwargs.values()))), tensors_in(results)
    kind = "elementwise"
    if any(isinstance(x, torch.Tensor) and x.layout == torch.sparse_coo for x in args):
        launch.emit(launch.name, "scatter", given, made, moved=3 * launch.bytes_of(given[-1]))
        return
    if launch.name in ("aten::fill_", "aten::zero_") or not given:
        kind = "fill"
    elif launch.name in ("aten::copy_",):
        kind = "copy" if not _same_layout(args[0], args[1]) else "cast"
    elif made and any(math.prod(x.shape) > 1 and (x.shape != made[0].shape or not _same_layout(
            x, made[0])) for x in given if x.dim()):
        kind = "broadcast"
    launch.emit(launch.name, kind, given, made)


def _same_layout(a, b):
    return a.shape == b.shape and a.stride() == b.stride()
