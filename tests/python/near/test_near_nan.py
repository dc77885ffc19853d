"""NaN have PyTorch's bits on the CPU: sign and payload, of gradients, parameters and states."""

import pytest

from twins import Twins, assert_same, one_thread, torch  # noqa: F401, one_thread is a fixture

# Quiet and signalling, of both signs, with payloads, as processors and GPUs make them.
NAN = torch.tensor([0x7fc00000, -0x400000, 0x7f800001, 0x7fc12345, -0x3edcbb, 0x7fffffff, -1, 0x7fa00000],
                   dtype=torch.int32)
HALF_NAN = torch.tensor([0x7fc0, -0x40, 0x7f81, -0x61, 0x7fff, -1], dtype=torch.int16)
SETTINGS = {
    torch.optim.SGD: [{"lr": 0.1}, {"lr": 0.1, "momentum": 0.9, "dampening": 0.1},
                      {"lr": 0.1, "momentum": 0.9, "nesterov": True}],
    torch.optim.Adagrad: [{}],
    torch.optim.Adam: [{}, {"amsgrad": True}], torch.optim.AdamW: [{}, {"amsgrad": True}],
}
CASES = [(kind, options) for kind, many in SETTINGS.items() for options in many]
# Around vectors, and what they leave.
SIZES = (1, 8, 13, 31, 32, 45, 500, 512)


def with_nan(size, seed, dtype, part):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(size, generator=generator).to(dtype)
    nan = NAN if dtype == torch.float32 else HALF_NAN
    words = values.view(nan.dtype)
    chosen = torch.rand(size, generator=generator) < part
    words[chosen] = nan[torch.randint(len(nan), (size,), generator=generator)][chosen]
    values[torch.rand(size, generator=generator) < 0.05] = float("inf")
    return values


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("way", [{}, {"fused": True}], ids=str)
@pytest.mark.parametrize("kind,options", CASES,
                         ids=lambda value: getattr(value, "__name__", None) or "-".join(value))
def test_nan(kind, options, way, dtype):
    if kind is torch.optim.SGD and way and dtype == torch.bfloat16:
        pytest.skip("PyTorch's own leaves parameters as they are, and its momentum is what memory held")
    for maximize in (False, True):
        for decay in (0, 0.1):
            twins = Twins(kind, [[with_nan(size, size, dtype, 0.2) for size in SIZES]], maximize=maximize,
                          weight_decay=decay, **options, **way)
            for number in range(3):
                twins.step(lambda index, one: with_nan(one.numel(), 100 * number + index, dtype, 0.4))
            assert twins.left() == {} and twins.replaced() == len(SIZES)


def test_the_one_exception():
    """Where several threads compute PyTorch's fused AdamW to maximize, the compiler has left out that it
    squares the negative: of what is not a number, the square has the other sign."""
    torch.set_num_threads(2)
    twins = Twins(torch.optim.AdamW, [[torch.zeros(512)]], maximize=True, fused=True)
    twins.gradients(lambda index, one: with_nan(512, 1, torch.float32, 0.4))
    twins.each(lambda optimizer: optimizer.step())
    ((one, other),) = twins.parameters()
    states, others = twins.plain.state[one], twins.near.state[other]
    squares, of_near = (each.pop("exp_avg_sq").view(torch.int32) for each in (states, others))
    assert_same([one.detach(), states], [other.detach(), others])
    differ = squares != of_near
    assert torch.equal(differ, one.grad.isnan())
    assert torch.equal(squares ^ of_near, differ * torch.tensor(-1 << 31, dtype=torch.int32))
    assert twins.replaced() == 1
