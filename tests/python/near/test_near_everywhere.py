"""SPILLWAY_NEAR_OPTIMIZER=on, as `spillway run --near-optimizer on` sets it: any script's optimizers."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from conftest import HOOK, PROJECT, clean_environment

from twins import torch  # noqa: F401, for its skips

BUILD = pathlib.Path(os.environ.get("SPILLWAY_BUILD", PROJECT / "build"))

SCRIPT = """
    import json, sys, torch
    torch.manual_seed(1)
    torch.set_num_threads(1)
    network = torch.nn.Linear(40, 40)
    optimizer = torch.optim.Adam([{"params": [network.weight]}, {"params": [network.bias], "capturable": False}])
    other = torch.optim.RMSprop([torch.nn.Parameter(torch.ones(3))])
    for _ in range(5):
        optimizer.zero_grad()
        network(torch.randn(8, 40)).square().sum().backward()
        optimizer.step()
        other.step()
    print(json.dumps([network.weight.view(torch.int32).sum().item(),
                      sorted(name for name in sys.modules if "spillway" in name),
                      sorted(vars(optimizer))]))
"""
LINES = """\
spillway: Adam, group 0: Spillway updates 1 tensor (1,600 elements) with the bits of fused=False
spillway: Adam, group 1: Spillway updates 1 tensor (40 elements) with the bits of fused=False
spillway: RMSprop: PyTorch updates all tensors: RMSprop is not Adam, AdamW, SGD or Adagrad of torch.optim
"""


def test_on(run_python):
    plain = json.loads(run_python(SCRIPT, hooked=False).stdout)
    result = run_python(SCRIPT, SPILLWAY_OPERATORS="", SPILLWAY_NEAR_OPTIMIZER="on")
    near = json.loads(result.stdout)
    assert near[0] == plain[0]
    assert {"spillway", "_init_group"} == set(near[2]) - set(plain[2])
    assert result.stderr == LINES


def test_what_fused_misreads(run_python):
    """Which the first step's gradients say."""
    result = run_python("""
        import torch
        parameter = torch.nn.Parameter(torch.zeros(2, 3))
        optimizer = torch.optim.AdamW([parameter], fused=True)
        for _ in range(2):
            parameter.grad = torch.ones(3, 2).t()
            optimizer.step()
    """, SPILLWAY_OPERATORS="", SPILLWAY_NEAR_OPTIMIZER="on")
    assert result.stderr == (
        "spillway: AdamW, group 0: Spillway updates 1 tensor (6 elements) with the bits of fused=True\n"
        "spillway: AdamW, group 0: PyTorch updates 1 tensor: its tensors differ in strides or have gaps, "
        "which fused=True ignores on the CPU: the result may be wrong\n")


@pytest.mark.parametrize("value", ["auto", "off", ""])
def test_nothing_is_patched_unless_asked(run_python, value):
    """The import of torch is not even watched."""
    result = run_python("import sys; print(any('Watch' in type(one).__name__ for one in sys.meta_path))",
                        SPILLWAY_OPERATORS="", SPILLWAY_NEAR_OPTIMIZER=value)
    assert (result.stdout, result.stderr) == ("False\n", "")


def test_beside_a_script_that_asks_itself(run_python):
    result = run_python("""
        import torch, spillway
        optimizer = spillway.near.optimize(torch.optim.SGD([torch.nn.Parameter(torch.ones(3))], lr=1))
        optimizer.param_groups[0]["params"][0].grad = torch.ones(3)
        optimizer.step()
        print(optimizer.spillway.steps)
        compiled = torch.compile(optimizer.step, backend="eager")
        compiled()
        print(optimizer.param_groups[0]["params"][0].tolist())
    """, path=[PROJECT / "python"], SPILLWAY_OPERATORS="", SPILLWAY_NEAR_OPTIMIZER="on")
    assert result.stdout == "1\n[-1.0, -1.0, -1.0]\n"


def test_without_the_library(run_python, tmp_path):
    """A script that works without Spillway works with it; one line says what is missing."""
    package = tmp_path / "elsewhere" / "spillway"
    shutil.copytree(HOOK.parent, package)
    result = run_python(SCRIPT, hooked=False, path=[package / "hook"], SPILLWAY_NEAR_OPTIMIZER="on")
    assert json.loads(result.stdout)[0] == json.loads(run_python(SCRIPT, hooked=False).stdout)[0]
    assert result.stderr == ("spillway: the steps of optimizers are PyTorch's: spillway.near: there is no "
                             "libspillway_near.so beside this package; install the wheel, or run `make build`\n")


@pytest.mark.skipif(not (BUILD / "spillway").exists(), reason="spillway is not built")
def test_the_option(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import os; print(os.environ.get('SPILLWAY_NEAR_OPTIMIZER'))")

    def run(*options):
        return subprocess.run([BUILD / "spillway", "run", "--device", "host", *options, "--",
                               sys.executable, script], text=True, capture_output=True,
                              env=clean_environment("PYTHON"))

    assert run().stdout == "off\n"
    for value, decided in (("auto", "off"), ("on", "on"), ("off", "off")):
        assert run("--near-optimizer", value).stdout == f"{decided}\n"
    refused = run("--near-optimizer", "maybe")
    assert refused.returncode == 2 and refused.stdout == "" and "--near-optimizer" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
