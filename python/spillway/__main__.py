"""The command `spillway`, and `python -m spillway`: this process becomes the program.

What Python has done to the process by then is undone, so that the program and what it starts find
what they would have found without Python.
"""

import os
import signal
import sys

from .program import own_program


def main():
    program = own_program()
    if program is None:
        sys.exit("spillway: the program is not here; build it (make build) or install spillway-gpu again")
    for name in ("SIGPIPE", "SIGXFSZ"):  # Python ignores them, and who ignores a signal passes that on
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    os.execv(program, ["spillway", *sys.argv[1:]])


if __name__ == "__main__":
    main()
