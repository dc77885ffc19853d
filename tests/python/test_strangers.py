"""Programs that nobody wrote for Spillway, with and without it: the same output, the same status.

The C programs lie in tests/strangers. Needs the built program (build/, or the folder that
SPILLWAY_BUILD names), userfaultfd, and a C compiler.
"""

import contextlib
import fcntl
import importlib.util
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from conftest import clean_environment

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPILLWAY = pathlib.Path(os.environ.get("SPILLWAY_BUILD", ROOT / "build")) / "spillway"
SOURCES = ROOT / "tests" / "strangers"

pytestmark = pytest.mark.skipif(not SPILLWAY.exists(), reason=f"{SPILLWAY} is not built")

OURS = 125  # the status of what Spillway has ended

TIGHT = ["--device-memory", "48MiB", "--host-memory", "2GiB"]
ROOMY = ["--device-memory", "2GiB", "--host-memory", "1GiB"]
BUDGETS = pytest.mark.parametrize("budget", [TIGHT, ROOMY], ids=["tight", "roomy"])


def begun(command, environment=(), **more):
    return subprocess.Popen([str(word) for word in command], text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, start_new_session=True,
                            env={**clean_environment(), **dict(environment)}, **more)


def ended(process, timeout):
    """The end of a process, and of all that it has started."""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        try:
            said = process.communicate(timeout=10)
        except subprocess.TimeoutExpired as over:  # who has left its group holds its outputs
            said = over.stdout, over.stderr
        pytest.fail(f"{process.args} hangs; it said {said}")
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def ends(command, timeout=240, **more):
    """Runs a command to its end, or to that of all that it has started."""
    with begun(command, **more) as process:
        return ended(process, timeout)


def permitted(result):
    if result.returncode == 77:
        pytest.skip("the system does not permit what the program is about")
    return result


def spilled(budget, command, **more):
    return ends([SPILLWAY, "run", *budget, "--", *command], **more)


@pytest.fixture(scope="session")
def stranger(tmp_path_factory):
    """The program that tests/strangers/NAME.c is."""
    if shutil.which("cc") is None or shutil.which("c++") is None:
        pytest.skip("no compiler")
    folder = tmp_path_factory.mktemp("strangers")

    def built(name, *flags):
        program = folder / "-".join([name, *(pathlib.Path(flag).name for flag in flags)])
        source, = SOURCES.glob(f"{name}.c*")
        compiler = ["c++", "-std=c++17"] if source.suffix == ".cc" else ["cc", "-D_GNU_SOURCE"]
        if not program.exists():
            subprocess.run([*compiler, "-O1", "-Wall", "-Werror", "-pthread", "-o", program, source,
                            *flags], check=True)
        return program

    return built


def same(budget, command, words="all there", **more):
    """As alone, and it says so."""
    alone = ends(command, **more)
    assert alone.returncode == 0 and words in alone.stdout, alone.stderr
    result = spilled(budget, command, **more)
    assert (result.returncode, result.stdout) == (0, alone.stdout), result.stderr
    return result


@BUDGETS
@pytest.mark.parametrize("name", ["child_memory", "child_gives_back", "forks_in_forks",
                                  "grow", "outgrow", "handlers", "wiped"])
def test_a_program_does_the_same(name, budget, stranger):
    same(budget, [stranger(name)])


# Nothing that a budget could mend, so nothing is said of one.
@BUDGETS
def test_sizes_that_nobody_has_are_refused_without_a_word(budget, stranger):
    result = same(budget, [stranger("absurd_sizes")])
    assert "asked for" not in result.stderr, result.stderr


# What a killed parent has not given cannot be had any more: the right bytes, or the end and a line.
@BUDGETS
@pytest.mark.parametrize("how", ["killed", "killed-grandchild", "killed-by-itself",
                                 "network-killed-grandchild"])
