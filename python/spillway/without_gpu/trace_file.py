"""The recorded iteration as kernel-trace/1 (docs/traces.md), with fields that only tests and
bench/without_gpu read: whatever else reads it skips them."""

import json
import os

from . import costs, target


def write(path, recorder):
    """With the times of the GPU that is stood in for, and beside it, for each of the others that were
    asked for, the same kernels with that one's: trace.json, trace-1.json, trace-2.json, ..."""
    trace = _trace(recorder)
    name, ending = os.path.splitext(path)
    for place, machine in reversed(list(enumerate((target.machine(), *target.others())))):
        for kernel, (_, work, *_) in zip(trace["kernels"], recorder.kernels):
            kernel["ms"] = costs.kernel_ns(work, machine) / 1e6
        trace["gpu"] = machine.name
        _whole(f"{name}-{place}{ending}" if place else path, trace)


def _whole(path, trace):
    """Under another name first, so that what is there is whole."""
    with open(path + ".new", "w") as file:
        json.dump(trace, file, separators=(",", ":"))
    os.replace(path + ".new", path)


def _trace(recorder):
    numbers, tensors, kernels = {}, [], []
    survivors = set(recorder.storages.living()) & recorder.living

    def number(storage):
        if storage not in numbers:
            numbers[storage] = len(tensors)
            tensor = {"bytes": storage.size, "persistent": storage in survivors}
            if storage in recorder.living:
                tensor["before"] = True  # it was there when the iteration began
            if storage.gone is not None:
                tensor["gone"] = storage.gone - recorder.first  # by the kernel of this number
            tensors.append(tensor)
        return numbers[storage]

    for name, work, reads, writes, sync in recorder.kernels:
        kernel = {"name": name, "ms": 0, "reads": [number(x) for x in reads],
                  "writes": [number(x) for x in writes], "kind": work.kind, "flops": work.flops,
                  "moved": work.moved, "backward": work.backward}
        if sync:
            kernel["sync"] = True
        kernels.append(kernel)
    return {"format": "kernel-trace/1", "model": os.environ.get("SPILLWAY_WITHOUT_GPU_MODEL", ""),
            "batch_size": 0, "gpu": "", "dtype": "", "tensors": tensors,
            "kernels": kernels, "peak_bytes": recorder.storages.peak}
