"""Parameters and gradients that are not contiguous: PyTorch updates them, and what it gives is what it gives
without Spillway, whether its kernels look at strides (loops) or not (fused)."""

import pytest

from twins import assert_same, one_thread, spillway, torch  # noqa: F401, one_thread is a fixture

MISREAD = ("its tensors differ in strides or have gaps, which fused=True ignores on the CPU: "
           "the result may be wrong")
KINDS = {
    torch.optim.Adam: {}, torch.optim.AdamW: {"amsgrad": True, "weight_decay": 0.1},
    torch.optim.SGD: {"lr": 0.1, "momentum": 0.9}, torch.optim.Adagrad: {},
}
SHAPES = ((3, 5), (64, 65), (4, 2, 3, 3))


def transposed(memory, shape):
    return memory[:shape.numel()].view(shape[::-1]).permute(*range(len(shape) - 1, -1, -1))


def channels_last(memory, shape):
    return memory.as_strided(shape, torch.empty(shape, memory_format=torch.channels_last).stride())


# Views of memory of twice as many elements: so what a fused kernel reads is memory of the test.
LAYOUTS = {
    "contiguous": lambda memory, shape: memory[3:shape.numel() + 3].view(shape),
    "transposed": transposed,
    "channels_last": channels_last,
    "sliced": lambda memory, shape: memory[:2 * shape.numel()].view(*shape, 2)[..., 0],
    "expanded": lambda memory, shape: memory[:1].expand(shape),
    "one row": lambda memory, shape: memory[:shape[-1]].expand(shape),
    "windows": lambda memory, shape: memory.as_strided(shape, [1] * len(shape)),
}
DENSE = ("contiguous", "transposed", "channels_last")


def cases(fused):
    """(layout of the parameter, of its gradient, shape). Loops refuse to write several elements to one
    place."""
    return [(one, other, torch.Size(shape)) for shape in SHAPES for one in LAYOUTS for other in LAYOUTS
            if ("channels_last" not in (one, other) or len(shape) == 4)
            and (fused or one in (*DENSE, "sliced"))]


def trained(near, kind, dtype, fused):
    generator = torch.Generator().manual_seed(1)

    def random(shape):
        return torch.randn(2 * shape.numel(), generator=generator).to(dtype)

    every = cases(fused)
    memories = [random(shape) for _, _, shape in every]
    parameters = [torch.nn.Parameter(LAYOUTS[layout](memory, shape))
                  for (layout, _, shape), memory in zip(every, memories)]
    optimizer = kind(parameters, fused=fused, **KINDS[kind])
    if near:
        spillway.near.optimize(optimizer, threads=1)
    for _ in range(3):
        for (_, layout, shape), parameter in zip(every, parameters):
            parameter.grad = LAYOUTS[layout](random(shape), shape)
        optimizer.step()
    return optimizer, memories


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_layout(kind, dtype, fused):
    if (kind, dtype, fused) == (torch.optim.SGD, torch.bfloat16, True):
        pytest.skip("PyTorch's own computes and does not store it")
    (plain, expected), (near, memories) = (trained(near, kind, dtype, fused) for near in (False, True))
    assert_same(expected, memories)
    assert_same(plain.state_dict(), near.state_dict())
    (told,) = near.spillway.groups
    contiguous = sum(case[:2] == ("contiguous",) * 2 for case in cases(fused))
    assert told.tensors == contiguous == len(SHAPES)
    # With equal strides and no gaps fused=True does what loops do.
    right = sum(one == other and one in DENSE[1:] for one, other, _ in cases(fused))
    wrong = len(cases(True)) - contiguous - right
    if fused:
        assert told.left == {MISREAD: wrong, "not contiguous": right}
    else:
        assert set(told.left) <= {"not contiguous", "its gradient is not contiguous",
                                  "its state is not contiguous"}


def test_what_is_told_of_a_gradient_that_is_one_number():
    """As of torch.autograd.grad(parameter.sum(), parameter). backward() makes it contiguous."""
    parameter = torch.nn.Parameter(torch.zeros(4))
    (parameter.grad,) = torch.autograd.grad(parameter.sum(), parameter)
    assert parameter.grad.stride() == (0,)
    # So that a fused kernel reads no other memory.
    parameter.grad = torch.tensor([1.0, 2.0, 3.0, 4.0])[:1].expand(4)
    optimizer = spillway.near.optimize(torch.optim.SGD([parameter], lr=1.0, fused=True))
    optimizer.step()
    assert parameter.tolist() == [-1, -2, -3, -4]
    assert optimizer.spillway.lines() == [f"SGD, group 0: PyTorch updates 1 tensor: {MISREAD}"]
    parameter.grad = None
    parameter.sum().backward()
    optimizer.step()
    assert parameter.tolist() == [-2, -3, -4, -5] and optimizer.spillway.replaced
