#!/usr/bin/env python3
"""Programs that are no training loop of one shape, as PyTorch runs them and under Spillway
(fitting_programs.py, and for budgets that are smaller than they are larger_programs.py). For each of
a program's parts the median of the last third of its steps, the mean of all, PyTorch's peak and what
the device has of it.

With a budget that holds all of it nothing should differ but what the device has; with one that does
not, what is computed is the same."""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys

from train import end

FITTING = ("generate", "convolutions", "evaluations", "threads")
LARGER = ("weights", "frozen", "accumulated", "denoiser", "adversaries", "algebra")
PROGRAMS = FITTING + LARGER


def why(said):
    """The last line of what a program that failed has said, if not of Spillway's report."""
    report = (r"  |spillway: (process \d+: )?"
              r"(runs on |everything fit: |memory ran out: |\w+ for [\d.]+ s, stalled)")
    lines = [line for line in said.splitlines() if line.strip() and not re.match(report, line)]
    return f": {lines[-1]}" if lines else ""


def run(program, command, limit_s):
    """Its parts, by name; what Spillway said of what was moved; in what way it failed, if it did."""
    environment = dict(os.environ)
    if program in LARGER:
        environment.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # for deterministic algorithms
    try:
        process = subprocess.Popen([*command, sys.executable, __file__, "--only", program],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=environment, start_new_session=True)
    except OSError as error:
        return {}, "", str(error)
    failed = ""
    try:
        printed, said = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        end(process)
        printed, said = process.communicate()
        failed = f"did not end within {limit_s} s"
    finally:
        end(process)  # Ctrl-C does not reach its session
    if process.returncode != 0 and not failed:
        failed = f"exit status {process.returncode}{why(said)}"
    parts = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    moved = [line.removeprefix("spillway:").strip() for line in said.splitlines()
             if re.match(r"  moved|spillway: (process \d+: )?everything fit", line)]
    return {part["part"]: part for part in parts}, (moved or [""])[0], failed


def row(program, name, plain, ours):
    third = max(1, len(plain["ms"]) // 3)
    at_rest = [statistics.median(part["ms"][-third:]) for part in (plain, ours)]
    device = [f"{part['device_gib']:.1f}" if part["device_gib"] is not None else "?"
              for part in (plain, ours)]
    same = "" if plain["result"] == ours["result"] else "  DIFFERS"
    ratio = at_rest[1] / at_rest[0]
    return (f"{program:13} {name:12} {at_rest[0]:9.2f} {at_rest[1]:9.2f} {ratio:6.3f}"
            f" {statistics.mean(plain['ms']):9.2f} {statistics.mean(ours['ms']):9.2f}"
            f" {plain['peak_gib']:6.1f} {ours['peak_gib']:6.1f}"
            f" {device[0]:>7} {device[1]:>7}{same}")


def compare(program, options):
    """Plain, then under Spillway. False if one of them failed, or they computed different things."""
    plain, _, failed = run(program, [], options.limit)
    failures = [f"plain: {failed}"] if failed else []
    # Without all of its parts nobody knows how much it has in use.
    if options.percent is None or not failed:
        budget = options.device_memory
        if options.percent is not None:
            peak_gib = max(part["peak_gib"] for part in plain.values())
            budget = f"{int(peak_gib * 1024 * options.percent / 100)}MiB"
        under = [options.spillway, "run", "--device", "cuda", "--device-memory", budget,
                 "--host-memory", options.host_memory, "--"]
        ours, moved, failed = run(program, under, options.limit)
        failures += [f"spillway: {failed}"] if failed else []
        for name in [*plain, *(name for name in ours if name not in plain)]:
            if name not in ours or name not in plain:
                failures.append(f"{'plain' if name in ours else 'spillway'}: {name} is missing")
                continue
            print(row(program, name, plain[name], ours[name]), flush=True)
            if plain[name]["result"] != ours[name]["result"]:
                failures.append(f"{name} differs")
        if options.percent is not None:
            print(f"{program:13} within {budget}: {moved}", flush=True)
    for failure in failures:
        print(f"{program:13} {failure}", flush=True)
    return not failures


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spillway", default="spillway", help="the program to run them under")
    parser.add_argument("--device-memory", default="66GiB", help="66GiB if nothing is said")
    parser.add_argument("--percent", type=float, help="instead of it, of what the plain program had"
                        " in use at the highest")
    parser.add_argument("--host-memory", help="60GiB where --percent is given, else 8GiB")
    parser.add_argument("--programs", help=f"of {', '.join(PROGRAMS)}, separated by commas; without"
                        f" it the first {len(FITTING)}, or with --percent the others")
    parser.add_argument("--limit", type=float, default=120, help="seconds for one run")
    parser.add_argument("--only", choices=PROGRAMS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        run_here(options.only)
        return 0
    larger = options.percent is not None
    if larger and options.percent <= 0:
        parser.error("--percent: more than 0")
    options.host_memory = options.host_memory or ("60GiB" if larger else "8GiB")
    programs = options.programs.split(",") if options.programs else LARGER if larger else FITTING
    if unknown := [name for name in programs if name not in PROGRAMS]:
        parser.error(f"no such program: {', '.join(unknown)}; there are {', '.join(PROGRAMS)}")
    print(f"{'':26} {'ms, the last third':^26} {'ms, mean':^19} {'in use, GiB':^13}"
          f" {'device, GiB':^15}")
    print(f"{'program':13} {'part':12} {'plain':>9} {'spillway':>9} {'ratio':>6} {'plain':>9}"
          f" {'spillway':>9} {'plain':>6} {'ours':>6} {'plain':>7} {'ours':>7}", flush=True)
    same = [compare(program, options) for program in programs]
    return 0 if all(same) else 1


def run_here(program):
    """Who compares them needs no PyTorch."""
    import torch
    import fitting_programs
    import larger_programs
    torch.manual_seed(0)
    torch.backends.cuda.enable_cudnn_sdp(False)  # other bits each time, also in plain PyTorch
    if program in LARGER:
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.utils.deterministic.fill_uninitialized_memory = False
    {**fitting_programs.PROGRAMS, **larger_programs.PROGRAMS}[program]()


if __name__ == "__main__":
    sys.exit(main())
