"""The wheel that tools/wheel.sh has made (dist/): what is in it, and that it works once it is installed.

In a bare system of Debian 11 (bare_root.sh): glibc 2.31, Python 3.9, no compiler and none of the
libraries that it was linked with. On this machine beside PyTorch, with the Python that runs the tests.
"""

import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import textwrap
import zipfile

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FOLDER = ROOT / "build-wheel"
PARTS = ("spillway/bin/spillway", "spillway/lib/libspillway_preload.so",
         "spillway/lib/libspillway_cuda.so", "spillway/lib/libspillway_near.so")

# More than the budget, written and checked several times over.
PATTERNS = """
    import hashlib
    def pattern(i, version):
        return hashlib.sha256(b"%d/%d" % (i, version)).digest() * 32768 * 8
    buffers = [bytearray(pattern(i, 0)) for i in range(8)]
    for version in range(3):
        for i, buffer in enumerate(buffers):
            assert buffer == pattern(i, version), (i, version)
            buffer[:] = pattern(i, version + 1)
    print("all there")
"""

# Exceptions of PyTorch's own C++, and losses, beside a standard library of ours.
TRAINING = """
    import torch
    torch.manual_seed(1)
    model = torch.nn.Sequential(*[torch.nn.Linear(768, 768) for _ in range(12)])
    optimizer = torch.optim.Adam(model.parameters())
    caught = 0
    for step in range(4):
        loss = model(torch.full((64, 768), step / 10)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        try:
            torch.ones(2, 3) @ torch.ones(2, 3)
        except RuntimeError:
            caught += 1
        print(loss.item().hex(), caught)
"""


@pytest.fixture(scope="session")
def wheel():
    found = list((ROOT / "dist").glob("*.whl"))
    assert len(found) == 1, "dist/ holds one wheel: make wheel"
    return found[0]