def test_a_killed_parent_leaves_no_zeros(how, budget, stranger):
    result = permitted(spilled(budget, [stranger("daemon"), how], timeout=60))
    if budget is TIGHT and not how.startswith("network-"):
        assert result.stdout == "" and "ended without giving it" in result.stderr, result
    else:
        lines = set(result.stdout.splitlines())
        assert "child: 0 wrong" in lines and lines <= {"child: 0 wrong", "grandchild: 0 wrong"}


# It may have all, or the parent is gone before it could ask.
@pytest.mark.parametrize("how", ["killed-at-once", "network-killed-at-once"])
def test_a_parent_that_is_killed_at_once_leaves_no_zeros(how, stranger):
    for _ in range(8):
        result = permitted(spilled(TIGHT, [stranger("daemon"), how], timeout=60))
        assert result.stdout == "child: 0 wrong\n" or (
            result.stdout == "" and "ended without giving it" in result.stderr), result


@pytest.fixture
def memory_group():
    """A control group for memory, whose limits a test may set; its files by name."""
    for root in ("/sys/fs/cgroup/memory", "/sys/fs/cgroup"):
        folder = pathlib.Path(root) / f"spillway-test-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError:
            continue
        if (folder / "memory.limit_in_bytes").exists() or (folder / "memory.max").exists():
            yield folder
            for _ in range(100):  # whom the limit has killed may take a moment to be gone
                if not (folder / "cgroup.procs").read_text().split():
                    break
                time.sleep(0.1)
            with contextlib.suppress(OSError):
                folder.rmdir()
            return
        folder.rmdir()
    pytest.skip("no control groups for memory to be made")


# Its parent waits for it, but not for ever. Where the kernel ends it meanwhile, it has ended.
@pytest.mark.parametrize("kernel_ends_it", [False, True])
def test_a_child_at_its_memory_limit_cannot_take_all(kernel_ends_it, stranger, memory_group):
    old = (memory_group / "memory.limit_in_bytes").exists()
    limit = memory_group / ("memory.limit_in_bytes" if old else "memory.max")
    limit.write_text(str(16 << 20))
    if not kernel_ends_it:
        if not old:
            pytest.skip("the kernel ends whoever is at such a limit")
        (memory_group / "memory.oom_control").write_text("1")
    command = [stranger("daemon"), "_exit", memory_group / "cgroup.procs"]
    with begun([SPILLWAY, "run", *TIGHT, "--", *command]) as process:
        try:
            process.wait(timeout=40)
        finally:  # who ends the child may stand still itself until there is memory
            if not kernel_ends_it:
                limit.write_text(str(1 << 30))
        result = ended(process, timeout=20)
    assert (result.returncode, result.stdout) == (5, ""), result
    if not kernel_ends_it:
        assert "cannot take the memory that it has" in result.stderr
        assert "ended without giving it" in result.stderr


# Each asks for what is its own, although both say the same of themselves.
@BUDGETS
def test_children_of_the_same_number(budget, stranger):
    for _ in range(8):
        result = permitted(spilled(budget, [stranger("pid_namespaces"), "two"], timeout=60))
        if budget is TIGHT:
            assert (result.stdout, result.stderr.count("ended without giving it")) == ("", 2), result
        else:
            assert result.stdout == "child: 0 wrong\n" * 2, result


# Its number may be another's here: that one is left alone, and it is ended all the same, or told.
@pytest.mark.parametrize("how", ["bare", "bare-handler"])
def test_a_child_that_a_bare_system_call_has_made(how, stranger):
    permitted(ends([stranger("pid_namespaces"), how]))
    result = spilled(TIGHT, [stranger("pid_namespaces"), how], timeout=60)
    seen = "stopped\n" if how == "bare-handler" else ""
    assert (result.returncode, result.stdout) == (0, seen + "ended, 0 wrong\n"), result
    assert "was not made by fork()" in result.stderr
    # On a kernel that cannot do that, it is looked for.
    old = spilled(TIGHT, [stranger("refuse"), "poison", stranger("pid_namespaces"), how], timeout=60)
    assert (old.returncode, old.stdout) == (0, "ended, 0 wrong\n"), old


