"""When the time of tools/test.sh is up nothing new begins, the report says so, and failures are failures."""

import os
import shutil
import subprocess
import sys

from conftest import PROJECT


def test_stages_that_have_not_begun_are_not_run_and_named():
    result = subprocess.run([PROJECT / "tools" / "test.sh", "lint", "fuzz"], capture_output=True, text=True,
                            env={**os.environ, "TEST_MINUTES": "0"}, timeout=60)
    lines = result.stdout.splitlines()
    assert lines[-1] == "0 passed, 0 failed, 0 not run for want of time, and nothing of lint fuzz"
    assert lines[-2].startswith("NOT EVERYTHING WAS TESTED")
    assert result.returncode == 1  # nothing passed


def test_runs_in_the_next_test():
    pass


def test_pytest_skips_what_has_not_begun():
    def outcome(deadline):
        command = [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", __file__, "-k", "next_test"]
        return subprocess.run(command, capture_output=True, text=True, timeout=60,
                              env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
                                   "TEST_DEADLINE": deadline}).stdout

    assert "no time left" in outcome("1")
    assert "1 passed" in outcome("99999999999")


def copy_of_tools(folder, **programs):
    """The tools alone, and shell scripts in the place of what they call."""
    (folder / "tools").mkdir()
    for name in ("test.sh", "lint.sh"):
        shutil.copy(PROJECT / "tools" / name, folder / "tools")
    (folder / "CMakePresets.json").touch()
    (folder / "bin").mkdir()
    for name, script in programs.items():
        file = folder / "bin" / name.replace("_", "-")
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}"}


# `date` tells the time in a file, which cmake and others move on. A test program's results are ctest's.
TESTS = """for word; do if [ "$before" = --output-junit ]; then cat results >"$word"; fi; before=$word; done
echo 'Total Tests: 7'"""


def stage(folder, *, cmake="", ninja="", results=""):
    """The last lines of stage `debug` with 65 minutes, which begins at second 0."""
    (folder / "now").write_text("0")
    (folder / "results").write_text(results)
    environment = copy_of_tools(folder, date="cat now", cmake=cmake, ninja=ninja, ctest=TESTS, ccache="")
    result = subprocess.run(["tools/test.sh", "debug"], cwd=folder, capture_output=True, text=True,
                            env={**environment, "TEST_MINUTES": "65"}, timeout=60)
    return result.stdout.splitlines()


def test_tests_that_have_not_begun_are_counted_by_themselves(tmp_path):
    lines = stage(tmp_path, results="""tests="6" failures="1" disabled="0" skipped="3"
        <system-out>[  SKIPPED ] no time left</system-out>
        <system-out>[  SKIPPED ] no time left</system-out>""")
    assert lines[-1] == "2 passed, 1 failed, 2 not run for want of time"
    assert "1 skipped" in lines[-3] and lines[-3].endswith("2 NOT RUN for want of time")


def test_what_is_built_too_late_is_not_run(tmp_path):
    lines = stage(tmp_path, ninja="echo 3900 >now")
    assert lines[-1] == "0 passed, 0 failed, 7 not run for want of time"


def test_a_build_is_ended_ten_minutes_later(tmp_path):
    lines = stage(tmp_path, cmake="echo 4499 >now", ninja="exec sleep 30")  # one second is left
    assert "NOT BUILT for want of time: ninja" in "\n".join(lines)
    assert lines[-1] == "0 passed, 0 failed, 0 not run for want of time, and nothing of debug"


def test_a_build_that_fails_late_has_failed(tmp_path):
    lines = stage(tmp_path, cmake="echo 4000 >now", ninja="echo FAILED: a.cc; exit 1")
    assert lines[-1] == "0 passed, 1 failed"
    assert "FAILED: a.cc" in lines


def test_lint_begins_with_what_changed_last_and_names_what_it_has_not_looked_at(tmp_path, monkeypatch):
    def git(*words):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words],
                       cwd=tmp_path, check=True, timeout=60)

    # The first file that is looked at takes all the time.
    environment = copy_of_tools(tmp_path, date="cat now", clang_tidy_16="echo 5 >now; echo looked >>log")
    (tmp_path / "now").write_text("0")
    (tmp_path / "build-lint").mkdir()
    (tmp_path / "build-lint" / "compile_commands.json").touch()
    (tmp_path / "src").mkdir()
    git("init", "-q")
    for number, name in enumerate(["old", "b", "a", "c"]):
        (tmp_path / "src" / f"{name}.cc").write_text("int x;")
        git("add", "src")
        monkeypatch.setenv("GIT_COMMITTER_DATE", f"{1_000_000_000 + 20_000 * (number > 0) + number} +0000")
        git("commit", "-q", "-m", name)
    result = subprocess.run(["tools/lint.sh", "changed"], cwd=tmp_path, capture_output=True, text=True,
                            env={**environment, "JOBS": "1", "LINT_DEADLINE": "5"}, timeout=60)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == ["NOT LOOKED AT for want of time: 2 files", "src/a.cc", "src/b.cc"]
    assert (tmp_path / "log").read_text() == "looked\n"
