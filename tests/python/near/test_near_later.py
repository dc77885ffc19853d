"""Updates that run after step() has returned, as those of tensors on a GPU do (pretend.py): the same bits as PyTorch's
own steps in whatever a script does, and nobody waits for the device."""

import copy
import gc
import io
import pickle
import warnings
import weakref

import pytest

from pretend import device, replace
from twins import Twins, assert_same, one_thread, tensors, torch  # noqa: F401, one_thread is a fixture

KINDS = [(torch.optim.Adam, {}), (torch.optim.AdamW, {"amsgrad": True, "weight_decay": 0.1}),
         (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}), (torch.optim.SGD, {"lr": 0.1}), (torch.optim.Adagrad, {})]
each_kind = pytest.mark.parametrize("kind,options", KINDS, ids=lambda value: getattr(value, "__name__", None) or "-".join(value))
WAYS = [{"fused": True}, {"foreach": True}, {"foreach": False}, {}]
each_way = pytest.mark.parametrize("way", WAYS, ids=str)
BETTER = "the device is the better place now"
RESTS = "the device was the better place in the last steps"


def twins_on(place, kind, groups, **options):
    twins = Twins(kind, groups, optimize=False, **options)
    replace(twins.near, place)
    return twins


@each_way
@each_kind
@pytest.mark.parametrize("share", [100, 50, 0])
def test_steps(kind, options, way, share):
    """Whatever part of the updates is taken, step by step."""
    with device(share=share, steps_at_host=not way.get("fused")) as place:
        twins = twins_on(place, kind, [tensors(), tensors(seed=2)], **options, **way)
        for number in range(20):
            twins.gradients()
            if kind is torch.optim.SGD and way.get("fused") and share == 50 and number == 0:
                place.share = 100  # PyTorch refuses where some have momentum and some have not
            twins.each(lambda optimizer: optimizer.step())
            place.share = share
            if number % 3 == 0:
                twins.compare()
        twins.compare()
        # Where nothing is taken only steps 0 to 4, 6, 10 and 18 ask.
        assert place.offered == 12 * (20 if share else 8) and twins.near.spillway.updates == place.taken
        assert (place.taken == 0) == (share == 0)
        assert set(twins.left()) <= {BETTER, RESTS}


@each_kind
def test_types_schedules_groups_and_missing_gradients(kind, options):
    with device(share=70) as place:
        groups = [{"params": tensors(), "weight_decay": 0.1}, {"params": tensors(seed=2, dtype=torch.bfloat16)},
                  {"params": tensors([(7,)], seed=3), "lr": 0.5}, {"params": tensors([(9,)], torch.float64)}]
        twins = twins_on(place, kind, groups, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            schedules = [torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=20, cycle_momentum=False)
                         for optimizer in twins.both]
            for number in range(12):
                twins.gradients(None if number % 3 else lambda index, one: (
                    torch.full_like(one, 0.1 * index) if (index + number) % 4 else None))
                twins.each(lambda optimizer: optimizer.step())
                for schedule in schedules:
                    schedule.step()
            twins.compare()
        assert "float64" in twins.left() and twins.near.spillway.updates > 50


def network():
    torch.manual_seed(5)
    first = torch.nn.Linear(16, 16)
    made = torch.nn.Sequential(first, torch.nn.Tanh(), torch.nn.Linear(16, 16), torch.nn.Tanh(),
                               torch.nn.Linear(16, 16, bias=False))
    made[4].weight = first.weight  # tied
    return made