@BUDGETS
def test_fork_handlers_of_a_library(budget, stranger):
    library_of_it = stranger("fork_handlers_library", "-shared", "-fPIC")
    program = stranger("fork_handlers", library_of_it)
    same(budget, [program])
    if budget is TIGHT:  # whose locks are taken before a fork
        same(budget, [program], environment={"LD_PRELOAD": str(library("libjemalloc"))})


@BUDGETS
@pytest.mark.parametrize("storage", [False, True])
def test_a_library_that_allocates_while_it_is_loaded(budget, storage, stranger, tmp_path):
    more = ["--storage", f"{tmp_path}:256MiB"] if storage else []
    same([*budget, *more], [stranger("loading"), stranger("loading_library", "-shared", "-fPIC")],
         timeout=60)


def library(name):
    """A library of the system, by the start of its name; skips the test where there is none."""
    found = sorted(pathlib.Path("/usr/lib").glob(f"*/{name}.so.*"))
    if not found:
        pytest.skip(f"no {name} (tools/install-deps.sh python)")
    return found[0]


@BUDGETS
@pytest.mark.parametrize("how", ["linked", "preloaded"])
@pytest.mark.parametrize("name", ["libc", "libjemalloc", "libtcmalloc_minimal"])
def test_whatever_owns_a_pointer_gets_it_back(name, how, budget, stranger):
    if name == "libc":
        same(budget, [stranger("other_allocator")])
    elif how == "linked":
        result = same(budget, [stranger("other_allocator", "-Wl,--no-as-needed", library(name))])
        assert budget is not TIGHT or "0 B in from host" not in result.stderr, result.stderr
    else:
        result = same(budget, [stranger("other_allocator")],
                      environment={"LD_PRELOAD": str(library(name))})
        assert budget is not TIGHT or "0 B in from host" not in result.stderr, result.stderr


@BUDGETS
@pytest.mark.parametrize("how", ["", "close", "close_range", "closefrom", "dup2", "number",
                                 "range-number"])
def test_descriptors_are_the_programs(how, budget, stranger, tmp_path):
    same(budget, [stranger("descriptors"), how])
    if budget is TIGHT:
        same(["--device-memory", "48MiB", "--host-memory", "32MiB", "--storage",
              f"{tmp_path}:512MiB"], [stranger("descriptors"), how])


# The numbers below three are then free for whoever opens something first.
@BUDGETS
@pytest.mark.parametrize("closed", ["2>&-", "<&- >&-", "<&- >&- 2>&-"])
def test_a_program_that_starts_without_standard_descriptors(closed, budget, stranger, tmp_path):
    for program in (f"{stranger('mappings')} parts", f"{stranger('daemon')} exit"):
        statuses = []
        for run_ in ("", " ".join([str(SPILLWAY), "run", *budget, "--"])):
            # The shell that closes them is part of what runs: the command itself needs its own.
            result = ends(["sh", "-c", f"exec {run_} sh -c 'exec {program} {closed}'"], cwd=tmp_path)
            assert "file descriptor" not in result.stderr, result.stderr
            statuses.append((result.returncode, result.stdout))
        assert statuses[0] == statuses[1], program


def test_a_copy_onto_the_number_of_ours_ends_the_run():
    script = """
        import os
        kept = bytearray(8 << 20)
        for number in range(3, os.sysconf("SC_OPEN_MAX")):
            os.dup2(0, number)
        print("no number was taken")
    """
    result = spilled(ROOMY, [sys.executable, "-c", textwrap.dedent(script)], timeout=60)
    assert (result.returncode, result.stdout) == (OURS, ""), result.stderr
    assert "copies a file descriptor to number" in result.stderr


# What no library can see: it ends with a line, or nothing of ours was needed.
@BUDGETS
def test_descriptors_that_a_bare_system_call_closes(budget, stranger):
    alone = ends([stranger("descriptors"), "bare"])
    result = spilled(budget, [stranger("descriptors"), "bare"])
    if (result.returncode, result.stdout) != (0, alone.stdout):
        assert result.returncode == OURS, result.stderr
        assert "the program has closed file descriptor" in result.stderr


