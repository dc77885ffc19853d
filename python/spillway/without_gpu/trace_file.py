"""The recorded iteration as kernel-trace/1 (docs/traces.md)."""

import json
import os

from . import target


def write(path, recorder):
    """Under another name first, so that what is there is whole."""
    numbers, tensors, kernels = {}, [], []
    survivors = set(recorder.storages.living()) & recorder.living

    def number(storage):
        if storage not in numbers:
            numbers[storage] = len(tensors)
            tensors.append({"bytes": storage.size, "persistent": storage in survivors})
        return numbers[storage]

    for name, kind, ns, reads, writes, sync, flops, moved in recorder.kernels:
        kernel = {"name": name, "ms": ns / 1e6, "reads": [number(x) for x in reads],
                  "writes": [number(x) for x in writes], "kind": kind, "flops": flops, "moved": moved}
        if sync:
            kernel["sync"] = True
        kernels.append(kernel)
    trace = {"format": "kernel-trace/1", "model": os.environ.get("SPILLWAY_WITHOUT_GPU_MODEL", ""),
             "batch_size": 0, "gpu": target.machine().name, "dtype": "", "tensors": tensors,
             "kernels": kernels, "peak_bytes": recorder.storages.peak}
    with open(path + ".new", "w") as file:
        json.dump(trace, file, separators=(",", ":"))
    os.replace(path + ".new", path)
