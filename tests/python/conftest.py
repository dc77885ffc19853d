"""What the Python tests share: running a script as `spillway run` would, and a collector.

Run with: pytest tests/python. Tests that need torch, transformers or a C compiler are skipped
where these are missing.
"""

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent.parent
HOOK = PROJECT / "python" / "spillway" / "hook"

# What examples/train_gpt2.py imports, for run_python's `warm`.
GPT2 = ("transformers.models.gpt2.modeling_gpt2",)

sys.path.insert(0, str(PROJECT / "python"))


def clean_environment(*prefixes):
    """Without Spillway's variables and what is preloaded, whoever has set them, and those prefixes'."""
    return {key: value for key, value in os.environ.items()
            if not key.startswith(("SPILLWAY", "LD_PRELOAD", *prefixes))}


class ForkServer:
    """A process that has imported PyTorch, or more, and runs scripts in forks of itself (fork_server.py)."""

    def __init__(self, environment):
        self.process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("fork_server.py")], text=True, env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, script, folder, environment, arguments=(), path=(), hook=None, ahead=()):
        out, err = folder / "out", folder / "err"
        self.process.stdin.write(json.dumps({
            "script": str(script), "arguments": [*map(str, arguments)], "folder": str(folder),
            "out": str(out), "err": str(err), "environment": environment, "path": [*map(str, path)],
            "hook": hook and str(hook), "ahead": ["torch", *ahead]}) + "\n")
        self.process.stdin.flush()
        status = int(self.process.stdout.readline())
        return subprocess.CompletedProcess([str(script)], status, out.read_text(), err.read_text())


@pytest.fixture(scope="session")
def fork_servers():
    """The server whose PyTorch was imported in this environment, as far as an import asks for it."""
    servers = {}

    def server(environment):
        environment = {key: value for key, value in environment.items()
                       if not key.startswith(("SPILLWAY", "COLLECTOR", "PYTEST", "PYTHONPATH"))}
        key = tuple(sorted(environment.items()))
        if key not in servers:
            servers[key] = ForkServer(environment)
        return servers[key]

    yield server
    for each in servers.values():
        each.process.stdin.close()
        each.process.wait(timeout=60)


@pytest.fixture
def run_python(tmp_path, fork_servers):
    """Runs a script with Spillway's folder first in PYTHONPATH; returns what it printed.

    warm: in a fork of a process that has imported PyTorch, and the modules named in it; for scripts that
    are not about how a program starts or PyTorch is imported.
    """

    def run(script, *arguments, hooked=True, path=(), status=0, warm=None, **environment):
        if isinstance(script, str):
            file = tmp_path / "script.py"
            file.write_text(textwrap.dedent(script))
            script = file
        folders = [HOOK] if hooked else []
        environment = {**clean_environment("PYTHON", "INTEL_"),
                       "PYTHONPATH": os.pathsep.join(map(str, [*folders, *path])),
                       "PYTHONDONTWRITEBYTECODE": "1",
                       "OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive",
                       **({"SPILLWAY_OPERATORS": "1"} if hooked else {}),
                       **{key: str(value) for key, value in environment.items()}}
        if warm is None:
            result = subprocess.run([sys.executable, str(script), *map(str, arguments)], env=environment,
                                    capture_output=True, text=True, timeout=300)
        else:
            result = fork_servers(environment).run(script, tmp_path, environment, arguments, path,
                                                   HOOK / "sitecustomize.py" if hooked else None, warm)
        assert result.returncode == status, result.stderr
        return result

    return run


@pytest.fixture(scope="session")
def collector_library(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler for the collector")
    library = tmp_path_factory.mktemp("collector") / "libcollector.so"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", library,
                    Path(__file__).with_name("collector.c")], check=True)
    return library


class Collected:
    """What the processes of one run have reported."""

    def __init__(self, folder):
        self.prefix = folder / "collected"

    def processes(self):
        """The lines of each process that reported any, as (kind, depth, text)."""
        files = sorted(self.prefix.parent.glob(self.prefix.name + ".*"))
        return [[(kind, int(depth), text) for kind, depth, text in
                 (line.split(" ", 2) for line in file.read_text().splitlines())]
                for file in files]

    def lines(self):
        """Those of the only process that reported."""
        (lines,) = self.processes()
        return lines

    def names(self):
        return [text for kind, _, text in self.lines() if kind == "begin"]


@pytest.fixture
def collect(collector_library, run_python, tmp_path):
    """Runs a script as run_python does, warm unless that is None, with the collector in the place of
    Spillway's library."""

    def run(script, *arguments, warm=(), **environment):
        collected = Collected(tmp_path)
        collected.result = run_python(
            script, *arguments, warm=warm, LD_PRELOAD=collector_library,
            INTEL_LIBITTNOTIFY64=collector_library, INTEL_ITTNOTIFY_GROUPS="all",
            COLLECTOR_LOG=collected.prefix, **environment)
        return collected

    return run
