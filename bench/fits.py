#!/usr/bin/env python3
"""What Spillway costs programs that have memory enough, or too little, beside the same alone.

Runs each program of bench/programs, and examples/train_gpt2.py, alone, with a budget far above what
it needs (`roomy`) and with parts of its peak of live bytes (`--percent`). Each round runs it alone
before and after: the ratio of those two shows how much is noise. With six rounds and more the median
of the rounds' ratios lies, 95 times in 100, in the range that is printed under it: only a range that
ends below 1.02 says "within 2 %". Where other programs run beside it, `cpu` is worth more than
`time`: what it ran on processors, Spillway's threads included, above all with OMP_NUM_THREADS=1. With 105 % and more nothing should move, the program should take the time
that it takes alone, and be resident with what it is resident with alone.
"""

import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import training

PROGRAMS = training.ROOT / "bench" / "programs"
ROOMY = 16 << 30
MIB = 1 << 20


def arguments():
    parser = training.parser(__doc__, "%(prog)s [OPTIONS] [-- OPTIONS OF THE PROGRAMS]")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--programs", default=",".join(sorted(
        path.stem for path in PROGRAMS.glob("*.py"))), help="train_gpt2 is the example")
    parser.add_argument("--policies", default="deepum")
    parser.add_argument("--percent", default="105",
                        help="budgets beside the roomy one, of the peak of live bytes")
    return training.parse(parser)


def command_of(options, program, output):
    if program == "train_gpt2":  # which says nothing but its losses
        return training.train_gpt2(options, "--quiet", "--losses", str(output), "--steps", "8")
    return [sys.executable, str(PROGRAMS / f"{program}.py"), *options.rest]


def run(options, program, under=None):
    """What one run took: seconds, resident and moved bytes; and what it printed."""
    with tempfile.TemporaryDirectory() as folder:
        file, printed = pathlib.Path(folder) / "record", pathlib.Path(folder) / "output"
        command = command_of(options, program, printed)
        if under is not None:
            command = [str(pathlib.Path(options.build) / "spillway"), "run", "--json", str(file),
                       *under, "--", *command]
        with open(printed, "a+", encoding="utf-8") as output:
            begin_s = time.monotonic()
            process = subprocess.Popen(command, stdout=output, stderr=output)
            _, status, usage = os.wait4(process.pid, 0)  # of the processes it waited for as well
            whole_s = time.monotonic() - begin_s
            process.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            text = output.read()
        records = [json.loads(line) for line in file.read_text().splitlines()] if under else []
    if process.returncode != 0 or not text:
        sys.exit(f"fits: {program}: {text}")
    took = re.search(r"^took ([0-9.]+) s$", text, re.MULTILINE)
    # Of a program that forks workers, the largest record is the program's own.
    record = max(records, key=lambda one: one["launches"], default=None)
    result = {"seconds": float(took[1]) if took else whole_s,
              "processor_s": usage.ru_utime + usage.ru_stime,
              "resident_bytes": usage.ru_maxrss * 1024,
              "printed": text[:took.start()] if took else text}
    if record is not None:
        moved = record["moved_bytes"]
        result |= {"in_bytes": moved["host_to_device"] + moved["storage_to_device"],
                   "out_bytes": moved["device_to_host"] + moved["device_to_storage"],
                   "peak_bytes": record["peak_bytes"], "faults": record["page_faults"],
                   "write_faults": record["write_faults"],
                   "stalled": record["stalled_s"] / record["elapsed_s"]}
    return result


def median(runs, key):
    return statistics.median(one[key] for one in runs)


def ratios(runs, alone, again, key):
    """Of each round's run to the mean of what was run alone around it."""
    return [one[key] / statistics.mean((before[key], after[key]))
            for one, before, after in zip(runs, alone, again)]


def median_range(values):
    """Where the median of what they are a sample of lies, 95 times in 100; None with too few. It is
    outside of the k-th smallest and greatest as often as a coin shows heads fewer than k times."""
    count = len(values)
    outside, k = 0.0, 0
    while outside + 2 * math.comb(count, k) / 2**count <= 0.05:
        outside += 2 * math.comb(count, k) / 2**count
        k += 1
    return (sorted(values)[k - 1], sorted(values)[-k]) if k else None


