"""Matrix products and convolutions: cuBLAS's and cuDNN's kernels and workspaces."""

import math

import torch

from . import target

_TILES = ((320, 128), (256, 128), (192, 192), (128, 160))  # of an output, largest first
_HALF = (torch.float16, torch.bfloat16)


def workspace_bytes():
    """PyTorch's for each cuBLAS handle: 32 MiB on Hopper, else 8 MiB and 128 KiB."""
    return 32 << 20 if target.machine().capability >= (9, 0) else 8519680


def waves(m, n, batch, processors, fused_bias):
    """How often all processors are full, with the tile that keeps them busiest. The largest has no form with
    a bias."""
    best, found = 0, 0
    for rows, columns in _TILES[1:] if fused_bias else _TILES:
        for a, b in ((rows, columns), (columns, rows)):
            tiles = batch * math.ceil(m / a) * math.ceil(n / b)
            busy = batch * m * n / (math.ceil(tiles / processors) * processors * a * b)
            if busy > best * 1.001:
                best, found = busy, tiles / processors
    return found


def gemm(launch, name, m, n, k, batch, reads, writes, dtype, lt=False, cudnn=False):
    """C = A B. `lt`: by cublasLt, with its own workspace of 1 MiB; `cudnn`: with none."""
    half = dtype in _HALF
    kind = "gemm" if half else "gemm_fp32"
    if half and (n % 8 or k % 8):
        kind = "gemm_unaligned" if n % 2 or k % 2 else "gemm_align2"
    # A large product divides its last wave among all processors, through counters that are cleared.
    shares = not cudnn and kind == "gemm" and waves(m, n, batch, target.machine().processors, lt) > 2.2
    # One with too few tiles is divided along k, and what its parts come to is added up behind.
    few = min(m, n) <= 64 and math.ceil(max(m, n) / 128) <= 66 and k >= 2048 and half
    split = not cudnn and batch == 1 and (few or k >= 8192 and m * n <= 66 * 128 * 128)
    used = []
    if shares or split or lt and not half:
        used = [launch.workspace("cublaslt", 1 << 20) if lt
                else launch.workspace("cublas", workspace_bytes())]
    if shares:
        launch.emit("memset", "fill", used, used, moved=4096)
    launch.emit(name, kind, [*reads, *used], [*writes, *used], flops=2 * batch * m * n * k,
                dtype=dtype, moved=batch * (m * k + k * n + m * n) * writes[0].element_size())
    if split:
        launch.emit(name + " (split K)", "reduce", [*used, *writes], [*used, *writes],
                    moved=4 * m * n * 4)


def _mm(launch, args, kwargs, results):
    a, b = args[:2]
    gemm(launch, launch.name, a.shape[0], b.shape[1], a.shape[1], 1, [a, b], [results], a.dtype)


def _mv(launch, args, kwargs, results):
    *_, a, b = [x for x in args if isinstance(x, torch.Tensor)]
    gemm(launch, launch.name, a.shape[0] if a.dim() > 1 else 1, 1, a.shape[-1], 1, [a, b], [results],
         a.dtype)


def _addmm(launch, args, kwargs, results):
    c, a, b = args[:3]
    fused = (c.dim() == 1 and c.stride(0) == 1 and results.dim() == 2 and a.shape[0] > 1
             and a.shape[1] > 1 and kwargs.get("beta", 1) == 1)
    if not fused:
        launch.emit("copy", "copy", [c], [results])
    gemm(launch, launch.name, a.shape[0], b.shape[1], a.shape[1], 1,
         [a, b, c] if fused else [a, b, results], [results], a.dtype, lt=fused)


def _bmm(launch, args, kwargs, results):
    *added, a, b = [x for x in args if isinstance(x, torch.Tensor)]
    if added:
        launch.emit("copy", "copy", added, [results])
    gemm(launch, launch.name, a.shape[1], b.shape[2], a.shape[2], a.shape[0],
         [a, b, *([results] if added else [])], [results], a.dtype)