@BUDGETS
@pytest.mark.parametrize("how", ["_exit", "_Exit", "exit", "quick_exit", "exec", "grandchild",
                                 "network-_exit", "network-grandchild"])
def test_a_child_outlives_its_parent(how, budget, stranger):
    command = [stranger("daemon"), how]
    alone = permitted(ends(command))
    assert (alone.returncode, "child: 0 wrong" in alone.stdout) == (5, True), alone
    result = spilled(budget, command)
    assert (result.returncode, result.stdout) == (5, alone.stdout), result.stderr


# A handler that leaves while its thread leaves; threads that outlive the main one; a cancelled thread
# that allocates; an exec from the smallest stack.
@BUDGETS
@pytest.mark.parametrize("how", ["twice", "threads", "named-threads", "full-table", "cancel", "exec"])
def test_a_process_is_left_in_any_way(how, budget, stranger):
    command = [stranger("leaving"), how]
    alone = ends(command, timeout=30)
    result = spilled(budget, command, timeout=60)
    assert (result.returncode, result.stdout) == (alone.returncode, alone.stdout), result.stderr
    assert "wrong" not in alone.stdout.replace(": 0 wrong", ""), alone.stdout


@BUDGETS
@pytest.mark.parametrize("what", ["protect", "dontneed", "parts", "remap", "fixed", "lock",
                                  "sparse", "doors", "number", "advised"])
def test_pages_of_a_mapping(what, budget, stranger):
    same(budget, [stranger("mappings"), what], words=f"{what}: as it should be")


# Where nothing moves, not even what no library sees can go wrong.
def test_pages_that_a_bare_system_call_gives_back(stranger):
    same(ROOMY, [stranger("mappings"), "bare"], words="bare: as it should be")


def test_locking_everything_is_refused_or_keeps_spillway_out(stranger):
    late = spilled(TIGHT, [stranger("lock_all"), "late"])
    assert (late.returncode, late.stdout) == (0, "refused\nall there\n"), late.stderr
    assert "mlockall" in late.stderr
    early = spilled(TIGHT, [stranger("lock_all"), "early"])
    assert (early.returncode, early.stdout) == (0, "locked\nall there\n"), early.stderr
    assert "none of it is Spillway's" in early.stderr


# Pages that the kernel or a device holds for I/O must not move while they are held.
@pytest.mark.parametrize("budget", [TIGHT, ROOMY], ids=["tight", "roomy"])
@pytest.mark.parametrize("how", ["call", "ring", "splice"])
def test_direct_io_loses_nothing(how, budget, stranger, tmp_path):
    same(budget, [stranger("direct_io"), how, tmp_path], words="0 words are wrong")
    if budget is TIGHT:
        same(["--device-memory", "48MiB", "--host-memory", "16MiB", "--storage",
              f"{tmp_path}:512MiB"], [stranger("direct_io"), how, tmp_path],
             words="0 words are wrong")


# Nobody sees what is written into a page that was pinned before it was protected.
@pytest.mark.parametrize("how", ["open", "number", "flags", "inherited"])
def test_direct_io_into_what_has_just_come_loses_nothing(how, stranger, tmp_path):
    program, path = stranger("arriving"), tmp_path / "arriving"
    ends([program, "make", path])
    with path.open("rb") as file:
        if how == "inherited":
            fcntl.fcntl(file, fcntl.F_SETFL, os.O_DIRECT)
        same(TIGHT, [program, how, path], words="0 pages are lost", stdin=file)


@BUDGETS
@pytest.mark.parametrize("how", ["mem", "vm"])
def test_what_the_kernel_writes_is_kept(how, budget, stranger):
    same(budget, [stranger("kernel_writes"), how], words="0 pages are wrong")


# A ring may send without copying, and nobody sees what is put into it.
@BUDGETS
@pytest.mark.parametrize("how", ["library", "number"])
def test_what_is_sent_later_is_what_was_sent(how, budget, stranger):
    if not pathlib.Path("/usr/include/liburing.h").exists():
        pytest.skip("no liburing (tools/install-deps.sh)")
    program = stranger("send_later", "-luring")
    same(budget, [program, how], words="0 of what was sent are wrong")


