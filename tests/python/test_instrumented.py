"""`spillway plan --as torch`: which kernel an operator is, and a plan that a script carries out on the host.

The second half needs the built program (build/, or the folder that SPILLWAY_BUILD names) and userfaultfd.
"""

import json
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest
from conftest import PROJECT, clean_environment

pytest.importorskip("torch", minversion="2.9")

from spillway.instrumented.matching import Matcher, PlanError  # noqa: E402, it is PyTorch's
from spillway.instrumented.program import Program  # noqa: E402

SPILLWAY = pathlib.Path(os.environ.get("SPILLWAY_BUILD", PROJECT / "build")) / "spillway"
needs_program = pytest.mark.skipif(not SPILLWAY.exists(), reason=f"{SPILLWAY} is not built")
MIB = 1 << 20


def chain():
    """w stays; a = mul(x, w), b = tanh(a), w += b. a leaves behind tanh and comes back ahead of add_."""
    program = Program("/somewhere/plan.py")
    w = program.tensor(0, 2 * MIB)
    x = program.alloc(1, 2 * MIB)
    program.kernel(0, "aten::full", writes=[x])
    a = program.alloc(2, 4 * MIB)
    program.kernel(1, "aten::mul", reads=[x, w], writes=[a])
    program.free(x)
    b = program.alloc(3, 2 * MIB)
    program.kernel(2, "aten::tanh", reads=[a], writes=[b])
    program.pre_evict(a, 4 * MIB, "host")
    program.kernel(3, "TanhBackward0")
    program.prefetch(w, 2 * MIB)
    program.kernel(4, "aten::add_", reads=[w, b], writes=[w])
    return program, w, a


def said(calls):
    return [(kernel, what, tensor.number) for kernel, (what, tensor, _) in calls]


def test_calls_follow_the_operators_behind_which_they_stand():
    program, w, a = chain()
    matcher = Matcher(program)
    for base in (1000, 2000):  # what is born lies elsewhere in each iteration
        matcher.begin()
        new, made, result = base + 1, base + 2, base + 3
        assert matcher.operator("aten::full", False, {new: [2 * MIB, True]}) == []
        assert matcher.operator("aten::mul", False, {new: [2 * MIB, False], 7: [2 * MIB, False],
                                                     made: [4 * MIB, True]}) == []
        assert (w.address, a.address) == (7, made)
        calls = matcher.operator("aten::tanh", False, {made: [4 * MIB, False], result: [2 * MIB, True]})
        # Kernel 3 uses no memory that counts, so nobody waits for it.
        assert said(calls) == [(3, "pre_evict", 2), (4, "prefetch", 0)]
        # Only read, and not in the plan: what a log asks for.
        assert matcher.operator("aten::norm", False, {7: [2 * MIB, False]}) == []
        # In place or not is one operator.
        assert matcher.operator("aten::add", False, {7: [2 * MIB, True], result: [2 * MIB, False]}) == []
        matcher.end()


@pytest.mark.parametrize("name, storages, words", [
    ("aten::mul", {1: [2 * MIB, True]}, ["kernel 0, aten::full with 2 MiB", "runs aten::mul with 2 MiB"]),
    ("aten::full", {1: [3 * MIB, True]}, ["kernel 0, aten::full with 2 MiB", "aten::full with 3 MiB"]),
])
def test_another_operator_or_size_is_refused_by_one_line(name, storages, words):
    matcher = Matcher(chain()[0])
    matcher.begin()
    with pytest.raises(PlanError) as error:
        matcher.operator(name, False, storages)
    message = str(error.value)
    assert message.startswith("spillway: plan.py: ") and "\n" not in message
    assert all(word in message for word in [*words, "record this one, and plan it"]), message


def test_an_iteration_that_ends_early_is_refused():
    matcher = Matcher(chain()[0])
    matcher.begin()
    matcher.operator("aten::full", False, {1: [2 * MIB, True]})
    with pytest.raises(PlanError, match="kernel 1, aten::mul, is next, and the iteration has ended"):
        matcher.end()


def test_what_was_born_in_this_iteration_cannot_lie_elsewhere():
    program, _, a = chain()
    matcher = Matcher(program)
    matcher.begin()
    matcher.operator("aten::full", False, {1: [2 * MIB, True]})
    matcher.operator("aten::mul", False, {1: [2 * MIB, False], 7: [2 * MIB, False], 2: [4 * MIB, True]})
    with pytest.raises(PlanError, match="kernel 2, aten::tanh"):
        matcher.operator("aten::tanh", False, {9: [4 * MIB, False], 3: [2 * MIB, True]})


