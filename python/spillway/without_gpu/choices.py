"""Composite operators that choose by device, and choose here as on a GPU.

They are decided in PyTorch's C++ before a mode of Python sees anything, so they are replaced by kernels
of a dispatch key that no operator of this build uses, AutocastHPU: behind AutocastCUDA (what arrives has
been cast) and in front of autograd (what is chosen is differentiated by PyTorch's own formulas).
"""

import torch

from . import target
from .device import on_device

_KEY = "AutocastHPU"
_exclude = torch._C._dispatch_tls_set_dispatch_key_excluded
_include = torch._C._dispatch_tls_set_dispatch_key_included
aten = torch.ops.aten


def _half(tensor):
    return tensor.dtype in (torch.float16, torch.bfloat16)


def _dropout(call, x, p, train):
    if not on_device(x) or not train or not 0 < p < 1 or x.numel() == 0:
        return call(x, p, train)
    return aten.native_dropout(x, p, train)[0]


def _rms_norm(call, x, shape, weight=None, eps=None):
    if not on_device(x) or not hasattr(aten, "_fused_rms_norm"):
        return call(x, shape, weight, eps)
    return aten._fused_rms_norm(x, shape, weight, eps)[0]


def _fused_rms_norm(x, shape, weight=None, eps=None):
    """What is missing for meta: without it PyTorch takes the norm apart."""
    outer = x.shape[:x.dim() - len(shape)] + (1,) * len(shape)
    return (torch.empty_like(x, memory_format=torch.contiguous_format),
            torch.empty(outer, dtype=torch.float32 if _half(x) else x.dtype, device=x.device))


def _fused_rms_norm_backward(gradient, x, shape, scale, weight, mask):
    return (torch.empty_like(x) if mask[0] else None,
            torch.empty_like(weight) if mask[1] and weight is not None else None)


def _batch_norm(call, x, weight, bias, mean, variance, training, momentum, eps, cudnn_enabled):
    # cuDNN for float16 and float32, native kernels for bfloat16 (Normalization.cpp,
    # _select_batch_norm_backend).
    if (on_device(x) and cudnn_enabled and training and weight is not None and bias is not None
            and weight.dtype == torch.float32 and x.dtype in (torch.float32, torch.float16)
            and mean is not None and x.dim() >= 3 and x.numel() > 0):
        return aten.cudnn_batch_norm(x, weight, bias, mean, variance, training, momentum, eps)[0]
    return call(x, weight, bias, mean, variance, training, momentum, eps, cudnn_enabled)


def _attention_kind(q, k, v, mask, grouped):
    """cudnn, flash, efficient or math: the order of sdp_utils.cpp, without its rarer reasons."""
    cuda = torch.backends.cuda
    size, half = q.shape[-1], _half(q)
    dense = q.dim() == 4 and q.dtype == k.dtype == v.dtype and not (mask is not None
                                                                 and mask.requires_grad)
    same_size = k.shape[-1] == size == v.shape[-1]
    capability = target.machine().capability
    if (dense and half and capability[0] in (9, 10) and cuda.cudnn_sdp_enabled() and size <= 128
            and size % 8 == 0 and v.shape[-1] % 8 == 0 and v.shape[-1] <= 128
            and q.shape[-2] > 1):
        return "cudnn"
    if (dense and half and capability >= (8, 0) and cuda.flash_sdp_enabled() and mask is None
            and same_size and size <= 256):
        return "flash"
    if dense and cuda.mem_efficient_sdp_enabled() and not grouped and same_size and (
            half or q.dtype == torch.float32):
        return "efficient"
    return "math"


def _bias(mask, q):
    """A mask of booleans, as what is added to the scores."""
    if mask is None:
        return None
    if mask.dtype == torch.bool:
        mask = torch.where(mask, 0.0, float("-inf")).to(q.dtype)
    shape = (q.shape[0], q.shape[1], q.shape[2], mask.shape[-1])
    return mask.expand(shape)


def _padded(tensor, multiple):
    short = -tensor.shape[-1] % multiple
    return tensor if short == 0 else torch.nn.functional.pad(tensor, (0, short))