def measure(options, program):
    """All of its rows: the runs alone are the same ones for every policy."""
    percents = [int(percent) for percent in options.percent.split(",")]
    alone, again, peak = [], [], 0
    under = {}
    for _ in range(options.rounds):
        alone.append(run(options, program))
        for policy in options.policies.split(","):
            roomy = run(options, program, ["--device-memory", str(ROOMY), "--policy", policy])
            under.setdefault((policy, "roomy"), []).append(roomy)
            peak = max(peak, roomy["peak_bytes"])
            for percent in percents:
                under.setdefault((policy, f"{percent} %"), []).append(run(
                    options, program, ["--device-memory", str(peak * percent // 100), "--policy",
                                       policy, "--host-memory", str(2 * peak)]))
        again.append(run(options, program))
    base_s, base_bytes = median(alone + again, "seconds"), median(alone + again, "resident_bytes")
    noise = median(again, "seconds") / median(alone, "seconds")
    for (policy, name), runs in under.items():
        same = all(one["printed"] == alone[0]["printed"] for one in runs)
        times = ratios(runs, alone, again, "seconds")
        processor_times = ratios(runs, alone, again, "processor_s")
        yield {"program": program, "policy": policy, "budget": name,
               "peak_bytes": peak, "alone_s": base_s, "alone_to_alone": noise,
               "time_of_alone": statistics.median(times),
               "processor_of_alone": statistics.median(processor_times),
               "time_range": median_range(times),
               "processor_range": median_range(processor_times),
               "alone_resident_bytes": base_bytes,
               "resident_of_alone": median(runs, "resident_bytes") / base_bytes,
               "in_bytes": max(one["in_bytes"] for one in runs),
               "out_bytes": max(one["out_bytes"] for one in runs),
               "faults": median(runs, "faults"), "write_faults": median(runs, "write_faults"),
               "stalled": median(runs, "stalled"), "same": same}


def main():
    options = arguments()
    rows = []
    if not options.json:
        print(f"{'program':<15} {'policy':<9} {'budget':<6} {'peak':>5} {'alone':>6} {'again':>6} "
              f"{'time':>6} {'cpu':>6} {'alone':>6} {'resident':>8} {'in':>6} {'out':>6} "
              f"{'faults':>7} {'writes':>7} {'stalled':>7}")
        print(f"{'':<32} {'MiB':>5} {'s':>6} {'':>20} {'MiB':>6} {'':>8} {'MiB':>6} {'MiB':>6}")
    for program in options.programs.split(","):
        for row in measure(options, program):
            rows.append(row)
            if not options.json:
                print(f"{program:<15} {row['policy']:<9} {row['budget']:<6} "
                      f"{row['peak_bytes'] / MIB:5.0f} {row['alone_s']:6.2f} "
                      f"{row['alone_to_alone']:6.3f} {row['time_of_alone']:6.3f} "
                      f"{row['processor_of_alone']:6.3f} "
                      f"{row['alone_resident_bytes'] / MIB:6.0f} "
                      f"{row['resident_of_alone']:8.3f} {row['in_bytes'] / MIB:6.0f} "
                      f"{row['out_bytes'] / MIB:6.0f} {row['faults']:7.0f} "
                      f"{row['write_faults']:7.0f} {100 * row['stalled']:5.1f} %"
                      f"{'' if row['same'] else '  OTHER OUTPUT'}", flush=True)
                if row["time_range"]:
                    said = [f"{name} {low:.3f} to {high:.3f}" for name, (low, high) in
                            (("time", row["time_range"]), ("cpu", row["processor_range"]))]
                    print(f"{'':<15} {', '.join(said)}", flush=True)
    if options.json:
        print(json.dumps({"rounds": options.rounds, "percent": options.percent, "rows": rows}))
    sys.exit(0 if all(row["same"] for row in rows) else 1)


if __name__ == "__main__":
    main()
