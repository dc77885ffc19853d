"""What the functions of kernels.py get: one operator, and the kernels that it launches."""

import torch

from .costs import Work
from .device import on_device
from .storages import Storage

_TYPES = {torch.float16: "half", torch.bfloat16: "half"}


def tensors_in(value):
    """The tensors of nested lists, in order; of a sparse tensor its parts."""
    found = []
    _collect(value, found)
    return found


def _collect(value, found):
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided:
            if value.layout == torch.sparse_coo:
                found += [value._indices(), value._values()]
            return
        found.append(value)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _collect(item, found)


class Launcher:
    def __init__(self, recorder, name):
        self.recorder = recorder
        self.name = name
        self.scratches = []
        self.backward = torch._C._current_graph_task_id() != -1

    @staticmethod
    def bytes_of(operand):
        if isinstance(operand, Storage):
            return operand.size
        size = operand.numel() * operand.element_size()
        if operand.dim() and 0 in operand.stride():  # expanded: read once
            size = min(size, operand.untyped_storage().nbytes())
        return size

    def scratch(self, size):
        """Memory that lives until the operator has launched its last kernel."""
        storage = self.recorder.storages.new(size)
        storage.scratch = True
        self.scratches.append(storage)
        return storage

    def workspace(self, name, size):
        """Autograd's thread has handles of its own."""
        thread = "backward" if self.backward else "forward"
        return self.recorder.storages.workspace(f"{name} {thread}", size)

    def emit(self, name, kind, reads, writes, flops=0, moved=None, dtype=None, sync=False):
        operands = {}
        for written, operand_list in ((False, reads), (True, writes)):
            for operand in operand_list:
                if isinstance(operand, Storage):
                    storage = operand
                elif operand is None or not on_device(operand) or operand.numel() == 0:
                    continue
                else:
                    storage = self.recorder.storages.of(operand)
                before = operands.get(storage)
                operands[storage] = (before is not None and before[0] or not written,
                                     before is not None and before[1] or written)
        if moved is None:
            moved = sum(map(self.bytes_of, (x for x in (*reads, *writes) if x is not None)))
        peak = _TYPES.get(dtype, "fp32")
        if peak == "fp32" and torch.backends.cuda.matmul.allow_tf32 and "gemm" in kind:
            peak = "tf32"
        if peak == "fp32" and torch.backends.cudnn.allow_tf32 and "conv" in kind:
            peak = "tf32"
        self.recorder.launched(name, Work(kind, flops, moved, peak, self.backward), operands, sync)

    def end(self):
        for storage in self.scratches:
            self.recorder.storages.gone(storage)
