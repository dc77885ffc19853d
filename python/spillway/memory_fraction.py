"""Tells the preloaded library when a script limits PyTorch's allocator, or says how it divides.

Beyond a fraction of the device PyTorch refuses an allocation without a call of the driver, so
nothing else says that it is about to give back what it has free; and how a script has set the
allocator stays as it is (docs/interposer.md). The library's functions:

    void spillway_watches_memory_fraction();  // it is told from now on
    void spillway_memory_fraction();          // before each limit, and each such setting
"""

import ctypes
import functools


# As the library looks for them in PyTorch's environment.
SETTINGS = (
    "max_split_size_mb",
    "large_segment_size_mb",
    "max_non_split_rounding_mb",
    "per_process_memory_fraction",
    "release_lock_on_cudamalloc",
)
# In PyTorch's extension; which there are depends on its version. torch.cuda.memory calls them.
SETTERS = ("_accelerator_setAllocatorSettings", "_cuda_cudaCachingAllocator_set_allocator_settings")


def follow(torch, library=None):
    """Once, with PyTorch; without the preloaded library, or without CUDA, nothing."""
    library = ctypes.PyDLL(None) if library is None else library
    if not hasattr(torch._C, "_cuda_setMemoryFraction") or not hasattr(
        library, "spillway_watches_memory_fraction"
    ):
        return

    def tell_before(name, counts):
        call = getattr(torch._C, name, None)
        if call is None:
            return

        @functools.wraps(call)
        def told(*arguments):
            if counts(*arguments):
                library.spillway_memory_fraction()
            return call(*arguments)

        setattr(torch._C, name, told)

    tell_before("_cuda_setMemoryFraction", lambda *_: True)
    for setter in SETTERS:
        tell_before(setter, lambda *settings: any(key in str(settings) for key in SETTINGS))
    library.spillway_watches_memory_fraction()