def train(place, kind, many=12, clip=None, accumulate=1, scaled=False, closure=False, to_none=True, **options):
    """Losses, parameters and states; on the pretended device where there is one."""
    model = network()
    optimizer = kind(model.parameters(), **options)
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=2) if scaled else None
    if place is not None:
        replace(optimizer, place)
    generator = torch.Generator().manual_seed(7)
    losses = []
    for number in range(many):
        inputs = torch.randn(8, 16, generator=generator)

        def evaluate():
            optimizer.zero_grad(set_to_none=to_none)
            for part in inputs.chunk(accumulate):
                loss = model(part).square().mean()
                if scaler is not None:
                    loss = scaler.scale(loss)
                if scaler is not None and number % 4 == 3:
                    loss = loss * float("inf")
                loss.backward()
            return loss

        if closure:
            losses.append(optimizer.step(evaluate).detach())
            continue
        losses.append(evaluate().detach())
        if scaler is not None and clip:
            scaler.unscale_(optimizer)
        if clip == "norm":
            losses.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1))
        elif clip == "value":
            torch.nn.utils.clip_grad_value_(model.parameters(), 0.001)
        if scaler is not None:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
    losses = torch.stack(losses)
    return [losses[~losses.isnan()], model.state_dict(), optimizer.state_dict(), optimizer]


HOW = [{"clip": "norm"}, {"clip": "value"}, {"accumulate": 4}, {"closure": True}, {"to_none": False},
       {"clip": "norm", "scaled": True}, {"scaled": True}]


@pytest.mark.parametrize("fused,share", [(True, 100), (True, 60), (False, 60)])
@pytest.mark.parametrize("how", HOW, ids=str)
@each_kind
def test_training(kind, options, how, share, fused):
    if kind is torch.optim.SGD and fused and share != 100 and options.get("momentum"):
        pytest.skip("in the first step all or none: PyTorch's fused SGD has one answer for all")
    if kind is torch.optim.SGD and how.get("scaled") and fused and options.get("momentum"):
        how = {**how, "many": 3}  # PyTorch's own leaves momentum unset where the first step is skipped
    expected = train(None, kind, fused=fused, **how, **options)
    with device(share=share, steps_at_host=not fused) as place:
        found = train(place, kind, fused=fused, **how, **options)
        assert_same(expected[:3], found[:3])
        assert place.taken > 0 and found[3].spillway.updates == place.taken
        if how.get("scaled") and fused and kind is not torch.optim.SGD:
            # One copy a step of what the device says; the next step reads it, and nobody asks for more.
            assert place.copies == 12 and place.reads == [4] and place.waits == 11


@each_kind
def test_a_steady_step_asks_the_device_for_nothing(kind, options):
    with device() as place:
        twins = twins_on(place, kind, [tensors()], fused=True, **options)
        for number in range(5):
            twins.gradients()
            twins.plain.step()
            place.stream.items = 0
            twins.near.step()
            counted = 0 if kind is torch.optim.SGD or number else 6
            assert place.stream.items == counted, "the steps are read once, at first"
            assert len(place.issued) > 0, "nothing has waited for the update"
        assert place.reads == ([] if kind is torch.optim.SGD else [6])
        twins.compare()


def test_steps_that_pytorch_makes_in_between_are_known():
    """Tensors that are taken now and then, and scaled steps that are skipped, ask the device no more."""
    for scaled in (False, True):
        with device(share=50) as place:
            twins = twins_on(place, torch.optim.AdamW, [tensors()], fused=True)
            for number in range(20):
                if scaled:
                    for optimizer in twins.both:
                        optimizer.grad_scale, optimizer.found_inf = torch.tensor(2.0), torch.tensor(float(number % 3 == 1))
                twins.gradients()
                twins.each(lambda optimizer: optimizer.step())
            assert place.reads == [6] and 20 < place.taken < 100
            twins.compare()
            assert twins.near.state_dict()["state"][0]["step"].item() == (13 if scaled else 20)


