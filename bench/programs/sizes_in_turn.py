#!/usr/bin/env python3
"""Allocates, fills and frees arrays of ten sizes in turn, as programs with buffers of their own do."""

import argparse
import time

import numpy

MIB = 1 << 20


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--allocations", type=int, default=1000)
    parser.add_argument("--smallest-kib", type=int, default=1536)
    parser.add_argument("--step-kib", type=int, default=1024)
    options = parser.parse_args()
    begin = time.monotonic()
    total = 0
    for turn in range(options.allocations):
        bytes_wanted = (options.smallest_kib + turn % 10 * options.step_kib) << 10
        array = numpy.empty(bytes_wanted // 8, dtype=numpy.int64)
        array.fill(turn)
        total += int(array[turn % len(array)]) + int(array[-1])
        del array
    print(f"sum {total}")
    print(f"took {time.monotonic() - begin:.3f} s")


if __name__ == "__main__":
    main()
