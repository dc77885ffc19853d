"""Where the program `spillway` is, for whoever starts it from Python."""

import os
import shutil
from pathlib import Path

# From this folder: a wheel, a source tree, an installation by cmake.
_BESIDE = ("bin/spillway", "../../build/spillway", "../../bin/spillway")


def own_program():
    """The path of the one that belongs to this package; None if there is none."""
    folder = Path(__file__).resolve().parent
    for beside in _BESIDE:
        path = (folder / beside).resolve()
        if path.is_file() and os.access(path, os.X_OK):
            return str(path)
    return None


def find_program():
    """That, or the one in PATH."""
    return own_program() or shutil.which("spillway")
