#!/usr/bin/env python3
"""How much of the migration hides behind the computation, on examples/gpt.

Trains with half of the memory that the model needs under each policy, behind a link that is
throttled so that the migrations of that policy in an iteration take half as long as the
computation (--link-of NAME: all behind the link for NAME, to compare policies); and beside it

  unlimited     without Spillway
  fits          under Spillway, with memory enough
  with copying  without Spillway, while another process copies as many bytes as g10 moves: what
                migrating costs the processors and their memory, hidden or not

All of it in turn, several rounds; medians. A policy hides its migrations where its time is that of
`with copying`. With --swap, host memory is small and the rest goes to a swap file; times then stand
beside max(computation, bytes to and from the disk at the rates that fio measures there).
"""

import ctypes
import json
import multiprocessing
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import training
from swap_vs_fio import fio_rates

BLOCK = 2 << 20
FIO_BYTES = 512 << 20
FIO_DEPTH = 8
WARM_UP = 3  # steps: the policies learn


def arguments():
    parser = training.parser(__doc__, usage=None)
    parser.add_argument("--policies", default="base_uvm,deepum,g10")
    parser.add_argument("--percent", type=int, default=50, help="device memory, of what is needed")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--link-of", metavar="POLICY",
                        help="one link for all, such that this policy's migrations take half as "
                             "long as the computation (default: each policy's own)")
    parser.add_argument("--swap", metavar="FOLDER", help="put what leaves into a swap file there")
    parser.add_argument("--cores", type=int, default=os.cpu_count(),
                        help="processors over which the cost of migrating is spread")
    parser.add_argument("--model", default="--layers 8 --width 512 --heads 8 --context 256 "
                                           "--batch 4", help="options of the example")
    options = parser.parse_args()
    options.rest = options.model.split()
    return options


def copy_for_ever(bytes_per_s):
    """Blocks from one place to another, no faster than that."""
    span = 128 * BLOCK
    source, target = ctypes.create_string_buffer(span), ctypes.create_string_buffer(span)
    begin, copied = time.monotonic(), 0
    while True:
        at = copied % span
        ctypes.memmove(ctypes.byref(target, at), ctypes.byref(source, at), BLOCK)
        copied += BLOCK
        time.sleep(max(0, begin + copied / bytes_per_s - time.monotonic()))


class Gpt:
    def __init__(self, options):
        self.options = options

    def run(self, *tiers):
        done = subprocess.run(
            training.gpt(self.options, "--steps", str(self.options.steps), *tiers),
            capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"overlap: {done.stderr}")
        made = json.loads(done.stdout)
        steps = made["steps"][WARM_UP:]
        made["step_s"] = statistics.median(step["seconds"] for step in steps)
        made["stalled_s"] = statistics.median(step["stalled_seconds"] for step in steps)
        made["losses"] = [step["loss"] for step in made["steps"]]
        return made

    def run_beside_copying(self, bytes_per_s):
        load = multiprocessing.Process(target=copy_for_ever, args=(bytes_per_s,), daemon=True)
        load.start()
        try:
            return self.run("--unlimited")
        finally:
            load.terminate()


def processor_s(made):
    """Processor seconds of Spillway's threads in a step."""
    return made["statistics"]["processor_ns"] / 1e9 / len(made["steps"])


def moved(made, *ways):
    return sum(made["statistics"][way + "_bytes"] for way in ways) / len(made["steps"])


