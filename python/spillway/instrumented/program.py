"""The instrumented program: its file calls these functions once, from top to bottom, which makes the schedule."""

import os
import sys

from .matching import Kernel, LEAST_BYTES, PlanError, Tensor

_TIERS = ("host", "storage")


class Program:
    """One file's. Its functions raise PlanError for a file that cannot be."""

    def __init__(self, file, device_bytes=0):
        """device_bytes: the device memory that the plan was made for."""
        self.file = os.path.basename(file)
        self.device_bytes = device_bytes
        self.kernels = []
        self.carried_out = []  # of the latest iteration: (before kernel, what, tensor, bytes), in order
        self.iterations = 0  # that were followed to their end
        self._waiting = []  # calls in front of the next kernel
        self._follower = None

    # What the file calls.

    def tensor(self, number, size_bytes):
        """One that lives on from one iteration to the next."""
        return Tensor(number, size_bytes, True)

    def alloc(self, number, size_bytes):
        """One that is born here. PyTorch makes it, in the operator that writes it first."""
        return Tensor(number, size_bytes, False)

    def free(self, tensor):
        """It is dead. PyTorch frees it."""
        tensor.freed = True

    def prefetch(self, tensor, size_bytes):
        self._call("prefetch", tensor, size_bytes, None)

    def pre_evict(self, tensor, size_bytes, to):
        if to not in _TIERS:
            raise PlanError(f"{self.file}: pre_evict(tensor{tensor.number}): '{to}' is no tier below the device; "
                            "it can be 'host' or 'storage'")
        self._call("pre_evict", tensor, size_bytes, to)

    def kernel(self, number, name, reads=(), writes=()):
        for tensor in (*reads, *writes):
            if tensor.freed:
                raise PlanError(f"{self.file}: kernel {number} uses tensor{tensor.number}, which has been freed")
        calls, self._waiting = self._waiting, []
        self.kernels.append(Kernel(number, name, reads, writes, calls))

    def _call(self, what, tensor, size_bytes, to):
        if tensor.freed or size_bytes != tensor.size_bytes:
            why = "has been freed" if tensor.freed else f"has {tensor.size_bytes} bytes"
            raise PlanError(f"{self.file}: {what}(tensor{tensor.number}, {size_bytes}): it {why}")
        if size_bytes < LEAST_BYTES:
            raise PlanError(f"{self.file}: {what}(tensor{tensor.number}, {size_bytes}): below 1 MiB a tensor stays")
        self._waiting.append((what, tensor, to))

    # What the script calls.

    def attach(self, optimizer):
        """From the next step of this optimizer on, each iteration makes the calls of the plan at their places.

        An iteration reaches from behind a step to the end of the next one, as in a recording. Where the script does
        something else than the plan expects, the operator raises PlanError, and no further call is made. In a
        process that does not run under Spillway a line says so and nothing is done.
        """
        from . import follower

        runtime = follower.runtime()
        if runtime is None:
            print(f"spillway: {self.file} is not carried out: this process does not run under `spillway run`, or on a "
                  "device that takes no prefetches from programs", file=sys.stderr)
            return
        from ..autovm.sizes import parse_bytes  # here, since it brings all of autovm

        budget = parse_bytes(os.environ.get("SPILLWAY_DEVICE_MEMORY") or "0")
        if budget and budget < self.device_bytes:
            raise PlanError(f"{self.file}: planned for {self.device_bytes} bytes of device memory, and this run has "
                            f"{budget}: plan anew with --set device.capacity={budget // (1 << 20)}MiB")
        self.detach()
        self._follower = follower.Follower(self, optimizer, runtime)

    def detach(self):
        """No call is made any more; for instance around an evaluation, which the plan does not know."""
        if self._follower is not None:
            self._follower.end()
            self._follower = None
