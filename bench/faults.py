#!/usr/bin/env python3
"""Page faults that each policy takes once it knows the program, beside base_uvm's.

Trains examples/train_gpt2.py under `spillway run` for two steps and for many; the difference is what
the steps after the second took.
"""

import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
LEARNING = 2  # steps


def arguments():
    parser = argparse.ArgumentParser(usage="%(prog)s [OPTIONS] [-- OPTIONS OF THE EXAMPLE]",
                                     description=__doc__.split("\n\n")[0],
                                     formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--percent", default="50,35", help="device memory, of what is needed")
    parser.add_argument("--policies", default="deepum,g10")
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--json", action="store_true", help="print one object")
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    options = parser.parse_args(sys.argv[1:end])
    options.rest = sys.argv[end + 1:]  # the example's
    return options


def run(options, steps, device_bytes, host_bytes, policy):
    done = subprocess.run(
        [str(pathlib.Path(options.build) / "spillway"), "run", "--json", "--device-memory",
         str(device_bytes), "--host-memory", str(host_bytes), "--policy", policy, "--",
         sys.executable, str(ROOT / "examples" / "train_gpt2.py"), "--quiet", "--steps",
         str(steps), "--text", str(ROOT / "README.md"), *options.rest],
        capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"faults: {done.stderr}")
    return json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][-1])


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