def main():
    options = arguments()
    gpt = Gpt(options)
    first = gpt.run("--unlimited")
    peak = first["peak_bytes"]
    device = ["--device-memory", str(peak * options.percent // 100)]
    below = ["--host-memory", str(peak)]
    if options.swap:
        below = ["--host-memory", str(32 << 20), "--storage", f"{options.swap}:{2 * peak}"]
    policies = options.policies.split(",")
    # Whose bytes set the link; none is throttled that has a swap file.
    link_of = {} if options.swap else {policy: options.link_of or policy for policy in policies}
    ways = {}  # bytes a step in and out, by policy
    for policy in {"g10", *link_of.values()}:
        probe = gpt.run(*device, "--host-memory", str(peak), "--policy", policy)
        ways[policy] = moved(probe, "host_to_device"), moved(probe, "device_to_host")
    links = {policy: max(ways[other]) / (first["step_s"] / 2) for policy, other in link_of.items()}

    names = ["unlimited", "fits", "with copying", *policies]
    runs = {name: [] for name in names}
    for number in range(options.rounds):
        for name in names:
            if name == "unlimited":
                made = gpt.run("--unlimited")
            elif name == "fits":
                made = gpt.run("--device-memory", str(2 * peak))
            elif name == "with copying":
                made = gpt.run_beside_copying(sum(ways["g10"]) / first["step_s"])
            else:
                throttle = ["--link-bandwidth", str(int(links[name]))] if name in links else []
                made = gpt.run(*device, *below, *throttle, "--policy", name)
            if made["losses"] != first["losses"]:
                sys.exit(f"overlap: the losses under {name} are others; a defect of Spillway")
            runs[name].append(made)
            if sys.stderr.isatty():
                print(f"\r\033[Kround {number + 1} of {options.rounds}: {name}", end="",
                      file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)

    def median(name, value):
        return statistics.median(value(made) for made in runs[name])

    base = median("unlimited", lambda made: made["step_s"])
    loaded = median("with copying", lambda made: made["step_s"])
    rates = None
    if options.swap:
        with tempfile.TemporaryDirectory(dir=options.swap) as folder:
            rates = fio_rates(pathlib.Path(folder), FIO_BYTES, FIO_DEPTH)
    rows = []
    for name in names:
        row = {"run": name, "step_s": median(name, lambda made: made["step_s"])}
        row["of_unlimited"] = row["step_s"] / base
        row["of_with_copying"] = row["step_s"] / loaded
        if name in policies:
            row["link_bytes_per_s"] = links.get(name)
            row["processor_s"] = median(name, processor_s)
            cost = row["processor_s"] / options.cores
            row["of_unlimited_and_cost"] = row["step_s"] / (base + cost)
            row["stalled_s"] = median(name, lambda made: made["stalled_s"])
            row["in_bytes"] = median(
                name, lambda made: moved(made, "host_to_device", "storage_to_device"))
            row["out_bytes"] = median(name, lambda made: moved(
                made, "device_to_host", "device_to_storage"))
            if rates:
                disk_s = median(name, lambda made: (
                    moved(made, "storage_to_device") / rates["read"] +
                    moved(made, "device_to_storage", "host_to_storage") / rates["write"]))
                row["disk_s"] = disk_s
                row["of_bound"] = row["step_s"] / max(base, disk_s)
        rows.append(row)
    result = {"peak_bytes": peak, "percent": options.percent, "rounds": options.rounds,
              "fio_bytes_per_s": rates, "rows": rows}
    if options.json:
        print(json.dumps(result))
        return
    print(f"{peak / 2**20:.0f} MiB, {options.percent} % of it on the device" + (
        f"; disk reads {rates['read'] / 1e6:.0f} MB/s, writes {rates['write'] / 1e6:.0f} MB/s (fio)"
        if rates else ""))
    print(f"{'run':<14}{'step':>9}{'of unlimited':>14}{'of with copying':>17}{'processor':>11}"
          f"{'of both':>9}{'stalled':>9}{'in':>10}{'out':>10}" +
          (f"{'disk':>9}{'of bound':>10}" if rates else f"{'link each way':>15}"))
    for row in rows:
        line = f"{row['run']:<14}{row['step_s']:>7.3f} s{row['of_unlimited']:>14.3f}" \
               f"{row['of_with_copying']:>17.3f}"
        if "stalled_s" in row:
            line += f"{row['processor_s']:>9.3f} s{row['of_unlimited_and_cost']:>9.3f}" \
                    f"{row['stalled_s']:>7.3f} s{row['in_bytes'] / 2**20:>6.0f} MiB" \
                    f"{row['out_bytes'] / 2**20:>6.0f} MiB"
        if row.get("link_bytes_per_s"):
            line += f"{row['link_bytes_per_s'] / 1e6:>10.0f} MB/s"
        if "disk_s" in row:
            line += f"{row['disk_s']:>7.3f} s{row['of_bound']:>10.3f}"
        print(line)


if __name__ == "__main__":
    main()
