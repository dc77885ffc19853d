"""Whether Spillway's bits are PyTorch's on this machine, with this PyTorch: both take a few steps.

Formulas are proven by tests; this finds a PyTorch that computes in another way than the tested one. For
tensors on a GPU, PyTorch computes there, and Spillway here.
"""

import torch

from . import placement

_ELEMENTS = (1 << 16) + 5  # several vectors, blocks of PyTorch's threads, and a rest
_STEPS = 3
_known = {}


def same_bits(kind, group, dtype, options, place=placement.HOST, way=None):
    """Of an optimizer of that kind with the settings of `group`; remembered by `options` and the way
    in which PyTorch computes. `place`, `way`: where, and which implementation of PyTorch's."""
    key = (options, bool(group.get("foreach")), None if place.at_once else (place, way))
    if key not in _known:
        _known[key] = _try(kind, group, dtype, place, way)
    return _known[key]


def _try(kind, group, dtype, place, way):
    from .replacement import replace

    elements = getattr(place, "trial_elements", _ELEMENTS)
    settings = {key: value for key, value in group.items() if key not in ("params", "param_names")}
    device, places, chosen = "cpu", None, {}
    if not place.at_once:
        device, places = place.device, placement.OnlyOn(placement.OnTrial(place))
        chosen = {"fused": way == "fused", "foreach": way == "foreach"}
    generator = torch.Generator("cpu").manual_seed(1)

    def random(least, most):
        powers = torch.rand(elements, generator=generator, device="cpu") * (most - least) + least
        return (torch.randn(elements, generator=generator, device="cpu") * 10**powers).to(dtype)

    start = random(-4, 1)
    with torch.inference_mode(False), torch.no_grad():
        optimizers = []
        for where in (device, "cpu"):
            optimizer = kind([torch.nn.Parameter(start.to(where, copy=True))], lr=1e-2, **chosen)
            # A learning rate of 0, as warm-up begins with, would hide the rest.
            optimizer.param_groups[0].update({**settings, **chosen, "lr": 1e-2})
            optimizers.append(optimizer)
        ours = replace(optimizers[1], proven=True, places=places)
        for _ in range(_STEPS):
            gradient = random(-8, 2)
            for optimizer in optimizers:
                parameter = optimizer.param_groups[0]["params"][0]
                parameter.grad = gradient.to(parameter.device, copy=True)
                # Without the hooks around a step, which are for the script's own optimizers.
                getattr(kind.step, "__wrapped__", kind.step)(optimizer)
    return ours.spillway.replaced and all(map(_equal, *map(_tensors, optimizers)))


def _tensors(optimizer):
    parameter = optimizer.param_groups[0]["params"][0]
    return [parameter, *optimizer.state[parameter].values()]


def _equal(one, other):
    return torch.equal(*(tensor.detach().to("cpu").reshape(-1).view(torch.uint8) for tensor in (one, other)))
