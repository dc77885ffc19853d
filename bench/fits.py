#!/usr/bin/env python3
"""What Spillway costs a program that has memory enough: examples/train_gpt2.py alone and under
`spillway run`, in turn, several rounds.

Prints the median step of each and the ratio of the medians. Each round runs it alone before and
after: the ratio of those two shows how much is noise.
"""

import json
import re
import statistics
import subprocess
import sys

import training

WARM_UP = 3  # steps


def arguments():
    parser = training.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--policy", default="deepum")
    return training.parse(parser)


def step_times(options, under=None):
    done = subprocess.run(training.train_gpt2(options, "--steps", str(options.steps), under=under),
                          capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"fits: {done.stderr}")
    return [float(seconds) for seconds in
            re.findall(r"^step .* ([0-9.]+) s$", done.stdout, re.MULTILINE)][WARM_UP:]


def main():
    options = arguments()
    under = ["--device-memory", "8GiB", "--policy", options.policy]
    alone, fits, again = [], [], []
    for _ in range(options.rounds):
        alone += step_times(options)
        fits += step_times(options, under)
        again += step_times(options)
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
