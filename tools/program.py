#!/usr/bin/env python3
"""Which `spillway` the tests and benchmarks on a GPU run: what SPILLWAY_PROGRAM names; else the wheel's,
where this Python has it installed; else build/spillway.

program.py            prints its path
program.py --to-build exit status 0 if it is the last of these, which `make build` makes
"""

import importlib.metadata
import os
import pathlib
import sys

BUILT = pathlib.Path(__file__).resolve().parent.parent / "build" / "spillway"


def program():
    named = os.environ.get("SPILLWAY_PROGRAM")
    if named:
        return named
    try:
        installed = importlib.metadata.distribution("spillway-gpu")
    except importlib.metadata.PackageNotFoundError:
        return str(BUILT)
    return str(installed.locate_file("spillway/bin/spillway"))


if __name__ == "__main__":
    if sys.argv[1:] == ["--to-build"]:
        sys.exit(program() != str(BUILT))
    print(program())
