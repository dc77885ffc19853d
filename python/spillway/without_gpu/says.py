"""Lines for people, with the place in the script that they are about."""

import os
import sys

_OWN = os.path.dirname(os.path.abspath(__file__))
_said = set()


def place():
    """File and line of the innermost frame that is not PyTorch's, a library's or this package's."""
    frame = sys._getframe(1)
    outermost = None
    while frame is not None:
        name = frame.f_code.co_filename
        library = (name.startswith(_OWN) or "site-packages" in name or "dist-packages" in name
                   or name.startswith("<") or name.startswith(os.path.dirname(os.__file__)))
        if not library:
            return f"{os.path.relpath(name)}:{frame.f_lineno}"
        outermost = frame
        frame = frame.f_back
    return f"{outermost.f_code.co_filename}:{outermost.f_lineno}"


def say(line):
    print(f"spillway: {line}", file=sys.stderr, flush=True)


def once(about, line):
    """Each warning of a kind once; `line` may have {place}."""
    if about not in _said:
        _said.add(about)
        say(line.replace("{place}", place()))


def end(line, status=2):
    """Ends the program, nothing of which runs any more."""
    say(line.replace("{place}", place()))
    sys.stdout.flush()
    os._exit(status)
