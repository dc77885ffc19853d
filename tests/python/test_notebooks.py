"""`spillway install-kernel`: a real Jupyter kernel, without a browser.

Needs the built program (build/, or the folder that SPILLWAY_BUILD names) and userfaultfd.
"""

import contextlib
import fcntl
import json
import os
import pathlib
import pty
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest
from conftest import clean_environment

jupyter_client = pytest.importorskip("jupyter_client")
pytest.importorskip("ipykernel")

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("SPILLWAY_BUILD", ROOT / "build"))

pytestmark = pytest.mark.skipif(not (BUILD / "spillway").exists(), reason="spillway is not built")

MEMORY = ["--device", "host", "--device-memory", "48MiB", "--host-memory", "512MiB"]
NAME = "Python (Spillway, 48 MiB)"


def install(folder, *words, python=sys.executable):
    """With a folder for Jupyter's data, so that nothing of the user's is touched."""
    return subprocess.run([BUILD / "spillway", "install-kernel", "--python", python, *map(str, words)],
                          text=True, capture_output=True, timeout=60, cwd=folder,
                          env={**clean_environment("JUPYTER"), "JUPYTER_DATA_DIR": str(folder / "jupyter")})


def spec(folder, name="spillway-48mib"):
    return json.loads((folder / "jupyter" / "kernels" / name / "kernel.json").read_text())


class Notebook:
    """A kernel that runs, and its cells."""

    def __init__(self, manager, log):
        self.manager, self.log = manager, log
        self.connect()

    def connect(self):
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    def run(self, cell):
        """What the cell printed, or the name and text of its error."""
        return self.result(self.client.execute(cell))

    def result(self, request):
        printed = []
        while True:
            message = self.client.get_iopub_msg(timeout=60)
            if message["parent_header"].get("msg_id") != request:
                continue
            content = message["content"]
            if message["msg_type"] == "stream":
                printed.append(content["text"])
            elif message["msg_type"] == "error":
                printed.append(f"{content['ename']}: {content['evalue']}")
            elif message["msg_type"] == "status" and content["execution_state"] == "idle":
                return "".join(printed)

    def interrupted(self, cell, interrupt):
        """The result of a cell that says that it has begun and is then interrupted."""
        request = self.client.execute(f"print('begun', flush=True)\n{cell}")
        while self.client.get_iopub_msg(timeout=60)["content"].get("text") != "begun\n":
            pass
        time.sleep(0.3)
        interrupt()
        return self.result(request)


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Starts an installed kernel; its `spillway run` writes into `log`."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "python"))
    for name in [name for name in os.environ if name.startswith(("SPILLWAY", "LD_PRELOAD"))]:
        monkeypatch.delenv(name)
    begun = []

    def started(name):
        manager = jupyter_client.KernelManager(kernel_name=name)
        log = tmp_path / "log"
        to = logs.enter_context(log.open("a"))  # a restart wants it again
        manager.start_kernel(stderr=to, stdout=to)
        begun.append(manager)
        return Notebook(manager, log)

    with contextlib.ExitStack() as logs:
        yield started
        for manager in begun:
            manager.shutdown_kernel(now=True)


def test_a_cell_runs_under_spillway(tmp_path, start):
    result = install(tmp_path, *MEMORY)
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"{NAME}: {tmp_path}/jupyter/kernels/spillway-48mib\n"
    book = start("spillway-48mib")
    assert book.run("import os; print('libspillway' in os.environ['LD_PRELOAD'])") == "True\n"
    book.run("""
        blocks = [bytearray(8 << 20) for _ in range(16)]
        for block in blocks + blocks:
            block[::4096] = b'x' * 2048
    """.replace("\n        ", "\n"))
    moved = book.run("import spillway; now = spillway.stats()\n"
                     "print(now['budget_bytes']['device'], now['moved_bytes']['device_to_host'] > 0)")
    assert moved == f"{48 << 20} True\n"
    assert book.run("spillway.enable('1GiB'); print('watched')") == "watched\n"
    book.client.shutdown()
    book.manager.finish_shutdown()
    assert "48 MiB of device memory" in book.log.read_text(), "the run's last words are in the log"


