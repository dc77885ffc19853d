#!/usr/bin/env python3
"""Draws docs/architecture.svg: the layers of Spillway, and the two seams of its engine.

    tools/draw_architecture.py docs/architecture.svg

Needs nothing but Python.
"""

import sys

from svg_picture import MONO, Picture

COLOURS = {
    "program": ("#f0f1f3", "#21262d"),
    "cli": ("#ddebfb", "#16314f"),
    "runtime": ("#e3f1e3", "#17361f"),
    "platform": ("#fdeccf", "#453210"),
    "engine": ("#f8dcdc", "#4c2020"),
    "policy": ("#e9e0f7", "#362657"),
    "seam": ("#b3261e", "#ff8a80"),
}
TEXT_RULES = f""".title {{ font-weight: 600; font-size: 15px; }}
.soft {{ font-size: 13px; }}
.path {{ font-family: {MONO}; font-size: 12px; }}
.bold {{ font-weight: 600; }}
"""

COLUMNS = [(112, 268), (394, 268), (676, 268)]  # left edge, width


def centre(column):
    left, width = column
    return left + width / 2


def rows_of_text(picture, x, y, rows):
    """rows: (style, words), centred at x, the first baseline at y."""
    for style, words in rows:
        picture.text(x, y, words, style)
        y += 19


def row_name(picture, y, name):
    picture.text(100, y, name, "soft", "end")


def layer(picture, name, name_y, top, height, texts):
    """texts: for each column rows as above."""
    row_name(picture, name_y, name)
    for column, rows in zip(COLUMNS, texts):
        picture.box(column[0], top, column[1], height, name)
        rows_of_text(picture, centre(column), top + 21, rows)


def draw():
    picture = Picture(960, 716, "The layers of Spillway", COLOURS, TEXT_RULES)
    row_name(picture, 45, "program")
    for column, words in zip(COLUMNS, ["on an NVIDIA GPU", "on the CPU", "a recorded iteration"]):
        picture.box(column[0], 16, column[1], 46, "program")
        picture.text(centre(column), 45, words, "text title")

    layer(picture, "cli", 122, 88, 70, [
        [("text title", "CUDA interposer"), ("soft path", "src/interpose/cuda"),
         ("soft", "catches driver calls, finds operands")],
        [("text title", "malloc interposer, C API"), ("soft path", "src/interpose/host, capi"),
         ("soft", "catches allocations, marks launches")],
        [("text title", "commands"), ("soft path", "src/cli"),
         ("soft", "simulate, analyze, plan, reproduce")]])

    layer(picture, "runtime", 218, 184, 70, [
        [("text title", "DeviceHeap, Segments"), ("soft path", "src/heap, src/runtime/cuda"),
         ("soft", "reuse freed memory; PyTorch's tensors")],
        [("text title", "LargeHeap, RunRecorder"), ("soft path", "src/heap, src/runtime/record, run"),
         ("soft", "reuse freed memory; record, report")],
        [("text title", "simulate, batch"), ("soft path", "src/runtime/*.cc, reproduce"),
         ("soft", "one trace, one machine, one policy")]])

    layer(picture, "platform", 326, 280, 88, [
        [("text title", "CUDA platform"), ("soft path", "src/platform/cuda"),
         ("soft", "handles, stream waits, copies"), ("soft", "through the NVIDIA driver")],
        [("text title", "host platform"), ("soft path", "src/platform/host"),
         ("soft", "page faults, page moves, copies"), ("soft", "through the Linux kernel")],
        [("text title", "simulator"), ("soft path", "src/platform/sim"),
         ("soft", "virtual time, links, flash"), ("soft", "and a check of all contents")]])
    picture.box(COLUMNS[0][0], 374, 832, 30, "platform")
    picture.text(528, 394, "shared by the platforms: launch log, stall clock, swap file, service threads",
                 "soft")
    row_name(picture, 394, "common")

    for column in COLUMNS:
        for top in (62, 158, 254):
            picture.arrow(centre(column), top + 2, centre(column), top + 24)

    # The seam to the platforms.
    picture.line(112, 468, 944, 468, "seam", 2, "7 5")
    picture.text(486, 440, "seam 2: Mechanism", "seam bold")
    picture.text(486, 458, "engine/mechanism.h", "soft path")
    picture.arrow(372, 406, 372, 490)
    for y, words in [(430, "events: launch issued, launch"), (449, "ended, fault, transfer finished")]:
        picture.text(360, y, words, "soft", "end")
    picture.arrow(600, 490, 600, 406)
    for y, words in [(430, "commands: start transfer, map,"), (449, "unmap, drop, release launch")]:
        picture.text(612, y, words, "soft", "start")

    row_name(picture, 548, "engine,")
    row_name(picture, 566, "policy")
    picture.box(112, 492, 524, 122, "engine")
    rows_of_text(picture, 374, 517, [("text title", "migration engine"), ("soft path", "src/engine"),
                             ("soft", "one state machine: space, launches, requests, transfers"),
                             ("soft", "checks every capacity, pin and content"),
                             ("soft", "no clock, no thread, no system call")])
    picture.box(748, 492, 196, 122, "policy")
    rows_of_text(picture, 846, 517, [("text title", "policies"), ("soft path", "src/policy"),
                             ("soft", "lookahead, g10, deepum,"), ("soft", "flashneuron, base_uvm,"),
                             ("soft", "ideal")])
    for top, bottom in [(494, 507), (526, 565), (584, 614)]:
        picture.line(692, top, 692, bottom, "seam", 2, "7 5")
    picture.text(692, 634, "seam 1: Policy, Control", "seam bold")
    picture.text(692, 651, "engine/policy.h", "soft path")
    picture.arrow(638, 530, 746, 530)
    picture.text(692, 521, "what happens", "soft")
    picture.arrow(746, 588, 638, 588)
    picture.text(692, 579, "requests", "soft")

    row_name(picture, 684, "ground")
    for left, width, words in [(112, 232, "trace, machine, analysis"), (358, 150, "plot"), (522, 150, "base")]:
        picture.box(left, 664, width, 34, "program")
        picture.text(left + width / 2, 686, words)
    picture.text(690, 686, "data, charts; bytes, time, ids, errors", "soft", "start")
    return picture.svg()


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: draw_architecture.py FILE.svg")
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(draw())


if __name__ == "__main__":
    main()
