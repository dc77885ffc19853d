"""What scripts do with optimizers: schedules, clipping, scaling, checkpoints, copies, hooks."""

import copy
import gc
import io
import pickle
import warnings
import weakref

import pytest

from twins import Twins, assert_same, one_thread, spillway, tensors, torch  # noqa: F401, one_thread is a fixture

KINDS = [(torch.optim.Adam, {}), (torch.optim.AdamW, {"fused": True, "amsgrad": True}),
         (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}), (torch.optim.Adagrad, {})]
each_kind = pytest.mark.parametrize("kind,options", KINDS, ids=lambda value: getattr(value, "__name__", ""))


@each_kind
def test_groups_and_a_schedule(kind, options):
    groups = [{"params": tensors(), "weight_decay": 0.1}, {"params": tensors(seed=2), "weight_decay": 0},
              {"params": tensors([(7,)], seed=3), "lr": 0.5}]
    twins = Twins(kind, groups, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of a schedule's step before an optimizer's
        schedules = [torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=20,
                                                         cycle_momentum=False) for optimizer in twins.both]
        for _ in range(12):
            twins.step()
            for schedule in schedules:
                schedule.step()
    assert twins.near.spillway.steps == 12 and twins.left() == {}


def test_optimize_after_a_schedule_was_made():
    twins = Twins(torch.optim.Adam, [tensors()], optimize=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schedules = [torch.optim.lr_scheduler.StepLR(optimizer, 2) for optimizer in twins.both]
        assert spillway.near.optimize(twins.near) is twins.near
        for _ in range(6):
            twins.step()
            for schedule in schedules:
                schedule.step()
    assert twins.near.spillway.steps == 6


@each_kind
def test_parameters_without_gradients_frozen_and_added(kind, options):
    twins = Twins(kind, [tensors()], **options)
    twins.step(lambda index, one: None)
    assert twins.replaced() == 0 and str(twins.near.spillway).endswith("no tensor has a gradient")
    if not options.get("fused"):
        twins.step(lambda index, one: torch.ones_like(one) if index % 2 else None)
    twins.step()
    twins.each(lambda optimizer: optimizer.param_groups[0]["params"][0].requires_grad_(False))
    twins.step()
    for optimizer in twins.both:
        optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(50))], "lr": 0.3})
    twins.step()
    assert len(twins.near.spillway.groups) == 2


@each_kind
def test_parameters_replaced_and_resized(kind, options):
    twins = Twins(kind, [tensors([(6, 4), (9,)])], **options)
    twins.step()
    for optimizer in twins.both:
        one, other = optimizer.param_groups[0]["params"]
        one.data = torch.full((6, 4), 2.0)  # another memory
        optimizer.state.pop(other)
        optimizer.param_groups[0]["params"][1] = torch.nn.Parameter(torch.ones(33))
    twins.step()
    assert twins.replaced() == 2
    if options.get("fused"):
        return  # PyTorch's would read past the end of what has been resized
    for optimizer in twins.both:  # PyTorch's own answer where states do not fit any more
        one = optimizer.param_groups[0]["params"][0]
        one.grad = None
        one.data = torch.ones(5, 5)
        one.grad = torch.ones(5, 5)
    errors = []
    for optimizer in twins.both:
        with pytest.raises(RuntimeError) as error:
            optimizer.step()
        errors.append(str(error.value))
    assert errors[0] == errors[1]


def model():
    torch.manual_seed(5)
    first = torch.nn.Linear(16, 16)
    network = torch.nn.Sequential(first, torch.nn.Tanh(), torch.nn.Linear(16, 16), torch.nn.Tanh(),
                                  torch.nn.Linear(16, 16, bias=False))
    network[4].weight = first.weight  # tied
    return network


def train(near, kind=torch.optim.AdamW, many=12, clip=None, accumulate=1, scaler=None, closure=False,
          **options):
    """A network's losses, parameters and states."""
    network = model()
    optimizer = kind(network.parameters(), **options)
    if near:
        spillway.near.optimize(optimizer)
    generator = torch.Generator().manual_seed(7)
    losses = []
    for number in range(many):
        inputs = torch.randn(8, 16, generator=generator)

        def evaluate():
            optimizer.zero_grad(set_to_none=number % 2 == 0)
            for part in inputs.chunk(accumulate):
                loss = network(part).square().mean()
                if scaler is not None:
                    loss = scaler.scale(loss)
                if scaler is not None and number % 4 == 3:
                    loss = loss * float("inf")
                loss.backward()
            return loss

        if closure:
            losses.append(optimizer.step(evaluate).item())
            continue
        losses.append(evaluate().item())
        if scaler is not None and clip:
            scaler.unscale_(optimizer)
        if clip == "norm":
            losses.append(torch.nn.utils.clip_grad_norm_(network.parameters(), 0.1).item())
        elif clip == "value":
            torch.nn.utils.clip_grad_value_(network.parameters(), 0.001)
        if scaler is not None:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
    if near:
        assert optimizer.spillway.steps > 0
    return losses, network.state_dict(), optimizer.state_dict(), optimizer


@each_kind
@pytest.mark.parametrize("how", [{"clip": "norm"}, {"clip": "value"}, {"accumulate": 4}, {"closure": True}],
                         ids=str)
