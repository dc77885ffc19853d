"""The kernel that stands for a memset (src/interpose/cuda/kernels/fill_ptx.cc)."""

import shutil

import pytest

from ptx import Kernel, assemble, ptx_of

PTX = ptx_of("fill_ptx.cc")


@pytest.mark.parametrize("blocks, threads", [(1, 1), (1, 3), (2, 4), (5, 8)])
def test_it_writes_what_it_is_told_and_nothing_else(blocks, threads):
    kernel = Kernel(PTX)
    base = 0x7F0000000000
    cases = [(0, 16), (0, 1), (15, 1), (15, 2), (3, 10), (1, 15), (0, 200), (7, 201), (16, 33)]
    for start, size in [(base + start, size) for start, size in cases] + [(base + 4, 4)]:
        memory = {}
        parameters = {"param_to": start, "param_bytes": size, "param_pattern": 0x84030281}
        kernel.run(blocks, threads, parameters, memory)
        assert memory == {at: 0x84030281 >> 8 * (at % 4) & 0xFF for at in range(start, start + size)}


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="no CUDA toolkit")
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_the_toolkit_takes_it(tmp_path, architecture):
    assemble(PTX, architecture, tmp_path)
