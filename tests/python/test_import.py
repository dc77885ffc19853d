"""`spillway trace import` on files that PyTorch's own tools write here, against what this test knows.

Needs the built program (build/, or the folder that SPILLWAY_BUILD names). Memory snapshots are made
from their documented structure, as PyTorch's build for the CPU has no history of CUDA's allocator.
"""

import collections
import io
import json
import os
import pathlib
import pickle
import random
import subprocess
import sys
import textwrap

import pytest
from conftest import clean_environment

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPILLWAY = pathlib.Path(os.environ.get("SPILLWAY_BUILD", ROOT / "build")) / "spillway"
MIB = 1 << 20

pytestmark = pytest.mark.skipif(not SPILLWAY.exists(), reason=f"{SPILLWAY} is not built")

# Two matrices of 4 MiB, inputs and hidden values of 2 MiB, and plain SGD. Says what a third step
# dispatches, without a profiler.
TRAIN = """
    import collections, gzip, json, sys
    import torch
    from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile, schedule
    from torch.utils._python_dispatch import TorchDispatchMode

    torch.manual_seed(1)
    a, b = (torch.nn.Linear(1024, 1024, bias=False) for _ in range(2))
    optimizer = torch.optim.SGD([a.weight, b.weight], lr=0.1, foreach=False)
    inputs = torch.randn(512, 1024)

    def step():
        optimizer.zero_grad()
        b(torch.relu(a(inputs))).sum().backward()
        optimizer.step()

    step()  # makes everything that is made once
    observer = ExecutionTraceObserver()
    observer.register_callback("chakra.json")
    marked = sys.argv[1] == "marked"
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, record_shapes=True,
                 execution_trace_observer=observer if marked else None,
                 schedule=schedule(wait=0, warmup=1, active=2, repeat=1) if marked else None
                 ) as profiler:
        if not marked:
            observer.start()
        for _ in range(3 if marked else 2):
            step()
            profiler.step()
        if not marked:
            observer.stop()
    observer.unregister_callback()
    profiler.export_chrome_trace("kineto.json.gz")
    with gzip.open("kineto.json.gz", "rb") as packed, open("kineto.json", "wb") as plain:
        plain.write(packed.read())

    class Count(TorchDispatchMode):
        names = collections.Counter()
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.names["aten::" + function.overloadpacket.__name__] += 1
            return function(*args, **(kwargs or {}))

    with Count() as count:
        step()
    print(json.dumps(count.names))
"""


def spillway(*arguments, cwd=None):
    return subprocess.run([SPILLWAY, *map(str, arguments)], text=True, capture_output=True, cwd=cwd,
                          timeout=300, env=clean_environment())


def import_trace(file, *options):
    """The trace as kernel-trace/1, and what was said of it."""
    out = file.with_suffix(".swt")
    result = spillway("trace", "import", file, *options, "-o", out, "--json")
    assert result.returncode == 0, result.stderr
    text = out.with_name("imported.json")
    assert spillway("trace", "convert", out, text).returncode == 0
    return json.loads(text.read_text()), json.loads(result.stdout)


def peak_bytes(trace):
    """Most memory at once; tensors that are not persistent live from their first to their last use."""
    tensors, kernels = trace["tensors"], trace["kernels"]
    first, last = {}, {}
    for k, kernel in enumerate(kernels):
        for tensor in kernel["reads"] + kernel["writes"]:
            first.setdefault(tensor, k)
            last[tensor] = k
    changes = [0] * (len(kernels) + 1)
    for i, tensor in enumerate(tensors):
        if tensor["persistent"]:
            changes[0] += tensor["bytes"]
        else:
            changes[first[i]] += tensor["bytes"]
            changes[last[i] + 1] -= tensor["bytes"]
    live = peak = 0
    for change in changes:
        live += change
        peak = max(peak, live)
    return peak


def sizes(trace, persistent):
    """How many tensors there are of each size in MiB, from 1 MiB on."""
    return collections.Counter(tensor["bytes"] / MIB for tensor in trace["tensors"]
                               if tensor["persistent"] == persistent and tensor["bytes"] >= MIB)