# All buffers are held for good: there must be room for them.
def test_registered_buffers_need_room(stranger, tmp_path):
    command = [stranger("direct_io"), "ring-registered", tmp_path]
    same(["--device-memory", "128MiB", "--host-memory", "1GiB"], command, "0 words are wrong")
    result = spilled(TIGHT, command)
    assert (result.returncode, result.stdout) == (OURS, ""), result.stderr
    assert "holds what is there for I/O of its own" in result.stderr


@pytest.mark.parametrize("engine", ["libaio", "io_uring", "psync"])
def test_fio_verifies_what_it_has_written(engine, tmp_path):
    if shutil.which("fio") is None:
        pytest.skip("no fio (tools/install-deps.sh python)")
    fio = ["fio", "--name=verify", f"--directory={tmp_path}", f"--ioengine={engine}", "--direct=1",
           "--rw=randrw", "--bs=1m", "--size=96m", "--iodepth=32", "--verify=crc32c",
           "--verify_fatal=1", "--iomem=mmap", "--thread", "--numjobs=3", "--group_reporting",
           "--output-format=terse", "--terse-version=3"]
    alone = ends(fio, cwd=tmp_path)
    if alone.returncode != 0:
        pytest.skip(f"fio does not work here: {alone.stderr}")
    result = spilled(["--device-memory", "48MiB", "--host-memory", "1GiB"], fio, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "verify: bad" not in result.stderr


def test_a_run_inside_a_run(stranger):
    inner = [SPILLWAY, "run", "--device-memory", "20MiB", "--host-memory", "1GiB", "--",
             stranger("child_memory")]
    alone = ends([stranger("child_memory")])
    result = spilled(TIGHT, inner)
    assert (result.returncode, result.stdout) == (0, alone.stdout), result.stderr
    assert "the limits are 20 MiB of device memory" in result.stderr


def test_a_limit_of_file_sizes(stranger, tmp_path):
    script = f"""
        import os, resource, sys
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
        os.execv(sys.argv[2], sys.argv[2:])
    """
    def limited(most, storage):
        return ends([sys.executable, "-c", textwrap.dedent(script), most, SPILLWAY, "run",
                     "--device-memory", "48MiB", "--host-memory", "32MiB", "--storage",
                     f"{tmp_path}{storage}", "--", stranger("child_memory")])
    small = limited(0, ":512MiB")
    assert small.returncode == 2 and "ulimit -f" in small.stderr, small.stderr
    enough = limited(512 << 20, "")
    assert enough.returncode == 0, enough.stderr


# The kernel counts all addresses of the space; the program means its own memory.
@BUDGETS
@pytest.mark.parametrize("how", [["as"], ["data"], ["as", "number"]])
def test_a_program_limits_its_own_memory(how, budget, stranger):
    same(budget, [stranger("limits"), *how])


def test_a_limit_of_memory_that_is_set_before_says_so(stranger):
    script = """
        import resource
        resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))
        kept = bytearray(8 << 20)
    """
    result = spilled(TIGHT, [sys.executable, "-c", textwrap.dedent(script)])
    assert (result.returncode, result.stdout) == (OURS, ""), result.stderr
    assert "`ulimit -d unlimited` lifts the limit" in result.stderr


# A filter for all threads, ours among them, that is put up while the program runs.
@pytest.mark.parametrize("how, status, words", [
    ("refuses", OURS, "Operation not permitted"), ("kills", 128 + signal.SIGSYS, "a seccomp filter")])
def test_a_program_that_shuts_itself_in(how, status, words, stranger):
    program = [stranger("shut_in"), how]
    alone = permitted(ends(program))
    assert (alone.returncode, alone.stdout) == (0, "all there\n"), alone.stderr
    result = spilled(TIGHT, program, timeout=60)
    assert (result.returncode, result.stdout) == (status, ""), result.stderr
    assert words in result.stderr


# Containers refuse system calls, or single requests. Before the program starts, or when it wants memory:
# one line that says so, and a status of our own.
@pytest.mark.parametrize("what, words", [
    ("call", "userfaultfd is not permitted"), ("api", "userfaultfd can be opened, but not used"),
    ("register", "userfaultfd refuses 64 GiB of address space: Operation not permitted")])
def test_a_sandbox_that_refuses_userfaultfd(what, words, stranger):
    refuse, program = stranger("refuse"), stranger("grow")
    assert ends([refuse, what, program]).returncode == 0
    run_ = [SPILLWAY, "run", *TIGHT, "--"]
    outside = ends([refuse, what, *run_, program])
    assert (outside.returncode, outside.stdout) == (OURS, ""), outside.stderr
    assert outside.stderr.count("\n") == 1 and words in outside.stderr, outside.stderr
    inside = ends([*run_, refuse, what, program])
    assert (inside.returncode, inside.stdout) == (OURS, ""), inside.stderr
    assert inside.stderr.count(words) == 1, inside.stderr


# Without the request that copies, pages are moved; without that too there is no way.
def test_a_sandbox_that_refuses_to_copy_pages(stranger):
    result = ends([stranger("refuse"), "copy", SPILLWAY, "run", *TIGHT, "--", stranger("grow")])
    ended = result.returncode == OURS and result.stdout == "" and "Operation not" in result.stderr
    assert result.stdout == "all there\n" or ended, result.stderr


# What is alive is looked at over and over.
@pytest.mark.parametrize("budget, enough", [("48MiB", False), ("256MiB", True)])
def test_the_summary_says_how_much_is_needed(budget, enough):
    script = """
        blocks = [bytearray(8 << 20) for _ in range(12)]
        print(sum(block[at] for _ in range(30) for block in blocks for at in range(0, 8 << 20, 1 << 20)))
    """
    result = spilled(["--device-memory", budget, "--host-memory", "1GiB"],
                     [sys.executable, "-c", textwrap.dedent(script)])
    assert (result.returncode, result.stdout) == (0, "0\n"), result.stderr
    lines = [line for line in result.stderr.splitlines() if "give it at least" in line]
    if enough:
        assert lines == [], lines
    else:
        line, = lines
        assert "at least 72 MiB of device memory" in line
        assert "  enough     with 1" in result.stderr and "nothing would have moved" in result.stderr


# Where the kernel tells nobody of forks, a child does not get the space at all.
@BUDGETS
def test_a_child_has_its_own_memory_without_fork_events(budget, stranger):
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can give up privileges, with setpriv (util-linux)")
    program = [stranger("child_memory"), "own"]
    alone = ends(program)
    result = ends(["setpriv", "--bounding-set", "-sys_ptrace", "--inh-caps", "-sys_ptrace",
                   SPILLWAY, "run", *budget, "--", *program])
    if "userfaultfd is not permitted" in result.stderr:
        pytest.skip("no /dev/userfaultfd: without the capability there is nothing to run on")
    assert (result.returncode, result.stdout) == (0, alone.stdout), result.stderr


# The argument is as large as one that a pool hands to its workers in scikit-learn.
@BUDGETS
def test_workers_of_a_pool_receive_large_arguments(budget):
    script = """
        import multiprocessing, os, sys
        inherited = bytes(range(256)) * (64 << 12)  # 64 MiB
        def work(task):
            number, argument = task
            assert len(argument) == 38_000_000 and argument.count(number) == len(argument)
            mine = bytearray(argument) * 2
            if number % 2 == 0:  # a worker that forks
                child = os.fork()
                if child == 0:
                    os._exit(0 if inherited[1::256] == bytes([1]) * (64 << 12)
                             and mine.count(number) == len(mine) else 1)
                assert os.waitpid(child, 0)[1] == 0
            return number, inherited[number::256].count(number), bytes(mine[:20_000_000])
        if __name__ == "__main__":
            multiprocessing.set_start_method("fork")
            with multiprocessing.Pool(2) as pool:
                tasks = [(i, bytes([i]) * 38_000_000) for i in range(1, 7)]
                for number, count, back in pool.imap(work, tasks, chunksize=1):
                    assert count == 64 << 12 and back.count(number) == 20_000_000
            print("all there")
    """
    same(budget, [sys.executable, "-c", textwrap.dedent(script)])


# --- Programs of the distribution -------------------------------------------------------------------


def needs(*programs):
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"no {program}")


