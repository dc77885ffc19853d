"""For all Python tests: those that would begin when there is no time left are skipped.

tools/test.sh says in TEST_DEADLINE, in seconds since 1970, until when tests may begin (TEST_MINUTES).
Inductor compiles in the test's own process: else it starts others, which import PyTorch anew.
"""

import os
import time

import pytest

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")


@pytest.hookimpl(tryfirst=True)  # before the fixtures of the first test of a module
def pytest_runtest_setup():
    if time.time() >= float(os.environ.get("TEST_DEADLINE") or "inf"):
        pytest.skip("no time left")