def named(folder, name):
    """The profiler's events of that name, in order."""
    events = json.loads((folder / "kineto.json").read_text())["traceEvents"]
    return sorted((event for event in events if event["name"] == name), key=lambda event: event["ts"])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of files and the operators of a step, by whether the profiler's steps are marked."""
    pytest.importorskip("torch")
    found = {}

    def train(kind):
        if kind not in found:
            folder = tmp_path_factory.mktemp(kind)
            (folder / "train.py").write_text(textwrap.dedent(TRAIN))
            result = subprocess.run([sys.executable, "train.py", kind], cwd=folder, text=True,
                                    capture_output=True, timeout=300,
                                    env={**clean_environment(), "OMP_NUM_THREADS": "2"})
            assert result.returncode == 0, result.stderr
            found[kind] = folder, json.loads(result.stdout.splitlines()[-1])
        return found[kind]

    return train


@pytest.mark.parametrize("kind", ["marked", "unmarked"])
def test_chakra_has_the_operators_and_tensors_of_a_step(trained, kind):
    folder, dispatched = trained(kind)
    trace, said = import_trace(folder / "chakra.json")
    assert said["iteration"] == ("ProfilerStep#2" if kind == "marked" else
                                 "iteration 1 of 0 to 1, each up to an optimizer's step")
    names = collections.Counter(kernel["name"] for kernel in trace["kernels"])
    assert dispatched["aten::mm"] == 5
    for name in ("aten::mm", "aten::threshold_backward", "aten::sum", "aten::add_"):
        assert names[name] == dispatched[name], name
    # Matrices and inputs; the gradients, and of 512 x 1024: the two products of the forward pass,
    # relu's result, its gradient behind relu and before. The gradient of a sum is one number that is
    # expanded, of which mm makes whole copies, as often as the profiler saw in each of two steps.
    copies = len(named(folder, "aten::clone")) // 2
    assert sizes(trace, persistent=True) == {4: 2, 2: 1}
    born = sizes(trace, persistent=False)
    assert born[4] == 2
    assert born[2] == 5 + copies
    assert any("1 us" in note for note in said["notes"])


@pytest.mark.parametrize("kind,file", [("marked", "kineto.json"), ("unmarked", "kineto.json.gz")])
def test_kineto_gives_chakra_its_times(trained, kind, file):
    folder, _ = trained(kind)
    trace, said = import_trace(folder / "chakra.json", "--with", folder / file)
    assert not any("1 us" in note for note in said["notes"])
    # Of the last step, less what mm copies first.
    copies = named(folder, "aten::copy_")
    mm_ms = [(mm["dur"] - sum(copy["dur"] for copy in copies
                              if mm["ts"] <= copy["ts"] < mm["ts"] + mm["dur"])) / 1e3
             for mm in named(folder, "aten::mm")[-5:]]
    times = [kernel["ms"] for kernel in trace["kernels"] if kernel["name"] == "aten::mm"]
    assert times == pytest.approx(mm_ms, rel=1e-3)


def test_times_of_another_run_are_refused(trained):
    folder, _ = trained("marked")
    other, _ = trained("unmarked")
    result = spillway("trace", "import", folder / "chakra.json", "--with", other / "chakra.json",
                      "-o", folder / "no.swt")
    assert result.returncode == 2
    assert "not a Kineto trace" in result.stderr
    assert not (folder / "no.swt").exists()


@pytest.mark.parametrize("kind", ["marked", "unmarked"])
def test_kineto_has_the_memory_of_a_step(trained, kind):
    folder, dispatched = trained(kind)
    trace, said = import_trace(folder / "kineto.json")
    plain = trace, said["iteration"]
    trace, said = import_trace(folder / "kineto.json.gz")
    assert (trace, said["iteration"]) == plain
    if kind == "marked":
        (step,) = named(folder, "ProfilerStep#2")
        begin, end = step["ts"], step["ts"] + step["dur"]
    else:
        begin, end = (e["ts"] + e["dur"] for e in named(folder, "Optimizer.step#SGD.step"))
    # Alive at a moment, of what the profiler saw in this step.
    live = peak = 0
    for event in named(folder, "[memory]"):
        if begin <= event["ts"] < end:
            live += event["args"]["Bytes"]
            peak = max(peak, live)
    known_before = sum(t["bytes"] for t in trace["tensors"] if t["persistent"])
    gradients_before = 8 * MIB  # zero_grad frees them first, and they were there before
    assert peak_bytes(trace) == pytest.approx(peak + known_before + gradients_before, rel=0.05)
    names = collections.Counter(kernel["name"] for kernel in trace["kernels"])
    assert names["aten::linear"] == 2
    assert names["aten::add_"] == dispatched["aten::add_"]
    assert sizes(trace, persistent=True)[4] == 2