def test_sort_xz_and_zstd_give_the_same_bytes(tmp_path):
    needs("sort", "xz", "zstd", "sha256sum")
    lines = tmp_path / "lines"
    lines.write_text("".join(f"{i * 2654435761 % 2**32:010d} {i}\n" for i in range(900_000)))
    for command in (["sort", "--parallel=2", "-S", "96M", lines], ["xz", "-3", "-T1", "-c", lines],
                    ["zstd", "-10", "--long=25", "-q", "-c", lines]):
        digests = []
        for run_ in (lambda words: words, lambda words: [SPILLWAY, "run", *TIGHT, "--", *words]):
            words = " ".join(f"'{word}'" for word in run_(command))
            digests.append(ends(["bash", "-c", f"set -o pipefail; {words} | sha256sum"]))
        assert digests[0].returncode == digests[1].returncode == 0, digests[1].stderr
        assert digests[0].stdout == digests[1].stdout, command


def test_bzip2_openssl_and_imagemagick_give_the_same_bytes(tmp_path):
    needs("bzip2", "openssl", "convert", "sha256sum")
    plain = tmp_path / "plain"
    plain.write_bytes(bytes(i * i % 251 for i in range(5021)) * 1200)
    for command in (["bzip2", "-9", "-c", plain],
                    ["openssl", "enc", "-aes-256-ctr", "-K", "00" * 32, "-iv", "00" * 16,
                     "-bufsize", "33554432", "-in", plain],
                    ["convert", "-size", "1500x1000", "gradient:red-blue", "-resize", "120%",
                     "-blur", "0x2", "-depth", "8", "rgb:-"]):
        digests = []
        for run_ in ([], [SPILLWAY, "run", *TIGHT, "--"]):
            words = " ".join(f"'{word}'" for word in [*run_, *command])
            digests.append(ends(["bash", "-c", f"set -o pipefail; {words} | sha256sum"]))
        assert digests[0].returncode == digests[1].returncode == 0, digests[1].stderr
        assert digests[0].stdout == digests[1].stdout, command


