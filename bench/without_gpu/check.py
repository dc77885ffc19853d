#!/usr/bin/env python3
"""Recorded steps of an H200 beside the same steps recorded without a GPU: a table, model by model.

`check.py --spillway build/spillway [--models gpt2,dlrm] [--keep FOLDER]`. A model of torchvision takes
torchvision.py beside this file. --keep leaves a JSON for each model, for fit_costs.py."""

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MODELS = ("gpt2", "bert-large", "llama-1b", "resnet152", "dlrm", "gpt2-xl", "inception", "vgg19",
          "regnet-y", "vit-large")
MIB = 1 << 20


def dry(spillway, model, out):
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    begin = time.monotonic()
    # kernel-trace/1 as the script leaves it, with the fields that only fit_costs.py reads.
    hook = ROOT / "python" / "spillway" / "hook"
    environment.update(PYTHONPATH=f"{hook}:{HERE}", SPILLWAY_WITHOUT_GPU=str(out), PYTORCH_JIT="0")
    done = subprocess.run([sys.executable, ROOT / "bench" / "gpu" / "train_models.py", model,
                           "--steps", "4"], env=environment, timeout=900, capture_output=True, text=True)
    if not out.exists():
        raise RuntimeError(f"{model}: {done.stderr[-500:]}")
    return json.loads(out.read_text()), time.monotonic() - begin


def recorded(spillway, model, folder):
    out = folder / f"real-{model}.json"
    subprocess.run([spillway, "trace", "convert", ROOT / "traces" / "h200" / f"{model}.swt", out],
                   check=True, timeout=120)
    return json.loads(out.read_text())


def large(trace):
    return collections.Counter(-(-tensor["bytes"] // 4096) for tensor in trace["tensors"]
                               if tensor["bytes"] >= MIB)


def peak(trace):
    first, last = {}, {}
    for place, kernel in enumerate(trace["kernels"]):
        for number in kernel["reads"] + kernel["writes"]:
            first.setdefault(number, place)
            last[number] = place
    change = collections.Counter()
    for number, tensor in enumerate(trace["tensors"]):
        if tensor["persistent"]:
            change[0] += tensor["bytes"]
        elif number in first:
            change[first[number]] += tensor["bytes"]
            change[last[number] + 1] -= tensor["bytes"]
    now = most = 0
    for place in range(len(trace["kernels"]) + 1):
        now += change[place]
        most = max(most, now)
    return most


def row(model, ours, theirs, seconds):
    missing, more = large(theirs) - large(ours), large(ours) - large(theirs)
    ms = [sum(kernel["ms"] for kernel in each["kernels"]) for each in (ours, theirs)]
    return (f"| {model} | {peak(ours) / peak(theirs):.3f} | {sum(missing.values())},"
            f" {sum(more.values())} of {sum(large(theirs).values())} |"
            f" {len(ours['kernels']) / len(theirs['kernels']):.3f} | {ms[0] / ms[1]:.2f} |"), seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spillway", default="build/spillway")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--keep", type=pathlib.Path)
    options = parser.parse_args()
    names = options.models.split(",")
    if unknown := [name for name in names if not re.fullmatch("|".join(MODELS), name)]:
        parser.error(f"no such model: {', '.join(unknown)}; there are {', '.join(MODELS)}")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        keep = options.keep or folder
        keep.mkdir(exist_ok=True)
        for model in names:
            ours, seconds = dry(options.spillway, model, keep / f"{model}.json")
            line, _ = row(model, ours, recorded(options.spillway, model, folder), seconds)
            print(f"{line} {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