class _Convolution:
    """The shapes that decide how cuDNN does it."""

    def __init__(self, x, weight, output_shape, stride, transposed, groups):
        self.x, self.weight, self.groups = x, weight, groups
        filter_shape = weight.shape[2:]
        self.rows = x.shape[0] * math.prod(output_shape[2:])
        if transposed:
            self.rows = x.shape[0] * math.prod(x.shape[2:])
        self.output_channels = output_shape[1]
        self.depth = weight.shape[1] * math.prod(filter_shape)
        self.flops = 2 * self.rows * weight.numel()
        last = x.dim() >= 4 and x.is_contiguous(
            memory_format=torch.channels_last if x.dim() == 4 else torch.channels_last_3d)
        self.plain = (math.prod(filter_shape) == 1 and set(stride) == {1} and groups == 1 and last
                      and not transposed)
        self.half = x.dtype in _HALF
        self.last = last
        channels = weight.shape[0] if transposed else weight.shape[1] * groups
        self.padded = self.half and groups == 1 and (channels % 8 != 0)
        self.padded_bytes = 1 + (x.numel() // x.shape[1] * 8 * -(-x.shape[1] // 8)
                             + weight.numel() // weight.shape[1] * 8 * -(-weight.shape[1] // 8)
                             ) * x.element_size()


def _narrow(channels):
    """How much longer cuDNN's kernels take where their tiles are not full or are the small ones, as recorded
    on an H200."""
    tile = 64 if channels <= 64 else 128
    slower = 1.65 if tile == 64 else 1.15 if channels <= 128 else 1
    return slower * tile * math.ceil(channels / tile) / channels


def _pass(launch, conv, part, reads, writes):
    """Forward, or the input's gradient."""
    name = launch.name + part
    if conv.plain and conv.half and not conv.padded:
        gemm(launch, name, conv.rows, conv.weight.shape[0] if not part else conv.weight.shape[1],
             conv.depth if not part else conv.weight.shape[0], 1, reads, writes, conv.x.dtype,
             cudnn=True)
        return
    if conv.groups > 1 and conv.half and conv.weight.shape[1] > 1:
        # Rearranged for tensor cores: input and filter before, the output behind.
        work = launch.scratch(launch.bytes_of(reads[0]) + launch.bytes_of(writes[0]))
        for read in reads:
            launch.emit("memset", "fill", [], [work], moved=launch.bytes_of(read))
            launch.emit("transform", "transform", [read, work], [work], moved=2 * launch.bytes_of(read))
        launch.emit("memset", "fill", [work], [work], moved=4096)
        launch.emit(name, "conv_old" if part else "conv", [work], [work], flops=conv.flops,
                    dtype=conv.x.dtype)
        launch.emit("transform", "transform", [work], writes)
        return
    if conv.padded:
        work = launch.scratch(conv.padded_bytes)
        for read in reads:
            launch.emit("memset", "fill", [], [work])
            launch.emit("pad", "pad", [read, work], [work])
        launch.emit(name, "conv_old", [work], [work, *writes], flops=conv.flops * 8 // 3,
                    dtype=conv.x.dtype)
        return
    work = launch.scratch(131)
    launch.emit("memset", "fill", [], [work], moved=131)
    launch.emit(name, "conv", [*reads, work], [*writes, work],
                flops=conv.flops * _narrow(conv.weight.shape[1 if part else 0]), dtype=conv.x.dtype)


def _add_bias(launch, bias, result):
    launch.emit("aten::add_", "broadcast", [bias, result], [result])


def _convolution(launch, args, kwargs, results):
    x, weight, bias, stride, _, _, transposed, _, groups = args[:9]
    conv = _Convolution(x, weight, results.shape, stride, transposed, groups)
    _pass(launch, conv, "", [x, weight], [results])
    if bias is not None:
        _add_bias(launch, bias, results)