def test_git_keeps_a_large_file(tmp_path):
    needs("git", "sha256sum")
    (tmp_path / "big").write_bytes(bytes(i * i % 251 for i in range(5021)) * 3000)
    script = """
        rm -rf .git && git init -q . && git add big &&
        git -c user.name=a -c user.email=b@c commit -q -m x && git gc -q && git fsck --full &&
        git cat-file blob HEAD:big | sha256sum
    """
    same(TIGHT, ["sh", "-c", textwrap.dedent(script)], words="  -", cwd=tmp_path)


LIBRARIES = {
    "duckdb": """
        import duckdb
        db = duckdb.connect()
        db.execute("set threads = 2")
        db.execute("create table t as select i, i * 7919 % 1000003 as k, 'n' || (i * 31 % 5003) as s "
                   "from range(1000000) r(i)")
        print(db.execute("select s, count(*), sum(k) from t group by s order by s limit 5").fetchall())
        print(db.execute("select sum(a.k), count(*) from t a join t b on a.k = b.i").fetchall())
    """,
    "polars": """
        import polars as pl
        i = pl.int_range(1000000, eager=True)
        f = pl.DataFrame({"i": i, "k": i * 7919 % 1000003, "s": i * 31 % 5003})
        print(f.group_by("s").agg(pl.len(), pl.col("k").sum()).sort("s").head(5).rows())
        print(f.join(f, left_on="k", right_on="i")["k_right"].sum(), f.sort("k", "i").tail(3).rows())
    """,
    "sklearn": """
        import numpy as np
        from joblib import Parallel, delayed
        from sklearn.ensemble import RandomForestClassifier
        def work(a, k):
            return float((a * k).sum())
        x = np.random.RandomState(1).rand(20000, 200)
        y = (x[:, 0] + x[:, 3] > 1).astype(int)
        print(RandomForestClassifier(4, max_depth=5, random_state=1, n_jobs=2).fit(x, y).score(x, y))
        print(Parallel(n_jobs=2, backend="multiprocessing", max_nbytes=None)(
            delayed(work)(x, k) for k in range(4)))
    """,
}


