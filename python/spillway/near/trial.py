"""Whether Spillway's bits are PyTorch's on this machine, with this PyTorch: both take a few steps.

Formulas are proven by tests; this finds a PyTorch that computes in another way than the tested one.
"""

import torch

_ELEMENTS = (1 << 16) + 5  # several vectors, blocks of PyTorch's threads, and a rest
_STEPS = 3
_known = {}


def same_bits(kind, group, dtype, options):
    """Of an optimizer of that kind with the settings of `group`; remembered by `options` and the way
    in which PyTorch computes."""
    key = (options, bool(group.get("foreach")))
    if key not in _known:
        _known[key] = _try(kind, group, dtype)
    return _known[key]


def _try(kind, group, dtype):
    from .replacement import replace

    generator = torch.Generator().manual_seed(1)

    def random(least, most):
        powers = torch.rand(_ELEMENTS, generator=generator, device="cpu") * (most - least) + least
        return (torch.randn(_ELEMENTS, generator=generator) * 10**powers).to(dtype)

    start = random(-4, 1)
    settings = {key: value for key, value in group.items() if key not in ("params", "param_names")}
    with torch.inference_mode(False), torch.no_grad():
        optimizers = []
        for _ in range(2):
            optimizer = kind([torch.nn.Parameter(start.clone())], lr=1e-2)
            # A learning rate of 0, as warm-up begins with, would hide the rest.
            optimizer.param_groups[0].update({**settings, "lr": 1e-2})
            optimizers.append(optimizer)
        ours = replace(optimizers[1], proven=True)
        for _ in range(_STEPS):
            gradient = random(-8, 2)
            for optimizer in optimizers:
                optimizer.param_groups[0]["params"][0].grad = gradient.clone()
                # Without the hooks around a step, which are for the script's own optimizers.
                getattr(kind.step, "__wrapped__", kind.step)(optimizer)
    return ours.spillway.replaced and all(map(_equal, *map(_tensors, optimizers)))


def _tensors(optimizer):
    parameter = optimizer.param_groups[0]["params"][0]
    return [parameter, *optimizer.state[parameter].values()]


def _equal(one, other):
    return torch.equal(one.detach().reshape(-1).view(torch.uint8), other.detach().reshape(-1).view(torch.uint8))
