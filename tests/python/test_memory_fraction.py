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


@pytest.mark.parametrize(
    "setter",
    ["_accelerator_setAllocatorSettings", "_cuda_cudaCachingAllocator_set_allocator_settings"],
)
@pytest.mark.parametrize(
    "settings, counts",
    [
        ("max_split_size_mb:128", True),
        ("expandable_segments:False,large_segment_size_mb:40", True),
        ("max_non_split_rounding_mb:40", True),
        ("per_process_memory_fraction:0.5", True),
        ("release_lock_on_cudamalloc:True", True),
        ("expandable_segments:True", False),
    ],
)
def test_the_library_hears_of_settings_before_pytorch(memory_fraction, setter, settings, counts):
    calls = []
    torch = torch_that(calls)
    setattr(torch._C, setter, calls.append)
    memory_fraction.follow(torch, Library(calls))
    getattr(torch._C, setter)(settings)
    assert calls == ["watches"] + ["told"] * counts + [settings]


def test_what_a_version_has_not_is_not_made_up(memory_fraction):
    calls = []
    torch = torch_that(calls)
    memory_fraction.follow(torch, Library(calls))
    assert list(vars(torch._C)) == ["_cuda_setMemoryFraction"]


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
