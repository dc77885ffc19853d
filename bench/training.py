"""How the benchmarks run the examples: their options, their commands, what they print."""

import argparse
import json
import os
import pathlib
import sys

# What is measured are programs without hooks in them; no benchmark reads names of modules.
os.environ.setdefault("SPILLWAY_MODULE_NAMES", "0")

ROOT = pathlib.Path(__file__).resolve().parents[1]
TEXT = str(ROOT / "README.md")


def parser(document, usage="%(prog)s [OPTIONS] [-- OPTIONS OF THE EXAMPLE]"):
    """With the options that all of them have; document: the benchmark's own."""
    made = argparse.ArgumentParser(usage=usage, description=document.split("\n\n")[0],
                                   formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    made.add_argument("--build", default=str(ROOT / "build"))
    made.add_argument("--json", action="store_true", help="print one object")
    return made


def parse(made):
    """What stands behind `--` is the example's, and comes as `rest`."""
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    options = made.parse_args(sys.argv[1:end])
    options.rest = sys.argv[end + 1:]
    return options


def train_gpt2(options, *more, under=None):
    """The command; under: the options of `spillway run`, or None for without it."""
    prefix = [] if under is None else [str(pathlib.Path(options.build) / "spillway"), "run", *under,
                                       "--"]
    return [*prefix, sys.executable, str(ROOT / "examples" / "train_gpt2.py"), "--text", TEXT,
            *more, *options.rest]


def gpt(options, *more):
    """The command."""
    return [str(pathlib.Path(options.build) / "examples" / "gpt" / "gpt"), "--json", "--text", TEXT,
            *more, *options.rest]


def last_object(output):
    """The JSON object that a program printed last; {} if none."""
    objects = [line for line in output.splitlines() if line.startswith("{")]
    return json.loads(objects[-1]) if objects else {}
