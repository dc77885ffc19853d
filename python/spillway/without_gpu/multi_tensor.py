"""How many kernels PyTorch's multi_tensor_apply launches for lists of tensors.

aten/src/ATen/native/cuda/MultiTensorApply.cuh: a kernel takes so many tensors of each of `depth` lists
and so many chunks of 65,536 elements.
"""

_CHUNK = 65536
_BLOCKS = 320
_TENSORS = (110, 64, 48, 36, 30)
_WITH_SCALARS = (96, 64, 48, 36, 30)


def launches(sizes, depth, scalars=False):
    """For tensors of `sizes` elements, of each kernel the positions of the tensors it works on."""
    most = (_WITH_SCALARS if scalars else _TENSORS)[min(depth, 5) - 1]
    kernels, current, blocks, held = [], [], 0, 0
    for position, size in enumerate(sizes):
        if size == 0:
            continue
        held += 1
        current.append(position)
        chunks = -(-size // _CHUNK)
        for chunk in range(chunks):
            blocks += 1
            last = chunk == chunks - 1
            if blocks == _BLOCKS or (held == most and last):
                kernels.append(current)
                blocks = 0
                current, held = ([], 0) if last else ([position], 1)
    if blocks:
        kernels.append(current)
    return kernels
