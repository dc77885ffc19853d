"""The bits that PyTorch's optimizers give on CUDA, computed with NumPy alone.

Read from the machine code (sm_80, 86, 90, 100 and 120) and the Python of PyTorch 2.13.0+cu130; 2.11.0+cu130
computes the same. Every `fma`, `add`, `mul`, `div`, `sqrt` here is one rounded operation of a kernel. Arrays are
float32; with `bf16=True` they hold bfloat16 values and what a kernel stores is rounded to bfloat16. Arguments
keep their values; new arrays come back. What is not here: tensors as learning rates or betas, capturable=True,
complex and sparse tensors, foreach on tensors of different strides (it then computes as the loop).

`capability` is the GPU's, 90 for an H100. Below 100 some sums of the fused kernels are contracted or not
depending on where in the tensor an element lies: `aligned` says whether all tensors begin at a multiple of four
elements and their size is one, too.
"""

import math
from fractions import Fraction

import numpy as np
from cuda_arithmetic import (
    ONE, add, device_powf, div, fma, fma_double, mul, neg, quietly, single, sqrt, stored, with_nan_bits)

GROUP = 4  # elements that a thread of the fused kernels has at a time
THREADS = 512


# Adam and AdamW

def _slots(size, aligned):
    """Which of the four elements of its thread each element is."""
    index = np.arange(size)
    return index % GROUP if aligned else index // THREADS % GROUP


def adam_fused_cuda(p, g, m, v, step, *, lr, beta1, beta2, eps, weight_decay=0.0, decoupled=False, vmax=None,
                    maximize=False, grad_scale=None, found_inf=0, bf16=False, bf16_states=False, capability=90,
                    aligned=None):
    """`step` counts from 1. Returns p, g, m, v, vmax; g changes with `grad_scale` only.

    `bf16_states`: float32 parameters with bfloat16 states (PyTorch 2.13).
    """
    if found_inf == 1:
        return p, g, m, v, vmax
    if bf16_states:
        correction = single(1 - beta1 ** step)
        correction_root = single(math.sqrt(1 - beta2 ** step))
    else:
        correction = add(ONE, -device_powf(beta1, step))
        correction_root = sqrt(add(ONE, -device_powf(beta2, step)))
    lr, beta1, beta2, eps, decay = (single(x) for x in (lr, beta1, beta2, eps, weight_decay))
    step_size = div(lr, correction)
    stored_g = g
    if grad_scale is not None:
        g = div(g, single(grad_scale))
        stored_g = stored(g, bf16)
    if maximize:
        g = neg(g)
    if decay != 0 and decoupled:
        p = fma(-mul(lr, decay), p, p)
    elif decay != 0:
        once = fma(p, decay, g)
        if capability < 100 and vmax is None and grad_scale is None:
            slot = _slots(g.size, g.size % GROUP == 0 if aligned is None else aligned).reshape(g.shape)
            g = np.where(maximize | (slot == 0), add(mul(p, decay), g), once)
        else:
            g = once
    m = fma(beta1, m, fma(g, -beta1, g))
    square = mul(g, g)
    v = fma(beta2, v, fma(square, -beta2, square))
    root = v
    if vmax is not None:
        vmax = root = np.where(vmax < v, v, vmax)  # a NaN in vmax stays, one in v is not taken
    denominator = add(div(sqrt(root), correction_root), eps)
    p = add(p, neg(div(mul(step_size, m), denominator)))
    states = [None if x is None else stored(x, bf16 or bf16_states) for x in (m, v, vmax)]
    return stored(p, bf16), stored_g, *states


def lerp(a, b, weight):
    difference = add(b, neg(a))
    if abs(weight) < 0.5:
        return fma(weight, difference, a)
    return fma(neg(difference), add(ONE, -weight), b)


def add_scaled(a, b, factor):
    """torch.add(a, b, alpha=factor)"""
    return fma(single(factor), b, a)


def addcdiv(a, b, c, value):
    value = single(value)
    return add(a, div(b, c)) if value == 1 else fma(value, div(b, c), a)


def addcmul(a, b, c, value):
    value = single(value)
    return fma(b, c, a) if value == 1 else fma(value, mul(b, c), a)


def _adam_by_operators(divide, p, g, m, v, step, *, lr, beta1, beta2, eps, weight_decay=0.0, decoupled=False,
                       vmax=None, maximize=False, bf16=False):
    def s(x):
        return stored(x, bf16)

    step = float(step)
    if maximize:
        g = neg(g)
    if weight_decay != 0 and decoupled:
        p = s(mul(p, single(1 - lr * weight_decay)))
    elif weight_decay != 0:
        g = s(add_scaled(g, p, weight_decay))
    m = s(lerp(m, g, single(1 - beta1)))
    v = s(mul(v, single(beta2)))
    v = s(addcmul(v, g, g, 1 - beta2))
    root = v
    if vmax is not None:
        vmax = root = np.where(np.isnan(vmax) | (vmax > v), vmax, v)
    root = s(sqrt(root))
    root = s(divide(root, (1 - beta2 ** step) ** 0.5))
    root = s(add(root, single(eps)))
    return s(addcdiv(p, m, root, -(lr / (1 - beta1 ** step)))), m, v, vmax


