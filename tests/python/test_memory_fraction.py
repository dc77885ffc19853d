"""What is told of limits to PyTorch's allocator (python/spillway/memory_fraction.py)."""

import importlib.util
import pathlib
import types

import pytest

FILE = pathlib.Path(__file__).resolve().parents[2] / "python" / "spillway" / "memory_fraction.py"


@pytest.fixture
def memory_fraction():
    spec = importlib.util.spec_from_file_location("memory_fraction", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Library:
    def __init__(self, calls):
        self.spillway_watches_memory_fraction = lambda: calls.append("watches")
        self.spillway_memory_fraction = lambda: calls.append("told")


def torch_that(calls):
    def set_fraction(fraction, device):
        calls.append((fraction, device))

    return types.SimpleNamespace(_C=types.SimpleNamespace(_cuda_setMemoryFraction=set_fraction))


def test_the_library_hears_of_a_limit_before_pytorch(memory_fraction):
    calls = []
    torch = torch_that(calls)
    memory_fraction.follow(torch, Library(calls))
    torch._C._cuda_setMemoryFraction(0.5, 0)
    assert calls == ["watches", "told", (0.5, 0)]


def test_without_the_library_pytorch_is_left_alone(memory_fraction):
    calls = []
    torch = torch_that(calls)
    own = torch._C._cuda_setMemoryFraction
    memory_fraction.follow(torch, types.SimpleNamespace())
    assert torch._C._cuda_setMemoryFraction is own


def test_without_cuda_nothing_is_promised(memory_fraction):
    calls = []
    memory_fraction.follow(types.SimpleNamespace(_C=types.SimpleNamespace()), Library(calls))
    assert not calls
