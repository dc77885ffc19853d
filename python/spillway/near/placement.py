"""Where the tensors of a step lie, and what follows from it: whose bits they get, and who updates them.

All that the rest of this package knows of a device is here. `Places.of(tensor)` gives one of:

Host     memory of the CPU: Spillway updates what lies there inside step()
Gpu      memory of a GPU under `spillway run`: what Spillway takes is updated at the host, next to its
         states, some time after step() has returned; launches that use it then wait for it
"""

import functools
import sys

import torch

from . import native

FITS = "everything fits on the device"
BETTER = "the device is the better place now"
RESTS = "the device was the better place in the last steps"

class Host:
    """Tensors of the CPU."""

    at_once = True  # their updates have ended when step() returns
    least_bytes = 0  # of a tensor that Spillway updates
    capability = 0
    bits = {"fused": "fused=True", "foreach": "fused=False", "loop": "fused=False"}
    note = ""

    def variant(self, way):
        """`way`: rules.way()."""
        return native.FUSED_CPU if way == "fused" else native.LOOP_CPU

    def is_at_host(self, tensor):
        return tensor.is_cpu

    def why_not_now(self):
        return None

    def describe(self):
        """What PyTorch's bits depend on here."""
        return torch.backends.cpu.get_cpu_capability()


class Gpu:
    """Tensors of one GPU."""

    at_once = False
    bits = {"fused": "fused=True", "foreach": "foreach=True", "loop": "foreach=False"}
    note = ", at the host where that is faster"
    least_bytes = 2 << 20  # smaller ones share the device's memory with others
    # A trial compares so many elements: small ones pass falsely.
    trial_elements = (1 << 20) + 5

    def __init__(self, index):
        self.device = torch.device("cuda", index)
        major, minor = torch.cuda.get_device_capability(index)
        self.capability = 10 * major + minor
        self._send = native.sender()

    def variant(self, way):
        return {"fused": native.FUSED_CUDA, "foreach": native.FOREACH_CUDA, "loop": native.LOOP_CUDA}[way]

    def is_at_host(self, tensor):
        return tensor.is_cpu

    def why_not_now(self):
        """Of all tensors here in one step."""
        if not native.takes_on_gpu():
            return FITS
        if torch.cuda.is_current_stream_capturing():
            return "a CUDA graph is being captured"
        return None

    def describe(self):
        return torch.cuda.get_device_name(self.device)

    def holds_number(self, tensor):
        """Whether an update can read it here: one of GradScaler's tensors, or None."""
        return tensor is None or (tensor.device == self.device and tensor.dtype == torch.float32
                                  and tensor.numel() == 1)

    def run(self, update, tensors, pool, scale, found_inf):
        """Which of these native.Tensor are updated at the host; returns at once. `scale` and
        `found_inf`: GradScaler's tensors on this device, or None."""
        stream = torch.cuda.current_stream(self.device).cuda_stream
        return update.run_on_gpu(tensors, pool, stream, _address(scale), _address(found_inf))

    def read(self, tensors):
        """The numbers in tensors of one element. Waits for the device, once."""
        return torch.cat([tensor.detach().reshape(1).double() for tensor in tensors]).tolist()

    def copied(self, tensor):
        """A function for the number in a tensor as it is now; only that call waits until it is there."""
        at_host = torch.empty((), dtype=tensor.dtype, device="cpu", pin_memory=True)
        at_host.copy_(tensor.detach().reshape(()), non_blocking=True)
        copied = torch.cuda.Event()
        copied.record(torch.cuda.current_stream(self.device))

        @functools.lru_cache(maxsize=None)
        def number():
            copied.synchronize()
            return at_host.item()

        return number

    def sender(self):
        """A function of an address and a number of bytes: that gradient is final. None where nobody
        can be told, or where others go on to change gradients: a reduction comes after the hooks."""
        distributed = sys.modules.get("torch.distributed")
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return None
        return self._send


class OnTrial:
    """Tensors of the CPU, updated at once with the bits of another place."""

    at_once = True
    least_bytes = 0
    note = ""

    def __init__(self, place):
        self.capability, self.bits, self.variant = place.capability, place.bits, place.variant

    def is_at_host(self, tensor):
        return True

    def why_not_now(self):
        return None


HOST = Host()


class Places:
    def of(self, tensor):
        """The place of a tensor; None where Spillway updates nothing."""
        device = tensor.device
        if device.type == "cpu":
            return HOST
        if device.type == "cuda" and native.knows_gpus():
            return _gpu(device.index)
        return None

    def are_idle(self, parameters):
        """Whether nothing can be taken of any of them now, as where everything fits: asked in each step."""
        return all(parameter.is_cuda for parameter in parameters) and not native.takes_on_gpu()


class OnlyOn(Places):
    """One place for all tensors, whatever their device."""

    def __init__(self, place):
        self._place = place

    def of(self, tensor):
        return self._place

    def are_idle(self, parameters):
        return False


@functools.lru_cache(maxsize=None)
def _gpu(index):
    return Gpu(index)


def _address(tensor):
    return None if tensor is None else tensor.data_ptr()
