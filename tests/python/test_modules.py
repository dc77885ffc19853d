"""modules.py: which module runs, as the library is told; and what a run's record makes of it."""

import json
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest
from conftest import clean_environment

pytest.importorskip("torch")

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("SPILLWAY_BUILD", ROOT / "build"))
SPILLWAY = BUILD / "spillway"

# Two layers and a head; the layers may be checkpointed.
MODEL = textwrap.dedent("""
    import sys, torch
    from torch import nn
    from torch.utils.checkpoint import checkpoint

    class Layer(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.norm = nn.LayerNorm(width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.Sigmoid(), nn.Linear(4 * width, width))
        def forward(self, x):
            return x + self.mlp(self.norm(x))

    class Model(nn.Module):
        def __init__(self, width=8, recompute=None):
            super().__init__()
            self.recompute = recompute
            self.h = nn.ModuleList(Layer(width) for _ in range(2))
            self.head = nn.Linear(width, 3)
        def forward(self, x):
            for layer in self.h:
                x = (layer(x) if self.recompute is None
                     else checkpoint(layer, x, use_reentrant=self.recompute == "reentrant"))
            return self.head(x)

    torch.manual_seed(0)
""")


@pytest.fixture
def modules_of(collect):
    """What a script that uses MODEL runs in, as (module, operator), both in their order."""

    def run(script, on="1", status=0, warm=()):
        collected = collect(MODEL + textwrap.dedent(script), SPILLWAY_MODULE_NAMES=on,
                            SPILLWAY_VERBOSE="1", status=status, warm=warm)
        module, ran = "-", []
        for kind, _, text in collected.lines():
            if kind == "module":
                module = text
            elif kind == "begin" and text.startswith("aten::"):
                ran.append((module, text))
        run.collected = collected
        assert "named" not in collected.result.stderr, collected.result.stderr
        return ran

    return run


STEP = """
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        loss = model(torch.ones(4, 8)).square().sum()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    torch.ones(2).tanh()
    print(loss.item().hex())
"""


def test_forward_backward_and_optimizer_are_named(modules_of):
    ran = modules_of(STEP, warm=None)
    assert ("h.0.norm", "aten::native_layer_norm") in ran
    assert ("h.1.mlp.2", "aten::addmm") in ran
    assert ("h.1", "aten::add") in ran
    assert ("head", "aten::addmm") in ran
    assert ("h.1.mlp.2 (backward)", "aten::mm") in ran
    assert ("h.0.norm (backward)", "aten::native_layer_norm_backward") in ran
    assert ("head (backward)", "aten::mm") in ran
    assert {module for module, name in ran if name == "aten::addcdiv_"} <= {"optimizer"}
    assert "optimizer" in {module for module, _ in ran}
    # What is no module's has none: making the model, the loss, clipping, and what comes at the end.
    for name in ("aten::uniform_", "aten::square", "aten::linalg_vector_norm", "aten::tanh"):
        modules = {module for module, other in ran if other == name}
        assert modules in ({"-"}, set()), (name, modules)
    assert {"aten::square", "aten::tanh"} <= {name for module, name in ran if module == "-"}


def test_operators_and_losses_are_those_without_names(modules_of):
    named = modules_of(STEP)
    loss = modules_of.collected.result.stdout
    plain = modules_of_anew(modules_of, STEP)
    assert [name for _, name in named] == [name for _, name in plain]
    assert loss == modules_of.collected.result.stdout
    assert {module for module, _ in plain} == {"-"}


def modules_of_anew(modules_of, script, warm=()):
    """Without names, and without what the run before has left."""
    collected = modules_of.collected
    for file in collected.prefix.parent.glob(collected.prefix.name + ".*"):
        file.unlink()
    return modules_of(script, on="0", warm=warm)


def test_no_hook_is_registered_without_being_asked(run_python):
    script = """
        import torch, torch.nn.modules.module as module, torch.optim.optimizer as optimizer
        print(bool(module._has_any_global_hook()), len(optimizer._global_optimizer_pre_hooks),
              any(name.endswith("spillway.modules") for name in __import__("sys").modules))
    """
    assert run_python(script).stdout.split() == ["False", "0", "False"]
    # Nor where the library is not there.
    assert run_python(script, SPILLWAY_MODULE_NAMES="1").stdout.split()[:2] == ["False", "0"]


