"""Arithmetic as NVIDIA's GPUs do it, with NumPy: each function rounds once. Arrays are float32.

A NaN that is computed has the bits of a GPU's. Subnormals are kept, as PyTorch's kernels keep them.
"""

import functools

import numpy as np

NAN_BITS = np.uint32(0x7FFFFFFF)  # of every NaN that a GPU computes in float32
ONE = np.float32(1)


def single(x):
    """A Python number as a kernel receives it."""
    with np.errstate(all="ignore"):
        return np.float32(x)


def with_nan_bits(x):
    """x as float32, each NaN as a GPU computes it."""
    x = np.array(x, np.float32)
    x.view(np.uint32)[np.isnan(x)] = NAN_BITS
    return x


def quietly(function):
    """Overflow and NaN are results here."""
    @functools.wraps(function)
    def quiet(*arguments, **options):
        with np.errstate(all="ignore"):
            return function(*arguments, **options)
    return quiet


@quietly
def fma(a, b, c):
    """a * b + c of float32, rounded once.

    The product is exact in float64. The sum is rounded to odd there, so that rounding it again, to float32, gives
    what rounding once gives.
    """
    product = np.float64(a) * np.float64(b)
    return with_nan_bits(_add_to_odd(product, np.float64(c)).astype(np.float32))


def _two_sum(a, b):
    total = np.asarray(a + b)
    part = total - a
    return total, np.asarray((a - (total - part)) + (b - part))


def _add_to_odd(a, b):
    total, error = _two_sum(a, b)
    bits = total.view(np.int64).copy()
    inexact = np.isfinite(total) & np.isfinite(error) & (error != 0) & (bits & 1 == 0)
    bits += np.where(inexact, np.where((error > 0) == (total > 0), 1, -1), 0)
    return bits.view(np.float64)


@quietly
def fma_double(a, b, c):
    """a * b + c in double, rounded once, where a and c are float32 and b is a number."""
    b = np.float64(b)
    high = np.float64(np.float32(b)) if abs(b) < 1e30 else b
    a = np.float64(a)
    product, low = _two_sum(a * high, a * (b - high))
    rest, lowest = _two_sum(np.float64(c), low)
    total, error = _two_sum(product, rest)
    exact = total + _add_to_odd(lowest, error)
    return np.where(np.isfinite(exact) & (exact != 0), exact, a * b + np.float64(c))  # a zero's sign


@quietly
def add(a, b):
    return with_nan_bits(np.float32(a) + np.float32(b))


@quietly
def mul(a, b):
    return with_nan_bits(np.float32(a) * np.float32(b))


@quietly
def div(a, b):
    return with_nan_bits(np.float32(a) / np.float32(b))


@quietly
def sqrt(a):
    return with_nan_bits(np.sqrt(np.float32(a)))


def neg(a):
    """Flips the sign bit, of a NaN as well."""
    return (np.array(a, np.float32).view(np.uint32) ^ np.uint32(0x80000000)).view(np.float32)


def round_to_bf16(a):
    bits = np.array(a, np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(a), np.uint32(0x7FFF0000), rounded).astype(np.uint32).view(np.float32)


def stored(a, bf16):
    """a as it lies in memory."""
    return round_to_bf16(a) if bf16 else a


# powf of CUDA's math library, which only fused Adam calls

def _bits(x):
    return int(np.float32(x).view(np.uint32))


def _float(bits):
    return np.asarray(bits & 0xFFFFFFFF).astype(np.uint32).view(np.float32)


def device_powf(base, exponent, reciprocal_ulp=0):
    """base ** exponent for a beta and a count of steps, or an array of them.

    All is IEEE arithmetic but for one approximate reciprocal, MUFU.RCP, of a number that depends on the base
    alone. NVIDIA says that it is off by 1 ulp at most: `reciprocal_ulp` is how far it is off here.
    """
    a, b = np.float32(base), np.float32(exponent)
    assert 0 <= a <= 1, "a beta"
    if a in (0, 1):
        return np.full_like(b, a)
    shift = np.float32(0)
    if a < np.float32(2.0 ** -126):
        a, shift = mul(a, np.float32(16777216)), np.float32(-24)
    whole = (_bits(a) - 0x3F3504F3) & 0xFF800000
    m = _float(_bits(a) - whole)
    exponent_of_a = fma(np.float32(whole - (1 << 32) if whole >> 31 else whole), 2.0 ** -23, shift)
    # log2(a), as a sum of two numbers
    f = add(m, -ONE)
    r = _float(_bits(div(ONE, add(m, ONE))) + reciprocal_ulp)
    s = mul(r, add(f, f))
    rest = add(f, -s)
    rest = add(rest, rest)
    rest = fma(f, -s, rest)
    rest = mul(r, rest)
    square = mul(s, s)
    log2e = _float(0x3FB8AA3B)
    high = fma(s, log2e, exponent_of_a)
    low = add(exponent_of_a, -high)
    low = fma(s, log2e, low)
    low = fma(rest, log2e, low)
    low = fma(s, np.float32(1.9251366722983220825e-08), low)
    tail = _float(0x3A2C32E4)
    for coefficient in (0.0032181653659790754318, 0.018033718690276145935, 0.12022458761930465698):
        tail = fma(square, tail, np.float32(coefficient))
    tail = mul(square, tail)
    low = fma(rest, mul(tail, np.float32(3)), low)
    low = fma(s, tail, low)
    log = add(high, low)
    low = add(low, -add(log, -high))
    # 2 ** (b * log)
    product = mul(b, log)
    error = fma(b, log, -product)
    error = fma(b, low, error)
    nearest = np.rint(product)
    x = add(error, add(product, -nearest))
    y = _float(0x391FCB8E)
    for coefficient in (0.0013391353422775864601, 0.0096188392490148544312, 0.055503588169813156128,
                        0.24022644758224487305, 0.69314718246459960938, 1):
        y = fma(x, y, np.float32(coefficient))
    half = np.where(nearest > 0, 0, 0x83000000)
    y = mul(y, _float(half + 0x7F000000))
    y = mul(y, _float((np.maximum(nearest, -200).astype(np.int64) << 23) - half))
    return np.where(np.abs(product) > 152, np.float32(0), y)


def correction_is_certain(beta, step):
    """Whether 1 - beta ** step of fused Adam is the same for all that the reciprocal in powf may be."""
    low, middle, high = (add(ONE, -device_powf(beta, step, ulp)) for ulp in (-1, 0, 1))
    return (low == middle) & (middle == high)
