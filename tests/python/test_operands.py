"""operands.py: what the library is told of each operator, and that telling it changes nothing."""

import pytest
from conftest import PROJECT

torch = pytest.importorskip("torch")

from spillway import operands  # noqa: E402, needs torch


class Library:
    """Stands for the preloaded library; keeps what it is told."""

    def __init__(self, wants=()):
        self.wants = list(wants)
        self.forward_wants = 0
        self.calls = []

    def spillway_wants_operands(self):
        return self.wants.pop(0) if self.wants else 0

    def spillway_forward_wants_operands(self):
        return self.forward_wants

    def spillway_operator(self, name, array, count):
        self.keep("before", name, array, count)

    def spillway_operator_done(self, name, array, count):
        self.keep("after", name, array, count)

    def keep(self, when, name, array, count):
        assert count == len(array)
        self.calls.append((when, name.decode(),
                           [(item.address, item.bytes, item.writes) for item in array]))


def storage(tensor, writes):
    return (tensor.untyped_storage().data_ptr(), tensor.untyped_storage().nbytes(), writes)


@pytest.fixture
def reported():
    """Calls a function under a reporter, and returns its result and what was reported."""

    def report(function, *args, **kwargs):
        library = Library()
        with operands.Reporter(library):
            result = function(*args, **kwargs)
        return result, library.calls

    return report


def test_inputs_before_and_new_outputs_after(reported):
    a, b = torch.ones(4), torch.ones(4)
    c, calls = reported(torch.add, a, b)
    assert calls == [("before", "aten::add", [storage(a, 0), storage(b, 0)]),
                     ("after", "aten::add", [storage(c, 1)])]


def test_a_changed_argument_is_written_before_and_after(reported):
    a, b = torch.ones(4), torch.ones(4)
    _, calls = reported(a.add_, b)
    assert calls == [("before", "aten::add_", [storage(a, 1), storage(b, 0)]),
                     ("after", "aten::add_", [storage(a, 1)])]


def test_a_named_output_is_written(reported):
    a, out = torch.ones(4), torch.empty(4)
    _, calls = reported(torch.exp, a, out=out)
    assert calls[0] == ("before", "aten::exp", [storage(a, 0), storage(out, 1)])


def test_a_view_is_not_written_and_counts_as_its_whole_storage(reported):
    a = torch.ones(8)
    part, calls = reported(lambda: a[2:4])
    assert calls == [("before", "aten::slice", [storage(a, 0)]),
                     ("after", "aten::slice", [storage(a, 0)])]
    assert part.untyped_storage().nbytes() == 32


def test_a_storage_is_named_once_and_written_if_any_of_its_tensors_is(reported):
    a = torch.ones(8)
    _, calls = reported(lambda: torch.exp(a[:4], out=a[4:]))
    assert ("before", "aten::exp", [storage(a, 1)]) in calls


def test_tensors_in_lists(reported):
    a, b = torch.ones(4), torch.ones(4)
    c, calls = reported(torch.cat, [a, b])
    assert calls == [("before", "aten::cat", [storage(a, 0), storage(b, 0)]),
                     ("after", "aten::cat", [storage(c, 1)])]
    _, calls = reported(torch._foreach_add_, [a, b], 1.0)
    assert calls[0] == ("before", "aten::_foreach_add_", [storage(a, 1), storage(b, 1)])


def test_several_results(reported):
    a = torch.ones(4, 4)
    (values, indices), calls = reported(torch.max, a, 1)
    assert calls[-1] == ("after", "aten::max", [storage(values, 1), storage(indices, 1)])


def test_lists_of_results_are_views_of_their_argument(reported):
    a = torch.ones(4)
    _, calls = reported(torch.split, a, 2)
    assert calls[-1] == ("after", "aten::split", [storage(a, 0)])


