#!/usr/bin/env python3
"""How busy the link was while launches waited, by a timeline (`spillway run --trace-events FILE`).

    bench/gpu/busy_link.py FILE [--last SECONDS]

Only what was under way at that time counts: bytes of a transfer that goes on before or after a wait
are taken to have come evenly. docs/benchmarks.md says what the numbers are."""

import argparse
import dataclasses
import json

INWARD, OUTWARD = "host to device", "device to host"


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


@dataclasses.dataclass
class BusyLink:
    """Seconds; parts of the time that launches waited; GB/s over that time."""

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


def busy_link(timeline, last_s=None):
    """In the last seconds before the last launch's end, or from the first launch on."""
    spans = {"launch": [], "wait": [], INWARD: [], OUTWARD: []}
    carried = {INWARD: [], OUTWARD: []}
    for event in timeline["traceEvents"]:
        if event["ph"] != "X":
            continue
        span = (event["ts"], event["ts"] + event["dur"])
        if event["cat"] != "transfer":
            spans[event["cat"]].append(span)
        elif event["name"] in carried:
            spans[event["name"]].append(span)
            carried[event["name"]].append((span, event["args"]["bytes"]))
    if not spans["launch"]:
        return BusyLink(0.0, 0.0)
    end = max(last for _, last in spans["launch"])
    begin = min(first for first, _ in spans["launch"]) if last_s is None else end - last_s * 1e6
    waited = overlap(union(spans["wait"]), [[begin, end]])
    found = BusyLink((end - begin) / 1e6, length(waited) / 1e6)
    if not waited:
        return found
    ways = {way: overlap(union(spans[way]), waited) for way in carried}
    found.both_ways = length(overlap(ways[INWARD], ways[OUTWARD])) / length(waited)
    found.either_way = length(union(ways[INWARD] + ways[OUTWARD])) / length(waited)
    moved = {way: sum(bytes_ * length(overlap([list(span)], waited)) / (span[1] - span[0])
                      for span, bytes_ in transfers if span[1] > span[0])
             for way, transfers in carried.items()}
    found.in_gb_s, found.out_gb_s = (moved[way] / length(waited) / 1e3
                                     for way in (INWARD, OUTWARD))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("timeline")
    parser.add_argument("--last", type=float, help="seconds; all of it without")
    options = parser.parse_args()
    with open(options.timeline, encoding="utf-8") as file:
        print(busy_link(json.load(file), options.last).text())


if __name__ == "__main__":
    main()
