"""AutoVM on torch.fx graphs: what counts as one tensor, what stays, and where the operators stand."""

import operator

import pytest

torch = pytest.importorskip("torch", minversion="2.9")

import spillway.autovm  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

aten = torch.ops.aten
PRE_EVICT, PREFETCH = "spillway.pre_evict.default", "spillway.prefetch.default"
FOUR_MIB = (1024, 1024)  # of floats


def optimized(function, *inputs, memory="9MiB", distance=3, **options):
    module = make_fx(function)(*inputs)
    before = module(*inputs)
    spillway.autovm.optimize(module, device_memory=memory, distance=distance, size_threshold="1MiB", **options)
    after = module(*inputs)
    for one, other in zip(before if isinstance(before, tuple) else (before,),
                          after if isinstance(after, tuple) else (after,)):
        assert torch.equal(one, other)
    return module


def listing(module):
    """Each call as its name and those of its arguments."""
    return [(str(node.target), *(argument.name for argument in node.all_input_nodes))
            for node in module.graph.nodes if node.op == "call_function"]


def place_of(module, kind):
    (at,) = (at for at, call in enumerate(listing(module)) if call[0] == kind)
    return at


def pause(x, many=6):
    for _ in range(many):
        x = torch.sin(x)
    return x


def skip_connection(x):
    skip = torch.exp(x)
    y = skip * 2.0
    return pause(y) + skip


def test_a_skip_connection_leaves_and_comes_back():
    module = optimized(skip_connection, torch.randn(FOUR_MIB), memory="13MiB")
    calls = listing(module)
    at = place_of(module, PRE_EVICT)
    assert calls[at] == (PRE_EVICT, "exp") and calls[at - 1] == ("aten.mul.Tensor", "exp")
    at = place_of(module, PREFETCH)
    assert calls[at] == (PREFETCH, "exp")
    # 13 MiB: the 8 of a sine and 4 of exp; so right behind the pre-eviction, at the first sine.
    assert calls[at - 1][0] == PRE_EVICT and calls[at + 1] == ("aten.sin.default", "mul")
    report = str(spillway.autovm.explain(module))
    assert "pre_evict exp, 4194304 bytes, after mul: last use before the gap is mul" in report
    assert "prefetch exp, 4194304 bytes, before sin: for add, 6 operations ahead" in report


def test_a_view_is_the_same_memory():
    def views(x):
        base = torch.exp(x)
        flat = base.view(-1)
        y = base * 2.0
        y = torch.sin(y)
        y = y + flat.view(FOUR_MIB)  # the last use for now, through a view
        return pause(y) + base.t()

    module = optimized(views, torch.randn(FOUR_MIB), memory="13MiB", distance=4)
    calls = listing(module)
    assert calls[place_of(module, PRE_EVICT) - 1][0] == "aten.add.Tensor"
    after = [call for call in calls[place_of(module, PRE_EVICT):] if call[0].startswith("aten")]
    assert after[0][0] == "aten.sin.default"


def test_a_schema_tells_of_a_view_whose_fake_tensor_is_another():
    from spillway.autovm.graph import Reading

    module = make_fx(lambda x: torch.exp(x).view(-1) + 1.0)(torch.randn(FOUR_MIB))
    (view,) = (node for node in module.graph.nodes if node.target is aten.view.default)
    (exp,) = view.all_input_nodes
    view.meta["val"] = torch.empty_like(view.meta["val"])  # as a pass may leave it
    reading = Reading(module)
    assert reading.numbers_of(view) == reading.numbers_of(exp)
    assert [one.name for one in reading.operations] == ["exp", "add"]


def test_contiguous_is_a_copy_only_where_it_copies():
    from spillway.autovm.graph import Reading

    def both(x):
        y = torch.exp(x)
        return y.contiguous() * y.t().contiguous()

    module = torch.fx.symbolic_trace(both)
    spillway.autovm.optimize(module, (torch.randn(FOUR_MIB),), device_memory="1GiB")
    reading = Reading(module)
    assert [one.name for one in reading.operations] == ["exp", "contiguous_1", "mul"]
    by_name = {node.name: reading.numbers_of(node) for node in module.graph.nodes}
    assert by_name["contiguous"] == by_name["exp"] == by_name["t"] != by_name["contiguous_1"]


def test_in_place_operators_use_what_they_change():
    def changed(x):
        a = torch.exp(x)
        b = a * 2.0
        a.add_(1.0)
        return pause(b) + a

    module = optimized(changed, torch.randn(FOUR_MIB), memory="13MiB")
    assert listing(module)[place_of(module, PRE_EVICT) - 1][0] == "aten.add_.Tensor"


def test_batch_norm_uses_the_statistics_that_it_writes_unseen():
    def normed(x, mean, variance):
        held = torch.exp(mean)  # not an input, so it could move
        y = aten.native_batch_norm.default(x, None, None, held, variance, True, 0.1, 1e-5)[0]
        return pause(y) + held.view(1, -1, 1)

    from spillway.autovm.graph import Reading

    inputs = (torch.randn(2, 8, 16), torch.zeros(8), torch.ones(8))
    module = make_fx(normed)(*inputs)
    reading = Reading(module)
    (norm,) = (one for one in reading.operations if one.name.startswith("native_batch_norm"))
    (exp,) = (node for node in module.graph.nodes if node.target is aten.exp.default)
    assert set(reading.numbers_of(exp)) <= set(norm.uses)
    assert not any(node.target is operator.getitem for node in reading.nodes)