@pytest.mark.parametrize("recompute", ["reentrant", "not reentrant"])
def test_what_a_checkpoint_computes_again_keeps_its_name(modules_of, recompute):
    ran = modules_of(f"""
        model = Model(recompute="{recompute}")
        for _ in range(2):
            x = torch.ones(4, 8, requires_grad=True)
            model(x).sum().backward()
            torch.ones(2).tanh()
    """)
    assert ran.count(("h.1.mlp.0", "aten::addmm")) == 4  # twice a step
    assert ("h.1.mlp.0 (backward)", "aten::mm") in ran
    assert "mlp.0" not in {module for module, _ in ran}
    assert ran.count(("-", "aten::tanh")) == 2


def test_an_exception_leaves_the_modules_that_it_came_through(modules_of):
    ran = modules_of("""
        class Bad(nn.Module):
            def forward(self, x):
                torch.ones(2).neg()
                raise ValueError

        class Wrong(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()
            @staticmethod
            def backward(ctx, grad):
                raise ValueError

        class Around(nn.Module):
            def __init__(self):
                super().__init__()
                self.bad = nn.Sequential(Bad())
            def forward(self, x):
                try:
                    self.bad(x)
                except ValueError:
                    return x.exp()

        class WrongBack(nn.Module):
            def forward(self, x):
                return Wrong.apply(x) * 2

        Around()(torch.ones(2))
        torch.ones(2).tanh()
        try:
            nn.Sequential(Bad())(torch.ones(2))
        except ValueError:
            torch.ones(2).tanh()
        try:
            WrongBack()(torch.ones(2, requires_grad=True)).sum().backward()
        except ValueError:
            pass
        nn.Linear(2, 2)(torch.ones(2))
        torch.ones(2).tanh()
    """)
    assert ("bad.0", "aten::neg") in ran and ("0", "aten::neg") in ran
    assert ("Around", "aten::exp") in ran
    assert ran.count(("-", "aten::tanh")) == 3


def test_odd_ways_to_use_modules(modules_of):
    ran = modules_of("""
        class Tree(nn.Module):
            def __init__(self, left=None):
                super().__init__()
                self.left, self.again = left, left
            def forward(self, x, deep=2):
                if deep == 0:
                    return x.exp()
                x = (self.left or self)(x, deep - 1)
                return nn.Softmax(dim=0)(x).tanh()  # a module that is nobody's

        x = torch.ones(2, requires_grad=True)
        Tree()(x)                        # calls itself
        Tree(Tree())(x).sum().backward()
        shared = nn.Linear(2, 2)
        nn.ModuleDict({"first": shared, "second": shared})["second"](x)
        grown = nn.Sequential(nn.Identity())
        grown(x)
        grown.append(nn.ReLU())          # unknown at first
        grown(x), grown(x)
        with torch.inference_mode():
            Model()(torch.ones(2, 8))
    """)
    assert ("Tree", "aten::exp") in ran and ("left", "aten::exp") in ran
    assert ("Tree", "aten::tanh") in ran and ("Softmax", "aten::_softmax") in ran
    assert ("Tree (backward)", "aten::tanh_backward") in ran
    assert ("Linear", "aten::addmm") in ran or ("Linear", "aten::matmul") in ran
    assert {module for module, name in ran if name == "aten::relu"} == {"ReLU", "1"}
    assert ("h.1.mlp.1", "aten::sigmoid") in ran


def test_threads_and_forked_workers(modules_of, collect):
    collected = collect(MODEL + textwrap.dedent("""
        import os, threading
        model = Model()
        go = threading.Event()

        class Waits(nn.Module):
            def forward(self, x):
                thread = threading.Thread(target=lambda: model(x).sum().backward())
                thread.start()
                thread.join()
                return x.exp()

        Waits()(torch.ones(2, 8))
        replicas = [type(model)._replicate_for_data_parallel(model) for _ in range(2)]
        for replica in replicas:
            replica._modules = model._modules.copy()
            replica(torch.ones(2, 8))
        if os.fork() == 0:
            nn.Identity()(torch.ones(2))
            os._exit(0)
        os.wait()
        torch.ones(2).tanh()
    """), SPILLWAY_MODULE_NAMES="1", SPILLWAY_VERBOSE="1")
    (lines,) = collected.processes()  # nothing of the child
    assert collected.result.stderr == ""
    module = None
    for kind, _, text in lines:
        if kind == "module":
            module = text
        if text == "aten::tanh":
            assert module == "-"
    named = [text for kind, _, text in lines if kind == "module"]
    assert "h.0.mlp.0 (backward)" in named and named.count("h.0.mlp.0") >= 3


