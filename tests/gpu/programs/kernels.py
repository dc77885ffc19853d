#!/usr/bin/env python3
"""Kernels that reach memory in the ways that drivers and compilers offer: CuPy, Triton and JAX. See
program.py."""

import os

from program import MIB, Others, main
import torch

ROWS = r"""
extern "C" __global__ void add_rows(float** rows, float* sums, int count, int words) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x) {
    float sum = 0;
    for (int row = 0; row < count; ++row) sum += rows[row][i];
    sums[i] = sum;
  }
}
struct Inner { int pad; float* data; };
struct Outer { char tag; Inner inner; int words; };
extern "C" __global__ void through_struct(Outer outer, float by) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < outer.words; i += gridDim.x * blockDim.x)
    outer.inner.data[i] *= by;
}
"""

WHOLE_GRID = r"""
#include <cooperative_groups.h>
extern "C" __global__ void twice(float* data, float* other, int words) {
  auto grid = cooperative_groups::this_grid();
  for (int i = grid.thread_rank(); i < words; i += grid.size()) other[i] = data[i] * 2;
  grid.sync();
  for (int i = grid.thread_rank(); i < words; i += grid.size()) data[i] = other[words - 1 - i];
}
"""

TEXELS = r"""
extern "C" __global__ void texels(cudaTextureObject_t texture, float* out, int words) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x)
    out[i] = tex1Dfetch<float>(texture, i);
}
extern "C" __global__ void image(cudaTextureObject_t texture, float* out, int width, int height) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < width * height;
       i += gridDim.x * blockDim.x)
    out[i] = tex2D<float>(texture, i % width + 0.5f, i / width + 0.5f);
}
"""


