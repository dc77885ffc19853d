#!/usr/bin/env python3
"""The swap path beside fio: blocks of 2 MiB written to a new file and read back in order.

Runs fio and build/swap_bench in turn on the same folder with the same block size, queue depth and
O_DIRECT, and prints medians and their ratios. The goal is at least 85 % of fio's rate.
"""

import argparse
import json
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
BLOCK_BYTES = 2 << 20
GOAL = 0.85
WAYS = ("write", "read")
# Of swap_bench's JSON: path, and which of its rates.
PATHS = {
    "BlockIo": ("block_io", "io_bytes_per_s"),
    "platform, file busy": ("platform", "io_bytes_per_s"),
    "platform, wall": ("platform", "wall_bytes_per_s"),
}


def size(text):
    match = re.fullmatch(r"(\d+)\s*([KMGT]?)(i?B)?", text.strip(), re.IGNORECASE)
    if not match:
        raise argparse.ArgumentTypeError(f"'{text}' is no size; write e.g. 512MiB")
    return int(match[1]) << (10 * " KMGT".index(match[2].upper() or " "))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0],
                                     formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--folder", default=tempfile.gettempdir(),
                        help="where the files are made; on a disk's file system")
    parser.add_argument("--bytes", type=size, default="512MiB", help="what is written and read")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each side")
    parser.add_argument("--depth", type=int, default=8, help="requests under way")
    parser.add_argument("--device", type=size, default="32MiB", help="the platform's device budget")
    parser.add_argument("--bench", default=str(HERE.parent / "build" / "swap_bench"),
                        help="the program")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    if options.rounds < 1 or options.bytes < BLOCK_BYTES:
        parser.error(f"--rounds must be at least 1, --bytes at least {BLOCK_BYTES}")
    return options


def output_of(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"swap_vs_fio: {command[0]} ended with {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def fio_rates(folder, total_bytes, depth):
    """Bytes per second of each way. The file is new, as the swap file is, and sparse at first."""
    file = folder / "fio"
    rates = {}
    for way in WAYS:
        report = output_of([
            "fio", "--name=spillway", f"--filename={file}", f"--rw={way}", f"--bs={BLOCK_BYTES}",
            f"--size={total_bytes // BLOCK_BYTES * BLOCK_BYTES}", f"--iodepth={depth}",
            "--direct=1", "--ioengine=io_uring", "--fallocate=none", "--output-format=json"])
        rates[way] = report["jobs"][0][way]["bw_bytes"]
    file.unlink()
    return rates


def fio_side(options, folder):
    return {"fio": fio_rates(folder, options.bytes, options.depth)}


def bench_rates(options, _folder):
    """Bytes per second of each path and way."""
    (report,) = output_of([options.bench, f"--folder={options.folder}", "--json", "--rounds=1",
                           f"--bytes={options.bytes}", f"--depth={options.depth}",
                           f"--device={options.device}"])
    return {side: {way: report[path][way][rate] for way in WAYS}
            for side, (path, rate) in PATHS.items()}


def measure(options):
    """Rates by side and way, one number a round. Who goes first alternates: the first to write
    shares the disk with the removal of the other's file."""
    rates = {side: {way: [] for way in WAYS} for side in ("fio", *PATHS)}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for turn in range(options.rounds):
            both = [fio_side, bench_rates]
            for measure_side in both if turn % 2 == 0 else reversed(both):
                for side, by_way in measure_side(options, pathlib.Path(folder)).items():
                    for way in WAYS:
                        rates[side][way].append(by_way[way])
    return rates


def main():
    options = arguments()
    if shutil.which("fio") is None:
        sys.exit("swap_vs_fio: there is no fio; on Debian: apt-get install fio")
    rates = measure(options)
    rows = []
    for way in WAYS:
        beside = statistics.median(rates["fio"][way])
        for side in rates:
            sample = rates[side][way]
            median = statistics.median(sample)
            rows.append({"way": way, "side": side, "median_bytes_per_s": median,
                         "least_bytes_per_s": min(sample), "most_bytes_per_s": max(sample),
                         "ratio": median / beside})
    if options.json:
        print(json.dumps({"bytes": options.bytes, "rounds": options.rounds, "depth": options.depth,
                          "goal": GOAL, "rows": rows, "rates": rates}, indent=2))
        return
    print(f"{'way':5} {'side':20} {'median MB/s':>12} {'least':>8} {'most':>8} {'of fio':>7}")
    for row in rows:
        print(f"{row['way']:5} {row['side']:20} {row['median_bytes_per_s'] / 1e6:12.0f} "
              f"{row['least_bytes_per_s'] / 1e6:8.0f} {row['most_bytes_per_s'] / 1e6:8.0f} "
              f"{row['ratio']:7.0%}")
    print(f"of fio: of the medians of {options.rounds} rounds; the goal is at least {GOAL:.0%}")


if __name__ == "__main__":
    main()
