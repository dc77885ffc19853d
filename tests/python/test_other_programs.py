"""bench/gpu/other_programs.py compares what programs made here say of themselves."""

import argparse
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench" / "gpu"
sys.path.insert(0, str(BENCH))

import other_programs  # noqa: E402


@pytest.fixture
def compare(tmp_path, monkeypatch, capsys):
    """compare(plain, ours, percent=...): what each is, as Python; both may call part(name, result).
    Whether the comparer is content, and what it printed."""

    def compare(plain, ours, percent=None, limit_s=20):
        program = tmp_path / "program.py"
        program.write_text(f"""
import json, os, sys, time
def part(name, result=""):
    print(json.dumps({{"part": name, "ms": [4.0, 2.0, 2.0], "result": result, "device_gib": None,
                      "peak_gib": 3.0}}), flush=True)
exec({ours!r} if "UNDER" in os.environ else {plain!r})
""")
        spillway = tmp_path / "spillway"
        spillway.write_text(f"#!{sys.executable}\n" """
import os, sys
at = sys.argv.index("--")
print("  moved      1 GiB in for", *sys.argv[1:at], file=sys.stderr, flush=True)
os.execve(sys.argv[at + 1], sys.argv[at + 1:], {**os.environ, "UNDER": "1"})
""")
        spillway.chmod(0o755)
        monkeypatch.setattr(other_programs, "__file__", str(program))
        options = argparse.Namespace(spillway=str(spillway), device_memory="66GiB", percent=percent,
                                     host_memory="8GiB", limit=limit_s)
        return other_programs.compare("weights", options), capsys.readouterr().out

    return compare


def test_the_same_results_are_well(compare):
    both = "part('a', 'x'); part('b')"
    content, printed = compare(both, both)
    assert content and "DIFFERS" not in printed
    assert len(printed.splitlines()) == 2


def test_the_budget_is_a_part_of_what_was_in_use(compare):
    content, printed = compare("part('a')", "part('a')", percent=50)
    assert content and "--device-memory 1536MiB" in printed


def test_another_result_is_said(compare):
    content, printed = compare("part('a', 'x')", "part('a', 'y')")
    assert not content and "DIFFERS" in printed and "a differs" in printed


@pytest.mark.parametrize("plain, ours, who", [("part('a'); part('b')", "part('a')", "spillway"),
                                              ("part('a')", "part('a'); part('b')", "plain")])
def test_a_part_that_is_missing_is_said(compare, plain, ours, who):
    content, printed = compare(plain, ours)
    assert not content and f"{who}: b is missing" in printed


def test_without_all_parts_of_plain_there_is_no_budget(compare):
    content, printed = compare("part('a'); sys.exit('no room')", "part('a')", percent=50)
    assert not content and "plain: exit status 1: no room" in printed and "within" not in printed


def test_what_spillway_says_when_it_cannot_run_is_told(compare):
    refuses = "print('spillway: no NVIDIA driver', file=sys.stderr); sys.exit(125)"
    content, printed = compare("part('a')", refuses)
    assert not content and "spillway: exit status 125: spillway: no NVIDIA driver" in printed


def test_its_report_is_no_reason(compare):
    fails = ("print('spillway: runs on a device', 'ValueError: shapes', "
             "'spillway: lookahead for 1.5 s, stalled 0.1 s (6 %)',"
             "'spillway: process 7: memory ran out: 1 allocation was refused',"
             " '  moved 0 B', sep='\\n', file=sys.stderr); sys.exit(1)")
    content, printed = compare("part('a')", fails)
    assert not content and "exit status 1: ValueError: shapes" in printed


def test_who_does_not_end_is_ended(compare):
    begin = time.monotonic()
    content, printed = compare("part('a')", "part('a'); time.sleep(60)", limit_s=3)
    assert not content and "spillway: did not end within 3 s" in printed
    assert time.monotonic() - begin < 30


def test_who_is_interrupted_ends_the_program(tmp_path):
    """It is in a session of its own, which Ctrl-C does not reach."""
    told = tmp_path / "pid"
    program = tmp_path / "program.py"
    program.write_text(f"import os, pathlib, time\n"
                       f"pathlib.Path({str(told)!r}).write_text(str(os.getpid()) + ' ')\n"
                       f"time.sleep(60)\n")
    comparer = subprocess.Popen([sys.executable, "-c", f"""
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run beside a shell
sys.path.insert(0, {str(BENCH)!r})
import other_programs
other_programs.__file__ = {str(program)!r}
other_programs.run("weights", [], 60)
"""], stderr=subprocess.DEVNULL)
    try:
        while not (told.exists() and told.read_text().endswith(" ")):
            assert comparer.poll() is None
            time.sleep(0.05)
        pid = int(told.read_text())
        comparer.send_signal(signal.SIGINT)
        assert comparer.wait(20) != 0
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    finally:
        comparer.kill()
        comparer.wait()
