#!/usr/bin/env python3
"""What Spillway costs a program that has memory enough: examples/train_gpt2.py alone and under
`spillway run`, in turn, several rounds.

Prints the median step of each and the ratio of the medians. Each round runs it alone before and
after: the ratio of those two shows how much is noise.
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
WARM_UP = 3  # steps


def arguments():
    parser = argparse.ArgumentParser(usage="%(prog)s [OPTIONS] [-- OPTIONS OF THE EXAMPLE]",
                                     description=__doc__.split("\n\n")[0],
                                     formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--policy", default="deepum")
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--json", action="store_true", help="print one object")
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    options = parser.parse_args(sys.argv[1:end])
    options.rest = sys.argv[end + 1:]  # the example's
    return options


def step_times(prefix, options):
    done = subprocess.run(
        [*prefix, sys.executable, str(ROOT / "examples" / "train_gpt2.py"), "--steps",
         str(options.steps), "--text", str(ROOT / "README.md"), *options.rest],
        capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"fits: {done.stderr}")
    return [float(seconds) for seconds in
            re.findall(r"^step .* ([0-9.]+) s$", done.stdout, re.MULTILINE)][WARM_UP:]


def main():
    options = arguments()
    under = [str(pathlib.Path(options.build) / "spillway"), "run", "--device-memory", "8GiB",
             "--policy", options.policy, "--"]
    alone, fits, again = [], [], []
    for _ in range(options.rounds):
        alone += step_times([], options)
        fits += step_times(under, options)
        again += step_times([], options)
    base = statistics.median(alone + again)
    result = {"alone_s": base, "under_spillway_s": statistics.median(fits),
              "ratio": statistics.median(fits) / base,
              "alone_to_alone": statistics.median(again) / statistics.median(alone)}
    if options.json:
        print(json.dumps(result))
    else:
        print(f"a step takes {base:.3f} s alone and {result['under_spillway_s']:.3f} s under "
              f"Spillway with memory enough: {result['ratio']:.3f} (alone to alone: "
              f"{result['alone_to_alone']:.3f})")


if __name__ == "__main__":
    main()
