"""How long a kernel takes on the GPU that is stood in for.

The larger of its operations at the peak of their data type and its bytes at the device's bandwidth,
each with the efficiency of its kind, and what every kernel takes at least. Where autograd's C++ does
not issue the kernels, the host is slower than a small kernel: such a kernel lasts until the next one
comes, as it does in a recording. bench/fit_costs.py fits the numbers of costs.json to recorded traces.
"""

import functools
import json
import pathlib

from . import target


@functools.cache
def parameters():
    return json.loads((pathlib.Path(__file__).parent / "costs.json").read_text())


def _peak(dtype):
    machine = target.machine()
    return {"half": machine.bf16, "tf32": machine.tf32, "fp32": machine.fp32}[dtype]


@functools.cache
def _kind(kind):
    known = parameters()["kinds"]
    return known.get(kind) or known["elementwise"]


def kernel_ns(kind, flops, moved_bytes, dtype, in_backward):
    """`dtype`: half, tf32 or fp32, of the operations. At least 1."""
    known = _kind(kind)
    machine = target.machine()
    seconds = 0.0
    if kind in ("copy_in", "copy_out"):
        seconds = moved_bytes / (machine.link_bandwidth * known["bytes"])
    elif moved_bytes:
        seconds = moved_bytes / (machine.memory_bandwidth * known["bytes"])
    if flops:
        seconds = max(seconds, flops / (_peak(dtype) * known.get("flops", 0.5)))
    least = parameters()["least_ns"]["backward" if in_backward else "forward"]
    return max(1, round(max(1e9 * seconds + known.get("extra_ns", 2000), least)))
