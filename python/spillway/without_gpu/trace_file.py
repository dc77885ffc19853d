"""The recorded iteration as kernel-trace/1 (docs/traces.md), with fields that only tests and
bench/without_gpu read: whatever else reads it skips them."""

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
            tensor = {"bytes": storage.size, "persistent": storage in survivors}
            if storage in recorder.living:
                tensor["before"] = True  # it was there when the iteration began
            if storage.gone is not None:
                tensor["gone"] = storage.gone - recorder.first  # by the kernel of this number
            tensors.append(tensor)
        return numbers[storage]

    for name, kind, ns, reads, writes, sync, flops, moved, backward in recorder.kernels:
        kernel = {"name": name, "ms": ns / 1e6, "reads": [number(x) for x in reads],
                  "writes": [number(x) for x in writes], "kind": kind, "flops": flops, "moved": moved,
                  "backward": backward}
        if sync:
            kernel["sync"] = True
        kernels.append(kernel)
    trace = {"format": "kernel-trace/1", "model": os.environ.get("SPILLWAY_WITHOUT_GPU_MODEL", ""),
             "batch_size": 0, "gpu": target.machine().name, "dtype": "", "tensors": tensors,
             "kernels": kernels, "peak_bytes": recorder.storages.peak}
    with open(path + ".new", "w") as file:
        json.dump(trace, file, separators=(",", ":"))
    os.replace(path + ".new", path)