def test_interrupt_and_restart(tmp_path, start):
    assert install(tmp_path, *MEMORY).returncode == 0
    book = start("spillway-48mib")
    loop = "import time\nfor _ in range(600): time.sleep(0.1)"
    # As a button does it; as one that knows no messages does; what a cell has started.
    for cell, interrupt in ((loop, book.manager.interrupt_kernel),
                            (loop, lambda: book.manager.signal_kernel(signal.SIGINT)),
                            ("!sleep 60", book.manager.interrupt_kernel)):
        before = time.monotonic()
        result = book.interrupted(cell, interrupt)
        assert time.monotonic() - before < 30
        assert "!" in cell or result.startswith("KeyboardInterrupt")
    assert book.run("print(6 * 7)") == "42\n", "it lives on"
    kernel = int(book.run("import os; print(os.getpid())"))
    book.manager.restart_kernel(now=False)
    book.connect()
    assert int(book.run("import os; print(os.getpid())")) != kernel
    assert book.run("print('libspillway' in os.environ['LD_PRELOAD'])") == "True\n"
    assert not pathlib.Path(f"/proc/{kernel}").exists()


def test_a_kernel_that_is_killed_leaves_nothing(tmp_path, start):
    assert install(tmp_path, *MEMORY).returncode == 0
    book = start("spillway-48mib")
    kernel = int(book.run("import os; print(os.getpid())"))
    book.manager.provisioner.process.kill()  # `spillway run` alone
    for _ in range(100):
        if not pathlib.Path(f"/proc/{kernel}").exists():
            break
        time.sleep(0.1)
    else:
        pytest.fail("the kernel lives on")


def test_all_options_of_run_are_taken_through(tmp_path):
    record = tmp_path / "record.json"
    result = install(tmp_path, *MEMORY, "--policy=base_uvm", "--strict", "--json", record,
                     "--storage", f"{tmp_path}:64MiB", "--metrics", ":0", "--name", "Mine",
                     "--display-name", "My own")
    assert result.returncode == 0, result.stderr
    kernel = spec(tmp_path, "mine")
    words = kernel["argv"]
    run, python = words[:words.index("--")], words[words.index("--") + 1:]
    assert run[:2] == [str(BUILD / "spillway"), "run"]
    pairs = dict(zip([word for word in run[2:] if word != "--strict"][::2],
                     [word for word in run[2:] if word != "--strict"][1::2]))
    assert "--strict" in run
    assert pairs == {"--device": "host", "--device-memory": "48MiB", "--host-memory": "512MiB",
                     "--policy": "base_uvm", "--json": str(record),
                     "--storage": f"{tmp_path}:64MiB", "--metrics": ":0"}
    assert python[0] == sys.executable and python[-2:] == ["-f", "{connection_file}"]
    assert kernel["display_name"] == "My own"


# What `run` would read in the notebook's folder.
def test_a_place_to_swap_to_is_the_same_for_all_notebooks(tmp_path):
    (tmp_path / "swap").mkdir()
    result = install(tmp_path, *MEMORY, "--storage", "swap/:64MiB", "--report", "run.html",
                     "--metrics", ":0")
    assert result.returncode == 0, result.stderr
    words = spec(tmp_path)["argv"]
    assert words[words.index("--storage") + 1] == f"{tmp_path}/swap:64MiB"
    assert words[words.index("--report") + 1] == "run.html"
    assert result.stderr == ("spillway: --report run.html: each notebook has its own, in the folder "
                             "in which it lies\n")


# As on the computing node of a cluster.
def test_a_place_that_is_not_here_is_said(tmp_path):
    result = install(tmp_path, *MEMORY, "--storage", "/no/such/place:64MiB")
    assert result.returncode == 0
    assert result.stderr.startswith("spillway: /no/such/place: there is no such folder; ")
    assert "as long as that is so, no notebook starts" in result.stderr
    assert "/no/such/place:64MiB" in spec(tmp_path)["argv"]


