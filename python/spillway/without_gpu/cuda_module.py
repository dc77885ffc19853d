"""torch.cuda for scripts: one device, the machine's; streams and events that order nothing."""

import contextlib
import types

import torch

from . import says, target
from .device import CUDA

_UNITS = {"total_memory": "memory_bytes", "multi_processor_count": "processors"}


class Stream:
    def __init__(self, device=None, priority=0, **kwargs):
        self.device, self.cuda_stream, self.priority = CUDA, 0, priority
        self.device_index, self.stream_id = 0, 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def wait_stream(self, stream):
        pass

    def wait_event(self, event):
        pass

    def synchronize(self):
        pass

    def query(self):
        return True

    def record_event(self, event=None):
        event = event or Event()
        event.record()
        return event


class Event:
    """Tells the time of the cost model."""

    clock_ns = staticmethod(lambda: 0)

    def __init__(self, enable_timing=False, **kwargs):
        self.at_ns = 0

    def record(self, stream=None):
        self.at_ns = self.clock_ns()

    def wait(self, stream=None):
        pass

    def synchronize(self):
        pass

    def query(self):
        return True

    def elapsed_time(self, end):
        return max((end.at_ns - self.at_ns) / 1e6, 1e-3)


class _Graph:
    def __init__(self, *_, **__):
        says.end("{place}: CUDA graphs are not recorded without a GPU; record the script without them")


def _properties(machine):
    return types.SimpleNamespace(
        name=machine.name, major=machine.capability[0], minor=machine.capability[1],
        total_memory=machine.memory_bytes, multi_processor_count=machine.processors, warp_size=32,
        max_threads_per_multi_processor=2048, is_integrated=False, is_multi_gpu_board=False,
        gcnArchName="", L2_cache_size=50 << 20, regs_per_multiprocessor=65536,
        shared_memory_per_block=49152, shared_memory_per_block_optin=232448, uuid="", pci_bus_id=0)


def _statistics(recorder):
    def peak(device=None):
        return recorder.storages.peak

    def now(device=None):
        return recorder.storages.bytes

    def reset(device=None):
        recorder.storages.peak = recorder.storages.bytes

    def statistics(device=None):
        return {"allocated_bytes.all.current": now(), "allocated_bytes.all.peak": peak(),
                "reserved_bytes.all.current": now(), "reserved_bytes.all.peak": peak(),
                "num_alloc_retries": 0, "num_ooms": 0, "active_bytes.all.current": now(),
                "active_bytes.all.peak": peak()}

    machine = target.machine()
    return {"memory_allocated": now, "max_memory_allocated": peak, "memory_reserved": now,
            "max_memory_reserved": peak, "reset_peak_memory_stats": reset, "memory_cached": now,
            "reset_max_memory_allocated": reset, "memory_stats": statistics,
            "memory_summary": lambda *_, **__: "no memory summary without a GPU",
            "mem_get_info": lambda device=None: (machine.memory_bytes - now(), machine.memory_bytes),
            "memory_snapshot": lambda *_, **__: []}


def start(recorder):
    machine = target.machine()
    cuda = torch.cuda
    stream = Stream()
    Event.clock_ns = staticmethod(lambda: recorder.clock_ns)
    nothing = lambda *_, **__: None  # noqa: E731
    properties = _properties(machine)

    @contextlib.contextmanager
    def same(*_, **__):
        yield

    class device(contextlib.nullcontext):  # noqa: N801, PyTorch's name
        def __init__(self, *_):
            super().__init__()

    replaced = {
        "is_available": lambda: True, "device_count": lambda: 1, "current_device": lambda: 0,
        "is_initialized": lambda: True, "init": nothing, "_lazy_init": nothing,
        "synchronize": lambda device=None: recorder.synchronizes(), "empty_cache": nothing,
        "ipc_collect": nothing, "set_device": nothing, "manual_seed": nothing,
        "manual_seed_all": nothing, "seed": nothing, "seed_all": nothing,
        "get_rng_state": lambda device=None: torch.zeros(16, dtype=torch.uint8, device="cpu"),
        "set_rng_state": nothing, "initial_seed": lambda: 0,
        "get_rng_state_all": lambda: [torch.zeros(16, dtype=torch.uint8, device="cpu")],
        "set_rng_state_all": nothing, "set_per_process_memory_fraction": nothing,
        "get_device_name": lambda device=None: machine.name,
        "get_device_capability": lambda device=None: machine.capability,
        "get_device_properties": lambda device=None: properties,
        "get_arch_list": lambda: ["sm_%d%d" % machine.capability],
        "is_bf16_supported": lambda *_, **__: machine.capability >= (8, 0),
        "Stream": Stream, "Event": Event, "CUDAGraph": _Graph, "graph": _Graph,
        "current_stream": lambda device=None: stream, "default_stream": lambda device=None: stream,
        "set_stream": nothing, "stream": same, "StreamContext": same, "device": device,
        "device_of": device, "can_device_access_peer": lambda *_: False, "utilization": lambda *_: 0,
        "is_current_stream_capturing": lambda: False, **_statistics(recorder)}
    for name, value in replaced.items():
        setattr(cuda, name, value)
        for module in (cuda.memory, cuda.random, cuda.streams):
            if hasattr(module, name):
                setattr(module, name, value)
    cuda.nvtx.range_push = cuda.nvtx.range_pop = cuda.nvtx.mark = nothing
    torch.version.cuda = torch.version.cuda or "13.0"
    torch.backends.cuda.is_built = lambda: True
    torch.backends.cudnn.is_available = lambda: True
    torch.backends.cudnn.version = lambda: 91000
    torch.backends.cudnn.is_acceptable = lambda tensor: False