@BUDGETS
@pytest.mark.parametrize("name", LIBRARIES)
def test_libraries_for_data(name, budget):
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"no {name} (tools/python-env.sh)")
    if name == "polars" and budget is TIGHT:
        pytest.skip("its hash join looks everywhere: minutes in so little memory (docs/host.md)")
    same(budget, [sys.executable, "-c", textwrap.dedent(LIBRARIES[name])], words="")


def test_sqlite_in_memory():
    needs("sqlite3")
    script = """
        create table numbers(a integer, b text);
        with recursive n(i) as (select 1 union all select i + 1 from n where i < 300000)
            insert into numbers select i * 7919 % 1000003, hex(i) || '-' || i from n;
        create index by_b on numbers(b);
        select count(*), sum(a), min(b), max(b) from numbers;
        pragma integrity_check;
    """
    same(TIGHT, ["sqlite3", "-cmd", "pragma cache_size = -100000; pragma temp_store = 2;",
                 ":memory:", textwrap.dedent(script)], words="ok")


@pytest.mark.parametrize("budget", [TIGHT, ROOMY], ids=["tight", "roomy"])
def test_redis_saves_in_the_background(budget, tmp_path):
    needs("redis-server", "redis-cli", "redis-check-rdb")
    socket = tmp_path / "socket"
    server = [SPILLWAY, "run", *budget, "--", "redis-server", "--port", "0", "--unixsocket", socket,
              "--dir", tmp_path, "--save", "", "--daemonize", "no"]
    ask = ["redis-cli", "-s", socket]
    with subprocess.Popen([str(word) for word in server], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            for _ in range(600):
                if ends([*ask, "ping"]).stdout == "PONG\n":
                    break
                assert process.poll() is None, process.stderr.read()
                time.sleep(0.1)
            big = "for i = 1, 40 do redis.call('set', 'k' .. i, string.rep(tostring(i % 10), 3000000)) end"
            assert ends([*ask, "eval", big, "0"]).returncode == 0
            assert "started" in ends([*ask, "bgsave"]).stdout
            small = "for i = 1, 40 do redis.call('append', 'k' .. i, 'x') end return redis.call('dbsize')"
            assert ends([*ask, "eval", small, "0"]).stdout == "40\n"
            for _ in range(600):
                if "rdb_bgsave_in_progress:0" in ends([*ask, "info", "persistence"]).stdout:
                    break
                time.sleep(0.1)
            assert "rdb_last_bgsave_status:ok" in ends([*ask, "info", "persistence"]).stdout
            check = ("for i = 1, 40 do if redis.call('get', 'k' .. i) ~= "
                     "string.rep(tostring(i % 10), 3000000) .. 'x' then return i end end return 0")
            assert ends([*ask, "eval", check, "0"]).stdout == "0\n"
            ends([*ask, "shutdown", "nosave"])
            process.communicate(timeout=60)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0
    checked = ends(["redis-check-rdb", tmp_path / "dump.rdb"])
    assert checked.returncode == 0 and "40 keys read" in checked.stdout, checked.stdout


def test_memory_testers_find_nothing():
    needs("memtester", "stress-ng")
    tester = spilled(TIGHT, ["memtester", "20M", "1"])
    assert tester.returncode == 0 and "FAILURE" not in tester.stdout, tester.stdout + tester.stderr
    stress = ["stress-ng", "--vm", "1", "--vm-bytes", "96M", "--vm-ops", "2000", "--verify",
              "--vm-method", "flip", "--timeout", "60"]
    result = spilled(TIGHT, stress)
    assert result.returncode == 0, result.stdout + result.stderr