def test_tensors_without_memory_are_left_out(reported):
    a = torch.ones(4, device="meta")
    sparse = torch.eye(3).to_sparse()
    _, calls = reported(lambda: (a + 1, torch.empty(0), sparse * 2))
    assert ("before", "aten::add", []) in calls
    assert ("after", "aten::empty", []) in calls
    assert ("before", "aten::mul", []) in calls


def test_backward_is_reported(reported):
    a = torch.ones(4, requires_grad=True)
    _, calls = reported(lambda: (a * a).sum().backward())
    assert [name for when, name, _ in calls if when == "before"].count("aten::mul") == 3


def test_an_operator_that_raises_an_error_is_done_and_returns_nothing(reported):
    a, b = torch.ones(2, 3), torch.ones(2, 3)

    def mismatched():
        with pytest.raises(RuntimeError):
            torch.mm(a, b)

    _, calls = reported(mismatched)
    assert calls == [("before", "aten::mm", [storage(a, 0), storage(b, 0)]),
                     ("after", "aten::mm", [])]


def test_named_ranges_are_not_operators(reported):
    def ranged():
        with torch.autograd.profiler.record_function("mine"):
            return torch.ones(1)

    _, calls = reported(ranged)
    assert [name for _, name, _ in calls] == ["aten::ones", "aten::ones"]


def step_of(follower):
    follower.after_step(None, (), {})


def test_the_reporter_is_on_exactly_while_it_is_wanted():
    library = Library(wants=[0, 1, 1, 0])
    follower = operands._Follower(library)
    for function in (torch.exp, torch.sin, torch.cos, torch.tan):
        step_of(follower)
        function(torch.ones(1))
    assert [name for when, name, _ in library.calls if when == "before"] == [
        "aten::ones", "aten::sin", "aten::ones", "aten::cos"]


def test_a_forward_ends_only_what_a_forward_began():
    library = Library(wants=[1, 0])
    follower = operands._Follower(library)
    step_of(follower)  # a policy wants them
    follower.before_forward()
    assert follower.entered
    step_of(follower)
    assert not follower.entered
    library.forward_wants = 1
    follower.before_forward()
    assert follower.entered
    library.forward_wants = 0
    follower.before_forward()
    assert not follower.entered


def test_forwards_ask_from_a_wish_until_nothing_is_wanted():
    hooks = torch.nn.modules.module._global_forward_pre_hooks
    before = len(hooks)
    library = Library()
    follower = operands._Follower(library)
    model = torch.nn.Linear(2, 2)
    model(torch.ones(1, 2))
    library.forward_wants = 1
    model(torch.ones(1, 2))
    assert not follower.entered and len(hooks) == before
    # As the interpreter calls it, twice.
    assert follower.callback(None) == 0 and follower.callback(None) == 0
    assert len(hooks) == before + 1
    model(torch.ones(1, 2))
    assert follower.entered
    library.forward_wants = 0
    model(torch.ones(1, 2))
    assert not follower.entered and len(hooks) == before