def test_steps_that_ask_for_nothing_are_known():
    """PyTorch makes them; the device is read once all the same, but where a scaled step was skipped meanwhile."""
    for scaled in (False, True):
        with device(share=0) as place:
            twins = twins_on(place, torch.optim.AdamW, [tensors()], fused=True)
            for number in range(24):
                if scaled:
                    for optimizer in twins.both:
                        optimizer.grad_scale = torch.tensor(2.0)
                        optimizer.found_inf = torch.tensor(float(number == 5))
                place.share = 100 if number >= 14 else 0
                twins.gradients()
                twins.each(lambda optimizer: optimizer.step())
            # Asked in steps 0 to 4, 6, 10 and from 18 on.
            assert place.taken == 6 * 6 and place.reads == ([6] * 4 if scaled else [6])
            twins.compare()


def test_steps_that_a_script_changes_are_read_again():
    with device() as place:
        twins = twins_on(place, torch.optim.Adam, [tensors()], fused=True)
        for number in range(6):
            if number == 2:
                twins.each(lambda optimizer: [state["step"].fill_(40) for state in optimizer.state.values()])
            if number == 4:
                twins.each(lambda optimizer: optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict())))
            twins.gradients()
            twins.each(lambda optimizer: optimizer.step())
        twins.compare()
        assert place.reads == [6, 6, 6]


def test_a_scale_that_is_elsewhere_or_not_fused():
    with device() as place:
        twins = twins_on(place, torch.optim.Adam, [tensors()], fused=True)
        twins.near.grad_scale = torch.tensor(2.0, dtype=torch.float64)
        twins.gradients()
        twins.near.grad_scale, twins.near.found_inf = torch.tensor(2.0, dtype=torch.float64), None
        assert place.taken == 0
        with pytest.raises(RuntimeError):
            twins.near.step()  # PyTorch's own answer
        assert list(twins.left()) == ["a scale of gradients that is no float32 on their device"]


@each_kind
def test_parameters_tied_frozen_replaced_and_resized(kind, options):
    with device() as place:
        twins = twins_on(place, kind, [tensors([(6, 4), (9,)])], **options)
        twins.gradients()
        twins.each(lambda optimizer: optimizer.step())
        for optimizer in twins.both:
            one, other = optimizer.param_groups[0]["params"]
            one.data = torch.full((6, 4), 2.0)
            optimizer.state.pop(other, None)
            optimizer.param_groups[0]["params"][1] = torch.nn.Parameter(torch.ones(33))
        for _ in range(2):
            twins.gradients()
            twins.each(lambda optimizer: optimizer.step())
        twins.each(lambda optimizer: optimizer.param_groups[0]["params"][0].requires_grad_(False))
        twins.gradients()
        twins.each(lambda optimizer: optimizer.step())
        twins.compare()
        assert place.taken == 8


@each_kind
def test_checkpoints_and_copies_while_updates_run(kind, options):
    with device() as place:
        twins = twins_on(place, kind, [tensors(), tensors(seed=2)], **options)
        for _ in range(3):
            twins.gradients()
            twins.each(lambda optimizer: optimizer.step())
        assert place.issued
        for other in (copy.deepcopy(twins.near), pickle.loads(pickle.dumps(twins.near))):
            assert not hasattr(other, "spillway") and "_init_group" not in vars(other)
            assert_same(other.state_dict(), twins.plain.state_dict())
        twins.gradients()
        twins.each(lambda optimizer: optimizer.step())
        file = io.BytesIO()
        torch.save([copy.deepcopy(twins.near.state_dict()), [one.detach().clone() for _, one in twins.parameters()]],
                   file)
        file.seek(0)
        states, values = torch.load(file)
        for optimizer, kept in ((twins.plain, states), (twins.near, copy.deepcopy(twins.plain.state_dict()))):
            optimizer.load_state_dict(copy.deepcopy(kept))
            with torch.no_grad():
                for one, value in zip([one for group in optimizer.param_groups for one in group["params"]], values):
                    one.copy_(value)
        for _ in range(3):
            twins.gradients()
            twins.each(lambda optimizer: optimizer.step())
        twins.compare()
        assert twins.near.spillway.steps == 7 and twins.left() == {}


