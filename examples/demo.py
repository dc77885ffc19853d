#!/usr/bin/env python3
"""The main job: a training script that does not fit, under Spillway.

Trains the GPT-2 of train_gpt2.py a few steps as it is, then with about a third of the memory that it
needs for tensors and a swap file, under one policy after the other. The script is not changed. Prints
a table, checks that the losses are the same to the last bit, and leaves a report of each run.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0],
                                     formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--spillway", default=str(HERE.parent / "build" / "spillway"),
                        help="the program")
    parser.add_argument("--percent", type=int, default=35,
                        help="device memory, in percent of what the script needs")
    parser.add_argument("--steps", type=int, default=6, help="training steps of each run")
    parser.add_argument("--policies", default="base_uvm,deepum,g10", help="comma-separated")
    parser.add_argument("--storage", default=tempfile.gettempdir(), help="folder to swap to")
    parser.add_argument("--reports", default=str(HERE.parent / "build" / "demo"),
                        help="folder for the reports")
    return parser.parse_args()


class Run:
    """One training: its losses, the times of its steps, and Spillway's record if there is one."""

    def __init__(self, name, options, under=None):
        """under: options of `spillway run`; None: without it."""
        with tempfile.TemporaryDirectory() as folder:
            losses, record = pathlib.Path(folder) / "losses", pathlib.Path(folder) / "record"
            prefix = [] if under is None else [options.spillway, "run", "--json", str(record),
                                               *under, "--"]
            command = [*prefix, sys.executable, str(HERE / "train_gpt2.py"),
                       "--steps", str(options.steps), "--losses", str(losses)]
            self.name, self.times = name, []
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                for line in process.stdout:
                    self.take(line, options.steps)
            if process.returncode != 0:
                sys.exit(f"demo: {' '.join(command)}: exit status {process.returncode}")
            self.losses = losses.read_text()
            self.record = None if under is None else json.loads(record.read_text())

    def take(self, line, steps):
        if step := re.match(r"step +(\d+) .* ([0-9.]+) s", line):
            self.times.append(float(step[2]))
            if sys.stderr.isatty():
                print(f"\r\033[K{self.name}: step {step[1]} of {steps}", end="", file=sys.stderr,
                      flush=True)

    def step_s(self):
        """The median step, without the first two: there policies learn."""
        times = sorted(self.times[2:] or self.times)
        return times[len(times) // 2]


def size(count):
    return f"{count / 2**30:.2f} GiB"


def main():
    options = arguments()
    if not os.path.exists(options.spillway):
        sys.exit(f"demo: {options.spillway} is not there; `make build` builds it")
    reports = pathlib.Path(options.reports)
    reports.mkdir(parents=True, exist_ok=True)

    alone = Run("alone", options)
    # With all the memory that it wants, to know how much that is.
    whole = Run("unlimited", options, ["--device-memory", "8GiB"])
    budget = whole.record["peak_bytes"] * options.percent // 100
    host = max(budget, 64 << 20)
    runs = [whole]
    for policy in options.policies.split(","):
        runs.append(Run(policy, options, [
            "--device-memory", str(budget), "--host-memory", str(host),
            "--storage", f"{options.storage}:4GiB", "--policy", policy,
            "--report", str(reports / f"{policy}.html")]))
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)

    print(f"needs {size(whole.record['peak_bytes'])} for tensors; has {size(budget)} of device "
          f"memory, {size(host)} of host memory and a swap file\n")
    heads = ["run", "step", "of alone", "page faults", "stalled", "in", "out", "losses"]
    rows = [["alone", f"{alone.step_s():.2f} s", "100 %", "", "", "", "", ""]]
    for run in runs:
        moved = run.record["moved_bytes"]
        rows.append([run.name, f"{run.step_s():.2f} s", f"{100 * run.step_s() / alone.step_s():.0f} %",
                     str(run.record["page_faults"]), f"{run.record['stalled_s']:.1f} s",
                     size(moved["host_to_device"] + moved["storage_to_device"]),
                     size(moved["device_to_host"] + moved["device_to_storage"]),
                     "same bits" if run.losses == alone.losses else "DIFFERENT"])
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    for row in [heads, *rows]:
        print("  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                        for i, (cell, width) in enumerate(zip(row, widths))))
    print(f"\nreports: {', '.join(str(path) for path in sorted(reports.glob('*.html')))}")
    if any(run.losses != alone.losses for run in runs):
        sys.exit("demo: losses differ; this is a defect of Spillway")


if __name__ == "__main__":
    main()
