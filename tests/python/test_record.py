"""`spillway record`: the trace of one iteration says what the script does.

Needs the built program (build/, or the folder that SPILLWAY_BUILD names) and userfaultfd.
"""

import json
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest
from conftest import clean_environment

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPILLWAY = pathlib.Path(os.environ.get("SPILLWAY_BUILD", ROOT / "build")) / "spillway"
TRAIN = ROOT / "examples" / "train_gpt2.py"
MIB = 1 << 20

pytestmark = pytest.mark.skipif(not SPILLWAY.exists(), reason=f"{SPILLWAY} is not built")


def spillway(*arguments):
    return subprocess.run([SPILLWAY, *map(str, arguments)], text=True, capture_output=True,
                          timeout=300, env=clean_environment())


def record(trace, command, *options):
    return spillway("record", "-o", trace, "--device", "host", "--device-memory", "1GiB",
                    "--host-memory", "1GiB", *options, "--", *command)


def python(script):
    return [sys.executable, "-c", textwrap.dedent(script)]


def read(trace):
    text = trace.with_suffix(".json")
    assert spillway("trace", "convert", trace, text).returncode == 0
    return json.loads(text.read_text())


def uses(trace, tensor):
    """What uses it, in order: (operator, "r", "w" or "rw")."""
    return [(kernel["name"].removeprefix("aten::"),
             "r" * (tensor in kernel["reads"]) + "w" * (tensor in kernel["writes"]))
            for kernel in trace["kernels"]
            if tensor in kernel["reads"] or tensor in kernel["writes"]]


# Two matrices of 4 MiB, 512 samples, and plain SGD.
MLP = """
    import torch
    torch.manual_seed(1)
    a, b = (torch.nn.Linear(1024, 1024, bias=False) for _ in range(2))
    optimizer = torch.optim.SGD([a.weight, b.weight], lr=0.1, foreach=False)
    inputs = torch.randn(512, 1024)
    for step in range(%d):
        hidden = torch.relu(a(inputs))
        loss = b(hidden).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item().hex())
"""


def test_launches_bytes_and_lifetimes_are_the_scripts(tmp_path):
    file = tmp_path / "step.swt"
    result = record(file, python(MLP % 5), "--model", "mlp")
    assert result.returncode == 0, result.stderr
    trace = read(file)
    assert trace["model"] == "mlp"
    names = [kernel["name"] for kernel in trace["kernels"]]
    assert names.count("aten::mm") == 5  # two forward, three backward: the input needs no gradient
    assert names.count("aten::relu") == 1
    kept = [i for i, tensor in enumerate(trace["tensors"]) if tensor["persistent"]]
    # The two weights and the inputs; gradients die in zero_grad.
    assert sorted(trace["tensors"][i]["bytes"] for i in kept) == [2 * MIB, 4 * MIB, 4 * MIB]
    weights = [uses(trace, i) for i in kept if trace["tensors"][i]["bytes"] == 4 * MIB]
    # Read forward, the second one backward as well, changed by the step.
    assert sorted(weights) == sorted([[("mm", "r"), ("add_", "rw")],
                                      [("mm", "r"), ("mm", "r"), ("add_", "rw")]])
    gradients = [uses(trace, i) for i, tensor in enumerate(trace["tensors"])
                 if not tensor["persistent"] and tensor["bytes"] == 4 * MIB]
    assert len(gradients) == 2
    for gradient in gradients:
        assert gradient[0] == ("mm", "w") and gradient[-1] == ("add_", "r"), gradient
    # What a launch makes is written before it is read.
    for i, tensor in enumerate(trace["tensors"]):
        assert tensor["persistent"] or uses(trace, i)[0][1] == "w", (i, uses(trace, i))
    assert all(kernel["ms"] > 0 for kernel in trace["kernels"])


def test_the_program_computes_the_same_and_ends_with_its_own_status(tmp_path):
    script = MLP % 5 + "    raise SystemExit(3)\n"
    alone = subprocess.run(python(script), text=True, capture_output=True, timeout=300)
    result = record(tmp_path / "step.swt", python(script), "--json", "-")
    assert result.returncode == alone.returncode == 3
    *losses, facts = result.stdout.splitlines()
    assert losses == alone.stdout.splitlines()
    assert json.loads(facts)["persistent"]["bytes"] == 10 * MIB


