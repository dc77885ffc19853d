"""What the programs of other_programs.py say of their parts: a JSON object a line."""

import hashlib
import json
import subprocess
import time

import torch

GIB = 1 << 30


def device_gib():
    """As the driver tells of all processes; None without nvidia-smi."""
    command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
        return int(told.stdout.split()[0]) / 1024
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return None


def timed(step, count):
    ms = []
    for i in range(count):
        begin = time.monotonic()
        step(i)
        torch.cuda.synchronize()
        ms.append(1e3 * (time.monotonic() - begin))
    return ms


def tell(part, ms, result=""):
    print(json.dumps({"part": part, "ms": ms, "result": result, "device_gib": device_gib(),
                      "peak_gib": torch.cuda.max_memory_allocated() / GIB}), flush=True)


def digest(*tensors):
    """Of their bits."""
    told = hashlib.sha256()
    for tensor in tensors:
        told.update(tensor.detach().contiguous().cpu().view(torch.uint8).numpy().tobytes())
    return told.hexdigest()[:8]