def test_an_optimizer_that_dies_while_updates_run():
    with device() as place:
        twins = twins_on(place, torch.optim.AdamW, [tensors()])
        for _ in range(2):
            twins.gradients()
            twins.each(lambda optimizer: optimizer.step())
        pairs = twins.parameters()
        hooks = [one._post_accumulate_grad_hooks for _, one in pairs]
        assert all(len(each) == 1 for each in hooks)
        state = weakref.ref(twins.near.state[pairs[0][1]]["exp_avg"])
        gc.disable()
        try:
            twins.near, twins.both = None, None
            assert state() is None
            assert all(len(each) == 0 for each in hooks), "hooks go with the optimizer"
        finally:
            gc.enable()
        assert place.issued
        for one, other in pairs:
            assert_same(one.detach(), other.detach() + 0)


@pytest.mark.parametrize("fused", [True, False])
def test_what_fails_has_changed_nothing(monkeypatch, fused):
    """Before the updates are issued, and while they are: the same step succeeds later."""
    with device(steps_at_host=not fused) as place:
        twins = twins_on(place, torch.optim.AdamW, [tensors(), tensors(seed=2)], fused=fused)
        twins.gradients()
        for what in ("described", "issued"):
            if what == "described":
                from spillway.near import lists

                monkeypatch.setattr(lists.Taken, "native", lambda *_: 1 / 0)
            else:
                place.failing = ZeroDivisionError()
            with pytest.raises(ZeroDivisionError):
                twins.near.step()
            monkeypatch.undo()
            place.failing = None
        twins.each(lambda optimizer: optimizer.step())
        twins.compare()
        twins.step()


def test_no_memory_for_momentum(monkeypatch):
    with device() as place:
        twins = twins_on(place, torch.optim.SGD, [tensors(), tensors(seed=2)], lr=0.1, momentum=0.9)
        twins.gradients()

        def full(*_, **__):
            raise RuntimeError("CUDA out of memory")

        monkeypatch.setattr(torch, "empty_like", full)
        with pytest.raises(RuntimeError, match="out of memory"):
            twins.near.step()
        monkeypatch.undo()
        assert not any(twins.near.state_dict()["state"].values()) and place.taken == 0
        twins.each(lambda optimizer: optimizer.step())
        twins.compare()


def test_a_graph_that_is_being_captured_and_memory_that_is_shared():
    with device() as place:
        twins = twins_on(place, torch.optim.AdamW, [tensors()])
        place.capturing = "a CUDA graph is being captured"
        twins.step()
        assert twins.left() == {"a CUDA graph is being captured": 6}
        place.capturing = None
        memory = torch.linspace(-1, 1, 100)
        for optimizer in twins.both:
            own = memory.clone()
            optimizer.add_param_group({"params": [torch.nn.Parameter(own[:60]), torch.nn.Parameter(own[40:])]})
        twins.step()
        assert [dict(group.left) for group in twins.near.spillway.groups] == [
            {"tensors of this step share memory": count} for count in (6, 2)]
        assert place.taken == 0


def test_small_tensors_stay():
    with device() as place:
        place.least_bytes = 4 * 1000
        twins = twins_on(place, torch.optim.AdamW, [tensors()])
        for _ in range(3):
            twins.step()
        assert place.taken == 3 * 2 and twins.left() == {"so small that it stays on the device": 4}


def test_other_settings_are_left():
    for kind, options, reason in [
            (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "foreach": True}, "nesterov"),
            (torch.optim.Adam, {"lr": torch.tensor(0.01)}, "lr is a tensor"),
            (torch.optim.Adam, {"betas": (torch.tensor(0.9), torch.tensor(0.99))}, "beta1 is a Tensor")]:
        with device() as place:
            twins = twins_on(place, kind, [tensors()], **options)
            for _ in range(2):
                twins.step()
            assert place.taken == 0 and [reason in why for why in twins.left()] == [True]