def test_what_is_imported_can_be_simulated(trained):
    folder, _ = trained("marked")
    for file in ("chakra.json", "kineto.json"):
        import_trace(folder / file)
        swt = (folder / file).with_suffix(".swt")
        assert spillway("analyze", swt).returncode == 0
        result = spillway("simulate", "--machine", "a100-40gb", "--set", "device.capacity=32MiB",
                          "--policy", "lookahead", swt)
        assert result.returncode == 0, result.stderr


def test_other_commands_say_how_to_read_it(trained):
    folder, _ = trained("marked")
    for file, kind in (("chakra.json", "a Chakra execution trace"), ("kineto.json", "a Kineto trace"),
                       ("kineto.json.gz", "a Kineto trace")):
        result = spillway("analyze", folder / file)
        assert result.returncode == 2
        assert f"{kind}; 'spillway trace import FILE -o OUT.swt'" in result.stderr
        assert len(result.stderr.splitlines()) == 1


def made_up_history(seed):
    """A snapshot by its documented structure, and the most memory that is alive at once."""
    rng = random.Random(seed)
    frames = [{"filename": "/home/me/train.py", "line": line, "name": "step"} for line in range(9)]
    before = {1 << 40 | i << 24: 4096 * rng.randrange(1, 9) for i in range(20)}
    alive = dict(before)
    live = peak = sum(alive.values())
    history, time_us = [], 1_700_000_000_000_000
    for i in range(2500):  # more than pickle appends at once
        time_us += rng.randrange(1, 50)
        event = {"stream": 0, "time_us": time_us, "frames": rng.sample(frames, 2)}
        if alive and rng.random() < 0.5:
            address = rng.choice(list(alive))
            size = alive.pop(address)
            live -= size
            for action in ("free_requested", "free_completed"):
                history.append({**event, "action": action, "addr": address, "size": size})
        else:
            address, size = 1 << 46 | rng.randrange(400) << 24, 4096 * rng.randrange(1, 200)
            if address in alive:
                continue
            alive[address] = size
            live += size
            history.append({**event, "action": "alloc", "addr": address, "size": size})
        peak = max(peak, live)
    blocks = [{"address": address, "size": size, "requested_size": size, "state": "active_allocated",
               "frames": []} for address, size in alive.items()]
    return {"segments": [{"address": 1 << 40, "device": 1, "total_size": 1 << 30, "stream": 0,
                          "segment_type": "large", "segment_pool_id": (0, 0), "blocks": blocks}],
            "device_traces": [[], history],
            "allocator_settings": {"expandable_segments": False, "roundup_power2_divisions": {},
                                   "garbage_collection_threshold": 0.8, "note": None}}, peak


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_snapshot_has_the_memory_that_was_alive(tmp_path, protocol):
    snapshot, peak = made_up_history(protocol)
    slow = io.BytesIO()
    pickle._Pickler(slow, protocol).dump(snapshot)
    for data in (pickle.dumps(snapshot, protocol), slow.getvalue()):
        file = tmp_path / "snapshot.pickle"
        file.write_bytes(data)
        trace, said = import_trace(file)
        assert said["format"] == "a memory snapshot"
        assert peak_bytes(trace) == peak
        allocations = [kernel for kernel in trace["kernels"]
                       if kernel["name"].startswith("allocate train.py:")]
        assert len(allocations) == sum(event["action"] == "alloc"
                                       for event in snapshot["device_traces"][1])


class Runs:
    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return pathlib.Path.touch, (self.file,)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_nothing_in_a_pickle_is_run(tmp_path, protocol):
    snapshot, _ = made_up_history(1)
    snapshot["device_traces"][1][700]["frames"] = Runs(tmp_path / "touched")
    file = tmp_path / "snapshot.pickle"
    file.write_bytes(pickle.dumps(snapshot, protocol))
    result = spillway("trace", "import", file, "-o", tmp_path / "out.swt")
    assert result.returncode == 2
    assert f"{file}: byte " in result.stderr and "is not run" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == [file]