def _partial_sums(weight_bytes):
    """What cuDNN's kernels for a filter's gradient add up beside it, as recorded on an H200."""
    parts = 13 if weight_bytes <= 1152 << 10 else 7 if weight_bytes <= 2304 << 10 else 5 / 6
    return int(weight_bytes * parts) + 668


def _weight_gradient(launch, conv, x, gradient, result):
    name = launch.name + " (weights)"
    if conv.plain and conv.half and not conv.padded:
        m, n = conv.weight.shape[0], conv.weight.shape[1]
        if m * n <= 66 * 128 * 128:
            parts = 129 if min(m, n) <= 64 else max(2, min(264 * 128 * 128 // (m * n),
                                                           conv.rows // 4096))
            work = launch.scratch(4 * m * n * parts + 272)
            launch.emit(name, "gemm", [x, gradient], [result, work], flops=conv.flops,
                        dtype=x.dtype, moved=launch.bytes_of(x) + launch.bytes_of(gradient))
            launch.emit(name + " (split K)", "reduce", [work, result], [work, result],
                        moved=4 * m * n * 3)
        else:
            gemm(launch, name, m, n, conv.rows, 1, [x, gradient], [result], x.dtype, cudnn=True)
        return
    if conv.groups > 1 and conv.half and conv.weight.shape[1] > 1:
        work = launch.scratch((launch.bytes_of(x) + launch.bytes_of(gradient)) // conv.groups + (1 << 20))
        for _ in range(conv.groups):
            for given in (x, gradient):
                launch.emit("slice", "slice", [given, work], [work],
                            moved=2 * launch.bytes_of(given) / conv.groups)
            launch.emit("memset", "fill", [work], [work], moved=16 << 20)
            launch.emit(name, "conv_weights_old", [work, result], [work, result],
                        flops=conv.flops / conv.groups, dtype=x.dtype, moved=0)
            launch.emit(name + " (split K)", "reduce", [work, result], [work, result],
                        moved=16 << 20)
        return
    if conv.padded:
        work = launch.scratch(conv.padded_bytes)
        launch.emit("memset", "fill", [], [work])
        launch.emit("pad", "pad", [x, work], [work])
        launch.emit("memset", "fill", [work], [work], moved=4096)
        launch.emit(name, "conv_weights_old", [work, gradient], [work], flops=conv.flops * 8 // 3,
                    dtype=x.dtype)
        launch.emit(name + " (split K)", "reduce", [work], [work], moved=1 << 20)
        launch.emit("pad", "pad", [work], [result], moved=1 << 20)
        return
    work = launch.scratch(_partial_sums(4 * conv.weight.numel()))
    launch.emit("workspace", "fill", [], [work], moved=4096)
    halves = 2 if conv.half and conv.weight.shape[1] <= 128 else 1
    for _ in range(halves):
        launch.emit(name, "conv_weights", [x, gradient, work], [result, work], dtype=x.dtype,
                    flops=conv.flops * _narrow(conv.weight.shape[1]) / halves,
                    moved=(launch.bytes_of(x) + launch.bytes_of(gradient)) / halves)


def _convolution_backward(launch, args, kwargs, results):
    from .kernels import reduce
    gradient, x, weight, _, stride, _, _, transposed, _, groups, mask = args[:11]
    conv = _Convolution(x, weight, gradient.shape, stride, transposed, groups)
    if mask[0]:
        _pass(launch, conv, " (input)", [gradient, weight], [results[0]])
    if mask[1]:
        _weight_gradient(launch, conv, x, gradient, results[1])
    if mask[2]:
        reduce(launch, gradient, [results[2]], [0, *range(2, gradient.dim())])


PRODUCTS = {"aten::mm": _mm, "aten::addmm": _addmm, "aten::bmm": _bmm, "aten::baddbmm": _bmm,
            "aten::mv": _mv, "aten::addmv": _mv, "aten::dot": _mv,
            "aten::convolution": _convolution, "aten::convolution_backward": _convolution_backward}