def test_inference_has_an_iteration_too(tmp_path):
    file = tmp_path / "pass.swt"
    result = record(file, python("""
        import torch
        layers = [torch.nn.Linear(1024, 1024) for _ in range(4)]
        net = torch.nn.Sequential(*layers, torch.nn.Softmax(-1))
        with torch.no_grad():
            for _ in range(60):
                net(torch.ones(512, 1024))
    """))
    assert result.returncode == 0, result.stderr
    names = [kernel["name"] for kernel in read(file)["kernels"]]
    assert names.count("aten::addmm") in (4, 5)  # one may be cut in two
    assert names.count("aten::_softmax") == 1


def test_where_iterations_differ_a_line_says_what_to_do(tmp_path):
    script = MLP.replace("        optimizer.zero_grad()", "        if step & 1: torch.exp(hidden)\n"
                         "        optimizer.zero_grad()")
    result = record(tmp_path / "x.swt", python(script % 8))
    assert result.returncode == 0, result.stderr
    assert "times of some launches may be those of others: the iteration that was timed" in result.stderr
    assert "record again with another --warm-up than 2" in result.stderr


def test_what_is_wrong_is_one_line(tmp_path):
    def refused(result, status, what):
        assert result.returncode == status
        assert what in result.stderr and result.stderr.count("\n") == 1, result.stderr

    refused(record(tmp_path / "no" / "x.swt", ["true"]), 2, "cannot be written")
    refused(record(tmp_path / "x.trace", ["true"]), 2, "the name says no format")
    def failed(result, what):
        start, end = result.stderr.splitlines()
        assert result.returncode == 125 and start.startswith("spillway: runs on ")
        assert what in end

    failed(record(tmp_path / "x.swt", ["true"]), "no large allocation")
    failed(record(tmp_path / "x.swt", python("b = bytearray(8 << 20)")), "launched nothing")
    short = record(tmp_path / "x.swt", python(MLP % 3))
    assert short.returncode == 125
    assert "3 iterations ended, and 4 are needed" in short.stderr
    assert not (tmp_path / "x.swt").exists()


def moved_a_step(budget, steps, command):
    bytes_moved = []
    for count in steps:
        result = spillway("run", "--device", "host", "--device-memory", budget, "--host-memory",
                          "1GiB", "--policy", "base_uvm", "--json", "-", "--", *command, "--steps",
                          count)
        assert result.returncode == 0, result.stderr
        bytes_moved.append(json.loads(result.stdout)["moved_bytes"]["host_to_device"])
    return (bytes_moved[1] - bytes_moved[0]) / (steps[1] - steps[0])


def test_a_simulation_moves_what_a_run_moves(tmp_path, monkeypatch):
    file = tmp_path / "step.swt"
    command = [sys.executable, TRAIN, "--layers", "2", "--width", "256", "--heads", "4",
               "--context", "256", "--batch", "4", "--quiet", "--threads", "1"]
    # MKL keeps buffers of 5 MiB for each thread and shape, 26 MiB here, that are no operand of any
    # launch: a trace does not know of them, and a run moves them as well. Without its cache they are
    # there only while a product is computed; by one thread, however busy the machine is.
    monkeypatch.setenv("MKL_DISABLE_FAST_MM", "1")
    assert record(file, [*command, "--steps", "4"]).returncode == 0
    budget = "64MiB"
    simulated = spillway("simulate", "--policy", "base_uvm", "--as-run", "--json", "--set",
                         f"device.capacity={budget}", "--set", "host.capacity=1GiB", file)
    assert simulated.returncode == 0, simulated.stderr
    predicted = json.loads(simulated.stdout)["traffic_bytes"]["host_to_device"]
    measured = moved_a_step(budget, (3, 7), command)
    assert predicted > 20 * MIB
    assert 0.75 < predicted / measured < 1.33, (predicted / MIB, measured / MIB)