def test_an_operator_may_be_several_kernels_with_what_lives_within():
    program = Program("plan.py")
    x, y, inner = program.tensor(0, MIB), program.tensor(1, 2 * MIB), program.alloc(2, 8 * MIB)
    program.kernel(0, "aten::cast", reads=[x], writes=[inner])
    program.kernel(1, "aten::copy_ (pointwise)", reads=[inner], writes=[y])
    program.free(inner)
    program.prefetch(x, MIB)
    program.kernel(2, "aten::mul", reads=[x], writes=[y])
    storages = {1: [MIB, False], 2: [2 * MIB, True]}
    with pytest.raises(PlanError):  # one that consists of no others is no other
        Matcher(program).operator("aten::_to_copy", False, dict(storages))
    matcher = Matcher(program)
    assert said(matcher.operator("aten::_to_copy", True, dict(storages))) == [(2, "prefetch", 0)]
    matcher.operator("aten::mul", False, dict(storages))  # which `_to_copy` could have been as well
    matcher.end()


def test_what_dies_with_an_operators_last_kernel_is_memory_of_the_next_one():
    program = Program("plan.py")
    x, y = program.tensor(0, 2 * MIB), program.alloc(1, 2 * MIB)
    program.kernel(0, "aten::exp", reads=[x], writes=[y])
    dx = program.alloc(2, 2 * MIB)
    program.kernel(1, "aten::norm_backward", reads=[x, y], writes=[dx])
    program.kernel(2, "aten::norm_backward (weights)", reads=[x, y])  # what it writes is small
    program.free(y)
    z = program.alloc(3, 2 * MIB)
    program.kernel(3, "aten::gelu_backward", reads=[dx], writes=[z])
    matcher = Matcher(program)
    matcher.operator("aten::exp", False, {1: [2 * MIB, False], 2: [2 * MIB, True]})
    matcher.operator("aten::norm_backward", False, {1: [2 * MIB, False], 2: [2 * MIB, False], 3: [2 * MIB, True]})
    matcher.operator("aten::gelu_backward", False, {3: [2 * MIB, False], 2: [2 * MIB, True]})
    matcher.end()
    assert (dx.address, z.address) == (3, 2)


def test_fills_and_copies_belong_to_the_operator_that_they_stand_in():
    program = Program("plan.py")
    x, y = program.tensor(0, 4 * MIB), program.tensor(1, MIB)
    small, work = program.alloc(2, 512), program.alloc(3, 8 * MIB)
    program.kernel(0, "memset", writes=[small])
    program.kernel(1, "memset", writes=[work])
    program.kernel(2, "aten::sum (reduction)", reads=[x, small], writes=[y, work])
    program.kernel(3, "memset", reads=[work], writes=[work])
    program.free(work)
    program.prefetch(x, 4 * MIB)
    program.kernel(4, "aten::relu_", reads=[y], writes=[y])
    matcher = Matcher(program)
    assert said(matcher.operator("aten::sum", False, {1: [4 * MIB, False], 2: [MIB, True]})) == [(4, "prefetch", 0)]
    matcher.operator("aten::relu_", False, {2: [MIB, True]})
    matcher.end()


def test_scratch_memory_is_not_taken_for_a_result_of_its_size():
    program = Program("plan.py")
    x, copied, y = program.tensor(0, 2 * MIB), program.alloc(1, 2 * MIB), program.alloc(2, 2 * MIB)
    program.kernel(0, "copy", reads=[x], writes=[copied])
    program.kernel(1, "aten::norm", reads=[copied], writes=[y])
    program.free(copied)
    program.prefetch(x, 2 * MIB)
    program.kernel(2, "aten::relu_", reads=[y], writes=[y])
    cleared, z = program.alloc(3, 2 * MIB), program.alloc(4, 2 * MIB)
    program.kernel(3, "fill", writes=[z])
    program.kernel(4, "aten::loss_backward (sums)", reads=[y, z], writes=[cleared])
    program.kernel(5, "aten::loss_backward", reads=[y, cleared], writes=[z])
    program.free(cleared)
    program.kernel(6, "aten::relu_", reads=[z], writes=[z])
    matcher = Matcher(program)
    calls = matcher.operator("aten::norm", False, {1: [2 * MIB, False], 2: [2 * MIB, True]})
    assert said(calls) == [(2, "prefetch", 0)]
    assert (x.address, copied.address, y.address) == (1, None, 2)
    matcher.operator("aten::relu_", False, {2: [2 * MIB, True]})
    matcher.operator("aten::loss_backward", False, {2: [2 * MIB, False], 3: [2 * MIB, True]})
    assert (cleared.address, z.address) == (None, 3)
    matcher.operator("aten::relu_", False, {3: [2 * MIB, True]})
    matcher.end()


