"""bench/gpu/busy_link.py on timelines made here."""

import json
import pathlib
import random
import subprocess
import sys

import pytest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench" / "gpu"
sys.path.insert(0, str(BENCH))

from busy_link import Within, busy_link, length, overlap, union  # noqa: E402


def event(category, begin_us, end_us, name="kernel", **more):
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": begin_us,
            "dur": end_us - begin_us, **more}


def transfer(name, begin_us, end_us, bytes_):
    return event("transfer", begin_us, end_us, name, args={"bytes": bytes_})


TIMELINE = {"traceEvents": [
    {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "x"}},
    event("launch", 0, 1_000_000),
    event("launch", 1_000_000, 2_000_000),
    # Half a second of each; two waits at once are one.
    event("wait", 1_000_000, 1_400_000, "waits for host memory"),
    event("wait", 1_200_000, 1_500_000, "waits for room"),
    event("wait", 100_000, 600_000, "waits for room"),
    # A quarter of it during the second wait.
    transfer("host to device", 1_400_000, 1_800_000, 4 << 30),
    transfer("device to host", 1_300_000, 1_500_000, 2 << 30),
    transfer("device to storage", 1_000_000, 1_500_000, 1 << 40),  # the disk's time
    transfer("host to storage", 1_000_000, 1_500_000, 1 << 40),  # not the device's link
]}


def only(timeline, **more):
    (link,) = busy_link(timeline, **more).values()
    return link


def test_what_is_under_way_during_a_wait_counts():
    found = only(TIMELINE, last_s=1)
    assert found.s == pytest.approx(1)
    assert found.waited_s == pytest.approx(0.5)
    assert found.either_way == pytest.approx(0.4)
    assert found.both_ways == pytest.approx(0.2)
    assert found.in_gb_s == pytest.approx((1 << 30) / 0.5 / 1e9)
    assert found.out_gb_s == pytest.approx((2 << 30) / 0.5 / 1e9)
    assert "0.50 of 1.00 s: the link was busy 40 % of that, both ways 20 %" in found.text()


@pytest.mark.parametrize("last_s", [None, 7])
def test_all_of_it(last_s):
    found = only(TIMELINE, last_s=last_s)
    assert (found.s, found.waited_s) == (pytest.approx(2), pytest.approx(1))
    assert found.either_way == pytest.approx(0.2)


def test_where_nothing_waits_or_runs():
    launches = [one for one in TIMELINE["traceEvents"] if one.get("cat") != "wait"]
    assert only({"traceEvents": launches}).text() == "no launch waited in 2.00 s"
    assert busy_link({"traceEvents": []}) == {}
    assert busy_link({"traceEvents": [transfer("host to device", 0, 1, 1)]}) == {}


def test_each_process_has_a_link():
    other = [{**one, "pid": 2} for one in TIMELINE["traceEvents"] if one.get("cat") != "transfer"]
    links = busy_link({"traceEvents": TIMELINE["traceEvents"] + other})
    assert links[1] == only(TIMELINE)
    assert (links[2].waited_s, links[2].either_way) == (pytest.approx(1), 0)


def test_one_that_is_cut_off_tells_nothing():
    with pytest.raises(ValueError, match="dropped_transfers"):
        busy_link({**TIMELINE, "otherData": {"dropped_launches": 0, "dropped_transfers": 3}})


def test_lengths_are_those_of_overlaps():
    rng = random.Random(1)
    for _ in range(200):
        waits = union((begin, begin + rng.randint(0, 9)) for begin in rng.choices(range(100), k=9))
        begin = rng.randint(-5, 110)
        end = begin + rng.randint(0, 40)
        assert Within(waits).length(begin, end) == length(overlap([[begin, end]], waits))


def test_as_a_program(tmp_path):
    file = tmp_path / "timeline"

    def run(timeline):
        file.write_text(json.dumps(timeline))
        return subprocess.run([sys.executable, BENCH / "busy_link.py", file, "--last", "1"],
                              text=True, capture_output=True, check=False)

    assert run(TIMELINE).stdout.startswith("launches waited 0.50 of 1.00 s")
    refused = run({})
    assert refused.returncode == 1
    assert "busy_link.py: " in refused.stderr and "Traceback" not in refused.stderr
