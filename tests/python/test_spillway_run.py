"""`spillway run` with unmodified programs: the same bits, and clear words when something is wrong.

Needs the built program (build/, or the folder that SPILLWAY_BUILD names) and userfaultfd.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time

import pytest
from conftest import clean_environment

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPILLWAY = pathlib.Path(os.environ.get("SPILLWAY_BUILD", ROOT / "build")) / "spillway"
TRAIN = ROOT / "examples" / "train_gpt2.py"

pytestmark = pytest.mark.skipif(not SPILLWAY.exists(), reason=f"{SPILLWAY} is not built")


def run(options, command, environment=(), **more):
    return subprocess.run([SPILLWAY, "run", *options, "--", *command], text=True,
                          capture_output=True, timeout=300,
                          env={**clean_environment(), **dict(environment)}, **more)


def python(script):
    return [sys.executable, "-c", textwrap.dedent(script)]


def run_recorded(options, command, **more):
    """The same, with the records of its processes."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "records"
        result = run(["--json", file, *options], command, **more)
        assert file.exists(), result.stderr
        result.records = [json.loads(line) for line in file.read_text().splitlines()]
    return result


def test_without_the_python_package_a_line_says_what_is_missing(tmp_path):
    for name in ("spillway", "libspillway_preload.so"):
        shutil.copy(SPILLWAY.parent / name, tmp_path)

    def beside(*options):
        return subprocess.run([tmp_path / "spillway", "run", "--device", "host", "--device-memory", "64MiB", *options,
                               "--", "true"], text=True, capture_output=True, timeout=60, env=clean_environment())

    missing = f"hook is not installed beside {tmp_path / 'spillway'}; build or install Spillway again"
    plain = beside()
    assert plain.returncode == 0
    assert f"spillway: nothing is known of PyTorch's operators and optimizers: {missing}\n" in plain.stderr
    near = beside("--near-optimizer", "on", "--strict")
    assert near.returncode == 2
    assert near.stderr == ("spillway: --near-optimizer on has no effect, and nothing is known of PyTorch's operators "
                           f"and optimizers: {missing} (--strict)\n")


# Blocks of 8 MiB with patterns, more than the budget, written and checked several times over.
PATTERNS = """
    import hashlib, sys
    def pattern(i, version):
        return hashlib.sha256(b"%d/%d" % (i, version)).digest() * 32768 * 8
    buffers = [bytearray(pattern(i, 0)) for i in range(16)]
    for version in range(3):
        for i, buffer in enumerate(buffers):
            assert buffer == pattern(i, version), (i, version)
            buffer[:] = pattern(i, version + 1)
    print("all there")
"""


@pytest.mark.parametrize("policy", ["base_uvm", "deepum", "deepum_plus", "g10", "autovm"])
@pytest.mark.parametrize("storage", [False, True])
def test_contents_survive(policy, storage, tmp_path):
    options = ["--device-memory", "32MiB", "--policy", policy]
    options += (["--host-memory", "32MiB", "--storage", f"{tmp_path}:512MiB"] if storage
                else ["--host-memory", "512MiB"])
    result = run_recorded(options, python(PATTERNS))
    assert result.returncode == 0, result.stderr
    assert "all there" in result.stdout
    moved = result.records[0]["moved_bytes"]
    assert moved["device_to_storage" if storage else "device_to_host"] > 0
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """How to train a small GPT-2, its losses, and the peak of its memory."""
    folder = tmp_path_factory.mktemp("trained")
    text = folder / "text"
    text.write_text((ROOT / "README.md").read_text() * 4)
    train = [sys.executable, str(TRAIN), "--layers", "2", "--width", "256", "--heads", "4",
             "--context", "256", "--batch", "4", "--steps", "5", "--text", str(text), "--quiet",
             "--losses"]
    alone = folder / "alone"
    subprocess.run([*train, str(alone)], check=True, timeout=300, capture_output=True)
    whole = run_recorded(["--device-memory", "2GiB"], [*train, str(folder / "whole")])
    assert (folder / "whole").read_text() == alone.read_text()
    return train, alone.read_text(), whole.records[0]["peak_bytes"]


