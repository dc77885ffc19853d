#!/usr/bin/env python3
"""AdamW alone, on the processor: libspillway_near, torch's fused one, DeepSpeed's cpu_adam, and STREAM.

Parameters in single precision, in one tensor and in 500 of a transformer's shapes, the same ones with
the same threads for all, each with states of its own; rounds in which all take turns, and the median of each. An update reads 16
bytes and writes 12 for each parameter. The triad stores past the caches, and is counted as STREAM does,
three arrays; `plain` is the same sum in place. Nothing else should run: the load is in the result. For
DeepSpeed it must be importable (PYTHONPATH), with a compiler and ninja; where it is not, a line says so.
"""

import argparse
import ctypes
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests" / "python")]
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # who waits leaves the processor to who works

import torch  # noqa: E402

from near_steps import Ours  # noqa: E402
from spillway.near import native  # noqa: E402

BYTES = 28
STREAM_BYTES = 12
OPTIONS = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parameters", type=int, default=100_000_000)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=pathlib.Path, help="results as JSON, into this file")
    return parser.parse_args()


def transformer(parameters):
    """Shapes of about so many parameters in 500 tensors."""
    width = round(math.sqrt(parameters / 41 / 12) / 64) * 64
    layer = [(3 * width, width), (3 * width,), (width, width), (width,), (4 * width, width),
             (4 * width,), (width, 4 * width), (width,), (width,), (width,), (width,), (width,)]
    rest = max(parameters - 41 * sum(map(math.prod, layer)), 8 * width)
    return 41 * layer + 7 * [(width,)] + [(rest - 7 * width,)]


def triad(folder):
    library = pathlib.Path(folder) / "libnear_triad.so"
    subprocess.run(["c++", "-O3", "-std=c++17", "-shared", "-fPIC", "-pthread",
                    str(ROOT / "bench" / "near_triad.cc"), "-o", str(library)], check=True)
    function = ctypes.CDLL(str(library)).near_triad
    function.restype = None
    function.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_float, ctypes.c_size_t, ctypes.c_uint]
    return function


def deepspeed_adam(parameters):
    try:
        from deepspeed.ops.adam import DeepSpeedCPUAdam
        return DeepSpeedCPUAdam(parameters, adamw_mode=True, **OPTIONS)
    except Exception as error:  # noqa: BLE001: whatever it needs and does not find
        print(f"deepspeed: skipped: {type(error).__name__}: {str(error).splitlines()[0][:120]}")
        return None


class Case:
    """All of them over the same parameters and gradients."""

    def __init__(self, shapes, options, stream):
        parameters = [torch.nn.Parameter(torch.rand(shape)) for shape in shapes]
        for parameter in parameters:
            parameter.grad = torch.rand_like(parameter)
        self.count = sum(p.numel() for p in parameters)
        self.pool = native.Pool(options.threads)
        self.states = []
        fused = torch.optim.AdamW(parameters, fused=True, **OPTIONS)
        fused.step()
        ours = Ours("AdamW", [parameters[0][:1]], native.FUSED_CPU, self.pool, **OPTIONS)
        tensors = (native.Tensor * len(parameters))(*(
            native.in_place(ours.numbers(2, 1.0), p.numel(), p.data_ptr(), p.grad.data_ptr(),
                            *(state.data_ptr() for state in self.new_states(p)))
            for p in parameters))
        self.work = {"near": (BYTES * self.count, lambda: ours.update.run(tensors, self.pool)),
                     "torch": (BYTES * self.count, fused.step)}
        deepspeed = deepspeed_adam(parameters)
        if deepspeed is not None:
            deepspeed.step()
            self.work["deepspeed"] = (BYTES * self.count, deepspeed.step)
        # Arrays of their own: with 500 tensors the triad is the same.
        size = max(self.count // 3, 1 << 24) // 8 * 8
        arrays = [torch.rand(size + 8) for _ in range(3)]
        a, b, c = ((x.data_ptr() + 31) // 32 * 32 for x in arrays)
        self.kept = arrays
        self.work["triad"] = (STREAM_BYTES * size, lambda: stream(a, b, c, 0.5, size, options.threads))
        self.work["plain"] = (STREAM_BYTES * size, lambda: stream(a, a, c, 0.5, size, options.threads))

    def new_states(self, parameter):
        """Two, where the library likes them to lie."""
        states = [torch.empty_like(parameter) for _ in range(2)]
        for state in states:
            self.pool.zero(state.data_ptr(), 4 * state.numel())
        self.states += states
        return states

    def measure(self, rounds):
        """GB/s of each in the median round."""
        taken = {name: [] for name in self.work}
        for _ in range(rounds):
            for name, (_, run) in self.work.items():
                begin = time.perf_counter()
                run()
                taken[name].append(time.perf_counter() - begin)
        return {name: amount / statistics.median(taken[name]) / 1e9
                for name, (amount, _) in self.work.items()}


def main():
    options = arguments()
    torch.set_num_threads(options.threads)
    results = {"parameters": options.parameters, "threads": options.threads, "rounds": options.rounds,
               "torch": torch.__version__, "load": os.getloadavg()[0], "cases": {}}
    with tempfile.TemporaryDirectory() as folder:
        stream = triad(folder)
        for name, shapes in (("one tensor", [(options.parameters,)]),
                             ("500 tensors", transformer(options.parameters))):
            rates = Case(shapes, options, stream).measure(options.rounds)
            figures = {"gb_s": rates, "of_triad": rates["near"] / rates["triad"],
                       "times_torch": rates["near"] / rates["torch"]}
            if "deepspeed" in rates:
                figures["times_deepspeed"] = rates["near"] / rates["deepspeed"]
            results["cases"][name] = figures
            print(f"{name}: " + ", ".join(f"{key} {rate:.1f} GB/s" for key, rate in rates.items()))
            print(f"  {100 * figures['of_triad']:.0f} % of the triad, "
                  f"{figures['times_torch']:.2f} times torch's fused"
                  + (f", {figures['times_deepspeed']:.2f} times cpu_adam" if "deepspeed" in rates else ""))
    print(f"load {results['load']:.1f} at the beginning, {options.threads} threads")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
