"""Tells the preloaded library when a script limits PyTorch's allocator to a fraction of the device.

Beyond such a limit PyTorch refuses an allocation without a call of the driver, so nothing else says
that it is about to give back what it has free (docs/torch.md). The library's functions:

    void spillway_watches_memory_fraction();  // it is told from now on
    void spillway_memory_fraction();          // before each limit that is set
"""

import ctypes
import functools


def follow(torch, library=None):
    """Once, with PyTorch; without the preloaded library, or without CUDA, nothing."""
    library = ctypes.PyDLL(None) if library is None else library
    set_fraction = getattr(torch._C, "_cuda_setMemoryFraction", None)
    if set_fraction is None or not hasattr(library, "spillway_watches_memory_fraction"):
        return

    @functools.wraps(set_fraction)
    def told(*arguments):
        library.spillway_memory_fraction()
        return set_fraction(*arguments)

    torch._C._cuda_setMemoryFraction = told
    library.spillway_watches_memory_fraction()
