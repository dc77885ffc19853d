"""The recorded iteration as kernel-trace/1 (docs/traces.md), with fields that only tests and
bench/without_gpu read: whatever else reads it skips them."""

import json
import os

from . import costs, target


# Those that go by rows of a table, of kinds that others have as well.
_BY_ROWS = {"gather": {"embedding", "index_select", "index", "_unsafe_index", "_embedding_bag",
                       "_embedding_bag_forward_only", "_embedding_bag_sparse_backward"},
            "scatter": {"add_", "index_add_", "_index_put_impl_", "index_put_", "index_put"}}


def write(path, recorder):
    """With the times of the GPU that is stood in for, and beside it, for each of the others that were
    asked for, the same kernels with that one's: trace.json, trace-1.json, trace-2.json, ..."""
    trace = _trace(recorder)
    name, ending = os.path.splitext(path)
    for place, machine in reversed(list(enumerate((target.machine(), *target.others())))):
        for kernel, (operator, work, *_) in zip(trace["kernels"], recorder.kernels):
            kernel["name"] = operator + _family(operator, work, kernel["reads"], machine)
            kernel["ms"] = costs.kernel_ns(work, machine) / 1e6
        trace["gpu"] = machine.name
        _whole(f"{name}-{place}{ending}" if place else path, trace)


def _family(operator, work, reads, machine):
    """By what `spillway run` would know the GPU's kernel: it recomputes results of some, and leaves
    tables in host memory that others use a little of (src/platform/sim/remakes.h,
    src/platform/common/sparse_kernels.h). It knows cuBLAS's products in half precision from Hopper on."""
    if work.kind in ("elementwise", "cast") and reads and operator != "aten::native_dropout":
        return " (pointwise)"
    if work.kind.startswith("gemm") and (work.dtype != "half" or machine.capability >= (9, 0)):
        return " (product)"
    return " (rows)" if operator.removeprefix("aten::") in _BY_ROWS.get(work.kind, ()) else ""


def _whole(path, trace):
    """Under another name first, so that what is there is whole."""
    with open(path + ".new", "w") as file:
        json.dump(trace, file, separators=(",", ":"))
    os.replace(path + ".new", path)


def _trace(recorder):
    numbers, tensors, kernels = {}, [], []
    end = recorder.first + len(recorder.kernels)
    survivors = {storage for storage in recorder.living if storage.gone is None or storage.gone > end}

    def number(storage):
        if storage not in numbers:
            numbers[storage] = len(tensors)
            tensor = {"bytes": storage.size, "persistent": storage in survivors}
            if storage in recorder.living:
                tensor["before"] = True  # it was there when the iteration began
            if storage.scratch:
                tensor["scratch"] = True
            if storage.gone is not None and storage.gone <= end:
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
