"""The operators that AutoVM inserts: the thesis' MemOp (section 3.4), as two operators of PyTorch.

    torch.ops.spillway.pre_evict(tensor)   # its storage may leave the device: copy it down ahead of need
    torch.ops.spillway.prefetch(tensor)    # its storage is used soon: bring it

Each names the whole storage that the tensor lies in, returns nothing, changes nothing and does not wait. They are
wishes: a tensor that is used after a pre-eviction is there all the same. In a process that does not run under
Spillway, for memory that is not Spillway's and for tensors without memory they do nothing. They call what the
preloaded library has for this (src/interpose/host/memory_wishes.cc):

    int spillway_prefetch(void* start, size_t bytes);
    int spillway_pre_evict(void* start, size_t bytes);

PyTorch knows them as effects that happen in order: no pass removes them as dead code, and where a script calls them
inside torch.compile, AOTAutograd keeps their order by tokens instead of running them again in the backward pass.
"""

import ctypes

import torch

_NAMES = ("pre_evict", "prefetch")


def _runtime(name):
    """The library's function, or None where nothing of Spillway is loaded."""
    try:
        function = getattr(ctypes.CDLL(None), f"spillway_{name}")
    except AttributeError:
        return None
    function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_size_t], ctypes.c_int
    return function


def _implementation(name):
    function = _runtime(name)
    if function is None:
        return lambda tensor: None

    def operator(tensor):
        storage = tensor.untyped_storage()
        address, size = storage.data_ptr(), storage.nbytes()
        if address and size:
            function(address, size)

    return operator


def _define():
    library = torch.library.Library("spillway", "DEF")
    for name in _NAMES:
        library.define(f"{name}(Tensor tensor) -> ()")
        library.impl(name, _implementation(name), "CompositeExplicitAutograd")
        torch.library.register_fake(f"spillway::{name}", lambda tensor: None, lib=library)
        library._register_effectful_op(f"spillway::{name}", torch.library.EffectType.ORDERED)
    return library


_library = _define()
PRE_EVICT = torch.ops.spillway.pre_evict.default
PREFETCH = torch.ops.spillway.prefetch.default
ALL = (PRE_EVICT, PREFETCH)
