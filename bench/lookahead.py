#!/usr/bin/env python3
"""What the queue of issued launches is worth, in the simulator.

For every trace: the fraction of the ideal time that policies reach when the host waits for each
launch, and when it runs ahead of the device; for the trace as it is, and for programs whose
iterations differ (spillway simulate --perturb). docs/policies.md has the means of its tables.

  bench/lookahead.py ../shared/traces/a100/*.json.gz
  bench/lookahead.py --perturb shapes --iterations 6 step.swt
"""
import argparse
import json
import subprocess
import sys
from pathlib import Path

# Policy and how many launches the host may be ahead.
COLUMNS = [("base_uvm", 0), ("deepum_plus", 0), ("g10", 0), ("lookahead", 16), ("lookahead", 64),
           ("lookahead", 256), ("lookahead", 1024), ("g10", 1024)]
# How iterations differ, iterations before those that are measured, and how many are.
PROGRAMS = {"none": (1, 1), "shapes": (3, 6), "evaluation": (1, 10), "alternating": (2, 6)}


def simulate(program, policies, depth, perturb, warm_up, iterations, machine, traces):
    command = [program, "simulate", "--machine", machine, "--policy", ",".join(policies),
               "--queue-depth", str(depth), "--perturb", perturb, "--warm-up", str(warm_up),
               "--iterations", str(iterations), "--json", *traces]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if ran.returncode == 2:
        sys.exit(2)
    for line in ran.stdout.splitlines():
        result = json.loads(line)
        yield Path(result["trace"]).name.split(".")[0], result["policy"], result


def measure(options, perturb):
    warm_up, iterations = PROGRAMS[perturb]
    warm_up = warm_up if options.warm_up is None else options.warm_up
    iterations = options.iterations or iterations
    results = {}
    for depth in sorted({depth for _, depth in COLUMNS}):
        policies = [policy for policy, at in COLUMNS if at == depth]
        print(f"{perturb}: queue depth {depth}: {', '.join(policies)}", file=sys.stderr)
        for trace, policy, result in simulate(options.program, policies, depth, perturb, warm_up,
                                              iterations, options.machine, options.traces):
            results[trace, policy, depth] = result
    return results


def cell(results, trace, policy, depth):
    fraction = results.get((trace, policy, depth), {}).get("fraction_of_ideal")
    return "-" if fraction is None else f"{100 * fraction:.1f}"


def table(results):
    heads = [policy if depth == 0 else f"{policy} {depth}" for policy, depth in COLUMNS]
    lines = ["| trace | " + " | ".join(heads) + " |", "| --- |" + " --- |" * len(COLUMNS)]
    for trace in sorted({trace for trace, _, _ in results}):
        cells = [cell(results, trace, policy, depth) for policy, depth in COLUMNS]
        lines.append(f"| {trace} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+", metavar="TRACE")
    parser.add_argument("--program", default="build/spillway")
    parser.add_argument("--machine", default="a100-40gb")
    parser.add_argument("--perturb", choices=[*PROGRAMS, "all"], default="all",
                        help="how iterations differ (default: all)")
    parser.add_argument("--warm-up", type=int, help="iterations before those that are measured")
    parser.add_argument("--iterations", type=int, help="iterations that are measured")
    parser.add_argument("--json", metavar="FILE", help="also write every result there, one a line")
    options = parser.parse_args()
    kinds = list(PROGRAMS) if options.perturb == "all" else [options.perturb]
    with open(options.json or "/dev/null", "w", encoding="utf-8") as file:
        for kind in kinds:
            results = measure(options, kind)
            for (_, _, depth), result in results.items():
                file.write(json.dumps({"perturb": kind, "queue_depth": depth, **result}) + "\n")
            print(f"\n### {kind}\n\n{table(results)}", flush=True)


if __name__ == "__main__":
    main()