def _attention(call, q, k, v, mask=None, dropout=0.0, causal=False, scale=None, grouped=False):
    kind = _attention_kind(q, k, v, mask, grouped) if on_device(q) else "host"
    if kind == "host":
        return call(q, k, v, mask, dropout, causal, scale=scale, enable_gqa=grouped)
    if kind == "math":
        return aten._scaled_dot_product_attention_math(q, k, v, mask, dropout, causal, None,
                                                       scale=scale, enable_gqa=grouped)[0]
    size = v.shape[-1]
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    wants_gradient = torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v))
    if kind == "cudnn":
        return aten._scaled_dot_product_cudnn_attention(
            q, k, v, _bias(mask, q), wants_gradient, dropout, causal, False, scale=scale)[0]
    if kind == "flash":
        q, k, v = (_padded(x, 8) for x in (q, k, v))
        return aten._scaled_dot_product_flash_attention(
            q, k, v, dropout, causal, False, scale=scale)[0][..., :size]
    return aten._scaled_dot_product_efficient_attention(
        q, k, v, _bias(mask, q), wants_gradient, dropout, causal, scale=scale)[0]


_MODES = {"lstm": 2, "gru": 3, "rnn_tanh": 1, "rnn_relu": 0}


def _recurrent(name):
    """cuDNN's network for what torch.lstm and its like are given, all layers in one."""

    def chosen(call, x, hidden, weights, biases, layers, dropout, train, bidirectional, batch_first):
        if not on_device(x):
            return call(x, hidden, weights, biases, layers, dropout, train, bidirectional, batch_first)
        hx, cx = hidden if isinstance(hidden, (list, tuple)) else (hidden, None)
        state = torch.empty(0, dtype=torch.uint8, device="meta") if dropout and train else None
        with torch.no_grad():  # as cuDNN wants them: in one piece
            buffer = torch.cat([weight.reshape(-1) for weight in weights])
        output, hy, cy, _, _ = aten._cudnn_rnn(
            x, list(weights), 4 if biases else 2, buffer, hx, cx, _MODES[name], hx.shape[-1], 0, layers,
            batch_first, dropout, train, bidirectional, [], state)
        return (output, hy, cy) if name == "lstm" else (output, hy)

    return chosen


def _kernel(operator, chosen):
    def call(*args, **kwargs):
        _exclude(_KEY, True)
        try:
            return operator(*args, **kwargs)
        finally:
            _exclude(_KEY, False)

    def kernel(*args, **kwargs):
        renamed = {{"attn_mask": "mask", "dropout_p": "dropout", "is_causal": "causal",
                    "enable_gqa": "grouped"}.get(name, name): value for name, value in kwargs.items()}
        return chosen(call, *args, **renamed)

    return kernel


def _fused_optimizers():
    """Overloads of fused optimizers' steps for which PyTorch has no shape function."""
    for name in ("_fused_adam_", "_fused_adamw_", "_fused_sgd_", "_fused_adagrad_"):
        packet = getattr(aten, name, None)
        for overload in packet.overloads() if packet is not None else ():
            full = name if overload == "default" else f"{name}.{overload}"
            if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{full}", "Meta"):
                yield full


def start(library, everywhere):
    everywhere.fallback(torch.library.fallthrough_kernel, _KEY)
    if hasattr(aten, "_fused_rms_norm"):
        # Not by Library.impl, which leaves operators that PyTorch can take apart to that.
        library.m.impl("_fused_rms_norm", "Meta", _fused_rms_norm, False)
        library.m.impl("_fused_rms_norm_backward", "Meta", _fused_rms_norm_backward, False)
    for name in _fused_optimizers():
        library.m.impl(name, "Meta", lambda *args, **kwargs: None, False)
    chosen = {"dropout": _dropout, "rms_norm": _rms_norm, "batch_norm": _batch_norm,
              "scaled_dot_product_attention": _attention, "lstm.input": _recurrent("lstm"),
              "gru.input": _recurrent("gru"), "rnn_tanh.input": _recurrent("rnn_tanh"),
              "rnn_relu.input": _recurrent("rnn_relu")}
    for name, kernel in chosen.items():
        packet, _, overload = name.partition(".")
        operator = getattr(getattr(aten, packet), overload or "default")
        library.impl(name, _kernel(operator, kernel), _KEY)
    _include(_KEY, True)
    _exclude(_KEY, False)
