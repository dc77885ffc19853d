#!/usr/bin/env python3
"""What Spillway costs programs that have memory enough: alone and under `spillway run`, in turn.

Runs each program of bench/programs alone, with a budget far above what it needs (`roomy`) and with
one slightly above its peak of live bytes (`tight`). Each round runs it alone before and after: the
ratio of those two shows how much is noise. Where other programs run beside it, `cpu` is worth more
than `time`: what it ran on processors, Spillway's threads included, above all with
OMP_NUM_THREADS=1. With both budgets nothing should move, the program
should take the time that it takes alone, and be resident with what it is resident with alone.
"""

import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import training

PROGRAMS = training.ROOT / "bench" / "programs"
ROOMY = 16 << 30
MIB = 1 << 20


def arguments():
    parser = training.parser(__doc__, "%(prog)s [OPTIONS] [-- OPTIONS OF THE PROGRAMS]")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--programs", default=",".join(sorted(
        path.stem for path in PROGRAMS.glob("*.py"))))
    parser.add_argument("--policies", default="deepum")
    parser.add_argument("--tight-percent", type=int, default=105,
                        help="the tight budget, of the peak of live bytes")
    return training.parse(parser)


def run(options, program, under=None):
    """What one run took: seconds, resident and moved bytes; and what it printed."""
    command = [sys.executable, str(PROGRAMS / f"{program}.py"), *options.rest]
    if under is not None:
        command = [str(pathlib.Path(options.build) / "spillway"), "run", "--json", "-", *under, "--",
                   *command]
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)  # of the processes that it waited for as well
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read()
    took = re.search(r"^took ([0-9.]+) s$", text, re.MULTILINE)
    if process.returncode != 0 or took is None:
        sys.exit(f"fits: {program}: {text}")
    # Of a program that forks workers, the largest record is the program's own.
    records = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    record = max(records, key=lambda one: one["launches"], default=None)
    result = {"seconds": float(took[1]), "processor_s": usage.ru_utime + usage.ru_stime,
              "resident_bytes": usage.ru_maxrss * 1024,
              "printed": text[:took.start()]}
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


def measure(options, program, policy):
    alone, again, peak = [], [], 0
    under = {"roomy": [], "tight": []}
    for _ in range(options.rounds):
        alone.append(run(options, program))
        roomy = run(options, program, ["--device-memory", str(ROOMY), "--policy", policy])
        under["roomy"].append(roomy)
        peak = max(peak, roomy["peak_bytes"])
        tight = peak * options.tight_percent // 100
        under["tight"].append(run(options, program, ["--device-memory", str(tight), "--policy",
                                                     policy, "--host-memory", str(2 * peak)]))
        again.append(run(options, program))
    base_s, base_bytes = median(alone + again, "seconds"), median(alone + again, "resident_bytes")
    base_processor_s = median(alone + again, "processor_s")
    noise = median(again, "seconds") / median(alone, "seconds")
    for name, runs in under.items():
        same = all(one["printed"] == alone[0]["printed"] for one in runs)
        yield {"program": program, "policy": policy, "budget": name,
               "peak_bytes": peak, "alone_s": base_s, "alone_to_alone": noise,
               "time_of_alone": median(runs, "seconds") / base_s,
               "processor_of_alone": median(runs, "processor_s") / base_processor_s,
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
        for policy in options.policies.split(","):
            for row in measure(options, program, policy):
                rows.append(row)
                if not options.json:
                    print(f"{program:<15} {policy:<9} {row['budget']:<6} "
                          f"{row['peak_bytes'] / MIB:5.0f} {row['alone_s']:6.2f} "
                          f"{row['alone_to_alone']:6.3f} {row['time_of_alone']:6.3f} "
                          f"{row['processor_of_alone']:6.3f} "
                          f"{row['alone_resident_bytes'] / MIB:6.0f} "
                          f"{row['resident_of_alone']:8.3f} {row['in_bytes'] / MIB:6.0f} "
                          f"{row['out_bytes'] / MIB:6.0f} {row['faults']:7.0f} "
                          f"{row['write_faults']:7.0f} {100 * row['stalled']:5.1f} %"
                          f"{'' if row['same'] else '  OTHER OUTPUT'}", flush=True)
    if options.json:
        print(json.dumps({"rounds": options.rounds, "tight_percent": options.tight_percent,
                          "rows": rows}))
    sys.exit(0 if all(row["same"] for row in rows) else 1)


if __name__ == "__main__":
    main()