def cupy_arrays():
    """Elementwise, matrices, transforms, reductions, in CuPy's own pool and without one."""
    import cupy

    wrong = 0
    for pool in (cupy.get_default_memory_pool().malloc, None, cupy.cuda.MemoryAsyncPool().malloc):
        cupy.cuda.set_allocator(pool)
        others = [cupy.full((32 * MIB // 4,), i, dtype=cupy.float32) for i in range(24)]
        a = cupy.arange(1 << 22, dtype=cupy.float64).reshape(2048, 2048) / (1 << 22)
        for _ in range(2):
            for i, other in enumerate(others):
                other += 1
                other -= 1
                wrong += 0 if bool((other == i).all()) else 1
            back = cupy.fft.ifft2(cupy.fft.fft2(a)).real
            wrong += 0 if bool(cupy.abs(back - a).max() < 1e-9) else 1
            eye = cupy.eye(2048)
            wrong += 0 if bool((a @ eye == a).all()) else 1
            wrong += 0 if bool((cupy.sort(-a.ravel()) == -a.ravel()[::-1]).all()) else 1
    return {"wrong": wrong}


def pointers():
    """Arrays of pointers, and pointers inside of structures that are passed by value."""
    import cupy
    import numpy

    module = cupy.RawModule(code=ROWS, backend="nvrtc")
    words, count = 4 * MIB, 40
    rows = [torch.full((words,), float(i), device="cuda") for i in range(count)]
    others = Others(512)
    sums = torch.zeros(words, device="cuda")
    table = torch.tensor([row.data_ptr() for row in rows], device="cuda")
    wrong = 0
    for _ in range(3):
        others.touch()
        module.get_function("add_rows")((256,), (256,), (
            numpy.uint64(table.data_ptr()), numpy.uint64(sums.data_ptr()), numpy.int32(count),
            numpy.int32(words)))
        torch.cuda.synchronize()
        wrong += int((sums != count * (count - 1) / 2).sum())
    layout = numpy.dtype({"names": ["tag", "pad", "data", "words"], "itemsize": 32,
                          "formats": ["u1", "i4", "u8", "i4"], "offsets": [0, 8, 16, 24]})
    for i, row in enumerate(rows):
        outer = numpy.zeros((), layout)
        outer["data"], outer["words"] = row.data_ptr(), words
        module.get_function("through_struct")((256,), (256,), (outer, numpy.float32(2)))
    torch.cuda.synchronize()
    wrong += sum(int((row != 2.0 * i).sum()) for i, row in enumerate(rows))
    return {"wrong": wrong + others.wrong()}


def cooperative():
    """A launch whose blocks wait for each other."""
    import cupy
    import numpy

    kernel = cupy.RawKernel(WHOLE_GRID, "twice", backend="nvcc", enable_cooperative_groups=True)
    words = 4 * MIB
    data, other = cupy.arange(words, dtype=cupy.float32), cupy.zeros(words, dtype=cupy.float32)
    expected = data.copy()
    others = Others(768)
    wrong = 0
    for _ in range(4):
        others.touch()
        kernel((132,), (256,), (data, other, numpy.int32(words)))
        expected = (expected * 2)[::-1]
        wrong += 0 if bool((data == expected).all()) else 1
        expected /= 2
        data /= 2
    return {"wrong": wrong + others.wrong()}


def textures():
    """Of arrays, which are the driver's; of the space's memory they are refused in words."""
    import cupy
    import numpy
    from cupy.cuda import texture

    module = cupy.RawModule(code=TEXELS, backend="nvrtc")
    channel = texture.ChannelFormatDescriptor(32, 0, 0, 0,
                                              cupy.cuda.runtime.cudaChannelFormatKindFloat)
    wrong, refused = 0, ""
    others = Others(768)
    plain = cupy.arange(1024 * 1024, dtype=cupy.float32).reshape(1024, 1024)
    array = texture.CUDAarray(channel, 1024, 1024)
    array.copy_from(plain)
    out = cupy.zeros_like(plain)
    description = texture.TextureDescriptor()
    view = texture.TextureObject(texture.ResourceDescriptor(
        cupy.cuda.runtime.cudaResourceTypeArray, cuArr=array), description)
    others.touch()
    module.get_function("image")((256,), (256,), (view, out, numpy.int32(1024),
                                                       numpy.int32(1024)))
    wrong += int((out != plain).sum())
    try:
        linear = texture.TextureObject(texture.ResourceDescriptor(
            cupy.cuda.runtime.cudaResourceTypeLinear, arr=plain, chDesc=channel,
            sizeInBytes=plain.nbytes), description)
        others.touch()
        out[:] = 0
        module.get_function("texels")((256,), (256,), (linear, out, numpy.int32(plain.size)))
        wrong += int((out != plain).sum())
    except cupy.cuda.runtime.CUDARuntimeError as error:
        refused = str(error)
    return {"wrong": wrong + others.wrong(), "refused": refused}


def triton_kernels():
    """Pointers, and tensor descriptors: on Hopper tensor maps, made on the host and on the device."""
    import triton
    import triton.language as tl
    from triton.tools.tensor_descriptor import TensorDescriptor

    @triton.jit
    def scale(x, y, words, by, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + at, tl.load(x + at, mask=at < words) * by, mask=at < words)

    @triton.jit
    def described(x, y, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK
        y.store([at, 0], x.load([at, 0]) + 1)

    @triton.jit
    def describes(x, y, rows, columns, BLOCK: tl.constexpr):
        here = tl.make_tensor_descriptor(x, [rows, columns], [columns, 1], [BLOCK, 64])
        there = tl.make_tensor_descriptor(y, [rows, columns], [columns, 1], [BLOCK, 64])
        at = tl.program_id(0) * BLOCK
        there.store([at, 0], here.load([at, 0]) * 3)

    triton.set_allocator(lambda size, _align, _stream: torch.empty(size, dtype=torch.int8,
                                                                   device="cuda"))
    rows, columns = 1 << 18, 64
    x = torch.arange(rows * columns, device="cuda", dtype=torch.float32).reshape(rows, columns)
    y = torch.zeros_like(x)
    others = Others(768)
    wrong = 0
    maps = [TensorDescriptor(t, [rows, columns], [columns, 1], [64, 64]) for t in (x, y)]
    for _ in range(3):
        others.touch()
        scale[(rows * columns // 1024,)](x, y, rows * columns, 2.0, BLOCK=1024)
        others.touch()
        wrong += int((y != x * 2).sum())
        others.touch()
        described[(rows // 64,)](*maps, BLOCK=64)
        others.touch()
        wrong += int((y != x + 1).sum())
        others.touch()
        describes[(rows // 64,)](x, y, rows, columns, BLOCK=64)
        others.touch()
        wrong += int((y != x * 3).sum())
    return {"wrong": wrong + others.wrong()}


def jax_arrays():
    """Its own memory, as it asks the driver for it."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax
    import jax.numpy as jnp

    assert jax.devices()[0].platform == "gpu"
    others = [jnp.full((8 * MIB,), float(i)) for i in range(12)]
    a = jnp.arange(1 << 20, dtype=jnp.float32).reshape(1024, 1024) / (1 << 20)

    @jax.jit
    def step(a):
        return jnp.tanh(a @ a.T) / 2 + a

    before = step(a)
    for _ in range(3):
        others = [other + 1 for other in others]
    wrong = 0 if bool((step(a) == before).all()) else 1
    wrong += sum(0 if bool((other == i + 3).all()) else 1 for i, other in enumerate(others))
    return {"wrong": wrong}


if __name__ == "__main__":
    main(globals())
