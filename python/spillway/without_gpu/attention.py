"""The kernels of the attention that PyTorch chooses (choices.py)."""

import torch

from .launcher import tensors_in


def _flops(q, k, v, causal):
    """Of the two products; a causal mask skips half."""
    batch, heads, length, size = q.shape
    return 2 * batch * heads * length * k.shape[2] * (size + v.shape[3]) / (2 if causal else 1)


def _forward(launch, args, kwargs, results):
    q, k, v = args[:3]
    place = 4 if "flash" in launch.name else 6
    causal = len(args) > place and args[place] is True
    seed = []
    if "cudnn" in launch.name:
        seed = [launch.scratch(256)]
        launch.emit("memset", "fill", [], seed, moved=256)
    writes = [x for x in tensors_in(results) if x.numel()]  # scores and random state, too
    given = [x for x in args[3:5] if isinstance(x, torch.Tensor)]
    launch.emit(launch.name, "attention", [q, k, v, *given, *seed], [*writes, *seed],
                flops=_flops(q, k, v, causal), dtype=q.dtype)


def _backward(launch, args, kwargs, results):
    gradient, q, k, v = args[:4]
    given = [x for x in tensors_in(args[:8]) if x.numel()]
    causal = any(value is True for value in args[8:])
    batch, heads, length, size = q.shape
    shared = k.shape[1] != heads  # keys of several heads: gradients of each head's, added up later
    work = launch.scratch(4 * batch * heads * length * (size + 1) + 256 + (
        2 * batch * heads * k.shape[2] * (size + v.shape[3]) if shared else 0))
    made = [x for x in tensors_in(results) if x.numel()]
    launch.emit("memset", "fill", [], [work])
    launch.emit(launch.name + " (sums)", "norm", [gradient, given[4], work], [work],
                moved=2 * launch.bytes_of(gradient))
    launch.emit(launch.name, "attention_backward", [*given, work], [work, *made],
                flops=2.5 * _flops(q, k, v, causal), dtype=q.dtype)
    launch.emit(launch.name + " (query)", "cast", [work], [work, made[0]],
                moved=6 * q.numel())
    if shared:
        for gradient in made[1:3]:
            launch.emit(launch.name + " (heads)", "reduce", [work], [gradient])


_KINDS = ("cudnn", "flash", "efficient")
ATTENTION = {}
for _kind in _KINDS:
    ATTENTION[f"aten::_scaled_dot_product_{_kind}_attention"] = _forward
    ATTENTION[f"aten::_scaled_dot_product_{_kind}_attention_backward"] = _backward
ATTENTION["aten::_flash_attention_forward"] = _forward
ATTENTION["aten::_flash_attention_backward"] = _backward
