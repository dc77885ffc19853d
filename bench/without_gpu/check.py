#!/usr/bin/env python3
"""Recorded steps of an H200 beside the same steps recorded without a GPU: docs/results.md's table.

`check.py --spillway build/spillway [--models gpt2,dlrm] [--keep FOLDER]`. A model of torchvision takes
torchvision.py beside this file. --keep leaves a JSON for each model, for fit_costs.py, and --reuse takes
what is there already. What others.py has left in that folder stands in the last three columns.

Columns, as ratios to the recording: peak; allocations of 1 MiB and more (missing, too many, of how many);
kernels; time of the step; the
same under `lookahead` in half of the recorded peak, both simulated; MemTracker's peak, RuntimeEstimator's
time and vram-check's total."""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MODELS = ("gpt2", "bert-large", "llama-1b", "resnet152", "dlrm", "gpt2-xl", "inception", "vgg19",
          "regnet-y", "vit-large", "frozen", "weights")
OTHER_PROGRAMS = ("frozen", "weights")  # bench/gpu/other_programs.py's
# The recorded one is the eighth token of a text; other programs are recorded after two iterations.
WARM_UP = {"weights": "7"}
AS_RUN = ("--as-run", "--queue-depth", "300", "--warm-up", "4", "--iterations", "4", "--set",
          "host.capacity=64GiB", "--machine", "h200", "--policy", "lookahead", "--json")
MIB = 1 << 20


def dry(model, out):
    """kernel-trace/1 as the script leaves it, with the fields that only fit_costs.py reads."""
    begin = time.monotonic()
    hook = ROOT / "python" / "spillway" / "hook"
    environment = {**os.environ, "PYTHONPATH": f"{hook}:{HERE}", "SPILLWAY_WITHOUT_GPU": str(out),
                   "SPILLWAY_CAPTURE_WARM_UP": WARM_UP.get(model, "2"), "PYTORCH_JIT": "0"}
    command = (["other_programs.py", "--only", model] if model in OTHER_PROGRAMS
               else ["train_models.py", model, "--steps", "4"])
    done = subprocess.run([sys.executable, ROOT / "bench" / "gpu" / command[0], *command[1:]],
                          env=environment, timeout=900, capture_output=True, text=True)
    if not out.exists():
        raise RuntimeError(f"{model}: {done.stderr[-500:]}")
    return json.loads(out.read_text()), time.monotonic() - begin


def recorded(spillway, model, folder):
    out = folder / f"real-{model}.json"
    subprocess.run([spillway, "trace", "convert", ROOT / "traces" / "h200" / f"{model}.swt", out],
                   check=True, timeout=120)
    return json.loads(out.read_text())


def large(trace):
    """How many allocations there are of each size in pages."""
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


def half_ms(spillway, trace, budget_mib, folder):
    """A step under lookahead, simulated; None where a launch uses more than there is."""
    trace = {**trace, "tensors": [{**tensor, "bytes": -(-tensor["bytes"] // 4096) * 4096}
                                  for tensor in trace["tensors"]]}
    path = folder / "half.json"
    path.write_text(json.dumps(trace))
    done = subprocess.run([spillway, "simulate", *AS_RUN, "--set", f"device.capacity={budget_mib}MiB", path],
                          timeout=300, capture_output=True, text=True)
    return 1e3 * json.loads(done.stdout)["iteration_s"] if done.returncode == 0 else None


def compared(spillway, ours, theirs, folder):
    """The table's figures, as they are printed."""
    missing, more = large(theirs) - large(ours), large(ours) - large(theirs)
    ms = [sum(kernel["ms"] for kernel in each["kernels"]) for each in (ours, theirs)]
    budget_mib = peak(theirs) // 2 // MIB
    half = [half_ms(spillway, each, budget_mib, folder) for each in (ours, theirs)]
    return [f"{peak(ours) / peak(theirs):.3f}",
            f"{sum(missing.values())}, {sum(more.values())} of {sum(large(theirs).values())}",
            f"{len(ours['kernels']) / len(theirs['kernels']):.3f}", f"{ms[0] / ms[1]:.2f}",
            f"{half[0] / half[1]:.2f}" if None not in half else "too little"]


def others(file, theirs):
    """What others.py has left there."""
    said = json.loads(file.read_text()) if file.exists() else {}
    ms = sum(kernel["ms"] for kernel in theirs["kernels"])
    return [f"{said[name] / real:{form}}" if name in said else "fails" if failed in said else "-"
            for name, failed, real, form in (
                ("peak_bytes", "peak_failed", peak(theirs), ".3f"), ("ms", "ms_failed", ms, ".2f"),
                ("static_bytes", "", peak(theirs), ".1f"))]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spillway", default="build/spillway")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--reuse", action="store_true", help="what --keep left")
    options = parser.parse_args()
    names = options.models.split(",")
    if unknown := [name for name in names if name not in MODELS]:
        parser.error(f"no such model: {', '.join(unknown)}; there are {', '.join(MODELS)}")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        keep = options.keep or folder
        keep.mkdir(exist_ok=True)
        for model in names:
            out = keep / f"{model}.json"
            if options.reuse and out.exists():
                ours, took = json.loads(out.read_text()), ""
            else:
                ours, seconds = dry(model, out)
                took = f" {seconds:.0f} s"
            theirs = recorded(options.spillway, model, folder)
            figures = compared(options.spillway, ours, theirs, folder)
            figures += others(keep / f"{model}.others.json", theirs)
            print(f"| {model} | {' | '.join(figures)} |{took}", flush=True)


if __name__ == "__main__":
    main()
