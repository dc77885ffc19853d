#!/usr/bin/env python3
"""What other tools say of the models of bench/gpu/train_models.py, as JSON for check.py's table.

`others.py gpt2,dlrm --out FOLDER` (pip install torch==2.13.0 vram-check==0.1.1): FOLDER/MODEL.others.json.

- PyTorch's MemTracker and RuntimeEstimator (torch.distributed._tools) on a training step under
  FakeTensorMode. They know no `cuda` without one, so the same step is made for `cpu`, with its autocast.
  RuntimeEstimator
  asks for a GPU, and is told an H200's rates: 989 TFLOPS of bfloat16, 67 of float32, 4,800 GB/s.
- vram-check, which counts parameters.

What cannot be had is said under `failed`."""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import types
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LIMIT_S = 600


def models():
    """train_models.py for the CPU; what it wants of torchvision, as beside this file."""
    text = (ROOT / "bench" / "gpu" / "train_models.py").read_text()
    text = re.sub(r"\.cuda\(\)", "", text.replace('"cuda"', '"cpu"'))
    module = types.ModuleType("train_models")
    exec(compile(text, "train_models.py", "exec"), module.__dict__)
    return module


def to(module, *args, **kwargs):
    """nn.Module.to, which cannot exchange fake parameters (PyTorch 2.13: "Couldn't swap Conv2d.weight")."""
    for tensor in (*module.parameters(), *module.buffers()):
        # channels_last, which is asked for here, is for tensors of four dimensions
        if tensor.dim() == 4 or "memory_format" not in kwargs:
            tensor.data = tensor.data.to(*args, **kwargs)
    return module


def rate(dtype):
    import torch
    return 989.0 if dtype in (torch.bfloat16, torch.float16) else 67.0


def of_pytorch(name):
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.mem_tracker import MemTracker
    from torch.distributed._tools.runtime_estimator import RuntimeEstimator

    found = {}
    torch.nn.Module.to = to
    with FakeTensorMode(allow_non_fake_inputs=True):
        task = models().MODELS[name]()

        def step():
            loss = task.loss(0)
            loss.backward()
            task.optimizer.step()
            task.optimizer.zero_grad(set_to_none=True)

        begin = time.monotonic()
        try:
            tracker = MemTracker()
            tracker.track_external(task.model, task.optimizer)
            with tracker:
                step()  # makes the optimizer's states
                tracker.reset_mod_stats()
                step()
            found["peak_bytes"] = tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"]
        except Exception as error:
            found["peak_failed"] = f"{type(error).__name__}: {error}"[:200]
        found["peak_s"] = time.monotonic() - begin
        begin = time.monotonic()
        try:
            estimator = RuntimeEstimator()
            with mock.patch("torch.cuda.is_available", lambda: True), \
                    mock.patch("torch.utils._runtime_estimation.get_device_tflops", rate), \
                    mock.patch("torch.utils._runtime_estimation.get_gpu_dram_gbps", lambda: 4800.0), \
                    estimator(estimate_mode_type="operator-level-cost-model"):
                step()
            found["ms"] = estimator.total_runtime
        except Exception as error:
            found["ms_failed"] = f"{type(error).__name__}: {error}"[:200]
        found["ms_s"] = time.monotonic() - begin
        parameters = sum(parameter.numel() for parameter in task.model.parameters())
        optimizer = "sgd" if isinstance(task.optimizer, torch.optim.SGD) else "adamw"
        batch = task.batch
    try:
        import vram_check
        found["static_bytes"] = vram_check.estimate(parameters, batch_size=batch, dtype="fp32",
                                                    optimizer=optimizer).total_bytes
    except ImportError:
        pass
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    names = options.models.split(",")
    if len(names) == 1:
        found = of_pytorch(names[0])
        (options.out / f"{names[0]}.others.json").write_text(json.dumps(found))
        print(names[0], found, flush=True)
        return
    options.out.mkdir(exist_ok=True)
    for name in names:
        try:
            subprocess.run([sys.executable, __file__, name, "--out", options.out], timeout=LIMIT_S,
                           env={**os.environ, "PYTHONPATH": os.pathsep.join(
                               [str(HERE), os.environ.get("PYTHONPATH", "")])})
        except subprocess.TimeoutExpired:
            print(f"{name}: not ended in {LIMIT_S} s", flush=True)


if __name__ == "__main__":
    main()
