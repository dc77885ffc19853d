"""`python -m spillway` and the command of a wheel: Python becomes the program that belongs to it. Which
one tests on a GPU take (tools/program.py).

The program is a script here, that tells how it was started.
"""

import os
import shutil
import signal
import subprocess
import sys

import pytest
from conftest import PROJECT, clean_environment

TELL = """#!/bin/sh
printf '%s\\n' "$0" "$@"
grep SigIgn /proc/self/status
exit 7
"""


def tree(folder, package, program=None):
    """A copy of the package at folder/package, and a program; the environment to import it in."""
    shutil.copytree(PROJECT / "python" / "spillway", folder / package,
                    ignore=shutil.ignore_patterns("__pycache__", "bin"))
    if program:
        (folder / program).parent.mkdir(exist_ok=True)
        (folder / program).write_text(TELL)
        (folder / program).chmod(0o755)
    return {**clean_environment("PYTHON"), "PYTHONPATH": str((folder / package).parent)}


def run(environment, *words):
    return subprocess.run([sys.executable, *words], text=True, capture_output=True, timeout=60,
                          env=environment)


@pytest.mark.parametrize("package, program", [
    ("site-packages/spillway", "site-packages/spillway/bin/spillway"),
    ("python/spillway", "build/spillway"),
    ("share/spillway", "bin/spillway"),
])
@pytest.mark.parametrize("start", [
    ["-m", "spillway"],
    ["-c", "import sys; from spillway.__main__ import main; sys.exit(main())"],  # as pip's script
])
def test_words_and_status_are_the_programs(start, package, program, tmp_path):
    result = run(tree(tmp_path, package, program), *start, "run", "--", "a b", "")
    assert result.stdout.splitlines()[:-1] == [str(tmp_path / program), "run", "--", "a b", ""]
    assert result.returncode == 7


def test_signals_are_as_without_python(tmp_path):
    environment = tree(tmp_path, "python/spillway", "build/spillway")
    ignored = run(environment, "-m", "spillway").stdout.splitlines()[-1].split()[1]
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        assert not int(ignored, 16) & 1 << (number - 1)


def test_without_its_program_it_does_not_look_for_itself(tmp_path):
    environment = tree(tmp_path, "python/spillway")
    command = tmp_path / "path" / "spillway"  # what pip writes
    command.parent.mkdir()
    command.write_text(f"#!/bin/sh\nexec '{sys.executable}' -m spillway \"$@\"\n")
    command.chmod(0o755)
    result = run({**environment, "PATH": f"{command.parent}:{os.environ['PATH']}"}, "-m", "spillway")
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1 and "make build" in result.stderr


@pytest.mark.parametrize("installed, named, chosen", [
    (False, None, PROJECT / "build/spillway"),
    (True, None, "site-packages/spillway/bin/spillway"),
    (True, "/some/spillway", "/some/spillway"),
])
def test_tests_on_a_gpu_take_what_is_installed(installed, named, chosen, tmp_path):
    environment = tree(tmp_path, "site-packages/spillway")
    if installed:
        (tmp_path / "site-packages/spillway_gpu-1.0.dist-info").mkdir()
        (tmp_path / "site-packages/spillway_gpu-1.0.dist-info/METADATA").write_text(
            "Metadata-Version: 2.1\nName: spillway-gpu\nVersion: 1.0\n")
    if named:
        environment["SPILLWAY_PROGRAM"] = named
    which = PROJECT / "tools" / "program.py"
    assert run(environment, which).stdout == f"{tmp_path / chosen}\n"
    # Only then `make test-gpu` builds it.
    assert (run(environment, which, "--to-build").returncode == 0) == (not installed)