def test_an_operators_last_kernels_may_have_scratch_memory():
    program = Program("plan.py")
    x, dy = program.tensor(0, 2 * MIB), program.alloc(1, 4 * MIB)
    dx, parts, more = program.alloc(2, 2 * MIB), program.alloc(3, 32 * MIB), program.alloc(4, 8 * MIB)
    program.kernel(0, "aten::exp", reads=[x], writes=[dy])
    program.kernel(1, "aten::convolution_backward (input)", reads=[dy], writes=[dx])
    program.kernel(2, "aten::convolution_backward (weights)", reads=[x, dy])
    program.kernel(3, "memset", writes=[parts])
    program.kernel(4, "aten::convolution_backward", reads=[dy, parts], writes=[parts])
    program.free(parts)
    program.kernel(5, "aten::relu_", reads=[dx], writes=[dx])
    program.kernel(6, "aten::convolution_backward (weights)", reads=[x, dx])
    program.kernel(7, "memset", writes=[more])
    program.kernel(8, "aten::convolution_backward", reads=[dx, more], writes=[more])
    matcher = Matcher(program)
    matcher.operator("aten::exp", False, {1: [2 * MIB, False], 2: [4 * MIB, True]})
    matcher.operator("aten::convolution_backward", True,
                     {2: [4 * MIB, False], 1: [2 * MIB, False], 3: [2 * MIB, True]})
    matcher.operator("aten::relu_", False, {3: [2 * MIB, True]})
    matcher.operator("aten::convolution_backward", True, {3: [2 * MIB, False], 1: [2 * MIB, False]})
    matcher.end()  # what the last two write is the operator's own
    assert (x.address, dy.address, dx.address) == (1, 2, 3)


def test_steps_of_another_operator_are_refused():
    program = Program("plan.py")
    x, copied, y = program.tensor(0, 2 * MIB), program.alloc(1, 2 * MIB), program.alloc(2, 2 * MIB)
    program.kernel(0, "copy", reads=[x], writes=[copied])
    program.kernel(1, "aten::norm", reads=[copied], writes=[y])
    with pytest.raises(PlanError, match="kernel 0, copy with 2 MiB, 2 MiB, is next, and the script runs aten::pow"):
        Matcher(program).operator("aten::pow", False, {1: [2 * MIB, False], 2: [2 * MIB, True]})


def test_a_result_is_a_storage_that_changes():
    program = Program("plan.py")
    x, y = program.tensor(0, 2 * MIB), program.alloc(1, 2 * MIB)
    program.kernel(0, "aten::exp", reads=[x], writes=[y])
    other = program.tensor(2, 2 * MIB)
    program.kernel(1, "aten::lerp_", reads=[x, y], writes=[other])
    matcher = Matcher(program)
    matcher.operator("aten::exp", False, {2: [2 * MIB, True], 1: [2 * MIB, False]})
    matcher.operator("aten::lerp_", False, {1: [2 * MIB, False], 3: [2 * MIB, False], 2: [2 * MIB, False],
                                            4: [2 * MIB, True]})  # 3: what no kernel of the plan uses
    matcher.end()
    assert (x.address, y.address, other.address) == (1, 2, 4)


def test_an_operator_at_the_place_of_dead_memory_is_not_the_one_before():
    """A kernel that the operator before still had reads memory which is dead by now, and is the result's."""
    program = Program("plan.py")
    x, weights = program.tensor(0, 4 * MIB), program.tensor(1, MIB)
    dy, dx, dw = program.alloc(2, 2 * MIB), program.alloc(3, 4 * MIB), program.alloc(4, 2 * MIB)
    program.kernel(0, "aten::exp", reads=[x], writes=[dy])
    program.kernel(1, "aten::convolution_backward (input)", reads=[dy], writes=[dx])
    program.kernel(2, "aten::convolution_backward", reads=[dy])
    program.free(dy)
    program.kernel(3, "aten::convolution_backward (input)", reads=[dx, weights], writes=[dw])
    program.kernel(4, "aten::convolution_backward", reads=[dx])
    program.free(dx)
    program.kernel(5, "aten::relu_", reads=[dw], writes=[dw])
    matcher = Matcher(program)
    matcher.operator("aten::exp", False, {1: [4 * MIB, False], 2: [2 * MIB, True]})
    matcher.operator("aten::convolution_backward", True, {2: [2 * MIB, False], 3: [4 * MIB, True]})
    matcher.operator("aten::convolution_backward", True,
                     {3: [4 * MIB, False], 4: [MIB, False], 5: [5 * MIB, False], 2: [2 * MIB, True]})
    matcher.operator("aten::relu_", False, {2: [2 * MIB, True]})
    matcher.end()
    assert (dw.address, weights.address) == (2, 4)


