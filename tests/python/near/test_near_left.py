"""What is left to PyTorch's own step: with its bits, and a reason."""

import numpy
import pytest

from twins import Twins, one_thread, spillway, tensors, torch  # noqa: F401, one_thread is a fixture

ADAM, ADAMW = torch.optim.Adam, torch.optim.AdamW
SGD, ADAGRAD = torch.optim.SGD, torch.optim.Adagrad


def steps(twins, make=None, many=3):
    for _ in range(many):
        twins.step(make)
    return twins


def refused(kind, reason, optimize=True, values=None, **options):
    twins = steps(Twins(kind, [tensors([(33,)]) if values is None else values], **options))
    assert twins.replaced() == 0, str(twins.near.spillway)
    assert [reason in why for why in twins.left()] == [True], twins.left()
    return twins


@pytest.mark.parametrize("dtype,name", [(torch.float64, "float64"), (torch.float16, "float16"),
                                        (torch.complex64, "complex64")])
def test_other_types_beside_those_that_are_replaced(dtype, name):
    values = [*tensors([(33,), (5, 7)]), *tensors([(9,)], dtype)]
    twins = steps(Twins(ADAM, [values]))
    assert twins.replaced() == 2 and twins.left() == {name: 1}
    assert str(twins.near.spillway) == (
        "Adam, group 0: Spillway updates 2 tensors (68 elements) with the bits of fused=False; "
        f"PyTorch updates 1 tensor: {name}")


def test_what_is_not_contiguous():
    transposed = torch.nn.Parameter(torch.randn(8, 5).t())
    twins = steps(Twins(ADAMW, [[transposed, torch.randn(5)]]))
    assert twins.left() == {"not contiguous": 1} and twins.replaced() == 1
    twins = steps(Twins(ADAMW, [tensors([(8, 5)])]),
                  lambda index, one: torch.randn(5, 8, generator=torch.Generator().manual_seed(1)).t())
    assert twins.left() == {"its gradient is not contiguous": 1}


@pytest.mark.parametrize("way", [{}, {"fused": False}, {"foreach": True}], ids=str)
def test_a_device_that_is_neither_host_nor_gpu(way):
    values = [torch.empty(9, device="meta"), torch.randn(5)]
    twins = Twins(SGD, [values], lr=0.1, momentum=0.9, **way)
    for number in range(2):
        twins.gradients(lambda index, one: torch.full_like(one, number + 1.0))
        twins.each(lambda optimizer: optimizer.step())
        assert torch.equal(*twins.parameters()[1])
    if way == {"fused": False}:
        assert twins.left() == {"on meta": 1} and twins.replaced() == 1


def test_a_gradient_that_negates():
    twins = Twins(SGD, [tensors([(33,)])], lr=0.1, momentum=0.9)
    for _ in range(3):
        twins.gradients()
        for one, other in twins.parameters():
            one.grad, other.grad = torch._neg_view(one.grad), torch._neg_view(other.grad)
        twins.each(lambda optimizer: optimizer.step())
        twins.compare()
    assert twins.left() == {"its gradient is a view that negates": 1}


def sparse(index, one):
    gradient = torch.randn(one.shape, generator=torch.Generator().manual_seed(index))
    return gradient.to_sparse() if index == 0 else gradient


@pytest.mark.parametrize("kind,options", [(SGD, {"lr": 0.1, "momentum": 0.9}), (ADAGRAD, {})])
def test_sparse_gradients(kind, options):
    twins = Twins(kind, [tensors([(10, 4), (33,)])], **options)
    for _ in range(3):
        twins.gradients(sparse)
        for one, other in twins.parameters()[:1]:
            other.grad = one.grad.clone()
        twins.each(lambda optimizer: optimizer.step())
        for one, other in twins.parameters():
            assert torch.equal(one, other)
    assert twins.left() == {"its gradient is sparse": 1} and twins.replaced() == 1


@pytest.mark.parametrize("kind,options", [(ADAM, {}), (ADAGRAD, {"fused": True}),
                                          (ADAGRAD, {"weight_decay": 0.1})])
def test_sparse_gradients_that_pytorch_refuses(kind, options):
    twins = Twins(kind, [tensors([(10, 4), (33,)])], **options)
    before = [one.clone() for _, one in twins.parameters()]
    errors = []
    for optimizer in twins.both:
        for index, one in enumerate(optimizer.param_groups[0]["params"]):
            one.grad = sparse(index, one)
        with pytest.raises((RuntimeError, NotImplementedError)) as error:
            optimizer.step()
        errors.append(str(error.value))
    assert errors[0] == errors[1]
    assert all(torch.equal(*pair) for pair in zip(before, (one for _, one in twins.parameters())))


def test_settings():
    optimizer = ADAM([torch.nn.Parameter(torch.ones(3))], differentiable=True)
    assert str(spillway.near.optimize(optimizer).spillway) == (
        "Adam, group 0: PyTorch updates 1 tensor: differentiable=True")
    refused(ADAM, "lr is a tensor", lr=torch.tensor(0.01))
    refused(ADAGRAD, "lr is a tensor", lr=torch.tensor(0.01))
    refused(ADAM, "lr is a float32, not a number of Python's", lr=numpy.float32(0.01))
    refused(ADAM, "beta1 is a Tensor", betas=(torch.tensor(0.9), torch.tensor(0.99)))
    refused(ADAM, "float64", values=tensors([(33,)], torch.float64))