def test_steps_within_steps_and_steps_that_fail(modules_of):
    ran = modules_of("""
        class Around(torch.optim.SGD):
            def step(self):
                inner.step()
                torch.ones(2).tanh()

        class Failing(torch.optim.SGD):
            def step(self):
                raise RuntimeError

        model = Model()
        inner = torch.optim.SGD(model.parameters(), lr=0.1)
        around = Around(model.parameters(), lr=0.1)
        failing = Failing(model.parameters(), lr=0.1)
        model(torch.ones(4, 8)).sum().backward()
        try:
            failing.step()
        except RuntimeError:
            pass
        inner.step()
        around.step()
        torch.ones(2).sin()
        try:
            failing.step()
        except RuntimeError:
            pass
        try:
            failing.step()
        except RuntimeError:
            pass
    """)
    assert ("optimizer", "aten::tanh") in ran
    # What has failed is over at its next step, which here never ends well.
    assert {module for module, name in ran if name == "aten::sin"} == {"optimizer"}


def test_a_scripts_function_mode_does_not_see_the_questions(modules_of):
    script = """
        from torch.overrides import TorchFunctionMode

        class Counting(TorchFunctionMode):
            seen = 0
            def __torch_function__(self, function, types, args=(), kwargs=None):
                Counting.seen += 1
                return function(*args, **(kwargs or {}))

        model = Model()
        with Counting():
            loss = model(torch.ones(4, 8)).sum()
        loss.backward()
        print(Counting.seen)
    """
    modules_of(script)
    with_names = modules_of.collected.result.stdout
    modules_of_anew(modules_of, script)
    assert with_names == modules_of.collected.result.stdout


def test_nothing_is_kept_alive(modules_of):
    modules_of("""
        import gc, weakref
        gc.disable()
        model = Model()
        out = model(torch.ones(4, 8, requires_grad=True))
        node, inner = weakref.ref(out), weakref.ref(model.h[0].mlp)
        out.sum().backward()
        del out
        assert node() is None
        del model
        assert inner() is None
        from _spillway import modules
        assert modules  # it is what runs
        print("gone")
    """)
    assert modules_of.collected.result.stdout == "gone\n"


def test_compiled_modules_are_compiled_as_without_names(modules_of):
    script = """
        import torch._dynamo.testing
        from torch._dynamo.utils import counters
        model = Model()
        seen = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
        compiled = torch.compile(model, backend=seen, fullgraph=True)
        for _ in range(3):
            loss = compiled(torch.ones(4, 8)).square().sum()
            loss.backward()
        print(seen.frame_count, seen.op_count, sum(counters["graph_break"].values()), loss.item().hex())
    """
    ran = modules_of(script, warm=None)
    told = modules_of.collected.result
    assert told.stderr == ""  # no warning of hooks
    assert told.stdout.split()[0] == "1"
    assert {module for module, name in ran if name == "aten::addmm"} == {"Model"}
    modules_of_anew(modules_of, script, warm=None)
    assert told.stdout == modules_of.collected.result.stdout


TRAINING = MODEL + textwrap.dedent("""
    model = Model(width=512)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(4):
        loss = model(torch.ones(512, 512)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(loss.item().hex())
""")


@pytest.mark.skipif(not SPILLWAY.exists(), reason=f"{SPILLWAY} is not built")
def test_under_pressure_waits_are_told_by_module(tmp_path):
    def run(*options):
        result = subprocess.run(
            [SPILLWAY, "run", "--device", "host", "--device-memory", "24MiB", "--host-memory",
             "512MiB", "--policy", "base_uvm", *options, "--", sys.executable, "-c", TRAINING],
            text=True, capture_output=True, timeout=300, env=clean_environment())
        assert result.returncode == 0, result.stderr
        return result

    plain = run()
    assert "waited" not in plain.stderr
    record, timeline, report = (tmp_path / name for name in ("record", "timeline", "report"))
    named = run("--json", record, "--trace-events", timeline)
    assert named.stdout == plain.stdout
    told = json.loads(record.read_text())
    by_module = {row["name"]: row for row in told["waits_by_module"]}
    assert by_module["h.*.mlp.* (backward)"]["wait_s"] > 0
    assert by_module["optimizer"]["wait_s"] > 0
    assert any(row["name"].startswith(("h.0.mlp.", "h.1.mlp.")) and " aten::" in row["name"]
               for row in told["longest_waits"]), told["longest_waits"]
    launches = {event["name"] for event in json.loads(timeline.read_text())["traceEvents"]
                if event.get("cat") == "launch"}
    assert {"h.1.mlp.2 aten::addmm", "h.0.mlp.0 (backward) aten::mm", "aten::uniform_"} <= launches

    shown = run("--report", report)
    assert "  waited     " in shown.stderr and " s in " in shown.stderr
    page = report.read_text()
    assert "Modules that waited longest" in page and "h.*.mlp.* (backward)" in page
