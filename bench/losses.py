#!/usr/bin/env python3
"""The losses of the examples under every policy and budget: are they the same bits?

Trains examples/train_gpt2.py (under `spillway run`) or examples/gpt (over the C API) without
Spillway, then under each policy with device memory of each percentage of what the program needs,
with as much host memory as it needs and a swap file. Compares the losses of all steps, bit for bit.
Options behind `--` go to the example, e.g. `losses.py train_gpt2 -- --layers 2 --width 256`.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import training

POLICIES = "ideal,base_uvm,deepum,deepum_plus,flashneuron,g10_gds,g10_host,g10"
SMALLEST = 16 << 20


def arguments():
    parser = training.parser(__doc__, "%(prog)s [OPTIONS] EXAMPLE [-- ITS OPTIONS]")
    parser.add_argument("example", choices=["train_gpt2", "gpt"])
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--percent", default="100,70,50,35,20", help="of what the example needs")
    parser.add_argument("--policies", default=POLICIES)
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="where to swap to")
    return training.parse(parser)


class Example:
    """How to run one of the two, and how to find out how much memory it needs."""

    def __init__(self, options, folder):
        self.options, self.losses = options, pathlib.Path(folder) / "losses"

    def run(self, tiers):
        """tiers: the options of Spillway, or None for without. Returns losses, seconds, JSON."""
        steps = ["--steps", str(self.options.steps), "--losses", str(self.losses)]
        if self.options.example == "gpt":
            command = training.gpt(self.options, *steps,
                                   *(["--unlimited"] if tiers is None else tiers))
        else:
            command = training.train_gpt2(self.options, "--quiet", *steps,
                                          under=None if tiers is None else ["--json", "-", *tiers])
        self.losses.unlink(missing_ok=True)
        begin = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True)
        seconds = time.monotonic() - begin
        if done.returncode != 0:
            return None, seconds, {"error": " ".join(done.stderr.split())}
        return self.losses.read_text(), seconds, training.last_object(done.stdout)

    def peak_bytes(self):
        if self.options.example == "gpt":
            return self.run(None)[2]["peak_bytes"]
        return self.run(["--device-memory", "16GiB"])[2]["peak_bytes"]


def main():
    options = arguments()
    with tempfile.TemporaryDirectory() as folder:
        example = Example(options, folder)
        alone, alone_s, _ = example.run(None)
        if alone is None:
            sys.exit("losses: the example does not run by itself")
        peak = example.peak_bytes()
        rows = []
        for policy in options.policies.split(","):
            for percent in map(int, options.percent.split(",")):
                budget = max(peak * percent // 100, SMALLEST)
                losses, seconds, record = example.run(
                    ["--device-memory", str(budget), "--host-memory", str(peak), "--storage",
                     f"{options.folder}:{3 * peak}", "--policy", policy])
                outcome = ("failed: " + record["error"] if losses is None else
                           "same" if losses == alone else "DIFFERENT")
                rows.append({"policy": policy, "percent": percent, "outcome": outcome,
                             "seconds": seconds, "of_alone": seconds / alone_s,
                             "plan_error": record.get("plan", {}).get("error", "")})
                if not options.json:
                    print(f"{policy:<12} {percent:>4} %  {seconds:7.1f} s  "
                          f"{seconds / alone_s:5.2f} of alone  {outcome}  "
                          f"{rows[-1]['plan_error']}", flush=True)
    bad = [row for row in rows if row["outcome"] != "same"]
    summary = {"example": options.example, "steps": options.steps, "peak_bytes": peak,
               "alone_s": alone_s, "runs": len(rows), "same": len(rows) - len(bad),
               "median_of_alone": statistics.median(row["of_alone"] for row in rows)}
    if options.json:
        print(json.dumps({**summary, "rows": rows}))
    else:
        print(f"{summary['same']} of {len(rows)} runs of {options.steps} steps have the same "
              f"losses as without Spillway; it needs {peak / 2**20:.0f} MiB, alone {alone_s:.1f} s")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
