"""`spillway run --trace-events`: a timeline that is whole and says what the record says.

Needs the built program (build/, or the folder that SPILLWAY_BUILD names) and userfaultfd.
"""

import collections
import json
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest
from conftest import clean_environment

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("SPILLWAY_BUILD", ROOT / "build"))
SPILLWAY = BUILD / "spillway"

pytestmark = pytest.mark.skipif(not SPILLWAY.exists(), reason=f"{SPILLWAY} is not built")

# Eight tensors of 8 MiB round and round, in a third of that.
ROUNDS = """
    import torch
    tensors = [torch.full((2 << 20,), float(i)) for i in range(8)]
    for _ in range(4):
        for i, tensor in enumerate(tensors):
            tensor.add_(1)
    assert all(t[0].item() == i + 4 for i, t in enumerate(tensors))
"""


def timeline_of(folder, options, command, environment=()):
    """What a run has told: its timeline and its record."""
    timeline, record = folder / "timeline.json", folder / "record"
    result = subprocess.run([SPILLWAY, "run", *options, "--trace-events", timeline, "--json", record,
                             "--", *command], text=True, capture_output=True, timeout=120,
                            env={**clean_environment(), **dict(environment)})
    assert result.returncode == 0, result.stderr + result.stdout
    return json.loads(timeline.read_text()), json.loads(record.read_text())


def check(timeline, record):
    """No interval is cut or overlaps its neighbour on a track; bytes add up. By category."""
    tracks = collections.defaultdict(list)
    named = set()
    moved = collections.Counter()
    kinds = collections.Counter()
    for event in timeline["traceEvents"]:
        assert event["pid"] == record["pid"]
        if event["ph"] == "M":
            named.add(event["tid"])
            continue
        assert event["ph"] == "X" and event["dur"] >= 0 and event["ts"] >= 0, event
        assert event["ts"] + event["dur"] <= record["elapsed_s"] * 1e6 + 1e6
        tracks[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
        kinds[event["cat"]] += 1
        if event["cat"] == "transfer":
            moved[event["name"].replace(" ", "_")] += event["args"]["bytes"]
    for tid, intervals in tracks.items():
        assert tid in named
        intervals.sort()
        for (_, end), (begin, _) in zip(intervals, intervals[1:]):
            assert begin >= end - 0.002, (tid, begin, end)  # nanoseconds, rounded
    for route, moved_bytes in record["moved_bytes"].items():
        assert moved[route] == moved_bytes, route
    assert set(timeline["otherData"].values()) == {0}
    return kinds


def test_on_the_host(tmp_path):
    timeline, record = timeline_of(
        tmp_path, ["--device", "host", "--device-memory", "24MiB", "--host-memory", "256MiB",
                   "--policy", "base_uvm"], [sys.executable, "-c", textwrap.dedent(ROUNDS)])
    kinds = check(timeline, record)
    assert record["moved_bytes"]["host_to_device"] > 100 << 20
    assert kinds["wait"] >= record["page_faults"] > 0
    names = collections.Counter(event["name"] for event in timeline["traceEvents"]
                                if event.get("cat") == "launch")
    assert names["aten::add_"] == 32
    assert "waits for host memory" in {event["name"] for event in timeline["traceEvents"]}


@pytest.mark.skipif(not (BUILD / "cuda_program").exists(), reason="the test program is not built")
def test_on_a_gpu(tmp_path):
    driver = BUILD / "fake_driver" / "libcuda.so.1"
    timeline, record = timeline_of(
        tmp_path, ["--device", "cuda", "--device-memory", "16MiB", "--host-memory", "256MiB",
                   "--policy", "base_uvm"], [BUILD / "cuda_program", "dlopen", "patterns"],
        {"SPILLWAY_CUDA_DRIVER": str(driver), "LD_LIBRARY_PATH": str(driver.parent)})
    kinds = check(timeline, record)
    # The last of them may not have been seen to end.
    assert record["launches"] - 8 <= kinds["launch"] <= record["launches"]
    assert kinds["wait"] > 0 and kinds["transfer"] > 0
    streams = {event["tid"] for event in timeline["traceEvents"] if event.get("cat") == "launch"}
    assert len(streams) == 2
    # Some were issued while others ran, and all of a stream in their order.
    issued = collections.defaultdict(list)
    for event in timeline["traceEvents"]:
        if event.get("cat") == "launch":
            issued[event["tid"]].append(event["ts"] - event.get("args", {}).get("ahead_us", 0))
    assert any("args" in event for event in timeline["traceEvents"] if event.get("cat") == "launch")
    for times in issued.values():
        assert times[0] >= 0
        assert all(later >= earlier - 0.2 for earlier, later in zip(times, times[1:]))


def test_a_file_that_cannot_be_written_is_told_before_the_run(tmp_path):
    result = subprocess.run([SPILLWAY, "run", "--trace-events", tmp_path / "no" / "x", "--", "true"],
                            text=True, capture_output=True, timeout=60)
    assert result.returncode == 2
    assert "cannot be written" in result.stderr and result.stderr.count("\n") == 1