def test_what_a_gpu_sorts_by_belongs_to_its_operator():
    program = Program("plan.py")
    rows, keys, table = program.tensor(0, MIB), program.alloc(1, MIB), program.alloc(2, 4 * MIB)
    for number, (name, reads) in enumerate([
            ("copy", [rows]), ("arange", []), ("radix_sort histogram", [rows]), ("fill", []),
            ("aten::embedding_dense_backward scan_init", [keys]), ("aten::embedding_dense_backward", [keys])]):
        last = number == 5
        program.kernel(number, name, reads=reads, writes=[table if last or name == "fill" else keys])
    program.kernel(6, "aten::relu_", reads=[table], writes=[table])
    matcher = Matcher(program)
    matcher.operator("aten::embedding_dense_backward", False, {1: [MIB, False], 2: [4 * MIB, True]})
    matcher.operator("aten::relu_", False, {2: [4 * MIB, True]})
    matcher.end()


def test_a_file_that_cannot_be_is_refused():
    program, w, a = chain()
    program.free(a)
    for call, message in [(lambda: program.prefetch(a, 4 * MIB), "tensor2, 4194304.: it has been freed"),
                          (lambda: program.prefetch(w, MIB), "it has 2097152 bytes"),
                          (lambda: program.pre_evict(w, 2 * MIB, "disk"), "'disk' is no tier"),
                          (lambda: program.kernel(9, "aten::sum", reads=[a]), "uses tensor2, which has been freed")]:
        with pytest.raises(PlanError, match=message):
            call()


# Each layer pauses, so that copies of 2 MiB end within it. Its weights stay as they are; what is
# trained is small.
TRAINING = """
    import json, os, sys, time
    sys.path[:0] = [sys.argv[1], os.getcwd()]
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)

    def pause(grad=None):
        time.sleep(float(sys.argv[2]))

    weights = [torch.randn(1024, 512) for _ in range(8)]
    biases = [torch.nn.Parameter(torch.randn(512)) for _ in range(8)]
    optimizer = torch.optim.SGD(biases, lr=0.01)
    width = 512
    if "plan" in sys.argv:
        import spillway, plan
        plan.attach(optimizer)
    if "other" in sys.argv:
        weights, width = [weight[:768].clone() for weight in weights], 512
    for step in range(5):
        optimizer.zero_grad()
        y = torch.full((len(weights[0]), width), 0.5)
        for weight, bias in zip(weights, biases):
            y = torch.tanh(y * weight + bias)
            y.register_hook(pause)
            pause()
        loss = y.square().mean()
        del y
        loss.backward()
        optimizer.step()
        print(loss.item().hex())
        if "plan" in sys.argv and (spillway.stats() or {}):
            print(json.dumps([plan.program.carried_out, spillway.stats()["moved_bytes"]]), file=sys.stderr)
"""
TO = ["--set", "device.capacity=20MiB", "--set", "storage.capacity=0"]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A folder with the script, a trace of it, and the plan as Python."""
    if not SPILLWAY.exists():
        pytest.skip(f"{SPILLWAY} is not built")
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "train.py").write_text(textwrap.dedent(TRAINING))
    run(folder, [SPILLWAY, "record", "--device", "host", "--device-memory", "1GiB", "-o", "step.json", "--"], 0.02)
    (folder / "plan.py").write_text(spillway(folder, "plan", "--as", "torch", *TO, "step.json"))
    return folder


def spillway(folder, *arguments):
    return subprocess.run([SPILLWAY, *arguments], cwd=folder, capture_output=True, text=True, timeout=60,
                          check=True).stdout


def run(folder, prefix, pause_s, *words, status=0):
    result = subprocess.run([*prefix, sys.executable, "train.py", PROJECT / "python", str(pause_s), *words],
                            cwd=folder, capture_output=True, text=True, timeout=120, env=clean_environment())
    assert result.returncode == status, result.stderr
    return result


def under(device_memory):
    return [SPILLWAY, "run", "--device", "host", "--device-memory", device_memory, "--host-memory", "1GiB",
            "--policy", "base_uvm", "--"]


def test_a_run_moves_what_the_simulator_said(recorded):
    """Beside what is planned, the run holds what the script's variables keep, which no trace knows."""
    alone = run(recorded, [], 0)
    planned = run(recorded, under("26MiB"), 0.02, "plan")
    assert planned.stdout == alone.stdout

    (simulated,) = [json.loads(line)["traffic_bytes"] for line in spillway(
        recorded, "simulate", "--policy", "g10", "--as-run", *TO, "--json", "step.json").splitlines()]
    calls = [[call["before_kernel"], call["step"], call["tensor"], call["bytes"]] for call in map(
        json.loads, spillway(recorded, "plan", "--json", *TO, "step.json").splitlines())
        if call["step"] in ("prefetch", "pre_evict")]
    steps = [json.loads(line) for line in planned.stderr.splitlines() if line.startswith("[")]
    assert simulated["host_to_device"] > 0 and len(calls) > 8
    # The second iteration is the first that is followed; where weights lie is known from the third on.
    assert [made for made, _ in steps[2:]] == [calls] * 3
    # A busy machine may hold a copy for longer than a pause, and then something else leaves as well.
    routes = ("host_to_device", "device_to_host")
    moved = [[after[route] - before[route] for route in routes]
             for (_, before), (_, after) in zip(steps[2:], steps[3:])]
    # With the room that the variables need, one tensor of 2 MiB may still be there when it is asked for.
    assert any(out == simulated[routes[1]] and 0 <= simulated[routes[0]] - into <= 2 << 20
               for into, out in moved), (simulated, moved)


