#!/usr/bin/env python3
"""Page faults that each policy takes once it knows the program, beside base_uvm's.

Trains examples/train_gpt2.py under `spillway run` for two steps and for many; the difference is what
the steps after the second took.
"""

import json
import subprocess
import sys

import training

LEARNING = 2  # steps


def arguments():
    parser = training.parser(__doc__)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--percent", default="50,35", help="device memory, of what is needed")
    parser.add_argument("--policies", default="deepum,g10")
    return training.parse(parser)


def run(options, steps, device_bytes, host_bytes, policy):
    under = ["--json", "-", "--device-memory", str(device_bytes), "--host-memory", str(host_bytes),
             "--policy", policy]
    done = subprocess.run(
        training.train_gpt2(options, "--quiet", "--steps", str(steps), under=under),
        capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"faults: {done.stderr}")
    return training.last_object(done.stdout)


def main():
    options = arguments()
    peak = run(options, LEARNING, 16 << 30, 16 << 20, "base_uvm")["peak_bytes"]
    rows = []
    for percent in map(int, options.percent.split(",")):
        base = None
        for policy in ["base_uvm", *options.policies.split(",")]:
            records = [run(options, steps, peak * percent // 100, peak, policy)
                       for steps in (LEARNING, options.steps)]
            later = options.steps - LEARNING

            def a_step(value):
                return (value(records[1]) - value(records[0])) / later

            faults = a_step(lambda record: record["page_faults"])
            base = faults if base is None else base
            if base == 0:
                sys.exit("faults: base_uvm takes none: the model is too small for its budget")
            rows.append({"percent": percent, "policy": policy, "faults_a_step": faults,
                         "of_base_uvm": faults / base,
                         "write_faults_a_step": a_step(lambda record: record["write_faults"]),
                         "in_bytes_a_step": a_step(
                             lambda record: record["moved_bytes"]["host_to_device"])})
            if not options.json:
                row = rows[-1]
                print(f"{percent:>3} % {policy:<12} {faults:7.1f} page faults a step after the "
                      f"second ({100 * row['of_base_uvm']:5.2f} %), "
                      f"{row['write_faults_a_step']:6.1f} first writes, "
                      f"{row['in_bytes_a_step'] / 2**20:5.0f} MiB in", flush=True)
    if options.json:
        print(json.dumps({"peak_bytes": peak, "steps": options.steps, "rows": rows}))


if __name__ == "__main__":
    main()
