#!/usr/bin/env python3
"""How busy the device's link was while launches waited, by a timeline of a run on a GPU
(`spillway run --trace-events FILE`), for each of its processes.

    bench/gpu/busy_link.py FILE [--last SECONDS]

Only what was under way at that time counts: bytes of a transfer that goes on before or after a wait
are taken to have come evenly."""

import argparse
import bisect
import dataclasses
import json
import sys


def union(intervals):
    """The same times, in order, none touching another."""
    whole = []
    for begin, end in sorted(intervals):
        if whole and begin <= whole[-1][1]:
            whole[-1][1] = max(whole[-1][1], end)
        elif begin < end:
            whole.append([begin, end])
    return whole


def overlap(some, others):
    """What is in both; each in order, none touching another."""
    both, i, j = [], 0, 0
    while i < len(some) and j < len(others):
        begin, end = max(some[i][0], others[j][0]), min(some[i][1], others[j][1])
        if begin < end:
            both.append([begin, end])
        if some[i][1] < others[j][1]:
            i += 1
        else:
            j += 1
    return both


def length(intervals):
    return sum(end - begin for begin, end in intervals)


class Within:
    """How much of an interval lies within others, which are in order and do not touch."""

    def __init__(self, others):
        self.begins = [begin for begin, _ in others]
        self.ends = [end for _, end in others]
        self.before = [0.0]  # of all intervals in front of each
        for begin, end in others:
            self.before.append(self.before[-1] + end - begin)

    def up_to(self, time):
        i = bisect.bisect_right(self.begins, time)
        return 0.0 if i == 0 else self.before[i] - max(self.ends[i - 1] - time, 0.0)

    def length(self, begin, end):
        return self.up_to(end) - self.up_to(begin)


@dataclasses.dataclass
class BusyLink:
    """Seconds; parts of the time that launches waited, with a transfer under way; GB/s over it."""

    s: float
    waited_s: float
    either_way: float = 0.0
    both_ways: float = 0.0
    in_gb_s: float = 0.0
    out_gb_s: float = 0.0

    def text(self):
        if self.waited_s == 0:
            return f"no launch waited in {self.s:.2f} s"
        return (f"launches waited {self.waited_s:.2f} of {self.s:.2f} s: the link was busy "
                f"{100 * self.either_way:.0f} % of that, both ways {100 * self.both_ways:.0f} %, "
                f"{self.in_gb_s:.1f} GB/s in and {self.out_gb_s:.1f} out")


# Others wait for a disk as well, whose time is not the link's.
WAYS = {"host to device": "in", "device to host": "out"}


def of_process(events, last_s):
    launches, waits, transfers = [], [], {"in": [], "out": []}
    for event in events:
        begin, end = event["ts"], event["ts"] + event["dur"]
        if event["cat"] == "launch":
            launches.append((begin, end))
        elif event["cat"] == "wait":
            waits.append((begin, end))
        elif event["name"] in WAYS:
            transfers[WAYS[event["name"]]].append((begin, end, event["args"]["bytes"]))
    if not launches:
        return None
    begin, end = min(launches)[0], max(end for _, end in launches)
    if last_s is not None:
        begin = max(begin, end - last_s * 1e6)
    waited = overlap(union(waits), [[begin, end]])
    found = BusyLink((end - begin) / 1e6, length(waited) / 1e6)
    if not waited:
        return found
    ways = {way: overlap(union(span[:2] for span in some), waited)
            for way, some in transfers.items()}
    found.both_ways = length(overlap(ways["in"], ways["out"])) / length(waited)
    found.either_way = length(union(ways["in"] + ways["out"])) / length(waited)
    within = Within(waited)
    found.in_gb_s, found.out_gb_s = (
        sum(carried * within.length(first, last) / (last - first)
            for first, last, carried in transfers[way] if last > first) / length(waited) / 1e3
        for way in ("in", "out"))
    return found


def busy_link(timeline, last_s=None):
    """By process: from its first launch on, or in so many seconds before the end of its last. A
    timeline from which events are missing tells nothing: ValueError."""
    missing = [name for name, count in timeline.get("otherData", {}).items()
               if name.startswith("dropped") and count]
    if missing:
        raise ValueError(f"the timeline is not whole ({', '.join(missing)}): shorten the run")
    events = {}
    for event in timeline["traceEvents"]:
        if event["ph"] == "X":
            events.setdefault(event["pid"], []).append(event)
    found = {pid: of_process(some, last_s) for pid, some in events.items()}
    return {pid: link for pid, link in found.items() if link is not None}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("timeline")
    parser.add_argument("--last", type=float, help="seconds; all of it without")
    options = parser.parse_args()
    try:
        with open(options.timeline, encoding="utf-8") as file:
            links = busy_link(json.load(file), options.last)
    except (OSError, ValueError, KeyError) as error:
        return f"busy_link.py: {options.timeline}: {error}"
    for pid, link in links.items():
        print((f"process {pid}: " if len(links) > 1 else "") + link.text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
