"""The kernels that PyTorch's multi_tensor_apply launches for lists of tensors.

aten/src/ATen/native/cuda/MultiTensorApply.cuh: a kernel takes so many tensors of each of `depth` lists
and so many chunks of 65,536 elements.
"""

import torch

from .launcher import tensors_in

_CHUNK = 65536
_BLOCKS = 320
_TENSORS = (110, 64, 48, 36, 30)


def launches(sizes, depth):
    """For tensors of `sizes` elements, of each kernel the positions of the tensors it works on."""
    most = _TENSORS[min(depth, 5) - 1]
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


def foreach(launch, args, kwargs, results):
    lists = [value for value in (*args, *kwargs.values())
             if isinstance(value, (list, tuple)) and value and isinstance(value[0], torch.Tensor)]
    if not lists:
        return
    written = tensors_in(results)
    if launch.name.endswith("_") or launch.name == "aten::_foreach_copy_":
        written = list(lists[0]) if "_fused_" not in launch.name else None
    if launch.name == "aten::_amp_foreach_non_finite_check_and_unscale_":
        written = [*lists[0], args[1]]
    single = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]
    extra = 0 if launch.name.endswith("_") else 1
    kernels = launches([tensor.numel() for tensor in lists[0]],
                                    min(len(lists), 4) + extra)
    for positions in kernels:
        reads = [each[p] for each in lists for p in positions if p < len(each)]
        if written is None:  # fused optimizers write all but the gradients, which come second
            writes = [each[p] for n, each in enumerate(lists[:-1]) if n != 1
                      for p in positions if p < len(each)]
        elif launch.name == "aten::_foreach_norm":
            writes = [written[p] for p in positions]
        else:
            writes = [written[p] for p in positions if p < len(written)]
        share = sum(min(lists[0][p].numel(), _BLOCKS * _CHUNK) for p in positions)
        width = lists[0][positions[0]].element_size()
        many = len(lists) - (1 if "_fused_" in launch.name else 0)
        spread = sum(1 for k in kernels if positions[0] in k) if len(positions) == 1 else 1
        launch.emit(launch.name, "optimizer", [*reads, *single], writes,
                    moved=share * width * (many + (many - 1 if "_fused_" in launch.name else 1))
                    / spread)
    if launch.name == "aten::_foreach_norm":
        launch.emit(launch.name, "optimizer", list(lists[0][:1]), written, moved=4 * len(written))
