#!/usr/bin/env python3
"""Training on the host with a swap file: updates next to their states beside PyTorch's own, by turns.

Trains examples/train_gpt2.py under `spillway run --near-optimizer off` and `on`. The device has --percent
of the peak of live bytes, host memory --host-percent, and the rest lies in a swap file. Each turn runs
both, one turn `off` first, the next `on`. Prints for each policy how many times as fast `on` is, with the
range over the turns, and what a step took and moved. Ends with status 1 if a loss differs in a bit.
"""

import json
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile

import training

WARM_UP = 3  # steps: the policies learn
WAYS = ("off", "on")


def arguments():
    made = training.parser(__doc__)
    made.add_argument("--policies", default="deepum,g10")
    made.add_argument("--percent", type=int, default=35, help="device memory, of the peak")
    made.add_argument("--host-percent", type=int, default=35, help="host memory, of the peak")
    made.add_argument("--swap", default="/var/tmp", metavar="FOLDER", help="where the swap file lies")
    made.add_argument("--steps", type=int, default=8)
    made.add_argument("--turns", type=int, default=3)
    made.add_argument("--limit-s", type=float, default=600, help="the longest that one run may take")
    return training.parse(made)


def processor_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(options, steps, *under):
    """A run's record, with "step_s", "losses" and "processor_s", the last of the whole run."""
    with tempfile.TemporaryDirectory() as folder:
        losses, record = pathlib.Path(folder) / "losses", pathlib.Path(folder) / "record"
        command = training.train_gpt2(options, "--steps", str(steps), "--losses", str(losses),
                                      under=["--device", "host", "--json", str(record), *under])
        before = processor_s()
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=options.limit_s,
                                  check=False)
        except subprocess.TimeoutExpired:
            sys.exit(f"near_host: not ended after {options.limit_s:.0f} s (--limit-s): {' '.join(command)}")
        if done.returncode != 0:
            sys.exit(f"near_host: {done.stderr}")
        made = json.loads(record.read_text())
        times = [float(one) for one in re.findall(r"^step .* ([0-9.]+) s$", done.stdout, re.MULTILINE)]
        made.update(step_s=statistics.median(times[WARM_UP:] or times), losses=losses.read_text().split(),
                    processor_s=processor_s() - before)
    return made


def by_turns(options, policy, budgets):
    """The runs, by way."""
    runs = {way: [] for way in WAYS}
    for turn in range(options.turns):
        for way in WAYS if turn % 2 == 0 else reversed(WAYS):
            made = run(options, options.steps, "--policy", policy, "--near-optimizer", way, *budgets)
            runs[way].append(made)
            print(f"{policy}, turn {turn + 1} of {options.turns}, {way}: {made['step_s']:.2f} s a step",
                  file=sys.stderr, flush=True)
    return runs


def row(policy, way, runs, steps):
    def a_step(value):
        return statistics.median(value(one) for one in runs) / steps

    return {"policy": policy, "near_optimizer": way,
            "step_s": statistics.median(one["step_s"] for one in runs),
            "processor_s": a_step(lambda one: one["processor_s"]),
            **{key: a_step(lambda one, key=key: one[key]) for key in ("stalled_s", "page_faults", "updates")},
            "moved_bytes": {link: a_step(lambda one, link=link: one["moved_bytes"][link])
                            for link in runs[0]["moved_bytes"]}}


def measure(options):
    first = run(options, WARM_UP, "--policy", "base_uvm", "--device-memory", "16GiB")
    peak = first["peak_bytes"]
    budgets = ["--device-memory", str(peak * options.percent // 100),
               "--host-memory", str(peak * options.host_percent // 100),
               "--storage", f"{options.swap}:{2 * peak}"]
    rows, losses, ratios, loads = [], set(), {}, [os.getloadavg()[0]]
    for policy in options.policies.split(","):
        runs = by_turns(options, policy, budgets)
        loads.append(os.getloadavg()[0])
        losses |= {tuple(one["losses"]) for many in runs.values() for one in many}
        ratios[policy] = sorted(off["step_s"] / on["step_s"] for off, on in zip(runs["off"], runs["on"]))
        rows += [row(policy, way, runs[way], options.steps) for way in WAYS]
    same = len(losses) == 1 and all(one[:WARM_UP] == tuple(first["losses"]) for one in losses)
    return {"peak_bytes": peak, "percent": options.percent, "host_percent": options.host_percent,
            "turns": options.turns, "loads": loads, "same_losses": same, "times_as_fast": ratios,
            "rows": rows}


def show(found):
    print(f"{found['peak_bytes'] / 2**20:.0f} MiB, {found['percent']} % of it on the device and "
          f"{found['host_percent']} % in host memory; "
          f"losses {'are the same' if found['same_losses'] else 'DIFFER'}; "
          f"load {min(found['loads']):.1f} to {max(found['loads']):.1f}")
    for policy, ratios in found["times_as_fast"].items():
        print(f"{policy}: on is {statistics.median(ratios):.3f} times as fast as off "
              f"({ratios[0]:.3f} to {ratios[-1]:.3f})")
    for one in found["rows"]:
        moved = ", ".join(f"{link} {count / 2**20:.0f} MiB"
                          for link, count in one["moved_bytes"].items() if count)
        print(f"  {one['policy']:8} {one['near_optimizer']:3} {one['step_s']:6.2f} s a step, "
              f"processor {one['processor_s']:6.2f} s, stalled {one['stalled_s']:5.2f} s, "
              f"{one['page_faults']:.0f} faults, {one['updates']:.0f} updates; {moved}")


def main():
    options = arguments()
    found = measure(options)
    if options.json:
        print(json.dumps(found))
    else:
        show(found)
    return 0 if found["same_losses"] else 1


if __name__ == "__main__":
    sys.exit(main())
