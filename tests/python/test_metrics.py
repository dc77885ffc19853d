"""`spillway run --metrics`: what Prometheus finds, read with its own parser.

Needs the built program (build/, or the folder that SPILLWAY_BUILD names) and userfaultfd.
"""

import contextlib
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import textwrap
import time
import urllib.error
import urllib.request

import pytest
from conftest import clean_environment

parser = pytest.importorskip("prometheus_client.parser")

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("SPILLWAY_BUILD", ROOT / "build"))
DRIVER = BUILD / "fake_driver" / "libcuda.so.1"

pytestmark = pytest.mark.skipif(not (BUILD / "spillway").exists(), reason="spillway is not built")

# Uses twice its budget, says so, and goes on when it is told to.
USES = """
    import sys
    data = [bytearray(8 << 20) for _ in range(8)]
    for block in data + data:
        block[::4096] = b"x" * 2048
    print("used", flush=True)
    sys.stdin.readline()
"""
OPTIONS = ["--device", "host", "--device-memory", "32MiB", "--policy", "base_uvm"]


@contextlib.contextmanager
def running(where, script=USES, options=OPTIONS, **more):
    """A run that has printed its first line; ends with the block."""
    program = subprocess.Popen(
        [BUILD / "spillway", "run", *options, "--metrics", str(where), "--",
         sys.executable, "-c", textwrap.dedent(script)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**clean_environment(), **more})
    try:
        program.first = program.stdout.readline()
        yield program
        program.errors = program.communicate("\n", timeout=60)[1]
    finally:
        program.kill()
        program.wait()


def samples(text):
    """By name and labels but the process's."""
    found = {}
    for family in parser.text_string_to_metric_families(text):
        assert family.name.startswith("spillway_")
        assert family.documentation and family.type in ("counter", "gauge")
        for name, labels, value, *_ in family.samples:
            assert labels.pop("pid").isdigit()
            assert (name, *labels.values()) not in found
            found[name, *labels.values()] = value
    return found


def until(holds, seconds=20):
    for _ in range(seconds * 20):
        if (value := holds()):
            return value
        time.sleep(0.05)
    raise AssertionError("it did not come to be")


def get(port, path="/metrics", **more):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", **more)
    # Not by way of a proxy that the environment names.
    return urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10)


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def test_a_file_is_written_while_it_runs_and_at_the_end(tmp_path):
    file = tmp_path / "spillway.prom"
    os.umask(mask := os.umask(0))
    with running(file) as program:
        assert program.first == "used\n"
        during = until(lambda: (now := samples(file.read_text())).get(
            ("spillway_page_faults_total",), 0) > 0 and now)
        assert file.stat().st_mode & 0o777 == 0o666 & ~mask, "the node exporter is another user"
    after = samples(file.read_text())
    assert during["spillway_process_running", "base_uvm"] == 1
    assert during["spillway_memory_budget_bytes", "device"] == 32 << 20
    assert 0 < during["spillway_memory_used_bytes", "device"] <= 32 << 20
    assert during["spillway_allocated_bytes",] >= 64 << 20
    assert during["spillway_moved_bytes_total", "device", "host"] > 0
    assert after["spillway_process_running", "base_uvm"] == 0
    assert ("spillway_memory_used_bytes", "device") not in after, "nothing is in use any more"
    assert after["spillway_page_faults_total",] >= during["spillway_page_faults_total",]
    assert list(tmp_path.iterdir()) == [file]


def test_numbers_at_the_end_are_those_of_the_record(tmp_path):
    file, record = tmp_path / "spillway.prom", tmp_path / "record"
    with running(file, options=[*OPTIONS, "--json", str(record)]):
        pass
    import json
    kept = json.loads(record.read_text())
    last = samples(file.read_text())
    for name, key in (("page_faults", "page_faults"), ("evictions", "evictions"),
                      ("stalled_seconds", "stalled_s"), ("copy_seconds", "copy_s")):
        assert kept[key] > 0
        assert last[f"spillway_{name}_total",] == pytest.approx(kept[key]), name


@pytest.mark.skipif(not DRIVER.exists(), reason="the fake driver is not built")
def test_on_a_gpu(tmp_path):
    file = tmp_path / "spillway.prom"
    script = """
        import ctypes, sys
        cuda = ctypes.CDLL("libcuda.so.1")
        device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
        assert cuda.cuInit(0) == 0 and cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
        assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
        assert cuda.cuCtxSetCurrent(context) == 0
        assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(8 << 20)) == 0
        assert cuda.cuMemsetD8_v2(memory, ctypes.c_ubyte(1), ctypes.c_size_t(8 << 20)) == 0
        print("used", flush=True)
        sys.stdin.readline()
    """
    with running(file, script, ["--device", "cuda", "--device-memory", "64MiB"],
                 SPILLWAY_CUDA_DRIVER=str(DRIVER),
                 LD_LIBRARY_PATH=str(DRIVER.parent)) as program:
        assert program.first == "used\n", program.communicate()[1]
        used = until(lambda: samples(file.read_text()).get(
            ("spillway_memory_used_bytes", "device"), 0))
        assert used == 8 << 20
    assert samples(file.read_text())["spillway_process_running", "lookahead"] == 0


