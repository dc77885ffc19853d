"""A GPU that is none: tensors of the CPU, whose updates run some time after step() in another thread.

It stands in for placement.Gpu and nothing else. Updates run in the order in which they were issued, as late as
possible: when an operator names memory that one of them uses, which is what the engine sees to on a GPU. The
memory of an update outlives what the program frees, as there. Numbers are computed by the real kernels, with the
bits of PyTorch's on the CPU.
"""

import collections
import contextlib
import ctypes
import functools
import queue
import random
import threading
import weakref

from torch.autograd.graph import increment_version
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from twins import torch

from spillway.near import native, placement, replacement

WAY_BITS = {"fused": "fused=True", "foreach": "foreach=True", "loop": "foreach=False"}


class Place:
    """All tensors of one test. `share`: how many updates of a hundred are taken."""

    at_once = False
    least_bytes = 0
    capability = 90
    bits = WAY_BITS
    note = placement.Gpu.note
    device = torch.device("cpu")
    trial_elements = 4099

    def __init__(self, share=100, seed=1, steps_at_host=False):
        self.share, self.steps_at_host = share, steps_at_host
        self.random = random.Random(seed)
        self.reads, self.copies, self.waits = [], 0, 0
        self.taken = self.offered = 0
        self.capturing = self.failing = None
        self.sent = []
        # As the library's: a function of C, which has no hash.
        self._sender = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)(self._send)
        self.optimizers, self.made = [], collections.deque(maxlen=100)  # where its tensors are found
        self.issued = []  # not run yet: (memory that it uses, what to do)
        self.lock = threading.RLock()
        self.jobs = queue.SimpleQueue()
        threading.Thread(target=self._work, daemon=True).start()

    variant = placement.Host.variant

    def is_at_host(self, tensor):
        return self.steps_at_host

    def why_not_now(self):
        return self.capturing

    def describe(self):
        return "a device that is none"

    def holds_number(self, tensor):
        return tensor is None or tensor.dtype == torch.float32

    def read(self, tensors):
        self.reads.append(len(tensors))
        return [tensor.item() for tensor in tensors]

    def copied(self, tensor):
        self.copies += 1
        value = tensor.detach().clone()

        @functools.lru_cache(maxsize=None)
        def number():
            self.waits += 1
            return value.item()

        return number

    def sender(self):
        return self._sender

    def _send(self, address, size):
        self.sent.append((address, size))

    def run(self, update, tensors, pool, scale, found_inf):
        if self.failing is not None:
            raise self.failing
        flags = [int(self.random.randrange(100) < self.share) for _ in tensors]
        self.offered += len(flags)
        self.taken += sum(flags)
        chosen = [tensor for tensor, flag in zip(tensors, flags) if flag]
        if chosen:
            memory = self._memory(chosen)
            # Stream-ordered copies of what GradScaler says, as the native function makes.
            numbers = [None if one is None else one.clone() for one in (scale, found_inf)]
            self.issued.append((memory, lambda: self._update(update, chosen, pool, *numbers)))
        return flags

    @staticmethod
    def _update(update, chosen, pool, scale, found_inf):
        if found_inf is not None and found_inf.item() != 0:
            return
        for tensor in chosen:
            assert (tensor.gradient_out is None) == (scale is None)
            tensor.step.gradient_scale = 1.0 if scale is None else scale.item()
        update.run(chosen, pool)

    def _memory(self, chosen):
        """Every storage in which one of the addresses lies; they live as long as the update."""
        wanted = {address for tensor in chosen for name, kind in native.Tensor._fields_
                  if kind is ctypes.c_void_p and (address := getattr(tensor, name))}
        found = {}
        for one in (*self.tensors(), *self.made):
            if one.layout is torch.strided and one.data_ptr() in wanted:
                found[one.data_ptr()] = one.untyped_storage()
        assert set(found) == wanted
        return list(found.values())

    def tensors(self):
        for optimizer in filter(None, [one() for one in self.optimizers]):
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    yield parameter.detach()
                    if parameter.grad is not None:
                        yield parameter.grad
            for state in optimizer.state.values():
                yield from (one for one in state.values() if isinstance(one, torch.Tensor))

    def _work(self):
        while True:
            job, done = self.jobs.get()
            job()
            done.set()

    def settle(self, used=None):
        """Runs what was issued, up to the last that uses this memory; all of it by default."""
        with self.lock:
            last = len(self.issued) if used is None else max(
                (at + 1 for at, (memory, _) in enumerate(self.issued)
                 if any(one.data_ptr() in used for one in memory)), default=0)
            now, self.issued = self.issued[:last], self.issued[last:]
            for _, job in now:
                done = threading.Event()
                self.jobs.put((job, done))
                assert done.wait(60), "an update does not end"


class Stream(TorchDispatchMode):
    """What every operator does on this device: it waits for updates of what it uses."""

    def __init__(self, place):
        super().__init__()
        self.place = place
        self.items = 0  # numbers that anybody asked the device for

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        if self.place.issued:
            used = set()
            for one in tree_flatten((arguments, keywords))[0]:
                if isinstance(one, torch.Tensor) and one.layout is torch.strided:
                    used.add(one.untyped_storage().data_ptr())
            self.place.settle(used)
        if function is torch.ops.aten._local_scalar_dense.default:
            self.items += 1
        result = function(*arguments, **(keywords or {}))
        if function._schema.name.startswith("aten::_foreach_") and function._schema.name.endswith("_"):
            increment_version(arguments[0])  # as without a mode, and as on a GPU
        if function is torch.ops.aten.empty_like.default:
            self.place.made.append(result)
        return result


@contextlib.contextmanager
def device(**options):
    place = Place(**options)
    with Stream(place) as stream:
        place.stream = stream
        yield place
        place.settle()


def replace(optimizer, place, proven=True):
    place.optimizers.append(weakref.ref(optimizer))
    return replacement.replace(optimizer, threads=1, proven=proven, places=placement.OnlyOn(place))
