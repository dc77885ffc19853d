#!/usr/bin/env python3
"""Draws docs/step.svg: one training step with enough memory and within half of it, launch by launch.

    tools/draw_step.py docs/step.svg TITLE=NOTE=TIMELINE...

Each TIMELINE is what build/step_timeline_bench printed; NOTE stands behind how many times as long as the first one it
takes. All have one time axis, and what goes beyond the right edge is cut off. How the picture of the documents was made:

    STEP="build/step_timeline_bench traces/h200/gpt2-xl.swt --set host.capacity=64GiB"
    $STEP --policy ideal > ideal.txt
    $STEP --policy lookahead --set device.capacity=20250MiB > lookahead.txt
    $STEP --policy base_uvm --set device.capacity=20250MiB > base_uvm.txt
    tools/draw_step.py docs/step.svg "Enough memory==ideal.txt" \\
        "Half of the memory, Spillway=measured: 2.2 to 2.7=lookahead.txt" \\
        "Half of the memory, paging on demand=measured: 6.0=base_uvm.txt"

Needs nothing but Python.
"""

import sys

from svg_picture import Picture

COLOURS = {
    "compute": ("#2f6fb4", "#6cb0f5"),
    "stall": ("#e8a5a0", "#8c3a36"),
    "in": ("#3a8f4d", "#56c271"),
    "out": ("#b7791f", "#e0a94a"),
    "track": ("#f0f1f3", "#1c2128"),
}
TEXT_RULES = """.title { font-weight: 600; font-size: 15px; }
.soft { font-size: 13px; }
"""
LEFT, RIGHT, WIDTH = 130, 940, 960
TRACK_HEIGHT, PANEL_HEIGHT = 26, 138
COLUMN = 1.5  # pixels; what happens within one is summed
SHOWN = 1.75  # times the second run's length


class Timeline:
    """A step: columns of equal time, in each the part that launches ran, and bytes that moved in and out."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.length, _ = map(int, file.readline().split())
            self.launches = [tuple(map(int, line.split())) for line in file]

    def columns(self, column_ns):
        count = -(-self.length // column_ns)
        ran, came, left = [0.0] * count, [0.0] * count, [0.0] * count
        before, before_in, before_out = 0, 0, 0
        for began, ended, bytes_in, bytes_out in self.launches:
            spread(ran, column_ns, max(began, 0), ended, ended - max(began, 0))
            spread(came, column_ns, before, ended, bytes_in - before_in)
            spread(left, column_ns, before, ended, bytes_out - before_out)
            before, before_in, before_out = ended, bytes_in, bytes_out
        return [value / column_ns for value in ran], came, left


def spread(columns, column_ns, begin, end, amount):
    """Adds an amount to the columns between two times, evenly."""
    if end <= begin:
        return
    for index in range(begin // column_ns, min((end - 1) // column_ns + 1, len(columns))):
        part = min(end, (index + 1) * column_ns) - max(begin, index * column_ns)
        columns[index] += amount * part / (end - begin)


def track(picture, y, name, heights, colour, ground):
    """heights: of each column, from 0 to 1."""
    picture.text(LEFT - 10, y + 18, name, "text soft", "end")
    picture.box(LEFT, y, len(heights) * COLUMN, TRACK_HEIGHT, ground, 0, outlined=False)
    points = [f"M{LEFT} {y + TRACK_HEIGHT}"]
    for index, height in enumerate(heights):
        top = y + TRACK_HEIGHT * (1 - min(max(height, 0), 1))
        points.append(f"L{LEFT + index * COLUMN:g} {top:.1f}h{COLUMN:g}")
    points.append(f"V{y + TRACK_HEIGHT}z")
    picture.path("".join(points), colour)


def panel(picture, y, title, note, step, column_ns, fastest, plain):
    ran, came, left = step.columns(column_ns)
    shown = int((RIGHT - LEFT) / COLUMN)
    picture.text(LEFT, y + 14, title, "text title", "start")
    ratio = f"{step.length / plain.length:.1f} times as long" if step is not plain else ""
    if note:
        ratio += f" ({note})"
    picture.text(RIGHT, y + 14, ratio, "text title", "end")
    track(picture, y + 26, "kernels", ran[:shown], "compute", "stall")
    track(picture, y + 56, "to the device", [moved / fastest for moved in came[:shown]], "in", "track")
    track(picture, y + 86, "from the device", [moved / fastest for moved in left[:shown]], "out", "track")
    if len(ran) > shown:
        picture.text(RIGHT + 4, y + 44, "…", "text title", "start")


def legend(picture, y):
    x = LEFT
    for colour, words in [("compute", "a kernel runs"), ("stall", "the device waits"),
                          ("in", "bytes from host memory"), ("out", "bytes to host memory")]:
        picture.box(x, y - 11, 14, 14, colour, 2, outlined=False)
        picture.text(x + 21, y + 1, words, "text soft", "start")
        x += 42 + 7 * len(words)
    picture.text(RIGHT, y + 1, "time →", "text soft", "end")


def main():
    runs = [argument.split("=", 2) for argument in sys.argv[2:]]
    if len(runs) < 2 or any(len(run) != 3 for run in runs):
        sys.exit("usage: draw_step.py FILE.svg TITLE=NOTE=TIMELINE TITLE=NOTE=TIMELINE...")
    steps = [(title, note, Timeline(path)) for title, note, path in runs]
    column_ns = int(steps[1][2].length * SHOWN * COLUMN / (RIGHT - LEFT))
    fastest = max(max(moved) for _, _, step in steps for moved in step.columns(column_ns)[1:])
    picture = Picture(WIDTH, 52 + PANEL_HEIGHT * len(steps), "A training step with and without Spillway",
                      COLOURS, TEXT_RULES)
    y = 18
    for title, note, step in steps:
        panel(picture, y, title, note, step, column_ns, fastest, steps[0][2])
        y += PANEL_HEIGHT
    legend(picture, y + 12)
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(picture.svg())


if __name__ == "__main__":
    main()