@pytest.mark.parametrize("form", ["127.0.0.1:{}", ":{}", "localhost:{}"])
def test_a_port_of_the_loopback_answers(form):
    port = free_port()
    with running(form.format(port)) as program:
        assert program.first == "used\n"
        with get(port) as answer:
            assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        until(lambda: samples(get(port).read().decode()).get(("spillway_page_faults_total",), 0))
        for path, more, status in (("/other", {}, 404), ("/metrics", {"data": b"x"}, 405)):
            with pytest.raises(urllib.error.HTTPError) as refused:
                get(port, path, **more)
            assert refused.value.code == status
        listening = subprocess.run(["cat", "/proc/net/tcp"], capture_output=True, text=True).stdout
        # 127.0.0.1 and nothing else, as the kernel writes it; 0A: listens.
        assert re.findall(rf"([0-9A-F]{{8}}):{port:04X} 00000000:0000 0A", listening) == ["0100007F"]
        assert f":{port:04X} " not in pathlib.Path("/proc/net/tcp6").read_text()
    assert program.returncode == 0


def test_port_0_is_told():
    with running(":0", "print('begun')") as program:
        pass
    assert re.search(r"^spillway: metrics at http://127\.0\.0\.1:\d+/metrics$", program.errors, re.M)


def test_who_is_slow_or_leaves_delays_nobody():
    port = free_port()
    with running(f":{port}") as program:
        assert program.first == "used\n"
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(2)]
        silent[0].send(b"GET /metr")
        left = socket.create_connection(("127.0.0.1", port))
        left.send(b"GET /metrics HTTP/1.1\r\n\r\n")
        left.close()
        assert samples(get(port).read().decode())
        late = socket.create_connection(("127.0.0.1", port))
        before = time.monotonic()
    assert program.returncode == 0
    assert time.monotonic() - before < 3, "a run that ends waits for nobody"
    for one in (*silent, late):
        one.close()


# More than there is a place for, each silent or reading a byte now and then.
def test_many_who_are_silent_hold_nobody_up():
    port = free_port()
    with running(f":{port}") as program:
        assert program.first == "used\n"
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(64)]
        before = time.monotonic()
        for _ in range(5):
            assert samples(get(port).read().decode())
        assert time.monotonic() - before < 20, "64 of them have a second or two each"
        # Of those that are left none stays.
        silent[-1].settimeout(30)
        assert silent[-1].recv(1) == b""
    for one in silent:
        one.close()


def test_the_program_has_none_of_its_descriptors():
    script = """
        import os
        print([link for fd in os.listdir("/proc/self/fd")
               if "socket" in (link := os.path.realpath(f"/proc/self/fd/{fd}"))])
        input()
    """
    with running(f":{free_port()}", script) as program:
        assert program.first == "[]\n"


def test_a_run_that_is_ended_writes_the_last_numbers(tmp_path):
    file = tmp_path / "spillway.prom"
    with running(file) as program:
        until(lambda: samples(file.read_text()))
        program.send_signal(signal.SIGTERM)
    assert program.returncode == 128 + signal.SIGTERM
    assert samples(file.read_text())["spillway_process_running", "base_uvm"] == 0


@pytest.mark.parametrize("where, line", [
    ("0.0.0.0:9400", "--metrics: 0.0.0.0:9400: only the loopback is served, 127.0.0.1:9400; a file "
                     "of that name is ./0.0.0.0:9400"),
    (":99999", "--metrics: 99999 is no port; the last is 65535"),
    ("", "--metrics: its value is empty"),
    ("-", "--metrics: -: is no file that could be replaced; name one, or a port as 127.0.0.1:9400"),
    ("/dev/null", "--metrics: /dev/null: is no file that could be replaced; name one, or a port as "
                  "127.0.0.1:9400"),
    ("/no/such/folder/file", "--metrics: /no/such/folder/file: cannot be written: No such file or "
                             "directory; name a file in a folder that you may write"),
])
def test_what_is_wrong_is_said_at_the_start(where, line):
    with running(where, "print('started')") as program:
        pass
    assert program.first == ""
    assert program.errors.endswith(f"spillway: {line}\n")
    assert program.returncode == 2


def test_a_port_that_another_has():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with running(f":{port}", "print('started')") as program:
            pass
    assert program.errors.endswith(f"spillway: --metrics: 127.0.0.1:{port} cannot be had: Address "
                                   "already in use; take another port, or 0 for any\n")
    assert program.first == "" and program.returncode == 2
