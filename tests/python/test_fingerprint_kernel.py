"""The kernel that says what memory holds (src/interpose/cuda/kernels/fingerprint_ptx.cc)."""

import random
import shutil

import pytest

from ptx import Kernel, assemble, ptx_of

PTX = ptx_of("fingerprint_ptx.cc")
FROM, TO = 0x7F0000000000, 0x7E0000000000
WORD = (1 << 64) - 1


def mix(word):
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & WORD
    word = (word ^ word >> 27) * 0x94D049BB133111EB & WORD
    return word ^ word >> 31


def sums_of(data, blocks, threads):
    """What each block has to write."""
    sums = [0] * blocks
    padded = data + bytes(-len(data) % 16)
    for j in range(len(padded) // 8):
        word = int.from_bytes(padded[8 * j : 8 * j + 8], "little")
        block = j // 2 // threads % blocks
        sums[block] = sums[block] + mix(word + (j + 1) * 0x9E3779B97F4A7C15 & WORD) & WORD
    return sums


def sums_by_kernel(data, blocks, threads, backwards=False):
    """It reads nothing but the data, and writes nothing but the sums."""
    memory = dict(enumerate(data, FROM))
    parameters = {"param_from": FROM, "param_bytes": len(data), "param_to": TO}
    Kernel(PTX).run(blocks, threads, parameters, memory, backwards)
    written = bytes(memory.pop(TO + at) for at in range(8 * blocks))
    assert memory == dict(enumerate(data, FROM))
    return [int.from_bytes(written[at : at + 8], "little") for at in range(0, len(written), 8)]


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("blocks, threads", [(1, 32), (3, 64), (2, 96)])
def test_it_adds_up_the_words(blocks, threads, backwards):
    some = random.Random(blocks * threads)
    for size in [1, 7, 8, 9, 15, 16, 17, 31, 32, 500, 1024, 3 * 64 * 16, 5003, 7000]:
        data = some.randbytes(size)
        assert sums_by_kernel(data, blocks, threads, backwards) == sums_of(data, blocks, threads)


def test_it_does_so_with_as_many_threads_as_a_block_may_have():
    data = random.Random(1).randbytes(2 * 1024 * 16 + 1029)
    assert sums_by_kernel(data, 2, 1024) == sums_of(data, 2, 1024)


def test_any_bit_makes_a_difference():
    data = bytes(40)
    before = sum(sums_by_kernel(data, 1, 32)) & WORD
    numbers = {before}
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        numbers.add(sum(sums_by_kernel(bytes(changed), 1, 32)) & WORD)
    assert len(numbers) == 1 + 8 * len(data)


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="no CUDA toolkit")
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_the_toolkit_takes_it(tmp_path, architecture):
    assemble(PTX, architecture, tmp_path)
