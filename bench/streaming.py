#!/usr/bin/env python3
"""Streaming through an array larger than its memory: Spillway beside what the kernel offers.

Runs build/streaming_bench on plain memory, on a mapped file with as much memory as Spillway gets, on
plain memory with the kernel's swap where that is on, and on a Spillway space. Every pass is checked.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

from memory_cgroup import limited
from swap_vs_fio import size

HERE = pathlib.Path(__file__).resolve().parent
# The program itself, its tables and what it allocates beside the array.
PROGRAM_BYTES = 16 << 20


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0],
                                     formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--folder", default=tempfile.gettempdir(),
                        help="of the mapped file, and to swap to; on a disk's file system")
    parser.add_argument("--bytes", type=size, default="256MiB", help="of the array")
    parser.add_argument("--device", type=size, default="64MiB", help="Spillway's device budget")
    parser.add_argument("--host", type=size, default="0", help="Spillway's host budget")
    parser.add_argument("--storage", type=size, default="1GiB", help="Spillway's storage budget")
    parser.add_argument("--policies", default="base_uvm,deepum", help="comma-separated")
    parser.add_argument("--passes", type=int, default=1,
                        help="of each kind; the last one counts: policies that learn want two")
    parser.add_argument("--random-pages", type=int, default=512, help="that a random pass visits")
    parser.add_argument("--seed", type=int, default=1, help="of the random pages")
    parser.add_argument("--bench", default=str(HERE.parent / "build" / "streaming_bench"),
                        help="the program")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser.parse_args()


def measure(options, *more, before=None):
    command = [options.bench, "--json", f"--folder={options.folder}", f"--bytes={options.bytes}",
               f"--passes={options.passes}", f"--random-pages={options.random_pages}",
               f"--seed={options.seed}", *more]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=before)
    if done.returncode != 0:
        sys.exit(f"streaming: {' '.join(command)} ended with {done.returncode}: "
                 f"{done.stderr.strip()}")
    return json.loads(done.stdout)


def swap_is_on():
    return len(pathlib.Path("/proc/swaps").read_text().splitlines()) > 1


def measure_all(options):
    """What was measured, by name, and remarks on what was not or not as it should be."""
    sides = {"malloc": measure(options, "--memory=malloc")}
    remarks = ["malloc: all of it in memory, without a limit: what there is to lose"]
    limit_bytes = options.device + options.host + PROGRAM_BYTES
    with limited(limit_bytes) as enter:
        sides["mmap"] = measure(options, "--memory=mmap", before=enter)
        if enter:
            remarks.append(f"mmap: a mapped file in a control group of {limit_bytes >> 20} MiB")
        else:
            remarks.append("mmap: UNLIMITED PAGE CACHE, not comparable: no control group with a "
                           "memory limit can be made here")
        if not swap_is_on():
            remarks.append("kernel swap: not measured, swap is off here")
        elif not enter:
            remarks.append("kernel swap: not measured, no memory limit can be set here")
        else:
            sides["kernel swap"] = measure(options, "--memory=malloc", before=enter)
            remarks.append(f"kernel swap: malloc in a control group of {limit_bytes >> 20} MiB")
    for policy in options.policies.split(","):
        sides[policy] = measure(options, "--memory=spillway", f"--policy={policy}",
                                f"--device={options.device}", f"--host={options.host}",
                                f"--storage={options.storage}")
    remarks.append(f"{options.policies}: Spillway, {options.device >> 20} MiB device, "
                   f"{options.host >> 20} MiB host, {options.storage >> 20} MiB storage")
    return sides, remarks


def main():
    options = arguments()
    sides, remarks = measure_all(options)
    if options.json:
        print(json.dumps({"bytes": options.bytes, "passes": options.passes, "remarks": remarks,
                          "sides": sides}, indent=2))
        return
    print(f"4 KiB pages/s of pass {options.passes} over {options.bytes >> 20} MiB; "
          "all checksums as expected")
    print(f"{'pattern':10} {'access':6}" + "".join(f" {name:>12}" for name in sides))
    for rows in zip(*(side["rows"] for side in sides.values())):
        print(f"{rows[0]['pattern']:10} {rows[0]['access']:6}" +
              "".join(f" {row['pages_per_s']:12.0f}" for row in rows))
    print(f"{'peak resident MiB':17}" +
          "".join(f" {side['peak_resident_bytes'] >> 20:12}" for side in sides.values()))
    for remark in remarks:
        print(remark)


if __name__ == "__main__":
    main()