@pytest.mark.parametrize("kind,options", [
    (ADAM, {"fused": True}), (SGD, {"momentum": 0.9}), (SGD, {"fused": True}), (ADAGRAD, {"fused": True})])
def test_a_learning_rate_that_is_a_tensor(kind, options):
    twins = Twins(kind, [tensors()], lr=torch.tensor(0.01), **options)
    for number in range(5):
        twins.each(lambda optimizer: optimizer.param_groups[0]["lr"].fill_(0.01 / (1 + number)))
        twins.step()
    assert twins.left() == {} and isinstance(twins.near.param_groups[0]["lr"], torch.Tensor)


def test_capturable_is_pytorchs_error():
    twins = Twins(ADAM, [tensors([(3,)])], capturable=True)
    twins.gradients()
    for optimizer in twins.both:
        with pytest.raises(AssertionError, match="capturable"):
            optimizer.step()


def test_other_optimizers():
    class Own(ADAM):
        pass

    for kind in (torch.optim.RMSprop, Own):
        twins = steps(Twins(kind, [tensors()]))
        assert str(twins.near.spillway) == (
            f"{kind.__name__}: PyTorch updates all tensors: "
            f"{kind.__name__} is not Adam, AdamW, SGD or Adagrad of torch.optim")
        assert "_init_group" not in vars(twins.near)


def test_what_is_no_optimizer():
    with pytest.raises(TypeError, match="spillway.near: Linear is no optimizer of torch.optim"):
        spillway.near.optimize(torch.nn.Linear(2, 2))
    with pytest.raises(ValueError, match="threads=0"):
        spillway.near.optimize(ADAM(tensors([(3,)])), threads=0)


def test_another_librarys_groups():
    optimizer = ADAM([torch.nn.Parameter(torch.ones(3))])
    optimizer._init_group = lambda *args: False
    assert spillway.near.optimize(optimizer).spillway.reason == "its _init_group is another library's"


def test_another_pytorch(monkeypatch):
    """Whose function fills other lists, or whose bits are others."""
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "DEFAULT")
    refused_ = spillway.near.optimize(ADAM([torch.nn.Parameter(torch.ones(3))]))
    assert refused_.spillway.reason == "PyTorch computes for DEFAULT, whose bits are others"
    monkeypatch.undo()
    monkeypatch.setattr(ADAM, "_init_group", lambda self, group, tensors: False)
    other = spillway.near.optimize(ADAM([torch.nn.Parameter(torch.ones(3))]))
    assert other.spillway.reason == f"Adam of PyTorch {torch.__version__} fills other lists"
    monkeypatch.undo()
    from spillway.near import trial

    monkeypatch.setattr(trial, "_known", {})
    step = ADAM.step.__wrapped__

    def otherwise(self, closure=None):
        step(self, closure)
        if "spillway" not in vars(self):  # PyTorch's side of the trial
            self.param_groups[0]["params"][0].mul_(1 + 2**-20)

    monkeypatch.setattr(ADAM.step, "__wrapped__", otherwise)
    optimizer = spillway.near.optimize(ADAM([torch.nn.Parameter(torch.ones(3))]))
    assert "the bits of PyTorch" in str(optimizer.spillway) and not optimizer.spillway.replaced


def test_memory_that_two_parameters_share():
    """Each sees what the other's update has written: their order is PyTorch's."""
    results = []
    for near in (False, True):
        memory = torch.linspace(-1, 1, 100)
        one, other = (torch.nn.Parameter(part) for part in (memory[:60], memory[40:]))
        optimizer = ADAMW([{"params": [one]}, {"params": [other]}], lr=0.1)
        if near:
            spillway.near.optimize(optimizer)
        for _ in range(3):
            one.grad, other.grad = torch.ones(60), -torch.ones(60)
            optimizer.step()
        results.append(memory)
    assert torch.equal(*results)
    assert optimizer.spillway.lines()[1] == (
        "AdamW, group 1: PyTorch updates 1 tensor: tensors of this step share memory")


def test_a_gradient_that_is_its_parameter():
    results = []
    for near in (False, True):
        one = torch.nn.Parameter(torch.linspace(-1, 1, 100))
        optimizer = ADAMW([one], lr=0.1, weight_decay=0.5)
        if near:
            spillway.near.optimize(optimizer)
        for _ in range(3):
            one.grad = one.detach()
            optimizer.step()
        results.append(one.detach())
    assert torch.equal(*results) and not optimizer.spillway.replaced


def test_parts_of_one_memory_are_replaced():
    """As flat parameters and buckets of gradients are."""
    flat = tensors([(300,)])[0]
    twins = Twins(ADAM, [[torch.ones(3)]], optimize=False)
    for optimizer in twins.both:
        memory = flat.clone()
        optimizer.param_groups[0]["params"] = [torch.nn.Parameter(memory[:100]),
                                               torch.nn.Parameter(memory[100:])]
    spillway.near.optimize(twins.near)
    steps(twins)
    assert twins.replaced() == 2 and twins.left() == {}