def adam_foreach_cuda(*arguments, **options):
    """p, g, m, v, step and the options of `adam_fused_cuda` up to `maximize`, and bf16. Returns p, m, v, vmax."""
    return _adam_by_operators(lambda a, number: div(a, single(number)), *arguments, **options)


def adam_loop_cuda(*arguments, **options):
    """As foreach, but a tensor divided by a Python number is multiplied by the number's reciprocal, which is
    computed in double precision and then rounded (seen on an H200 with PyTorch 2.11.0)."""
    return _adam_by_operators(lambda a, number: mul(a, single(1 / number)), *arguments, **options)


# SGD

def sgd_fused_cuda(p, g, buffer, *, lr, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False,
                   maximize=False, grad_scale=None, found_inf=0, bf16=False, capability=90, aligned=None):
    """`buffer` is None in the first step. Returns p, g, buffer; g changes with `grad_scale` only."""
    if found_inf == 1:
        return p, g, buffer
    aligned = g.size % GROUP == 0 if aligned is None else aligned
    odd = capability < 100 and aligned
    lr, factor, dampening, decay = (single(x) for x in (lr, momentum, dampening, weight_decay))
    stored_g = g
    if grad_scale is not None:
        g = div(g, single(grad_scale))
        stored_g = stored(g, bf16)
    if maximize:
        g = neg(g)
    if decay != 0:
        g = fma(p, decay, g)
    if momentum != 0:
        rest = add(ONE, -dampening)
        if buffer is None:
            buffer = g
        elif odd and maximize and grad_scale is None and decay == 0:
            buffer = fma(factor, buffer, mul(rest, g))
        else:
            buffer = fma(rest, g, mul(factor, buffer))
        g = fma(factor, buffer, g) if nesterov else buffer
        buffer = stored(buffer, bf16)
    updated = fma(-lr, g, p)
    if odd and grad_scale is not None and not bf16:
        last = (_slots(g.size, True) == GROUP - 1).reshape(g.shape)
        updated = np.where(last, updated, add(p, neg(mul(lr, g))))
    return stored(updated, bf16), stored_g, buffer


def sgd_foreach_cuda(p, g, buffer, *, lr, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False,
                     maximize=False, bf16=False):
    """`buffer` is None in the first step. Returns p, buffer. (With nesterov, foreach overwrites gradients.)"""
    def s(x):
        return stored(x, bf16)

    if maximize:
        g = neg(g)
    if weight_decay != 0:
        g = s(add_scaled(g, p, weight_decay))
    if momentum != 0:
        buffer = g if buffer is None else s(add_scaled(s(mul(buffer, single(momentum))), g, 1 - dampening))
        g = s(add_scaled(g, buffer, momentum)) if nesterov else buffer
    return s(add_scaled(p, g, -lr)), buffer


sgd_loop_cuda = sgd_foreach_cuda


# Adagrad

@quietly
def adagrad_fused_cuda(p, g, total, step, *, lr, lr_decay=0.0, eps=1e-10, weight_decay=0.0, maximize=False,
                       grad_scale=None, found_inf=0, bf16=False):
    """PyTorch 2.13 and later. Much of it is in double. Returns p, g, total; g changes with `grad_scale` only."""
    if found_inf == 1:
        return p, g, total
    rate = float(lr) / float(Fraction(float(step - 1)) * Fraction(float(lr_decay)) + 1)
    stored_g = g
    if grad_scale is not None:
        g = div(g, single(grad_scale))
        stored_g = stored(g, bf16)
    if maximize:
        g = neg(g)
    if weight_decay != 0:
        g = with_nan_bits(fma_double(p, weight_decay, g).astype(np.float32))
    total = fma(g, g, total)
    numerator = np.float64(g) * rate
    denominator = np.float64(sqrt(total)) + float(eps)
    p = with_nan_bits((np.float64(p) - numerator / denominator).astype(np.float32))
    return stored(p, bf16), stored_g, stored(total, bf16)


def _adagrad_by_operators(fold_rate, p, g, total, step, *, lr, lr_decay=0.0, eps=1e-10, weight_decay=0.0,
                          maximize=False, bf16=False):
    def s(x):
        return stored(x, bf16)

    rate = lr / (1 + (float(step) - 1) * lr_decay)
    if maximize:
        g = neg(g)
    if weight_decay != 0:
        g = s(add_scaled(g, p, weight_decay))
    total = s(addcmul(total, g, g, 1))
    root = s(add(s(sqrt(total)), single(eps)))
    if fold_rate:
        return s(addcdiv(p, s(mul(g, single(-rate))), root, 1)), total
    return s(addcdiv(p, g, root, -rate)), total


def adagrad_foreach_cuda(*arguments, **options):
    """p, g, total, step and the options of `adagrad_fused_cuda` without scale. Returns p, total."""
    return _adagrad_by_operators(True, *arguments, **options)


def adagrad_loop_cuda(*arguments, **options):
    return _adagrad_by_operators(False, *arguments, **options)
