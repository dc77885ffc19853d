"""The kernel that stands for a small copy (src/interpose/cuda/kernels/copy_ptx.cc)."""

import shutil

import pytest

from ptx import Kernel, assemble, ptx_of

PTX = ptx_of("copy_ptx.cc")


@pytest.mark.parametrize("blocks, threads", [(1, 1), (1, 3), (2, 4), (5, 8)])
def test_it_copies_what_it_is_told_and_nothing_else(blocks, threads):
    kernel = Kernel(PTX)
    source, target = 0x7F0000000001, 0x7F0000001003
    for size in [1, 2, 15, 16, 17, 201]:
        before = {source + i: (7 * i + 3) & 0xFF for i in range(-1, size + 1)}
        memory = dict(before)
        kernel.run(blocks, threads,
                   {"param_from": source, "param_to": target, "param_bytes": size}, memory)
        assert memory == before | {target + i: before[source + i] for i in range(size)}


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="no CUDA toolkit")
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_the_toolkit_takes_it(tmp_path, architecture):
    assemble(PTX, architecture, tmp_path)
