"""A program that is stopped, interrupted by signals, or killed while an update next to its states runs: in a
run on the host whose memory is too small for the states."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
from conftest import PROJECT, clean_environment

from twins import one_thread, torch  # noqa: F401, one_thread is a fixture

BUILD = pathlib.Path(os.environ.get("SPILLWAY_BUILD", PROJECT / "build"))
LIMIT_S = 60

# Defines begin() and step(); the test itself trains with them as well, without Spillway.
TRAINING = """
def begin():
    torch.manual_seed(1)
    values = [torch.nn.Parameter(torch.randn(1 << 20)) for _ in range(5)]
    for value in values:
        value.grad = value.detach().sin()
    return values, torch.optim.AdamW(values, lr=1e-2, fused=True)

def bits(values, optimizer):
    states = [state[name] for state in optimizer.state.values() for name in ("exp_avg", "exp_avg_sq")]
    return [one.detach().view(torch.int32).sum().item() for one in (*values, *states)]
"""

# act() is called by another thread while native code computes the fourth step.
SCRIPT = f"""
import os, signal, sys, threading, torch
from _spillway.near import native
{TRAINING}
class Update:
    real = native.Update.run
    act = None
    runs = threading.Event()

    def run(self, *arguments):
        if Update.act is None:
            return Update.real(self, *arguments)
        def other():
            Update.runs.wait()
            Update.act()
        thread = threading.Thread(target=other)
        thread.start()
        Update.runs.set()
        Update.real(self, *arguments)
        thread.join()

native.Update.run = Update.run
sys.setswitchinterval(10)  # the other has the interpreter only once native code has given it up
torch.set_num_threads(1)
values, optimizer = begin()

def steps(act, many=5):
    for number in range(1, many + 1):
        Update.act = act if number == 4 else None
        optimizer.step()
        if number == 3:
            torch.save((optimizer.state_dict(), [value.detach() for value in values]), "states")
"""


def run(tmp_path, script, look=lambda process: None):
    """(status, lines of the output, errors). `look` is called while the program runs."""
    (tmp_path / "script.py").write_text(SCRIPT + script)
    storage = tmp_path / "storage"
    storage.mkdir()
    process = subprocess.Popen(
        [BUILD / "spillway", "run", "--device", "host", "--device-memory", "40MiB", "--host-memory", "40MiB",
         "--storage", f"{storage}:1GiB", "--policy", "base_uvm", "--near-optimizer", "on", "--",
         sys.executable, "script.py"],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path, process_group=0,
        env=clean_environment())
    try:
        look(process)
        output, errors = process.communicate(timeout=LIMIT_S)
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
            left = True
        except ProcessLookupError:
            left = False
    if "userfaultfd" in errors and process.returncode != 0:
        pytest.skip("no run on the host works here")
    assert not left, "a process is left"
    assert list(storage.iterdir()) == []
    assert "Spillway updates 5 tensors" in errors
    return process.returncode, output.splitlines(), errors


@pytest.fixture(scope="module")
def plain():
    """Bits after 4 and after 5 steps of PyTorch's own, and a function that makes an optimizer."""
    names = {"torch": torch}
    exec(TRAINING, names)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    values, optimizer = names["begin"]()
    bits = []
    for _ in range(5):
        optimizer.step()
        bits.append(names["bits"](values, optimizer))
    torch.set_num_threads(before)
    return bits[3], bits[4], names


def state(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def test_stopped_and_continued_and_handlers_of_its_own(tmp_path, plain):
    """As by Ctrl-Z and fg, with a timer whose handler reads what the update writes, and a Ctrl-C that the
    program takes for itself."""
    stopped = []

    def go_on(process):
        ends = time.monotonic() + LIMIT_S
        while time.monotonic() < ends and not stopped and process.poll() is None:
            # What a shell asks for.
            how = os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOHANG)
            if how is not None:
                stopped.append(how.si_status)
                program = int(process.stdout.readline())
                while state(program) != "T" and time.monotonic() < ends:
                    time.sleep(0.01)
                stopped.append(state(program))
                os.killpg(process.pid, signal.SIGCONT)
            time.sleep(0.01)

    status, output, errors = run(tmp_path, """
import time
print(os.getpid(), flush=True)
seen = []
signal.signal(signal.SIGALRM, lambda *_: seen.append(sum(value[::4096].sum().item() for value in values)))
signal.signal(signal.SIGINT, lambda *_: seen.append("Ctrl-C"))

def act():
    os.killpg(0, signal.SIGINT)
    os.killpg(0, signal.SIGTSTP)

signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
steps(act)
signal.setitimer(signal.ITIMER_REAL, 0)
assert seen.count("Ctrl-C") == 1 and len(seen) > 5, seen
print(bits(values, optimizer))
""", go_on)
    assert status == 0, errors
    assert stopped == [signal.SIGTSTP, "T"]
    assert output == [str(plain[1])]


def test_ctrl_c(tmp_path, plain):
    """The update that runs ends first, as PyTorch's own does, so what a script saves then is whole."""
    status, output, errors = run(tmp_path, """
try:
    steps(lambda: os.killpg(0, signal.SIGINT))
finally:
    print(bits(values, optimizer))
""")
    assert status == 128 + signal.SIGINT, errors
    assert "KeyboardInterrupt" in errors and "spillway: base_uvm for " in errors
    assert output == [str(plain[0])]


def test_killed(tmp_path, plain):
    """The checkpoint before it goes on in plain PyTorch as if nothing had been."""
    status, output, errors = run(tmp_path, "steps(lambda: os.kill(os.getpid(), signal.SIGKILL))")
    assert status == 128 + signal.SIGKILL and output == [], errors
    states, kept = torch.load(tmp_path / "states")
    values, optimizer = plain[2]["begin"]()
    optimizer.load_state_dict(states)
    for value, one in zip(values, kept):
        value.data.copy_(one)
    for _ in range(2):
        optimizer.step()
    assert plain[2]["bits"](values, optimizer) == plain[1]