@pytest.mark.parametrize("policy", ["base_uvm", "deepum", "g10"])
@pytest.mark.parametrize("percent", [70, 35, 20])
def test_losses_are_the_same_bits_under_every_budget(percent, policy, trained, tmp_path):
    train, alone, peak = trained
    losses = tmp_path / "losses"
    budget = max(peak * percent // 100, 16 << 20)
    result = run_recorded(["--device-memory", str(budget), "--policy", policy,
                           "--storage", f"{tmp_path}:1GiB", "--host-memory", "64MiB"],
                          [*train, str(losses)])
    assert result.returncode == 0, result.stderr
    assert losses.read_text() == alone
    made = result.records[0]
    assert percent > 35 or made["evictions"] > 0
    # The third step and those after it follow a plan.
    assert policy != "g10" or made["plan"]["launches"] > 100
    # Where to depends on how fast the machine is.
    assert (policy != "g10" or percent > 35 or
            made["plan"]["to_host_bytes"] + made["plan"]["to_storage_bytes"] > 0)


def test_handles_of_names_are_kept():
    """oneDNN asks once for the handle of a name, and begins tasks with it ever after."""
    result = run(["--device-memory", "64MiB"], python("""
        import ctypes
        create = ctypes.CDLL(None).__itt_string_handle_create
        create.restype, create.argtypes = ctypes.c_void_p, [ctypes.c_char_p]
        name_of = lambda handle: ctypes.c_char_p.from_address(handle).value
        text = ctypes.create_string_buffer(b"gemm")
        first = create(text)
        text.value = b"gone"
        second = create(b"eltwise")
        print(name_of(first).decode(), name_of(second).decode(), create(b"gemm") == first)
    """))
    assert result.stdout == "gemm eltwise True\n", result.stderr


def test_a_script_without_an_optimizer_is_planned_for(tmp_path):
    """Iterations are found in its launches, and its modules' forwards ask for operands."""
    script = tmp_path / "inference.py"
    script.write_text(textwrap.dedent("""
        import torch
        torch.manual_seed(1)
        model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(24)])
        words = torch.randn(64, 1024)
        with torch.inference_mode():
            for _ in range(20):
                print(model(words).sum().item().hex())
    """))
    command = [sys.executable, script]
    alone = subprocess.run(command, text=True, capture_output=True, check=True)
    budget = ["--device-memory", "64MiB", "--host-memory", "256MiB", "--policy", "g10"]
    result = run_recorded(budget, command)
    assert result.stdout == alone.stdout, result.stderr
    (record,) = result.records
    plan = record["plan"]
    assert plan["error"] == "" and plan["launches"] >= 24
    assert plan["peak_bytes"] > 64 << 20 and plan["to_host_bytes"] > 0
    # With room enough nobody is asked.
    (record,) = run_recorded(["--device-memory", "1GiB", "--policy", "g10"], command).records
    assert "plan" not in record or record["plan"] is None


def test_workers_of_a_loader_see_the_data_set():
    script = """
        import torch
        from torch.utils.data import DataLoader, TensorDataset
        data = torch.arange(24 << 20, dtype=torch.float32).reshape(96, -1)  # 96 MiB
        loader = DataLoader(TensorDataset(data), batch_size=8, num_workers=2,
                            multiprocessing_context="fork")
        total = 0
        for i, (batch,) in enumerate(loader):
            assert torch.equal(batch, data[8 * i:8 * i + 8]), i
            total += len(batch)
        assert total == 96
        print("all there")
    """
    result = run(["--device-memory", "32MiB", "--host-memory", "1GiB"], python(script))
    assert "all there" in result.stdout, result.stderr


# Address space that Spillway has reserved and nobody uses is not the child's.
def test_a_child_may_limit_its_address_space():
    script = """
        import os, resource, torch
        torch.set_num_threads(1)  # OpenMP's threads do not survive a fork
        data = torch.arange(24 << 20, dtype=torch.float32)  # 96 MiB
        total = float(data.sum())
        child = os.fork()
        if child == 0:
            resource.setrlimit(resource.RLIMIT_AS, (24 << 30, 24 << 30))
            mine = torch.ones(64 << 20)  # 256 MiB, of the child's own
            os._exit(0 if float(data.sum()) == total and float(mine.sum()) == 64 << 20 else 1)
        assert os.waitpid(child, 0)[1] == 0
        more = [torch.full((8 << 20,), float(i)) for i in range(16)]  # beyond what was in use then
        assert all(bool((tensor == i).all()) for i, tensor in enumerate(more))
        assert float(data.sum()) == total
        print("all there")
    """
    result = run(["--device-memory", "32MiB", "--host-memory", "4GiB"], python(script))
    assert "all there" in result.stdout, result.stderr


def without(*privileges):
    """The start of a command that gives them up; skips the test where that is not to be had."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can give up privileges, with setpriv (util-linux)")
    return ["setpriv", *privileges]


# Without fork events the kernel tells nobody of children: they do not get the memory at all.
def test_without_fork_events_a_child_that_touches_the_memory_ends(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent("""
        import os, sys
        data = bytearray(b"x" * (96 << 20))
        for touches in (False, True):
            child = os.fork()
            if child == 0:
                os._exit(7 if not touches or data[5 << 20] == ord("x") else 8)
            print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        assert data == b"x" * (96 << 20)
        print("all there")
    """))
    command = without("--bounding-set", "-sys_ptrace", "--inh-caps", "-sys_ptrace") + [
        SPILLWAY, "run", "--device-memory", "32MiB", "--host-memory", "1GiB", "--",
        sys.executable, script]
    result = subprocess.run(command, text=True, capture_output=True, timeout=300)
    if "userfaultfd is not permitted" in result.stderr:
        pytest.skip("no /dev/userfaultfd: without the capability there is nothing to run on")
    assert result.stdout.split("\n")[:3] == ["child 7", f"child {-signal.SIGSEGV}", "all there"], (
        result.stdout + result.stderr)


def test_without_permission_the_sysctl_and_the_alternatives_are_named():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)  # where nobody may read
        for name in ("spillway", "libspillway_preload.so"):
            shutil.copy(SPILLWAY.parent / name, folder)
        result = subprocess.run(
            without("--reuid=65534", "--regid=65534", "--clear-groups") + [
                f"{folder}/spillway", "run", "--device-memory", "32MiB", "--", "/bin/true"],
            text=True, capture_output=True, timeout=60)
    if result.returncode == 0:
        pytest.skip("everybody may use userfaultfd here")
    assert result.returncode == 125
    for words in ("vm.unprivileged_userfaultfd=1", "/dev/userfaultfd", "CAP_SYS_PTRACE"):
        assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_budget_that_is_too_small_fails_like_malloc():
    script = """
        kept = bytearray(b"x" * (30 << 20))
        try:
            bytearray(200 << 20)
        except MemoryError:
            print("refused")
        assert kept == b"x" * (30 << 20)
    """
    result = run(["--device-memory", "64MiB", "--host-memory", "64MiB"], python(script))
    assert "refused" in result.stdout, result.stderr
    assert "64 MiB of device memory" in result.stderr
    assert "--host-memory" in result.stderr


@pytest.mark.parametrize("options, words", [
    (["--storage", "/nonexistent/folder/x"], "/nonexistent/folder/x"),
    (["--storage", "/proc"], "/proc"),
    (["--storage", "/tmp:12parsecs"], "12parsecs"),
    (["--device-memory", "lots"], "--device-memory: 'lots' is not a size"),
    (["--device-memory", ""], "--device-memory: its value is empty"),
    (["--host-memory", "none"], "--host-memory: 'none' is not a size"),
    (["--storage", ":1GiB"], "--storage: ':1GiB' lacks its place"),
    (["--storage", "/tmp:0"], "--storage: 0 is too little"),
    (["--link-bandwidth", "1"], "--link-bandwidth: 1 is too little"),
    (["--device-memory", "1MiB"], "--device-memory: 1MiB is too little; at least 8 MiB"),
    (["--device-memory", "12MiB"], "a device memory of 12 MiB is too small; at least 16 MiB"),
    (["--device", "host", "--device-memory", "12MiB"],
     "--device-memory: 12MiB is too little; at least 16 MiB"),
    (["--device-memory", "90TiB", "--host-memory", "1GiB"],
     "device memory of 90 TiB and host memory of 1 GiB are more than a process has addresses for: "
     "the first and twice the second can be 16 TiB together; ask for less"),
    (["--device-memory", "1GiB", "--host-memory", "90TiB"], "can be 16 TiB together"),
    (["--device-memory", "1024PiB", "--host-memory", "1024PiB"], "can be 16 TiB together"),
    (["--device-memory", "4GX"], "use B, KiB, MiB, GiB, TiB, PiB or kB, MB, GB, TB"),
    (["--prefetch-degree", "x"], "spillway: --prefetch-degree: 'x' is not a number of launches"),
    (["--prefetch-degree", "0"], "spillway: --prefetch-degree: '0' is not a number of launches"),
    (["--storage", "/tmp/mistyped:1GiB"], "/tmp/mistyped: there is no such folder"),
    (["--storage", "/tmp:90TiB"], "/tmp: 90 TiB of storage asked for"),
    (["--policy", "magic"], "unknown policy 'magic'"),
    (["--policy", "flashneuron"], "name a place with --storage"),
    (["--fault-latency", "soon"], "--fault-latency: 'soon' is not a time"),
    (["--fault-latency", "inf s"], "--fault-latency: 'inf s' is not a time"),
    (["--fault-latency", "50"], "--fault-latency: '50' needs a unit"),
    (["--threshold", "small"], "--threshold: 'small' is not a size"),
])
def test_what_cannot_be_is_told_before_the_program_starts(options, words):
    result = run(options, ["/bin/echo", "started"])
    assert result.returncode == 2, result.stderr
    assert "started" not in result.stdout
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_limit_of_addresses_is_told_with_what_lifts_it():
    limited = ["sh", "-c", 'ulimit -v 8000000 && exec "$@"', "sh", SPILLWAY, "run",
               "--device-memory", "1GiB", "--host-memory", "1GiB", "--", "/bin/echo", "started"]
    result = subprocess.run(limited, text=True, capture_output=True, timeout=60, check=False)
    assert result.returncode == 125, result.stderr
    assert re.search(r"64 GiB of addresses are needed in one piece, and [67][0-9.]* GiB can be "
                     r"had: `ulimit -v unlimited`", result.stderr), result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("option, words", [("--device-memory", "nothing will have to move"),
                                           ("--host-memory", "memory will be short")])
def test_more_than_the_machine_has_is_told(option, words):
    result = run([option, "2TiB"], ["/bin/echo", "started"])
    assert result.stdout == "started\n", result.stderr
    assert f"{option}: 2TiB is more than this machine has" in result.stderr
    assert words in result.stderr


def test_statuses_and_signals_pass_through():
    assert run([], python("import sys; sys.exit(7)")).returncode == 7
    killed = run([], python("import os, signal; os.kill(os.getpid(), signal.SIGKILL)"))
    assert killed.returncode == 128 + signal.SIGKILL
    assert "signal 9" in killed.stderr
    missing = run([], ["/no/such/program"])
    assert missing.returncode == 127
    assert "/no/such/program" in missing.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_ends_the_run_ends_the_program(number, tmp_path):
    script = """
        import os, time
        data = bytearray(b"x" * (8 << 20))
        print(os.getpid(), flush=True)
        time.sleep(600)
    """
    with subprocess.Popen([SPILLWAY, "run", "--device-memory", "32MiB", "--", *python(script)],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, "TMPDIR": str(tmp_path)},
                          # As in a shell, also where tests run under nohup.
                          preexec_fn=lambda: signal.signal(number, signal.SIG_DFL)) as process:
        program = int(process.stdout.readline())
        assert len(list(tmp_path.iterdir())) == 1
        process.send_signal(number)
        process.communicate(timeout=60)
    assert process.returncode == 128 + number
    with pytest.raises(ProcessLookupError):
        os.kill(program, 0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["python", "static"])
def test_a_run_that_is_killed_takes_the_program_with_it(kind, tmp_path):
    script = """
        import os, time
        data = bytearray(b"x" * (8 << 20))
        print("ready", flush=True)
        time.sleep(600)
    """
    folders = tmp_path / "folders"
    folders.mkdir()
    command = python(script) if kind == "python" else [static_program(
        tmp_path, """
        #include <unistd.h>
        int main(void) { return write(1, "ready\\n", 6) == 6 ? (int)sleep(600) : 1; }
        """)]
    environment = {**os.environ, "TMPDIR": str(folders)}
    spilled = [SPILLWAY, "run", "--device-memory", "32MiB", "--"]
    with subprocess.Popen([*spilled, *command], stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout.readline() == b"ready\n"
        process.kill()
        assert process.communicate(timeout=60)[0] == b""  # nobody has it open any more
    assert process.returncode == -signal.SIGKILL
    # The next one clears up, and leaves alone what belongs to a run that goes on.
    with subprocess.Popen([*spilled, "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          env=environment) as going_on:
        going_on.stdin.write(b"x\n")
        going_on.stdin.flush()
        assert going_on.stdout.readline() == b"x\n"
        left = list(folders.iterdir())
        assert len(left) == 1
        assert subprocess.run([*spilled, "true"], env=environment).returncode == 0
        assert list(folders.iterdir()) == left
        going_on.communicate()
    assert list(folders.iterdir()) == []


def static_program(folder, text):
    source = folder / "static.c"
    source.write_text(textwrap.dedent(text))
    if shutil.which("cc") is None or subprocess.run(
            ["cc", "-static", "-o", folder / "static", source], capture_output=True).returncode:
        pytest.skip("no static programs can be built")
    return folder / "static"


def test_a_program_without_libraries_is_told_of(tmp_path):
    result = run([], [static_program(tmp_path, "int main(void) { return 3; }")])
    assert result.returncode == 3 and "is linked statically" in result.stderr
    script = tmp_path / "script"
    script.write_text(f"#!{tmp_path / 'static'} -x\n")
    script.chmod(0o755)
    result = run(["--strict"], [script])
    assert (result.returncode, result.stderr.count("\n")) == (2, 1), result.stderr
    assert "is linked statically" in result.stderr and "(--strict)" in result.stderr


def test_a_program_that_leaves_at_once_has_its_record():
    result = run(SMALL, python("""
        import os
        data = bytearray(b"x" * (8 << 20))
        os._exit(4)
    """))
    assert result.returncode == 4 and "spillway: everything fit: " in result.stderr


def test_nothing_is_said_to_fit_where_memory_ran_out():
    result = run(SMALL, python("""
        data = bytearray(b"x" * (8 << 20))
        try:
            bytearray(1 << 40)
        except MemoryError:
            print("refused")
    """))
    assert result.stdout == "refused\n"
    assert "spillway: memory ran out: 1 allocation was refused, the largest of 1 TiB" in result.stderr
    assert "fit: " not in result.stderr


def test_of_several_processes_each_is_named():
    script = "import os; data = bytearray(b'x' * (8 << 20)); print(os.getpid(), flush=True)"
    result = run(SMALL, python(f"""
        import subprocess, sys
        {script}
        subprocess.run([sys.executable, "-c", {script!r}], check=True)
    """))
    pids = result.stdout.split()
    assert len(pids) == 2 and pids[0] != pids[1]
    for pid in pids:
        assert f"spillway: process {pid}: everything fit: " in result.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_program_that_a_signal_ends_has_a_summary_and_a_report(tmp_path, number):
    page = tmp_path / "run.html"
    result = run([*SMALL, "--report", page], python(f"""
        import os, time
        data = bytearray(b"x" * (8 << 20))
        time.sleep(0.5)
        os.kill(os.getpid(), {int(number)})
        time.sleep(60)
    """))
    assert result.returncode == 128 + number, result.stderr
    assert "spillway: everything fit: " in result.stderr and page.exists()


def test_a_report_that_cannot_be_made_leaves_the_programs_status(tmp_path):
    result = run([*SMALL, "--report", tmp_path / "run.html"], ["false"])
    assert result.returncode == 1 and "no report, because" in result.stderr
    assert run([*SMALL, "--report", tmp_path / "run.html"], ["true"]).returncode == 125


def test_a_folder_with_a_space_is_no_place_to_install(tmp_path):
    folder = tmp_path / "two words"
    folder.mkdir()
    for name in ("spillway", "libspillway_preload.so"):
        shutil.copy(SPILLWAY.parent / name, folder)
    result = subprocess.run([folder / "spillway", "run", "--device", "host", "--", "true"], text=True,
                            capture_output=True, check=False)
    assert result.returncode == 125 and "a space or a colon" in result.stderr, result


def test_a_killed_run_leaves_no_file_behind(tmp_path):
    script = """
        import time
        data = [bytearray(b"x" * (8 << 20)) for _ in range(16)]
        print("ready", flush=True)
        time.sleep(60)
    """
    with subprocess.Popen([SPILLWAY, "run", "--device-memory", "32MiB", "--host-memory", "16MiB",
                           "--storage", f"{tmp_path}:512MiB", "--", *python(script)],
                          stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout.readline() == "ready\n"
        os.killpg(process.pid, signal.SIGKILL)
    time.sleep(0.1)
    assert list(tmp_path.iterdir()) == []


def test_threads_share_the_space():
    script = """
        import hashlib, threading
        def work(i):
            for version in range(4):
                data = hashlib.sha256(b"%d/%d" % (i, version)).digest() * 32768 * 8
                kept = bytearray(data)
                other = bytearray(12 << 20)
                assert kept == data and not any(other[::4096])
            done.append(i)
        done = []
        threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
        [t.start() for t in threads]; [t.join() for t in threads]
        assert len(done) == 6
        print("all there")
    """
    result = run(["--device-memory", "32MiB", "--host-memory", "512MiB"], python(script))
    assert "all there" in result.stdout, result.stderr


def test_a_part_of_a_mapping_may_be_given_back():
    script = """
        import ctypes, mmap
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
        libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        size = 24 << 20
        start = libc.mmap(None, size, 3, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        ctypes.memset(start, 7, size)
        assert libc.munmap(start, size - (4 << 20)) == 0
        others = [bytearray(b"z" * size) for _ in range(4)]  # would take its place if it were free
        rest = ctypes.string_at(start + size - (4 << 20), 4 << 20)
        assert rest == bytes([7]) * (4 << 20)
        print("kept")
    """
    result = run(["--device-memory", "32MiB", "--host-memory", "512MiB"], python(script))
    assert "kept" in result.stdout, result.stderr


def test_a_child_program_has_limits_of_its_own(tmp_path):
    inner = "import sys; b = bytearray(b'y' * (40 << 20)); assert b[-1:] == b'y'; print('inner')"
    script = f"""
        import os, subprocess, sys
        mine = bytearray(b"x" * (48 << 20))
        environment = dict(os.environ, SPILLWAY_DEVICE_MEMORY="20MiB")
        out = subprocess.run([sys.executable, "-c", {inner!r}], env=environment,
                             capture_output=True, text=True)
        assert out.stdout == "inner\\n", out.stderr
        assert mine == b"x" * (48 << 20)
        print("outer")
    """
    result = run_recorded(["--device-memory", "32MiB", "--host-memory", "512MiB"], python(script))
    assert "outer" in result.stdout, result.stderr
    assert {record["budget_bytes"]["device"] >> 20 for record in result.records} == {20, 32}


SMALL = ["--device-memory", "32MiB", "--host-memory", "64MiB"]
TOUCH = python("""
    data = bytearray(b"x" * (8 << 20))
    print("the program's own")
""")


def test_the_record_goes_where_it_is_told_to(tmp_path):
    file = tmp_path / "record.json"
    file.write_text("of an earlier run, which was longer" * 1000)
    result = run([*SMALL, "--json", file], TOUCH)
    assert result.stdout == "the program's own\n"
    (start,) = result.stderr.splitlines()
    assert start.startswith("spillway: runs on ")
    assert json.loads(file.read_text())["peak_bytes"] >= 8 << 20

    result = run([*SMALL, "--json", "-"], TOUCH)
    first, *rest = result.stdout.splitlines()
    assert first == "the program's own"
    assert json.loads("".join(rest))["peak_bytes"] >= 8 << 20

    result = run(SMALL, TOUCH)
    assert result.stdout == "the program's own\n"
    start, end = result.stderr.splitlines()
    assert start.startswith("spillway: runs on ") and end.startswith("spillway: everything fit: ")


def test_without_a_record_the_file_is_empty_and_a_line_says_why(tmp_path):
    file = tmp_path / "record.json"
    result = run([*SMALL, "--json", file], ["/bin/true"])
    assert (result.returncode, file.read_text()) == (0, "")
    assert "nothing to report" in result.stderr


def test_the_report_is_written_beside_the_record(tmp_path):
    result = run([*SMALL, "--json", tmp_path / "record.json", "--report", tmp_path / "report.html"],
                 TOUCH)
    assert result.returncode == 0, result.stderr
    page = (tmp_path / "report.html").read_text()
    assert page.startswith("<!DOCTYPE html>") and "Process" in page
    assert (tmp_path / "record.json").read_text().startswith("{")


def test_a_report_without_gnuplot_has_all_but_charts(tmp_path):
    result = run([*SMALL, "--report", tmp_path / "report.html"], TOUCH, {"PATH": str(tmp_path)})
    assert result.returncode == 0, result.stderr
    assert result.stderr.startswith("spillway: the report will have no charts: gnuplot is not "
                                    "installed: install it (Debian package gnuplot-nox)")
    page = (tmp_path / "report.html").read_text()
    assert "There are no charts" in page and "Numbers" in page


@pytest.mark.parametrize("option", ["--json", "--report"])
def test_a_file_that_cannot_be_written_is_told_before_the_program_starts(option, tmp_path):
    for file, reason in [(tmp_path / "no" / "file", "No such file or directory"),
                         (tmp_path, "Is a directory"), ("/proc/self/x/y", "No such file")]:
        result = run([*SMALL, option, file], TOUCH)
        assert result.returncode == 2 and result.stdout == "", result.stderr
        assert f"{file}: " in result.stderr and reason in result.stderr
        assert result.stderr.count("\n") == 1
    full = run([*SMALL, option, "/dev/full"], TOUCH)
    assert full.returncode == 125
    assert "/dev/full: cannot be written: No space left on device" in full.stderr


@pytest.mark.parametrize("option", ["--json", "--report"])
def test_an_option_without_its_file_does_not_take_the_dashes_for_one(option, tmp_path):
    result = run([*SMALL, option], ["/bin/echo", "started"], cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert "lacks its file" in result.stderr
    assert list(tmp_path.iterdir()) == []
