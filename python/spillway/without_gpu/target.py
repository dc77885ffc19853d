"""The GPU that is stood in for: what `spillway record --without-gpu` has put into the environment."""

import dataclasses
import functools
import json
import os


@dataclasses.dataclass(frozen=True)
class Machine:
    """Rates in bytes and operations a second; capability as CUDA's compute capability."""

    name: str = "h200"
    memory_bytes: int = 139 << 30
    memory_bandwidth: float = 4.8e12
    link_bandwidth: float = 55e9
    bf16: float = 989e12
    tf32: float = 494e12
    fp32: float = 67e12
    processors: int = 132
    capability: tuple = (9, 0)


def _machine(given):
    if "capability" in given:
        given["capability"] = tuple(given["capability"])
    return Machine(**given)


@functools.cache
def machine():
    return _machine(json.loads(os.environ.get("SPILLWAY_WITHOUT_GPU_MACHINE", "{}")))


def others():
    """For which the times of the same kernels are asked as well."""
    return [_machine(given) for given in json.loads(os.environ.get("SPILLWAY_WITHOUT_GPU_OTHERS", "[]"))]
