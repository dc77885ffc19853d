"""How long a kernel takes on the GPU that is stood in for.

The larger of its operations at the peak of their data type and its bytes at the device's bandwidth,
each with the efficiency of its kind, and what every kernel takes at least. Where autograd's C++ does
not issue the kernels, the host is slower than a small kernel: such a kernel lasts until the next one
comes, as it does in a recording. bench/fit_costs.py fits the numbers of costs.json to recorded traces.
"""

import functools
import json
import pathlib
import typing


@functools.cache
def parameters():
    return json.loads((pathlib.Path(__file__).parent / "costs.json").read_text())


class Work(typing.NamedTuple):
    """What a kernel does, on any GPU. `dtype`: half, tf32 or fp32, of the operations."""

    kind: str
    flops: int
    moved: int  # bytes
    dtype: str
    backward: bool


def _peak(machine, dtype):
    return {"half": machine.bf16, "tf32": machine.tf32, "fp32": machine.fp32}[dtype]


@functools.cache
def _kind(kind):
    known = parameters()["kinds"]
    return known.get(kind) or known["elementwise"]


def kernel_ns(work, machine):
    """At least 1."""
    known = _kind(work.kind)
    seconds = 0.0
    if work.kind in ("copy_in", "copy_out"):
        seconds = work.moved / (machine.link_bandwidth * known["bytes"])
    elif work.moved:
        seconds = work.moved / (machine.memory_bandwidth * known["bytes"])
    if work.flops:
        seconds = max(seconds, work.flops / (_peak(machine, work.dtype) * known.get("flops", 0.5)))
    least = parameters()["least_ns"]["backward" if work.backward else "forward"]
    return max(1, round(max(1e9 * seconds + known.get("extra_ns", 2000), least)))
