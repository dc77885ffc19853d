"""The line that `spillway run` draws in a terminal: a screen of a few rows, on which a program writes.

Needs the built program (build/, or the folder that SPILLWAY_BUILD names) and userfaultfd.
"""

import contextlib
import fcntl
import os
import pathlib
import pty
import re
import struct
import sys
import termios
import textwrap

import pytest
from conftest import clean_environment

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("SPILLWAY_BUILD", ROOT / "build"))

pytestmark = pytest.mark.skipif(not (BUILD / "spillway").exists(), reason="spillway is not built")

ROWS, COLUMNS = 12, 100
RUN = [str(BUILD / "spillway"), "run", "--device", "host", "--device-memory", "48MiB", "--",
       sys.executable, "-c"]


class Screen:
    """A VT100, as far as it is needed here."""

    def __init__(self):
        self.rows = [""] * ROWS
        self.row = self.column = 0
        self.saved = (0, 0)
        self.last = ROWS - 1  # of those that scroll

    def show(self, text):
        for part in re.finditer(r"\033\[([\d;]*)([A-Za-z])|\033(.)|([^\033])", text):
            numbers, command, short, character = part.groups()
            if command:
                self.command(command, [int(number or 0) for number in numbers.split(";")])
            elif short:
                self.short(short)
            elif character == "\r":
                self.column = 0
            elif character == "\n":
                self.down()
            else:
                row = self.rows[self.row].ljust(self.column)
                self.rows[self.row] = row[:self.column] + character + row[self.column + 1:]
                self.column += 1

    def command(self, command, numbers):
        if command == "r":
            self.last = numbers[1] - 1 if len(numbers) > 1 else ROWS - 1
            self.row = self.column = 0
        elif command == "H":
            self.row, self.column = numbers[0] - 1, numbers[1] - 1
        else:
            assert command == "K" and numbers == [2]
            self.rows[self.row] = ""

    def short(self, short):
        if short == "7":
            self.saved = self.row, self.column
        elif short == "8":
            self.row, self.column = self.saved
        elif short == "D":
            self.down()
        else:
            assert short == "M" and self.row > 0
            self.row -= 1

    def down(self):
        if self.row == self.last:
            del self.rows[0]
            self.rows.insert(self.last, "")
        else:
            self.row += 1


def drawn(script, **environment):
    """What comes to a terminal, part for part."""
    child, terminal = pty.fork()
    if child == 0:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        words = [*RUN, textwrap.dedent(script)]
        os.execve(words[0], words, {**clean_environment("TERM", "NO_COLOR"), **environment})
    parts = []
    with contextlib.suppress(OSError):  # that is how a terminal ends
        while part := os.read(terminal, 65536):
            parts.append(part.decode())
    os.waitpid(child, 0)
    os.close(terminal)
    return parts


USES = """
    import time
    data = bytearray(b"x" * (8 << 20))
    print("half a line, ", end="", flush=True)
    time.sleep(0.5)
    print("and its end", flush=True)
    for i in range({lines}):
        print(f"line {{i}}", flush=True)
        time.sleep(0.05)
    time.sleep(0.3)
"""


@pytest.mark.parametrize("lines", [3, 30])
def test_the_programs_lines_are_whole_beside_it(lines):
    screen = Screen()
    below = []
    for part in drawn(USES.format(lines=lines), TERM="xterm"):
        screen.show(part)
        below.append(screen.rows[-1])
    assert sum(row.startswith("device [") for row in below) > 3
    # At the end there is none, and nothing of it anywhere.
    written = [row for row in screen.rows if row]
    assert not any("device [" in row for row in written)
    expected = ["half a line, and its end", *(f"line {i}" for i in range(lines))]
    at = next(i for i, row in enumerate(written) if row.startswith("spillway: everything fit"))
    kept = min(len(expected), at)
    assert written[at - kept:at] == expected[-kept:]
    assert screen.last == ROWS - 1


@pytest.mark.parametrize("environment", [{"TERM": "dumb"}, {}, {"TERM": "xterm", "NO_COLOR": "1"}])
def test_nothing_is_drawn_where_it_is_not_wanted(environment):
    text = "".join(drawn(USES.format(lines=3), **environment))
    assert "\033" not in text and "device [" not in text
    assert "line 2" in text and "everything fit" in text
