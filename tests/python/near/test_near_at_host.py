"""Under pressure an update goes to its states in host memory, and the losses stay the same to the bit."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
from conftest import PROJECT, clean_environment

from twins import torch  # noqa: F401, for its skips

BUILD = pathlib.Path(os.environ.get("SPILLWAY_BUILD", PROJECT / "build"))

SCRIPT = """
import sys, torch
torch.manual_seed(1)
torch.set_num_threads(1)
layers = [torch.nn.Linear(1024, 1024) for _ in range(8)]
network = torch.nn.Sequential(*layers)
optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, fused=sys.argv[1] == "fused")
for _ in range(4):
    optimizer.zero_grad(set_to_none=sys.argv[2] == "none")
    loss = network(torch.randn(4, 1024)).square().mean()
    loss.backward()
    optimizer.step()
    print(loss.item().hex())
print(*(layer.weight.view(torch.int32).sum().item() for layer in layers))
print(*(optimizer.state[layer.weight]["exp_avg"].view(torch.int32).sum().item() for layer in layers))
"""


def run(tmp_path, near, *arguments, storage=""):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    record = tmp_path / f"{near}.json"
    swap = ["--storage", f"{tmp_path}:1GiB"] if storage else []
    result = subprocess.run(
        [BUILD / "spillway", "run", "--device", "host", "--device-memory", "40MiB", "--host-memory",
         "40MiB" if storage else "400MiB", *swap, "--policy", "base_uvm", "--near-optimizer", near,
         "--json", record, "--", sys.executable, script, *arguments],
        env=clean_environment(), capture_output=True, text=True, timeout=300)
    if "userfaultfd" in result.stderr and result.returncode != 0:
        pytest.skip("no run on the host works here")
    assert result.returncode == 0, result.stderr
    return result.stdout, json.loads(record.read_text())


@pytest.mark.parametrize("storage", ["", "storage"])
@pytest.mark.parametrize("arguments", [("fused", "none"), ("loop", "zeros")])
def test_the_same_bits_with_states_that_stay(tmp_path, arguments, storage):
    plain, without = run(tmp_path, "off", *arguments, storage=storage)
    near, record = run(tmp_path, "on", *arguments, storage=storage)
    assert near == plain
    assert without["updates"] == 0
    assert record["updates"] > 16
    if not storage:
        assert record["moved_bytes"]["host_to_device"] < without["moved_bytes"]["host_to_device"]