def test_inputs_and_outputs_stay():
    def both(x):
        y = torch.exp(x)
        return pause(y * 2.0) + y + x, y

    module = optimized(both, torch.randn(FOUR_MIB), distance=2)
    assert not any(call[0].startswith("spillway") for call in listing(module))
    report = str(spillway.autovm.explain(module))
    assert "stays x_1: a graph's input: weights and batches stay" in report
    assert "stays exp: the graph returns it" in report


def test_dynamic_shapes_stay_with_a_line():
    module = make_fx(skip_connection, tracing_mode="symbolic")(torch.randn(FOUR_MIB))
    spillway.autovm.optimize(module, device_memory="1MiB", distance=3)
    assert not any(call[0].startswith("spillway") for call in listing(module))
    module = make_fx(skip_connection, tracing_mode="symbolic")(torch.randn(FOUR_MIB))
    spillway.autovm.optimize(module, device_memory=0, distance=3)
    assert "stays exp: its size is not known here (dynamic shape)" in str(spillway.autovm.explain(module))


def test_an_operator_with_several_results():
    def several(x):
        values, places = torch.sort(x * 2.0)
        return pause(values * 3.0) + values, pause(places * 2)

    module = optimized(several, torch.randn(FOUR_MIB), memory="20MiB")
    calls = listing(module)
    at = place_of(module, PRE_EVICT)
    assert calls[at] == (PRE_EVICT, "getitem") and calls[at - 1] == ("aten.mul.Tensor", "getitem")


def test_a_traced_module_needs_example_inputs():
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.BatchNorm2d(4)
            self.convs = torch.nn.Sequential(*[torch.nn.Conv2d(4, 4, 3, padding=1) for _ in range(5)])

        def forward(self, x):
            y = self.norm(x).relu()
            return self.convs(y) + y

    torch.manual_seed(0)
    block, x = Block(), torch.randn(1, 4, 512, 512)
    module = torch.fx.symbolic_trace(block)
    with pytest.raises(ValueError, match="give example_inputs: the graph has no sizes"):
        spillway.autovm.optimize(module, device_memory="13MiB")
    spillway.autovm.optimize(module, (x,), device_memory="13MiB", distance=3, size_threshold="1MiB")
    assert str(spillway.autovm.explain(module)).count("pre_evict relu") == 1
    statistics = {name: value.clone() for name, value in block.named_buffers()}
    ours = module(x)
    block.load_state_dict({**block.state_dict(), **statistics})
    assert torch.equal(ours, block(x))


def test_without_a_budget_it_says_what_to_give():
    with pytest.raises(ValueError, match="give device_memory, such as '20GiB'"):
        spillway.autovm.optimize(make_fx(skip_connection)(torch.randn(4, 4)))
    with pytest.raises(ValueError, match="the pass has not run on this graph"):
        spillway.autovm.explain(make_fx(skip_connection)(torch.randn(4, 4)))


def test_a_joint_graph_of_aot_autograd():
    from functorch.compile import aot_function
    from torch._functorch.partitioners import default_partition

    joint = []

    def partition(module, inputs, **kwargs):
        spillway.autovm.optimize(module, device_memory="20MiB", distance=3, size_threshold="1MiB")
        joint.append((listing(module), str(spillway.autovm.explain(module))))
        return default_partition(module, inputs, **kwargs)

    def chain(x, w):
        for _ in range(4):
            x = torch.tanh(x @ w)
        return x

    def gradients(partition_fn):
        torch.manual_seed(1)
        x, w = torch.randn(FOUR_MIB).requires_grad_(), (torch.randn(FOUR_MIB) / 32).requires_grad_()
        aot_function(chain, fw_compiler=lambda graph, _: graph, partition_fn=partition_fn)(x, w).sum().backward()
        return x.grad, w.grad

    assert all(torch.equal(one, other) for one, other in zip(gradients(default_partition), gradients(partition)))
    ((calls, report),) = joint
    # tanh of the first layer: used by the product behind it, then by its gradient.
    assert "pre_evict tanh, 4194304 bytes, after mm_1" in report
    # The forward pass ends with the fourth tanh.
    end = calls.index(("aten.tanh.default", "mm_3"))
    assert all((at < end) == (call[0] == PRE_EVICT)
               for at, call in enumerate(calls) if call[0].startswith("spillway"))
    assert PREFETCH in [call[0] for call in calls]


def test_the_operators_do_nothing_to_a_tensor():
    x = torch.randn(8, requires_grad=True)
    before = x.detach().clone()
    assert torch.ops.spillway.prefetch(x) is None and torch.ops.spillway.pre_evict(x[2:]) is None
    assert torch.equal(x, before) and x._version == 0
    torch.ops.spillway.prefetch(torch.empty(8, device="meta"))
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        torch.ops.spillway.pre_evict(torch.empty(8))
    torch.library.opcheck(torch.ops.spillway.prefetch, (torch.randn(4),),
                          test_utils=("test_schema", "test_faketensor"))
