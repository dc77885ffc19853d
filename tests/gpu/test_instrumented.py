"""A file of `spillway plan --as torch` on a GPU: the calls that it lists, and the same bits as without it."""

import json
import os
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest
from conftest import LIMIT_S, SPILLWAY

PYTHON = pathlib.Path(__file__).resolve().parents[2] / "python"
# Tensors of 32 MiB. What is trained is small.
POINTWISE = """
    torch.manual_seed(0)
    weights = [torch.randn(4096, 2048, device="cuda") for _ in range(8)]
    biases = [torch.nn.Parameter(torch.randn(2048, device="cuda")) for _ in range(8)]
    optimizer = torch.optim.SGD(biases, lr=0.01)

    def forward():
        y = torch.full((4096, 2048), 0.5, device="cuda")
        for weight, bias in zip(weights, biases):
            y = torch.tanh(y * weight + bias)
        return y.square().mean()
"""
# Products with cuBLAS's workspaces, norms whose gradient is several kernels, states of an optimizer.
PRODUCTS = """
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[torch.nn.Sequential(
        torch.nn.Linear(2048, 4096), torch.nn.GELU(), torch.nn.LayerNorm(4096), torch.nn.Linear(4096, 2048))
        for _ in range(3)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    x = torch.randn(4096, 2048, device="cuda")

    def forward():
        return model(x).square().mean()
"""
SCRIPT = """
    import json, os, sys
    sys.path[:0] = [sys.argv[1], os.getcwd()]
    import torch
    {model}
    if "plan" in sys.argv:
        import plan
        plan.attach(optimizer)
    losses = []
    for step in range(6):
        optimizer.zero_grad()
        loss = forward()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    print(json.dumps([[loss.item().hex() for loss in losses],
                      plan.program.carried_out if "plan" in sys.argv else []]))
"""


def called(folder, *command):
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LIMIT_S,
                            env={key: value for key, value in os.environ.items() if not key.startswith("SPILLWAY")})
    assert result.returncode == 0, result.stderr[-6000:]
    return result


@pytest.mark.parametrize("model, planned_mib, budget_mib", [(POINTWISE, 320, 512), (PRODUCTS, 900, 1024)],
                         ids=["pointwise", "products"])
def test_a_plan_is_carried_out(tmp_path, model, planned_mib, budget_mib):
    (tmp_path / "train.py").write_text(textwrap.dedent(SCRIPT).format(model=textwrap.dedent(model)))
    to = ["--set", f"device.capacity={planned_mib}MiB", "--set", "storage.capacity=0"]
    script = [sys.executable, "train.py", PYTHON]
    alone = json.loads(called(tmp_path, *script).stdout)
    called(tmp_path, SPILLWAY, "record", "--without-gpu", "--machine", "h200", "-o", "step.swt", "--", *script)
    plan = called(tmp_path, SPILLWAY, "plan", "--as", "torch", *to, "step.swt").stdout
    (tmp_path / "plan.py").write_text(plan)
    # The others are below 1 MiB, or a library's.
    carried_out = {int(number) for number in re.findall(r"^(?:prefetch|pre_evict)\(tensor(\d+)", plan, re.MULTILINE)}
    planned = called(tmp_path, SPILLWAY, "run", "--device", "cuda", "--device-memory", f"{budget_mib}MiB",
                     "--host-memory", "2GiB", "--policy", "base_uvm", "--json", "record.json", "--", *script,
                     "plan")
    losses, made = json.loads(planned.stdout)
    assert losses == alone[0]
    calls = [[call["before_kernel"], call["step"], call["tensor"], call["bytes"]] for call in map(
        json.loads, called(tmp_path, SPILLWAY, "plan", "--json", *to, "step.swt").stdout.splitlines())
        if call["step"] in ("prefetch", "pre_evict") and call["tensor"] in carried_out]
    assert made == calls and calls
    record = json.loads((tmp_path / "record.json").read_text().splitlines()[-1])
    print(record["moved_bytes"])
    assert record["asked_prefetch_bytes"] > 0 and record["moved_bytes"]["host_to_device"] > 0
