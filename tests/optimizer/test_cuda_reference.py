"""What can be said about cuda_reference.py without a GPU.

Its operations round once, and its optimizers do what PyTorch's do on the CPU but for rounding. Whether the bits are
a GPU's, tests/gpu/test_optimizer_bits.py asks.
"""

import ctypes
import ctypes.util

import cuda_arithmetic as arithmetic
import cuda_reference as reference
import numpy as np
import pytest

torch = pytest.importorskip("torch")
MATH = ctypes.CDLL(ctypes.util.find_library("m"))
for name, kind in (("fmaf", ctypes.c_float), ("fma", ctypes.c_double)):
    getattr(MATH, name).argtypes = [kind] * 3
    getattr(MATH, name).restype = kind


def hard_numbers(random, size):
    """Of all magnitudes, subnormal and not finite, and where products nearly cancel."""
    a, b = (random.integers(0, 2**32, size, np.uint64).astype(np.uint32).view(np.float32) for _ in range(2))
    with np.errstate(all="ignore"):
        near = (-np.float64(a) * b * (1 + random.standard_normal(size) * 1e-7)).astype(np.float32)
    other = random.integers(0, 2**32, size, np.uint64).astype(np.uint32).view(np.float32)
    return a, b, np.where(random.integers(0, 3, size) > 0, near, other).astype(np.float32)


def same(found, expected):
    nan = np.isnan(found) & np.isnan(expected)
    whole = {4: np.uint32, 8: np.uint64}[found.dtype.itemsize]
    return bool(np.all(nan | (found.view(whole) == expected.view(whole))))


def test_fma_rounds_once():
    a, b, c = hard_numbers(np.random.default_rng(1), 30_000)
    expected = np.array([MATH.fmaf(*each) for each in zip(a.tolist(), b.tolist(), c.tolist())], np.float32)
    assert same(arithmetic.fma(a, b, c), expected)
    with np.errstate(all="ignore"):
        twice = (a * b + c).astype(np.float32)
    assert not same(twice, expected)


@pytest.mark.parametrize("factor", [0.01, 0.37123456789, 1 + 2.0**-40, 0.0])
def test_fma_in_double_rounds_once(factor):
    random = np.random.default_rng(2)
    a = random.standard_normal(30_000).astype(np.float32)
    c = random.standard_normal(a.size).astype(np.float32)
    c = np.where(random.integers(0, 2, a.size), -(a * np.float32(factor)), c)
    a[:4], c[:4] = [0, -0.0, 0, -0.0], [0, -0.0, -0.0, 0]
    expected = np.array([MATH.fma(*each) for each in zip(a.tolist(), [factor] * a.size, c.tolist())])
    assert same(arithmetic.fma_double(a, factor, c), expected)


def test_a_computed_nan_has_the_bits_of_a_gpu():
    nan = np.array([0x7FC00000, 0xFF800001], np.uint32).view(np.float32)
    for found in (arithmetic.add(nan, 1), arithmetic.mul(nan, 0), arithmetic.fma(nan, 1, 1), arithmetic.sqrt([-1.0])):
        assert (found.view(np.uint32) == 0x7FFFFFFF).all()
    assert (arithmetic.round_to_bf16(nan).view(np.uint32) == 0x7FFF0000).all()


@pytest.mark.parametrize("beta", [0.9, 0.95, 0.999, 0.9999, 0.5, 0.3])
def test_bias_corrections_of_fused_adam_are_certain(beta):
    steps = np.arange(1, 2_001)
    assert arithmetic.correction_is_certain(beta, steps).all()
    exact = np.float64(np.float32(beta)) ** steps
    normal = exact > 1e-37
    found = arithmetic.device_powf(beta, steps)[normal]
    assert np.abs(found / exact[normal] - 1).max() < 2.0**-22


def ordinary(seed, positive=False):
    x = (np.random.default_rng(seed).standard_normal(10_003) * 0.02).astype(np.float32)
    return np.abs(x) if positive else x


SGD = {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.01}
ADAM = {"lr": 1e-2, "weight_decay": 0.1}


@pytest.mark.parametrize("implementation", ["fused", "foreach", "loop"])
@pytest.mark.parametrize("kind, options", [
    ("Adam", ADAM), ("AdamW", ADAM), ("Adam", {**ADAM, "amsgrad": True, "maximize": True}), ("SGD", SGD),
    ("SGD", {**SGD, "dampening": 0, "nesterov": True}), ("Adagrad", {"lr": 0.1, "lr_decay": 0.1})])
def test_three_steps_are_those_of_the_cpu_but_for_rounding(kind, options, implementation):
    p = ordinary(0)
    parameter = torch.nn.Parameter(torch.from_numpy(p.copy()))
    chosen = {"fused": {"fused": True}, "foreach": {"foreach": True}, "loop": {"foreach": False}}[implementation]
    optimizer = getattr(torch.optim, kind)([parameter], **chosen, **options)
    m, v, vmax, buffer, total = (np.zeros_like(p) for _ in range(5))
    vmax, buffer = (vmax if options.get("amsgrad") else None), None
    function = getattr(reference, f"{kind.lower().rstrip('w')}_{implementation}_cuda")
    for step in range(1, 4):
        g = ordinary(step)
        parameter.grad = torch.from_numpy(g.copy())
        optimizer.step()
        if kind == "SGD":
            p, *_, buffer = function(p, g, buffer, **options)
        elif kind == "Adagrad":
            p, *_, total = function(p, g, total, step, **options)
        else:
            more = {key: value for key, value in options.items() if key != "amsgrad"}
            p, *_, m, v, vmax = function(p, g, m, v, step, beta1=0.9, beta2=0.999, eps=1e-8, vmax=vmax,
                                         decoupled=kind == "AdamW", **more)
        assert np.allclose(p, parameter.detach().numpy(), rtol=1e-5, atol=1e-7)