def test_places(tmp_path):
    prefix = tmp_path / "prefix"
    assert install(tmp_path, "--prefix", "prefix").returncode == 0
    kernel = prefix / "share/jupyter/kernels/spillway/kernel.json"
    assert json.loads(kernel.read_text())["display_name"] == "Python (Spillway)"
    own = tmp_path / "own"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", own], check=True, timeout=60)
    for line in sys.path:
        if line.endswith("site-packages"):
            with open(next(own.glob("lib/python*/site-packages")) / "all.pth", "a") as more:
                more.write(line + "\n")
    result = install(tmp_path, "--sys-prefix", python=own / "bin" / "python")
    assert result.returncode == 0, result.stderr
    kernel = own / "share/jupyter/kernels/spillway/kernel.json"
    argv = json.loads(kernel.read_text())["argv"]
    assert str(own / "bin" / "python") in argv


@pytest.mark.parametrize("words, status, line", [
    (["--device-memory", "much"], 2, "--device-memory: 'much' is not a size"),
    (["--device", "gpu"], 2, "--device: 'gpu' is none of auto, cuda and host"),
    (["--device-memory", "1MiB"], 2, "--device-memory: 1MiB is too little; at least 8 MiB"),
    (["--device", "host", "--device-memory", "1MiB"], 2, "at least 16 MiB"),
    (["--prefetch-degree", "x"], 2, "--prefetch-degree: 'x' is not a number of launches"),
    (["--policy", "flashneuron"], 2, "name a place with --storage"),
    (["--metrics", "0.0.0.0:9400"], 2, "only the loopback is served"),
    (["--storage", "typo:1GiB"], 2, "typo: there is no such folder"),
    (["--policy", "none"], 2, "none"),
    (["--name", "two words"], 2, "--name: "),
    (["--user", "--sys-prefix"], 2, "--sys-prefix"),
    (["--prefix", "/proc/none"], 1, "the kernel cannot be installed: /proc/none"),
])
def test_what_is_wrong_is_said(tmp_path, words, status, line):
    result = install(tmp_path, *words)
    assert result.returncode == status, result.stderr
    assert line in result.stderr.splitlines()[0]
    assert result.stderr.startswith("spillway: ")
    assert not (tmp_path / "jupyter").exists()


def test_a_python_that_is_not_there(tmp_path):
    result = install(tmp_path, python="/no/python")
    assert result.returncode == 2
    assert result.stderr == ("spillway: cannot run '/no/python': No such file or directory; name the "
                             "Python of the kernel with --python\n")


def test_a_python_without_ipykernel(tmp_path):
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True, timeout=60)
    result = install(tmp_path, python=bare / "bin" / "python")
    assert result.returncode == 2
    assert result.stderr == (f"spillway: {bare}/bin/python has no ipykernel, which a kernel needs: "
                             f"{bare}/bin/python -m pip install ipykernel\n")


def test_enable_in_a_notebook_names_the_kernel(tmp_path, start):
    subprocess.run([sys.executable, "-m", "ipykernel", "install", "--user", "--name", "plain"],
                   check=True, timeout=60, capture_output=True,
                   env={**clean_environment(), "JUPYTER_DATA_DIR": str(tmp_path / "jupyter")})
    book = start("plain")
    said = book.run("import spillway; print(spillway.stats()); spillway.enable('10GiB')")
    assert said.startswith("None\nRuntimeError: spillway.enable(): a notebook cannot begin anew: ")
    assert "`spillway install-kernel --device-memory 10GiB`" in said


def drawn(words):
    """What a program with a terminal of its own draws there."""
    child, terminal = pty.fork()
    if child == 0:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        os.execve(words[0], words, {**clean_environment("NO_COLOR"), "TERM": "xterm"})
    text = b""
    with contextlib.suppress(OSError):  # that is how a terminal ends
        while part := os.read(terminal, 65536):
            text += part
    os.waitpid(child, 0)
    os.close(terminal)
    return text.decode()


def test_no_line_is_drawn_in_a_servers_terminal():
    run = [str(BUILD / "spillway"), "run", *MEMORY, "--", sys.executable, "-c",
           "import time; data = bytearray(8 << 20); time.sleep(1)"]
    as_jupyter = "import subprocess, sys; subprocess.run(sys.argv[1:], start_new_session=True)"
    assert "device [" in drawn(run)
    beside = drawn([sys.executable, "-c", as_jupyter, *run])
    assert "device [" not in beside and "of device memory" in beside
