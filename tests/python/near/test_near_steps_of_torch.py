"""Replaced optimizers against PyTorch's own over 100 steps: every option that changes the formula."""

import pytest

from twins import Twins, assert_same, one_thread, spillway, tensors, torch  # noqa: F401, one_thread is a fixture

ADAM = [
    {}, {"weight_decay": 0}, {"weight_decay": 0.1, "eps": 1e-3, "betas": (0.4, 0.95)},
    {"amsgrad": True}, {"maximize": True},
    {"weight_decay": 0.1, "amsgrad": True, "maximize": True},
]
CASES = [("Adam", options) for options in ADAM] + [("AdamW", options) for options in ADAM] + [
    ("SGD", options) for options in (
        {}, {"weight_decay": 0.1}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True},
        {"momentum": 0.9, "dampening": 0.5, "weight_decay": 0.1, "maximize": True},
    )] + [
    ("Adagrad", options) for options in (
        {}, {"lr_decay": 0.1, "weight_decay": 0.1}, {"maximize": True, "initial_accumulator_value": 2},
    )]
WAYS = [{"fused": True}, {"foreach": True}, {"foreach": False}, {}]
TYPES = [torch.float32, torch.bfloat16]


def left_by_design(options, way, dtype):
    if way != {"foreach": True}:
        return False
    # Nesterov's momentum is added to the gradients themselves.
    return dtype == torch.bfloat16 or options == {"momentum": 0.9, "nesterov": True}


@pytest.mark.parametrize("dtype", TYPES, ids=["float32", "bfloat16"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: next(iter(way.items()), ("default",))[0]
                         + str(next(iter(way.values()), "")))
@pytest.mark.parametrize("kind,options", CASES, ids=lambda value: value if isinstance(value, str) else
                         "-".join(value))
def test_a_hundred_steps(kind, options, way, dtype):
    if kind == "SGD" and way == {"fused": True} and dtype == torch.bfloat16:
        pytest.skip("PyTorch's own leaves parameters as they are, and its momentum is what memory held")
    twins = Twins(getattr(torch.optim, kind), [tensors(dtype=dtype)], lr=1e-2, **options, **way)
    for number in range(100):
        if number == 50:
            twins.each(lambda optimizer: optimizer.param_groups[0].update(lr=1e-3))
        twins.step()
    if left_by_design(options, way, dtype):
        assert twins.replaced() == 0 and len(twins.left()) == 1
    else:
        assert twins.left() == {} and twins.near.spillway.steps == 100


@pytest.mark.parametrize("threads", [1, 3])
def test_any_number_of_threads(threads):
    """Of Spillway's, and of PyTorch's, which decides bits of bfloat16."""
    for dtype in TYPES:
        torch.set_num_threads(threads)
        twins = Twins(torch.optim.AdamW, [tensors([(200_003,), (5,)], dtype)], optimize=False)
        spillway.near.optimize(twins.near, threads=4 - threads)
        for number in range(5):
            torch.set_num_threads((threads, 2)[number // 3])  # and it may change
            twins.step()
        assert twins.replaced() == 2


@pytest.mark.parametrize("fused", [True, False])
def test_values_at_the_edges(fused):
    edges = torch.tensor([0.0, -0.0, 1e-45, -1e-40, 1e-38, 3e38, -3e38, 1.0, float("inf"), 1e-30])
    twins = Twins(torch.optim.AdamW, [[edges.repeat(10), torch.ones(100)]], lr=1e-3, fused=fused)
    for _ in range(20):
        twins.step(lambda index, one: edges.repeat_interleave(10))
    assert twins.replaced() == 2


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("fused", [True, False])
def test_gradients_that_are_no_numbers(value, fused):
    """PyTorch's payloads of NaN are not told apart; where numbers are is."""
    twins = Twins(torch.optim.AdamW, [tensors([(100,)])], fused=fused)
    for number in range(4):
        twins.gradients()
        for one in (pair for pairs in twins.parameters() for pair in pairs):
            if number == 1:
                one.grad[17] = value
        twins.each(lambda optimizer: optimizer.step())
    ((one, other),) = twins.parameters()
    assert one.isnan().sum() == 1 and torch.equal(one.isnan(), other.isnan())
    assert torch.equal(one[:17], other[:17]) and torch.equal(one[18:], other[18:])


def test_random_programs():
    """Groups, schedules, missing gradients and changed settings as a seed says."""
    for seed in range(12):
        generator = torch.Generator().manual_seed(seed)

        def pick(many):
            return int(torch.randint(many, (), generator=generator))

        kind = (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad)[pick(4)]
        options = {"momentum": 0.9} if kind is torch.optim.SGD else {}
        groups = [{"params": tensors([(1 + pick(300),) for _ in range(1 + pick(4))], seed=seed + k),
                   "weight_decay": pick(2) * 0.1, "lr": 0.01 * (1 + pick(3))}
                  for k in range(1 + pick(3))]
        twins = Twins(kind, groups, **options, **WAYS[pick(4)])
        for _ in range(10):
            missing = [pick(4) == 0 for _ in twins.parameters()]
            changed = pick(len(groups))
            if pick(3) == 0:
                twins.each(lambda optimizer: optimizer.param_groups[changed].update(lr=0.005, weight_decay=0.2))
            twins.gradients(lambda index, one: None if missing[index] else
                            torch.randn(one.shape, generator=generator))
            if kind is torch.optim.SGD and twins.plain.param_groups[0]["fused"] and any(missing):
                continue  # PyTorch refuses what has no momentum yet
            twins.each(lambda optimizer: optimizer.step())
            twins.compare()


@pytest.mark.parametrize("scale", [1.0, 3.0])
@pytest.mark.parametrize("kind", ["AdamW", "SGD", "Adagrad"])
def test_a_scale_that_fused_steps_divide_gradients_by(kind, scale):
    """As GradScaler hands it over; the divided gradients are written back."""
    options = {"momentum": 0.9} if kind == "SGD" else {}
    twins = Twins(getattr(torch.optim, kind), [tensors()], lr=1e-2, fused=True, **options)
    for optimizer in twins.both:
        optimizer.grad_scale, optimizer.found_inf = torch.tensor(scale), torch.tensor(0.0)
    for number in range(10):
        infinite = number in (4, 5)
        before = twins.near.state_dict()["state"][0].copy() if infinite else None
        before = before and {key: value.clone() for key, value in before.items()}
        twins.each(lambda optimizer: optimizer.found_inf.fill_(float(infinite)))
        twins.step()
        if infinite:
            assert_same(before, twins.near.state_dict()["state"][0])
            assert twins.left() == {"infinite gradients, which skip the step": 6}
    assert twins.near.spillway.steps == 8 and twins.left() == {}
