"""operators.py: which operators of an unmodified script reach the library, and which do not."""

import pytest

pytest.importorskip("torch")


def depths_return_to_zero(lines):
    depth = 0
    for kind, at, _ in lines:
        depth += {"begin": 1, "end": -1}.get(kind, 0)
        if depth < 0 or (kind == "end" and at != depth):
            return False
    return depth == 0


def test_forward_backward_and_optimizer_arrive(collect):
    collected = collect("""
        import torch
        model = torch.nn.Linear(4, 4)
        optimizer = torch.optim.AdamW(model.parameters())
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    """, warm=None)
    names = collected.names()
    for name in ("aten::addmm", "autograd::engine::evaluate_function: AddmmBackward0",
                 "Optimizer.step#AdamW.step", "Optimizer.zero_grad#AdamW.zero_grad"):
        assert name in names
    assert depths_return_to_zero(collected.lines())
    assert collected.result.stderr == ""  # no "Leaked callback handle"


@pytest.mark.parametrize("end, status", [("sys.exit(3)", 3), ("raise ValueError", 1)])
def test_however_the_script_ends_nothing_leaks(collect, end, status):
    collected = collect(f"""
        import sys, torch
        with torch.autograd.profiler.record_function("open"):
            torch.ones(1)
            {end}
    """, status=status)
    assert "Leaked" not in collected.result.stderr
    assert depths_return_to_zero(collected.lines())


def test_profilers_of_the_script_work_and_the_ranges_come_back(collect):
    collected = collect("""
        import torch
        import torch.autograd.profiler as profiler
        from torch.profiler import profile, ProfilerActivity, schedule

        def mark(name):
            with profiler.record_function(name):
                torch.ones(1).neg()

        scheduled = []
        print(profiler._is_profiler_enabled)
        mark("before")
        with profiler.record_function("around"):
            with profile(activities=[ProfilerActivity.CPU]) as first:
                mark("inside")
        mark("between")
        with profiler.profile() as second:
            mark("inside")
        with profile(activities=[ProfilerActivity.CPU],
                     schedule=schedule(wait=1, warmup=1, active=1, repeat=1),
                     on_trace_ready=lambda ready: scheduled.extend(ready.key_averages())) as third:
            for _ in range(4):
                mark("scheduled")
                third.step()
        with profiler.emit_itt():
            mark("emitted")
        mark("after")
        for result in (first, second):
            assert "aten::neg" in {event.key for event in result.key_averages()}
        assert "scheduled" in {event.key for event in scheduled}
        print(profiler._is_profiler_enabled)
    """)
    names = collected.names()
    assert [name for name in names if not name.startswith(("aten::", "Profiler"))] == [
        "before", "around", "between",
        "scheduled", "scheduled", "scheduled",  # two before and one after the profiled one
        "emitted", "after"]
    assert depths_return_to_zero(collected.lines())
    assert collected.result.stdout.split() == ["False", "False"]


@pytest.mark.parametrize("outer, inner", [("profile", "profile"), ("profile", "emit_itt"),
                                          ("emit_itt", "profile"), ("emit_itt", "emit_itt")])
def test_profilers_that_overlap_fail_as_without_us(collect, run_python, outer, inner):
    script = f"""
        import torch
        import torch.autograd.profiler as profiler
        with profiler.{outer}():
            try:
                with profiler.{inner}():
                    print("inside")
            except RuntimeError as error:
                print(error)
        torch.ones(1).exp()
    """
    collected = collect(script)
    assert collected.result.stdout == run_python(script, hooked=False, warm=()).stdout
    assert "aten::exp" in collected.names()
    assert "Leaked" not in collected.result.stderr


def test_a_profiler_that_does_not_start_leaves_the_ranges_on(collect):
    collected = collect("""
        import torch
        import torch.autograd.profiler as profiler
        try:
            profiler._enable_profiler(None, set())
        except TypeError:
            torch.ones(1).exp()
    """)
    assert "aten::exp" in collected.names()


def test_threads_and_forked_children_are_not_reported(collect):
    collected = collect("""
        import os, threading, torch
        from torch.autograd.profiler import profile

        def work():
            with profile():  # of another thread: not a reason to step aside
                torch.ones(1).neg()

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        child = os.fork()
        if child == 0:
            with profile():
                pass
            torch.ones(1).exp()
            os._exit(0)
        os.waitpid(child, 0)
        torch.ones(1).tanh()
    """)
    names = collected.names()
    assert "aten::tanh" in names
    assert "aten::neg" not in names
    assert "aten::exp" not in names


def test_workers_of_a_data_loader_run_unreported(collect):
    collected = collect("""
        import torch
        from torch.utils.data import DataLoader

        class Numbers(torch.utils.data.Dataset):
            def __len__(self):
                return 4
            def __getitem__(self, index):
                return torch.tensor(float(index)).exp()

        loader = DataLoader(Numbers(), num_workers=1, multiprocessing_context="fork")
        print(sum(batch.sum().item() for batch in loader) > 0)
    """)
    assert collected.result.stdout == "True\n"
    assert "aten::exp" not in collected.names()


def test_started_python_programs_are_reported_by_themselves(collect):
    collected = collect("""
        import subprocess, sys, torch
        torch.ones(1).exp()
        subprocess.run([sys.executable, "-c", "import torch; torch.ones(1).neg()"], check=True)
    """)
    seen = [{text for _, _, text in lines} & {"aten::exp", "aten::neg"}
            for lines in collected.processes()]
    assert sorted(map(sorted, seen)) == [["aten::exp"], ["aten::neg"]]


def test_torch_imported_by_a_thread_is_not_reported_and_says_so(collect):
    collected = collect("""
        import importlib, threading
        thread = threading.Thread(target=importlib.import_module, args=("torch",))
        thread.start()
        thread.join()
        import torch
        torch.ones(1).exp()
    """, warm=None, SPILLWAY_VERBOSE=1)
    assert collected.processes() == []
    assert "not the main thread" in collected.result.stderr


def test_compiled_functions_run(collect):
    collected = collect("""
        import torch

        @torch.compile(backend="aot_eager")
        def function(x):
            return (x.sin() * 2).sum()

        x = torch.ones(3, requires_grad=True)
        for _ in range(2):
            function(x).backward()
        print(x.grad.tolist() == (4 * torch.ones(3).cos()).tolist())
    """)
    assert collected.result.stdout == "True\n"
    assert "Leaked" not in collected.result.stderr
    assert depths_return_to_zero(collected.lines())