def test_what_is_told():
    with device() as place:
        optimizer = torch.optim.AdamW([torch.nn.Parameter(value) for value in tensors([(10,), (5, 5)])], fused=True)
        report = replace(optimizer, place, proven=False).spillway
        assert str(report) == ("AdamW, group 0: Spillway updates 2 tensors (35 elements) with the bits of fused=True, "
                               "at the host where that is faster")
        for one in optimizer.param_groups[0]["params"]:
            one.grad = torch.ones_like(one)
        place.share = 0
        optimizer.step()
        assert str(report) == f"AdamW, group 0: PyTorch updates 2 tensors: {BETTER}"
        assert report.updates == report.steps == 0


def test_another_pytorch(monkeypatch):
    """Whose bits on the device are others: nothing is replaced."""
    step = torch.optim.Adam.step.__wrapped__

    def otherwise(self, closure=None):
        step(self, closure)
        if "spillway" not in vars(self):  # PyTorch's side of the trial
            self.param_groups[0]["params"][0].mul_(1 + 2**-20)

    monkeypatch.setattr(torch.optim.Adam.step, "__wrapped__", otherwise)
    with device() as place:
        optimizer = torch.optim.Adam([torch.nn.Parameter(torch.ones(3))])
        assert "the bits of PyTorch" in str(replace(optimizer, place, proven=False).spillway)
        assert not optimizer.spillway.replaced
        monkeypatch.undo()
        other = torch.optim.Adam([torch.nn.Parameter(torch.ones(3))], eps=1e-7)
        assert "the bits of PyTorch" in str(replace(other, place, proven=False).spillway), "compared once a kind"


class TestGradients:
    def follow(self, place, steps, accumulate=lambda number: 1, change=lambda number, model: None):
        model = network()
        optimizer = torch.optim.AdamW(model.parameters())
        replace(optimizer, place)
        told = []
        for number in range(steps):
            optimizer.zero_grad()
            place.sent.clear()
            for _ in range(accumulate(number)):
                told.append(len(place.sent))
                model(torch.ones(2, 16)).square().mean().backward()
            told.append(len(place.sent))
            expected = {(one.grad.data_ptr(), one.grad.nbytes) for one in model.parameters()}
            assert set(place.sent) <= expected
            change(number, model)
            optimizer.step()
        return told

    def test_each_is_told_once_when_its_backward_pass_is_done(self):
        with device() as place:
            assert self.follow(place, 4) == [0, 0, 0, 0, 0, 4, 0, 4]

    def test_the_last_of_several(self):
        with device() as place:
            assert self.follow(place, 4, lambda number: 2) == [0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 4]

    def test_nobody_is_told_of_what_is_changed_afterwards(self):
        with device() as place:
            assert self.follow(place, 5, change=lambda number, model: torch.nn.utils.clip_grad_norm_(
                model.parameters(), 1e-3)) == [0, 0, 0, 0, 0, 4, 0, 0, 0, 0]

    def test_nobody_is_told_where_others_reduce(self, monkeypatch):
        with device() as place:
            monkeypatch.setattr(place, "sender", lambda: None)
            assert self.follow(place, 4) == [0] * 8

    def test_what_was_not_taken_is_not_told(self):
        with device() as place:
            def change(number, model):
                place.share = 0 if number == 2 else 100
            assert self.follow(place, 7, change=change) == [0, 0, 0, 0, 0, 4, 0, 0, 0, 4, 0, 4, 0, 4]

    def test_parameters_with_hooks_are_copied_and_saved_as_ever(self):
        with device() as place:
            model = network()
            optimizer = torch.optim.AdamW(model.parameters())
            replace(optimizer, place)
            for _ in range(3):
                optimizer.zero_grad()
                model(torch.ones(2, 16)).square().mean().backward()
                optimizer.step()
            place.settle()
            for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
                assert_same(dict(other.state_dict()), dict(model.state_dict()))
                assert all(one._post_accumulate_grad_hooks is None for one in other.parameters())
