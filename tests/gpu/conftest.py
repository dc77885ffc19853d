"""Programs on a real GPU under `spillway run`, each in a process of its own with a time limit.

Run with `make test-gpu`, or: pytest tests/gpu [-n 3]. tools/program.py says with which program. Everything is skipped where there is no GPU, and what needs a library or a
second GPU where that is missing. What the host side of PyTorch does is tested in tests/python.
"""

import functools
import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
from program import program  # noqa: E402, it is found there

FOLDER = pathlib.Path(__file__).resolve().parent
SPILLWAY = program()
MIB, GIB = 1 << 20, 1 << 30
LIMIT_S = 240


@functools.cache
def devices():
    """How many GPUs there are, asked in a process that ends: this one must not use them."""
    if importlib.util.find_spec("torch") is None:
        return 0
    asked = subprocess.run([sys.executable, "-c", "import torch; print(torch.cuda.device_count())"],
                           capture_output=True, text=True)
    return int(asked.stdout or 0) if asked.returncode == 0 else 0


def pytest_collection_modifyitems(items):
    missing = None
    if devices() == 0:
        missing = "no GPU, or no PyTorch that sees one"
    elif not pathlib.Path(SPILLWAY).exists():
        missing = f"{SPILLWAY} is not built"
    for item in items:
        wanted = item.get_closest_marker("needs")
        packages = wanted.args if wanted else ()
        absent = [name for name in packages if importlib.util.find_spec(name) is None]
        count = wanted.kwargs.get("devices", 1) if wanted else 1
        if missing:
            item.add_marker(pytest.mark.skip(reason=missing))
        elif absent:
            item.add_marker(pytest.mark.skip(reason=f"needs {', '.join(absent)}"))
        elif count > devices():
            item.add_marker(pytest.mark.skip(reason=f"needs {count} GPUs"))


def pytest_report_header():
    return f"spillway: {SPILLWAY}"


def pytest_configure(config):
    config.addinivalue_line("markers", "needs(*packages, devices=1): what a test cannot do without")


def threads_of_group(group):
    """What each thread of a stuck program and its children waits for."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(process.name)) != group:
                continue
            for task in (process / "task").iterdir():
                name = (task / "comm").read_text().strip()
                state = (task / "stat").read_text().rpartition(")")[2].split()[0]
                waits = (task / "wchan").read_text()
                found.append(f"{process.name}/{task.name} {name}: {state} {waits}")
        except OSError:
            continue
    return "\n".join(found)


class Result:
    def __init__(self, printed, said, records):
        self.values = json.loads(printed.splitlines()[-1])
        self.said = said
        self.records = records
        # Processes that used no device memory have records as well.
        self.record = max(records, key=lambda each: each.get("launches", 0), default={})

    def __getitem__(self, key):
        return self.values[key]

    def moved(self, route):
        return sum(record.get("moved_bytes", {}).get(route, 0) for record in self.records)

    def tell(self):
        """Shown by `pytest -rP`, and where a test fails."""
        print(f"{self.moved('host_to_device') / GIB:.2f} GiB in, "
              f"{self.moved('device_to_host') / GIB:.2f} out, storage "
              f"{self.moved('storage_to_device') / GIB:.2f} and "
              f"{self.moved('device_to_storage') / GIB:.2f}, stalled "
              f"{self.record.get('stalled_s', 0):.2f} of {self.record.get('elapsed_s', 0):.2f} s; "
              f"{ {key: value for key, value in self.values.items() if key in SHORT} }")
        for line in self.said.splitlines():
            if line.startswith("spillway:"):
                print(line)


ALONE = {}  # what programs say without Spillway
SHORT = ("wrong", "seconds", "peak_bytes", "refused", "error", "gibibytes_before_out_of_memory", "updated",
         "report")


@pytest.fixture
def run(tmp_path):
    """run("training.py", "losses", device=GIB, ...): under Spillway if `device` is given."""

    def run(file, name, *arguments, device=None, host=16 * GIB, storage=None, policy="lookahead",
            near=None, link=None, **environment):
        command = [sys.executable, str(FOLDER / "programs" / file), name, *map(str, arguments)]
        record = tmp_path / "record.json"
        record.unlink(missing_ok=True)
        if device is not None:
            command = [SPILLWAY, "run", "--device", "cuda", "--json", str(record),
                       "--device-memory", f"{int(device) // MIB}MiB",
                       "--host-memory", f"{int(host) // MIB}MiB", "--policy", policy,
                       *(["--storage", f"{tmp_path}:{int(storage) // MIB}MiB"] if storage else []),
                       *(["--near-optimizer", near] if near else []),
                       *(["--link-bandwidth", link] if link else []), "--", *command]
        with open(tmp_path / "out", "w+") as out, open(tmp_path / "err", "w+") as err:
            process = subprocess.Popen(
                command, stdout=out, stderr=err, start_new_session=True,
                env={**os.environ, "SPILLWAY_TEST_STACKS_AFTER": str(LIMIT_S * 0.8),
                     **{key: str(value) for key, value in environment.items()}})
            try:
                process.wait(LIMIT_S)
                stuck = ""
            except subprocess.TimeoutExpired:
                stuck = threads_of_group(process.pid)
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            out.seek(0)
            err.seek(0)
            printed, said = out.read(), err.read()
        assert not stuck, f"stuck for {LIMIT_S} s\n{printed[-2000:]}{said[-6000:]}{stuck}"
        assert process.returncode == 0, f"exit status {process.returncode}\n{said[-6000:]}"
        records = []
        if record.exists():
            records = [json.loads(line) for line in record.read_text().splitlines() if line.strip()]
        result = Result(printed, said, records)
        result.tell()
        assert result.values.get("wrong", 0) == 0, f"{result['wrong']} wrong\n{said[-2000:]}"
        return result

    return run


@pytest.fixture
def same_bits(run):
    """Runs a program without a budget twice, and with a part of its peak: all must say the same."""

    def same_bits(file, name, *arguments, percent=50, policy="lookahead", **options):
        if (file, name, arguments) not in ALONE:
            ALONE[file, name, arguments] = [run(file, name, *arguments) for _ in range(2)]
        expected, again = ALONE[file, name, arguments]
        keys = [key for key in expected.values if key not in SHORT]
        for key in keys:
            assert expected[key] == again[key], f"{key}: differs from itself without Spillway"
        peak = expected["peak_bytes"]
        for part in [percent] if isinstance(percent, int) else percent:
            found = run(file, name, *arguments, device=max(peak * part / 100, 64 * MIB),
                        host=3 * peak + GIB, policy=policy, **options)
            for key in keys:
                assert expected[key] == found[key], f"{key}: differs at {part} % of the peak"
            if part >= 130:
                assert found.moved("host_to_device") == found.moved("device_to_host") == 0
        return found

    return same_bits
