"""Memory that is full, a process that is killed, children, and arithmetic on ranges of memory."""

import os
import pathlib
import signal
import subprocess
import sys
import textwrap

import pytest

from twins import Twins, one_thread, spillway, tensors, torch  # noqa: F401, one_thread is a fixture

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("kind,options,function", [
    (torch.optim.Adam, {}, "zeros_like"), (torch.optim.AdamW, {"amsgrad": True}, "zeros_like"),
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}, "empty_like")])
def test_no_memory_for_states(monkeypatch, kind, options, function):
    """PyTorch's own error; nothing is half done, and the same step succeeds later."""
    twins = Twins(kind, [tensors(), tensors(seed=2)], **options)
    before = [other.clone() for _, other in twins.parameters()]
    twins.gradients()
    allocate, calls = getattr(torch, function), []

    def full(*args, **kwargs):
        calls.append(args)
        if len(calls) == 9:  # in the second group
            raise RuntimeError("DefaultCPUAllocator: not enough memory")
        return allocate(*args, **kwargs)

    monkeypatch.setattr(torch, function, full)
    with pytest.raises(RuntimeError, match="not enough memory"):
        twins.near.step()
    monkeypatch.undo()
    assert all(torch.equal(*pair) for pair in zip(before, (other for _, other in twins.parameters())))
    assert not any(twins.near.state_dict()["state"].values())
    twins.each(lambda optimizer: optimizer.step())
    twins.compare()
    for _ in range(2):
        twins.step()


KILLED = """
    import os, sys, torch, spillway
    path, near = sys.argv[1:]
    torch.manual_seed(1)
    torch.set_num_threads(1)
    value = torch.nn.Parameter(torch.randn(1_000_000))
    optimizer = torch.optim.AdamW([value], fused=True)
    if os.path.exists(path):
        states, kept = torch.load(path)
        optimizer.load_state_dict(states)
        value.data.copy_(kept)
    if near == "1":
        spillway.near.optimize(optimizer, threads=2)
    for number in range(3):
        value.grad = value.detach().sin()
        optimizer.step()
    if os.path.exists(path):
        print(value.double().sum().item().hex(), value.view(torch.int32).sum().item())
        sys.exit()
    torch.save((optimizer.state_dict(), value.detach()), path)
    print("saved", flush=True)
    while True:
        optimizer.step()
"""


def test_a_process_that_is_killed(tmp_path):
    """The checkpoint before it loads, on both sides, and goes on the same."""
    script, path = tmp_path / "script.py", tmp_path / "states"
    script.write_text(textwrap.dedent(KILLED))
    command = [sys.executable, script, path]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    with subprocess.Popen([*command, "1"], stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout.readline() == b"saved\n"
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    one, other = (subprocess.run([*command, near], stdout=subprocess.PIPE, env=environment,
                                 check=True).stdout for near in "01")
    assert one == other


def test_the_child_of_a_fork():
    """Has no threads of the pool, and steps all the same."""
    twins = Twins(torch.optim.AdamW, [tensors([(100_000,)])], optimize=False)
    spillway.near.optimize(twins.near, threads=3)
    twins.step()
    child = os.fork()
    if child == 0:
        try:
            twins.step()
            twins.step()
            os._exit(0 if twins.near.spillway.steps == 3 else 1)
        except BaseException:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    twins.step()


def test_ranges_of_memory():
    from spillway.near.memory import overlap

    assert not overlap([], []) and not overlap([(0, 4)], []) and not overlap([], [(0, 4), (0, 4)])
    assert not overlap([(0, 4), (4, 8)], [(8, 12), (9, 10)])
    assert overlap([(0, 4), (3, 5)], []) and overlap([(0, 4)], [(0, 4)])
    assert overlap([(4, 6)], [(0, 100), (1, 2)]) and overlap([(0, 100), (200, 300)], [(150, 160), (5, 6)])


def test_ranges_of_memory_as_a_loop_would_find():
    from spillway.near.memory import overlap

    generator = torch.Generator().manual_seed(3)
    found = set()
    for _ in range(500):
        ranges = [(int(start), int(start + size), bool(writes)) for start, size, writes in zip(
            torch.randint(60, (5,), generator=generator), torch.randint(1, 9, (5,), generator=generator),
            torch.randint(2, (5,), generator=generator))]
        expected = any((one[2] or other[2]) and one[0] < other[1] and other[0] < one[1]
                       for at, one in enumerate(ranges) for other in ranges[:at])
        assert overlap([one[:2] for one in ranges if one[2]],
                       [one[:2] for one in ranges if not one[2]]) == expected, ranges
        found.add(expected)
    assert found == {True, False}