def test_training(kind, options, how):
    results = [train(near, kind, **how, **options)[:3] for near in (False, True)]
    assert_same(*results)


@each_kind
@pytest.mark.parametrize("clip", [None, "norm"])
def test_scaled_gradients(kind, options, clip):
    """Steps with infinite gradients are skipped: neither states nor their numbers change."""
    results = []
    for near in (False, True):
        scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=2)
        losses, network, states, optimizer = train(near, kind, clip=clip, scaler=scaler, **options)
        results.append(([loss for loss in losses if loss == loss], network, states, scaler.state_dict()))
        assert not hasattr(optimizer, "found_inf")
    assert_same(*results)
    assert optimizer.spillway.steps == 9, "of 12, each fourth is infinite"


@each_kind
def test_checkpoints_go_to_plain_pytorch_and_back(kind, options):
    twins = Twins(kind, [{"params": tensors(), "weight_decay": 0.1}, {"params": tensors(seed=2)}], **options)
    for _ in range(3):
        twins.step()
    file = io.BytesIO()
    torch.save([twins.near.state_dict(), [one.detach() for _, one in twins.parameters()]], file)
    file.seek(0)
    states, values = torch.load(file)
    # Into plain PyTorch, and PyTorch's into a replaced one that has gone another way.
    for optimizer, kept in ((twins.plain, states), (twins.near, twins.plain.state_dict())):
        optimizer.load_state_dict(copy.deepcopy(kept))
        parameters = [one for group in optimizer.param_groups for one in group["params"]]
        with torch.no_grad():
            for one, value in zip(parameters, values):
                one.copy_(value)
    for _ in range(3):
        twins.step()
    assert twins.near.spillway.steps == 6 and twins.left() == {}


@each_kind
def test_copies_are_plain(kind, options):
    twins = Twins(kind, [tensors()], **options)
    twins.step()
    for other in (copy.deepcopy(twins.near), pickle.loads(pickle.dumps(twins.near))):
        assert type(other) is kind and not hasattr(other, "spillway")
        assert "_init_group" not in vars(other)
        assert_same(other.state_dict(), twins.near.state_dict())
        for one, value in zip(other.param_groups[0]["params"], tensors(seed=4)):
            one.grad = value
        other.step()
        states = twins.near.state_dict()
        assert_same(states, twins.plain.state_dict())
    assert spillway.near.optimize(other).spillway.replaced
    twins.step()


def test_hooks_see_what_they_saw():
    seen = {}

    def told(optimizer, what):
        one = optimizer.param_groups[0]["params"][0]
        seen.setdefault(id(optimizer), []).append(
            (what, one.detach().clone(), {key: value.clone() for key, value in optimizer.state[one].items()}))

    twins = Twins(torch.optim.Adam, [tensors()])
    for optimizer in twins.both:
        optimizer.register_step_pre_hook(lambda optimizer, *_: told(optimizer, "before"))
        optimizer.register_step_post_hook(lambda optimizer, *_: told(optimizer, "after"))
    for _ in range(3):
        twins.step()
    one, other = seen.values()
    assert len(one) == 6
    assert_same(one, other)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        twins.step()
    assert sum(event.key == "Optimizer.step#Adam.step" and event.count == 2
               for event in profile.key_averages()) == 1


def test_autograd_refuses_what_a_step_has_changed():
    for fused in (False, True):
        outcomes = []
        for near in (False, True):
            one = torch.nn.Parameter(torch.ones(4))
            optimizer = torch.optim.Adam([one], fused=fused)
            if near:
                spillway.near.optimize(optimizer)
            loss = (one * one).sum()
            loss.backward(retain_graph=True)
            optimizer.step()
            try:
                loss.backward()
                outcomes.append("passed")
            except RuntimeError as error:
                outcomes.append("modified by an inplace operation" in str(error))
        assert outcomes[0] == outcomes[1], fused


def test_a_compiled_step_is_the_compilers():
    twins = Twins(torch.optim.Adam, [tensors([(40,)])])
    twins.step()
    torch._dynamo.reset()
    compiled = [torch.compile(optimizer.step, backend="eager") for optimizer in twins.both]
    twins.gradients()
    for step in compiled:
        step()
    ((one, other),) = twins.parameters()
    assert torch.equal(one, other) and twins.near.spillway.steps == 1
    torch._dynamo.reset()


def test_states_go_with_the_optimizer():
    one = torch.nn.Parameter(torch.ones(4))
    one.grad = torch.ones(4)
    optimizer = spillway.near.optimize(torch.optim.Adam([one]))
    optimizer.step()
    state = weakref.ref(optimizer.state[one]["exp_avg"])
    gc.disable()
    try:
        del optimizer
        assert state() is None
    finally:
        gc.enable()


def test_what_is_told_before_the_first_step_and_twice():
    values = [torch.nn.Parameter(value) for value in tensors([(10,), (5, 5)])]
    optimizer = torch.optim.AdamW(values, fused=True)
    assert spillway.near.optimize(spillway.near.optimize(optimizer)) is optimizer
    assert str(optimizer.spillway) == ("AdamW, group 0: Spillway updates 2 tensors (35 elements) "
                                       "with the bits of fused=True")
    assert optimizer.spillway.replaced and optimizer.spillway.steps == 0