@pytest.fixture(scope="session")
def unpacked(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unpacked")
    zipfile.ZipFile(wheel).extractall(folder)
    return folder


def output(*command, **more):
    result = subprocess.run([str(word) for word in command], text=True, capture_output=True,
                            timeout=200, **more)
    assert result.returncode == 0, f"{command}: {result.stdout}{result.stderr}"
    return result.stdout


def test_it_is_for_glibc_2_28_and_any_python(wheel):
    version = re.search(r"project\(spillway VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
    assert wheel.name == f"spillway_gpu-{version}-py3-none-manylinux_2_28_x86_64.whl"
    shown = output(FOLDER / "venv/bin/python", "-m", "auditwheel", "show", wheel)
    print(shown)
    # What it is consistent with, not what it is called.
    minor = re.search(r'platform\s+tag:\s+"manylinux_2_(\d+)_x86_64"', shown)
    assert minor and int(minor[1]) <= 28, shown


def test_all_of_it_is_there(wheel):
    archive = zipfile.ZipFile(wheel)
    names = [name for name in archive.namelist() if not name.endswith("/")]
    print(f"{wheel.stat().st_size / 2**20:.2f} MiB, unpacked:",
          {name: archive.getinfo(name).file_size for name in PARTS})
    sources = {f"spillway/{file.relative_to(ROOT / 'python/spillway')}"
               for file in (ROOT / "python/spillway").rglob("*")
               if file.is_file() and file.suffix != ".pyc"}
    licences = {pathlib.Path(name).name for name in names if ".dist-info/licenses/" in name}
    assert {name for name in names if ".dist-info/" not in name} == sources | set(PARTS)
    assert {f"{name}.txt" for name in (
        "libfmt-dev", "libcli11-dev", "nlohmann-json3-dev", "libtomlplusplus-dev", "libzstd-dev",
        "zlib1g-dev", "libexpected-dev", "liburing-dev", "libhwy-dev", "libxxhash-dev",
        "libc6-dev")} | {"LICENSE"} <= licences
    assert any(name.startswith("libstdc++") for name in licences)
    assert archive.getinfo(PARTS[0]).external_attr >> 16 & stat.S_IXUSR


@pytest.mark.parametrize("part", PARTS)
def test_nothing_is_needed_but_the_c_library_and_the_unwinder(part, unpacked):
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-dW", unpacked / part))
    assert "libc.so.6" in needed
    others = {name for name in needed if not re.fullmatch(
        r"(libc|libm|libdl|librt|libpthread|libgcc_s|ld-linux-x86-64)\.so\.\d+", name)}
    assert not others


def defined(file):
    return {line.split()[-1] for line in output("nm", "-D", "--defined-only", file).splitlines()}


@pytest.mark.parametrize("part", PARTS)
def test_nobody_sees_the_libraries_inside(part, unpacked):
    inside = re.compile(r"_ZNK?St|_ZSt|_ZT[ISV]|__cxa|__gxx|_ZNK?3fmt|_ZNK?4toml|ZSTD_|deflate|inflate|"
                        r"io_uring_submit|gettid|pthread_|__wrap|__libc_single")
    assert not {name for name in defined(unpacked / part) if inside.match(name)}


def test_what_an_old_glibc_lacks_does_the_same(tmp_path):
    program = tmp_path / "old_glibc_test"
    output("g++", "-std=c++20", "-I", ROOT / "src", HERE / "old_glibc_test.cc", "-o", program)
    output(program)


@pytest.mark.parametrize("part, source", [(PARTS[1], "interpose/host"), (PARTS[2], "interpose/cuda"),
                                          (PARTS[3], "near")])
def test_all_that_stands_in_front_is_seen(part, source, unpacked):
    text = (ROOT / "src" / source / "exports.map").read_text()
    names = set(re.findall(r"(\w+);", re.sub(r"#.*|\w+:", "", text)))
    assert len(names) > 5 and not names - defined(unpacked / part)


class Bare:
    """The bare system, with the wheel in a virtual environment."""

    def __init__(self, wheel):
        self.root = FOLDER / "bare"
        made = subprocess.run([HERE / "bare_root.sh", "make", self.root], text=True, capture_output=True)
        if made.returncode == 77:
            pytest.skip(made.stdout.strip())
        assert made.returncode == 0, made.stderr
        shutil.rmtree(self.root / "work", ignore_errors=True)
        (self.root / "work").mkdir()
        shutil.copy(wheel, self.root / "work")
        self.enter("python3", "-m", "venv", "/work/venv")
        self.before = self.files()
        self.enter("/work/venv/bin/pip", "install", "--no-index", f"/work/{wheel.name}")
        (self.root / "work/patterns.py").write_text(textwrap.dedent(PATTERNS))

    def enter(self, *command):
        return output(HERE / "bare_root.sh", "enter", self.root, *command)

    def files(self):
        return {str(path) for path in (self.root / "work/venv").rglob("*")}


@pytest.fixture(scope="session")
def bare(wheel):
    return Bare(wheel)


def test_it_installs_where_there_is_no_compiler(bare):
    assert not [name for name in ("gcc", "cc", "g++", "clang") if (bare.root / "usr/bin" / name).exists()]
    assert not list(bare.root.glob("usr/lib/x86_64-linux-gnu/lib*zstd*"))
    assert "spillway-gpu" in bare.enter("/work/venv/bin/pip", "list")


def test_its_doctor_finds_that_runs_work(bare):
    assert "`spillway run` works here" in bare.enter("/work/venv/bin/spillway", "doctor")


@pytest.mark.parametrize("command", [["/work/venv/bin/spillway"],
                                     ["/work/venv/bin/python", "-m", "spillway"]])
def test_it_runs_programs(command, bare):
    printed = bare.enter(*command, "run", "--device-memory", "16MiB", "--json", "/work/records", "--",
                         "/work/venv/bin/python", "/work/patterns.py")
    assert "all there" in printed
    record = json.loads((bare.root / "work/records").read_text().splitlines()[0])
    assert record["page_faults"] > 0 and record["moved_bytes"]["device_to_host"] > 0


def test_its_hook_is_found(bare):
    printed = bare.enter("/work/venv/bin/spillway", "run", "--device-memory", "16MiB", "--",
                         "sh", "-c", "echo $PYTHONPATH")
    assert printed == "/work/venv/lib/python3.9/site-packages/spillway/hook\n"


def test_a_wrong_option_is_one_line(bare):
    """Exceptions go from where they are thrown to where they are caught."""
    with pytest.raises(AssertionError, match="spillway: .*--nonsense"):
        bare.enter("/work/venv/bin/spillway", "machine", "list", "--nonsense")
    assert "capacity" in bare.enter("/work/venv/bin/spillway", "machine", "show", "a100-40gb")


def test_the_library_for_gpus_is_loaded(bare):
    library = "/work/venv/lib/python3.9/site-packages/spillway/lib/libspillway_cuda.so"
    printed = bare.enter("env", f"LD_PRELOAD={library}", "python3", "-c",
                         "print('libspillway_cuda' in open('/proc/self/maps').read())")
    assert printed == "True\n"


def test_a_script_enables_it_itself(bare):
    (bare.root / "work/enabled.py").write_text(
        "import spillway\nspillway.enable('16MiB', device='host')\n" + textwrap.dedent(PATTERNS))
    assert bare.enter("/work/venv/bin/python", "/work/enabled.py") == "all there\n"


def test_uninstalled_nothing_is_left(bare):
    assert bare.files() > bare.before
    bare.enter("/work/venv/bin/pip", "uninstall", "--yes", "spillway-gpu")
    left = {path for path in bare.files() - bare.before if "/site-packages/pip/" not in path}
    assert not left


@pytest.fixture(scope="session")
def environment(wheel, tmp_path_factory):
    """A virtual environment of this machine, with the wheel and the packages of this Python."""
    folder = tmp_path_factory.mktemp("environment")
    output(sys.executable, "-m", "venv", folder)
    (packages,) = folder.glob("lib/python3*/site-packages")
    (packages / "those.pth").write_text("\n".join(path for path in sys.path if "site-packages" in path))
    output(folder / "bin/python", "-m", "pip", "install", "--no-index", "--no-deps", wheel)
    return folder


CLEAN = {key: value for key, value in os.environ.items()
         if not key.startswith(("SPILLWAY", "LD_PRELOAD", "PYTHONPATH"))}


def test_new_is_that_of_a_library_that_only_a_part_of_the_program_sees(environment, tmp_path):
    library = tmp_path / "plugin.so"
    output("g++", "-std=c++20", "-shared", "-fPIC", HERE / "plugin.cc", "-o", library)
    script = ("import ctypes, sys; check = ctypes.CDLL(sys.argv[1]).plugin_check; "
              "check.restype = ctypes.c_char_p; print(check())")
    assert output(environment / "bin/spillway", "run", "--device-memory", "16MiB", "--json",
                  tmp_path / "records", "--", environment / "bin/python", "-c", script, library,
                  env=CLEAN) == "None\n"
    record = json.loads((tmp_path / "records").read_text().splitlines()[0])
    assert record["peak_bytes"] >= 64 << 20


def test_losses_of_pytorch_are_the_same_bits(environment, tmp_path):
    pytest.importorskip("torch")
    script = tmp_path / "training.py"
    script.write_text(textwrap.dedent(TRAINING))
    alone = output(environment / "bin/python", script, env=CLEAN)
    under = output(environment / "bin/spillway", "run", "--device-memory", "48MiB", "--json",
                   tmp_path / "records", "--", environment / "bin/python", script, env=CLEAN)
    assert under == alone and len(alone.splitlines()) == 4
    record = json.loads((tmp_path / "records").read_text().splitlines()[0])
    assert record["evictions"] > 0
    assert record["launches"] > 0  # the operators: the hook, and what it calls, are the wheel's