def test_a_plan_of_another_shape_is_refused(recorded):
    refused = run(recorded, under("26MiB"), 0, "plan", "other", status=1)
    line = refused.stderr.strip().splitlines()
    (line,) = [line for line in line if "spillway: plan.py" in line]
    assert "aten::full with 2 MiB, is next, and the script runs aten::full with 1.5 MiB" in line


def test_a_plan_for_more_memory_than_the_run_has_is_refused(recorded):
    refused = run(recorded, under("16MiB"), 0, "plan", status=1)
    assert "planned for 20971520 bytes of device memory, and this run has 16777216" in refused.stderr
    assert "--set device.capacity=16MiB" in refused.stderr


@needs_program
def test_without_spillway_a_line_says_that_nothing_is_done(recorded):
    plain = run(recorded, [], 0, "plan")
    assert "spillway: plan.py is not carried out: this process does not run under `spillway run`" in plain.stderr


# Products, whose workspaces no operator names; a norm whose gradient is several kernels; a loss
# whose gradient is cleared first; a fused optimizer.
NETWORK = """
    import json, os, sys
    sys.path[:0] = [sys.argv[1], os.getcwd()]
    import torch

    torch.manual_seed(0)
    device = "cpu" if "plan" in sys.argv else "cuda"
    model = torch.nn.Sequential(*[torch.nn.Sequential(
        torch.nn.Linear(512, 1024), torch.nn.GELU(), torch.nn.LayerNorm(1024), torch.nn.Linear(1024, 512))
        for _ in range(2)]).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    x, kinds = torch.randn(1024, 512, device=device), torch.randint(0, 512, (1024,), device=device)
    if "plan" in sys.argv:
        import plan
        plan.attach(optimizer)
    for step in range(4):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), kinds).backward()
        optimizer.step()
    if "plan" in sys.argv:
        print(json.dumps([plan.program.iterations, plan.program.carried_out]))
"""


@needs_program
def test_a_network_recorded_without_a_gpu_is_followed(tmp_path):
    (tmp_path / "train.py").write_text(textwrap.dedent(NETWORK))
    to = ["--set", "device.capacity=40MiB", "--set", "storage.capacity=0"]
    run(tmp_path, [SPILLWAY, "record", "--without-gpu", "--machine", "h200", "-o", "step.swt", "--"], 0)
    (tmp_path / "plan.py").write_text(spillway(tmp_path, "plan", "--as", "torch", *to, "step.swt"))
    planned = run(tmp_path, under("64MiB"), 0, "plan")
    iterations, calls = json.loads(planned.stdout)
    assert iterations == 3 and {"prefetch", "pre_evict"} == {what for _, what, *_ in calls}
