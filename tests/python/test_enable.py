"""`spillway.enable()`: a script that asks for its budget itself.

Needs the built program (build/, or the folder that SPILLWAY_BUILD names) and userfaultfd.
"""

import inspect
import os
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest
from conftest import clean_environment

import spillway

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("SPILLWAY_BUILD", ROOT / "build"))
DRIVER = BUILD / "fake_driver" / "libcuda.so.1"

pytestmark = pytest.mark.skipif(not (BUILD / "spillway").exists(), reason="spillway is not built")


def run(folder, script, *words, **more):
    file = folder / "script.py"
    file.write_text(textwrap.dedent(script))
    environment = {**clean_environment(), "PYTHONPATH": str(ROOT / "python"),
                   "PATH": f"{BUILD}:{os.environ['PATH']}", **more}
    return subprocess.run([sys.executable, file, *words], text=True, capture_output=True,
                          timeout=60, env=environment)


def interpret(words, text, folder=None):
    return subprocess.run([sys.executable, *words], input=text, text=True, capture_output=True,
                          timeout=60, cwd=folder,
                          env={**clean_environment(), "PYTHONPATH": str(ROOT / "python"),
                               "PATH": f"{BUILD}:{os.environ['PATH']}"})


def test_on_the_host_the_script_begins_anew_once(tmp_path):
    result = run(tmp_path, """
        import sys
        print("begins", flush=True)
        import spillway
        spillway.enable("32MiB", device="host", host_memory=256 << 20, policy="base_uvm")
        data = bytearray(64 << 20)
        data[::4096] = b"x" * (16 << 10)
        print(sys.argv[1:], data.count(b"x"))
        sys.exit(7)
    """, "one", "two words")
    assert result.stdout.splitlines() == ["begins", "begins", "['one', 'two words'] 16384"]
    assert result.returncode == 7, result.stderr
    assert "32 MiB of device memory" in result.stderr


@pytest.mark.skipif(not DRIVER.exists(), reason="the fake driver is not built")
def test_on_a_gpu(tmp_path):
    result = run(tmp_path, """
        import os, spillway
        spillway.enable(device_memory="64MiB")
        print(os.environ["SPILLWAY_DEVICE"], os.environ["SPILLWAY_DEVICE_MEMORY"])
        print("libspillway_cuda" in os.environ["LD_PRELOAD"])
    """, SPILLWAY_CUDA_DRIVER=str(DRIVER))
    assert result.stdout.splitlines() == ["cuda 64MiB", "True"], result.stderr


def test_what_is_wrong_is_said(tmp_path):
    late = run(tmp_path, """
        import sys, types
        torch = sys.modules["torch"] = types.ModuleType("torch")
        torch.cuda = types.SimpleNamespace(is_initialized=lambda: True)
        import spillway
        spillway.enable("64MiB")
    """)
    assert late.returncode == 1
    assert "RuntimeError: spillway.enable(): too late: CUDA is initialized" in late.stderr
    wrong = run(tmp_path, "import spillway; spillway.enable('much', device='host')")
    assert wrong.returncode == 1
    assert "RuntimeError: spillway.enable(): --device-memory: 'much' is not a size" in wrong.stderr


@pytest.mark.parametrize("arguments,reason", [
    ("'1GiB'", "no NVIDIA driver"),
    ("device='gpu'", "--device: 'gpu' is none of auto, cuda and host"),
    ("device='host', policy='best'", "'best'"),
    ("device='host', storage='/no/such/folder/file'", "/no/such/folder"),
    ("device='host', report='/no/such/folder/report.html'", "/no/such/folder"),
])
def test_what_cannot_be_is_an_exception_and_python_goes_on(tmp_path, arguments, reason):
    result = run(tmp_path, f"""
        import spillway
        try:
            spillway.enable({arguments})
        except RuntimeError as error:
            print("without:", error)
    """, SPILLWAY_CUDA_DRIVER="/no/such/libcuda.so.1")
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    assert len(lines) == 1 and lines[0].startswith("without: spillway.enable(): ")
    assert reason in lines[0]


def test_help_has_every_argument():
    text = interpret(["-c", "import spillway; help(spillway.enable)"], "").stdout
    signature = inspect.signature(spillway.enable)
    for name in signature.parameters:
        assert re.search(rf"^ +{name} +\S", text, re.MULTILINE), name
    assert text.count("Default:") == len(signature.parameters)
    for word in ('"auto"', '"cuda"', '"host"', '"20GiB"', "spillway.enable("):
        assert word in text


def test_the_version_is_the_programs_and_the_wheels():
    program = subprocess.run([BUILD / "spillway", "--version"], text=True, capture_output=True)
    assert program.stdout.split()[1].rstrip(",") == spillway.__version__
    project = (ROOT / "CMakeLists.txt").read_text()
    assert re.search(r"project\(spillway VERSION ([\d.]+)", project)[1] == spillway.__version__


@pytest.mark.parametrize("words", [["-"], ["-", "one"], []])
def test_a_script_from_a_pipe_cannot_begin_anew(words):
    result = interpret(words, "import spillway; spillway.enable('32MiB', device='host')")
    assert result.returncode == 1
    assert "there is no script that could be run again" in result.stderr


def test_a_script_from_a_named_pipe_cannot_begin_anew():
    script = "import spillway; spillway.enable('32MiB', device='host')"
    result = interpret(["/dev/stdin", "one"], script)
    assert "there is no script that could be run again" in result.stderr


def test_a_command_and_a_module_begin_anew(tmp_path):
    script = "import spillway; spillway.enable('32MiB', device='host'); print('watched')"
    (tmp_path / "a_module.py").write_text(script)
    for words in (["-c", script], ["-m", "a_module"]):
        result = interpret(words, "", tmp_path)
        assert result.stdout == "watched\n", result.stderr
