"""Large tensors on the host without memory: a model is often made there and then moved to the GPU.

Tensors of floating-point numbers of 1 MiB and more are allocated and never touched, so the system
gives them no pages: what would fill or compute them is left out. Whole numbers stay real, for they say
which samples a loader takes.
"""

import torch
from torch.utils._pytree import tree_map

_LARGE = 1 << 20


def is_large(value):
    return (isinstance(value, torch.Tensor) and value.layout == torch.strided
            and value.is_floating_point() and value.untyped_storage().nbytes() >= _LARGE)


def run(known, func, args, kwargs):
    """An operator that does not touch the device."""
    if known.view or not any(is_large(value) or isinstance(value, (list, tuple)) and any(
            map(is_large, value)) for value in args):
        return func(*args, **kwargs)
    if known.in_place and is_large(args[0]):
        return args[0]
    if known.writes:
        return func(*args, **kwargs)

    def shape_only(value):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype,
                                   device="meta") if isinstance(value, torch.Tensor) else value

    try:
        shapes = func(*tree_map(shape_only, args), **tree_map(shape_only, kwargs))
    except (RuntimeError, NotImplementedError):
        return func(*args, **kwargs)
    results = shapes if isinstance(shapes, (list, tuple)) else [shapes]
    if not all(isinstance(x, torch.Tensor) and x.is_floating_point()
               and x.numel() * x.element_size() >= _LARGE for x in results):
        return func(*args, **kwargs)
    made = [torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="cpu") for x in results]
    return type(shapes)(made) if isinstance(shapes, (list, tuple)) else made[0]
