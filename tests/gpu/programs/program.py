"""What the programs of this folder share. Each is plain Python that knows nothing of Spillway:
`python3 FILE.py NAME [ARGUMENTS]` runs one function and prints what it returns as a JSON object on
its last line, or fails."""

import faulthandler
import hashlib
import json
import os
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
import torch  # noqa: E402

MIB, GIB = 1 << 20, 1 << 30


class Others:
    """Memory that wants to be on the device as well, and knows what is in it."""

    def __init__(self, mib, each_mib=32):
        self.tensors = [torch.full((each_mib * MIB // 4,), float(i), device="cuda")
                        for i in range(mib // each_mib)]

    def touch(self):
        """Whatever else there is must make way for these, one after the other."""
        for tensor in self.tensors:
            tensor.add_(1.0)
            tensor.sub_(1.0)

    def wrong(self):
        return sum(0 if bool((tensor == float(i)).all()) else 1
                   for i, tensor in enumerate(self.tensors))


def digest(value):
    """Of tensors' bytes, and of whatever holds them."""
    whole = hashlib.sha256()

    def add(part):
        if isinstance(part, torch.Tensor):
            if part.is_sparse:
                part = part.coalesce().to_dense()
            elif part.layout != torch.strided:
                part = part.to_dense()
            whole.update(f"{part.dtype} {tuple(part.shape)}".encode())
            flat = part.detach().contiguous().cpu().reshape(-1)
            whole.update(flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b"")
        elif isinstance(part, dict):
            for key in sorted(part):
                whole.update(str(key).encode())
                add(part[key])
        elif isinstance(part, (list, tuple)):
            for each in part:
                add(each)
        else:
            whole.update(repr(part).encode())

    add(value)
    return whole.hexdigest()[:16]


def main(functions):
    faulthandler.enable()
    if seconds := os.environ.get("SPILLWAY_TEST_STACKS_AFTER"):
        faulthandler.dump_traceback_later(float(seconds))
    print(json.dumps(functions[sys.argv[1]](*sys.argv[2:])), flush=True)