def test_modes_of_the_script_keep_their_order():
    class Mine(operands.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    library = Library(wants=[1, 1, 0, 0])
    follower = operands._Follower(library)
    current = operands._get_current_dispatch_mode
    with Mine() as mine:
        step_of(follower)  # wanted, but mine would take the reporter off when it leaves
        assert current() is mine
    assert current() is None
    step_of(follower)
    assert current() is follower.reporter
    with Mine() as mine:
        step_of(follower)  # no longer wanted, but mine is above
        assert current() is mine
    assert current() is follower.reporter
    step_of(follower)
    assert current() is None


def test_without_the_functions_there_is_no_library():
    assert operands.preloaded_library() is None
    operands.follow(None)


def test_compiled_functions_stay_compiled(reported):
    compiled = []

    def backend(graph, _):
        compiled.append(graph)
        return graph.forward

    function = torch.compile(lambda x: x.exp() + 1, backend=backend)
    result, _ = reported(function, torch.ones(2))
    assert len(compiled) == 1
    assert torch.equal(result, torch.ones(2).exp() + 1)


def test_compiled_modules_are_compiled_as_without(run_python):
    result = run_python("""
        import os
        os.environ["SPILLWAY_CAPTURE"] = "somewhere"  # so every forward asks
        import torch
        import torch._dynamo.testing
        from spillway import operands
        from test_operands import Library

        library = Library(wants=[1, 1, 1])
        operands.follow(library)
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Linear(8, 8))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        seen = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
        compiled = torch.compile(model, backend=seen, fullgraph=True)
        for _ in range(4):
            compiled(torch.ones(4, 8)).square().sum().backward()
            optimizer.step()
        print(seen.frame_count, seen.op_count)
        print([name for when, name, _ in library.calls if when == "before"].count("aten::gelu") > 0)
    """, hooked=False, path=[PROJECT / "python", PROJECT / "tests" / "python"])
    assert result.stdout.split() == ["1", "3", "True"], result.stderr


# Autograd takes what is entered there away again when the pass has ended.
def test_a_backward_pass_is_no_place_to_begin(run_python):
    result = run_python("""
        import torch
        from torch.utils.checkpoint import checkpoint
        from spillway import operands
        from test_operands import Library

        library = Library()
        library.forward_wants = 1
        follower = operands._Follower(library)
        model = torch.nn.Linear(4, 4)
        x = torch.ones(2, 4, requires_grad=True)
        y = checkpoint(model, x, use_reentrant=False).sum()
        follower.wished(None)
        y.backward()  # runs the module's forward again
        print(follower.entered, len(library.calls))
        checkpoint(model, x, use_reentrant=False).sum().backward()
        print(follower.entered, len(library.calls) > 0)
        follower.leave()
        print(follower.entered)
    """, hooked=False, path=[PROJECT / "python", PROJECT / "tests" / "python"])
    assert result.stdout.split() == ["False", "0", "True", "True", "False"], result.stderr


TRAIN = PROJECT / "examples" / "train_gpt2.py"


def test_training_gives_the_same_bits_with_and_without(run_python, tmp_path):
    pytest.importorskip("transformers")
    with_reports, without = tmp_path / "with", tmp_path / "without"
    options = ["--preset", "tiny", "--steps", "4", "--quiet", "--losses"]
    run_python(TRAIN, *options, without, hooked=False)
    result = run_python(f"""
        import runpy, sys
        from spillway import operands
        from test_operands import Library

        library = Library(wants=[1, 1])  # the second and the third iteration
        operands.follow(library)
        runpy.run_path({str(TRAIN)!r}, run_name="imported")["main"](sys.argv[1:])
        names = [name for when, name, _ in library.calls if when == "before"]
        print(names.count("aten::addmm"), names.count("aten::addcdiv_"))
    """, *options, with_reports, hooked=False,
        path=[PROJECT / "python", PROJECT / "tests" / "python"])
    # Four matrix products a layer, and 12 parameters a layer beside 4: of 2 layers, twice.
    assert result.stdout.split() == ["16", "56"]
    assert with_reports.read_text() == without.read_text() != ""


def test_the_preloaded_library_gets_them_in_an_unmodified_script(collect):
    collected = collect("""
        import torch
        model = torch.nn.Linear(1000, 10, bias=False)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(20, 1000)).sum().backward()
            optimizer.step()
        print(hex(model.weight.data_ptr()))
    """, warm=None, COLLECTOR_WANTS=1)
    lines = collected.lines()
    products = [text for kind, _, text in lines if kind == "operator" and "aten::mm" in text]
    assert len(products) == 2  # forward, and the weight's gradient, of one of three iterations
    weight = collected.result.stdout.strip()
    assert f"{weight}/40000/0" in products[0].split()
    updates = [text.split() for kind, _, text in lines if kind == "operator" and "add_" in text]
    assert f"{weight}/40000/1" in updates[-1]
    assert "Leaked" not in collected.result.stderr
