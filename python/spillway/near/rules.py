"""What each optimizer of PyTorch's keeps, and what its groups say of a step.

A step of PyTorch asks `_init_group` to fill lists, one entry a tensor, and hands them to a function
that updates them. `fills` has the names of these lists, in order, and what they mean to native.py.
"""

import torch
from torch.optim.optimizer import _default_to_fused_or_foreach

from . import native


class Rule:
    def __init__(self, number, fills, numbers):
        self.number = number
        self.fills = fills
        self.roles = tuple(fills.values())
        self.numbers = numbers  # keys of a group: names in native.Step

    def step(self, group):
        """The numbers of a step; the learning rate and the step itself are missing."""
        return {name: group[key] for key, name in self.numbers.items()}

    def keeps_states(self, group):
        return True


class _Adam(Rule):
    def __init__(self):
        super().__init__(native.ADAM, {
            "params_with_grad": "parameter", "grads": "gradient", "exp_avgs": "first",
            "exp_avg_sqs": "second", "max_exp_avg_sqs": "max_second", "state_steps": "step",
        }, {"eps": "epsilon", "weight_decay": "weight_decay"})

    def step(self, group):
        beta1, beta2 = group["betas"]
        return {**super().step(group), "beta1": beta1, "beta2": beta2}


class _Sgd(Rule):
    def __init__(self):
        super().__init__(native.SGD, {
            "params": "parameter", "grads": "gradient", "momentum_buffer_list": "first",
        }, {"weight_decay": "weight_decay", "momentum": "momentum", "dampening": "dampening"})

    def keeps_states(self, group):
        return group["momentum"] != 0


RULES = {
    torch.optim.Adam: _Adam(),
    torch.optim.AdamW: _Adam(),
    torch.optim.SGD: _Sgd(),
    torch.optim.Adagrad: Rule(native.ADAGRAD, {
        "params_with_grad": "parameter", "grads": "gradient", "state_sums": "first",
        "state_steps": "step",
    }, {"eps": "epsilon", "weight_decay": "weight_decay", "lr_decay": "learning_rate_decay"}),
}

TYPES = {torch.float32: native.FLOAT32, torch.bfloat16: native.BFLOAT16}


def way(kind, group, parameters):
    """Which of PyTorch's implementations updates these parameters of a group, all that have gradients:
    "fused", "foreach" or "loop". None where it would be another for some of them alone."""
    fused, foreach = group.get("fused"), group.get("foreach")
    if fused is None and foreach is None:
        if isinstance(group["lr"], torch.Tensor) and kind in (torch.optim.Adam, torch.optim.AdamW):
            return "loop"
        foreach = _foreach_by_default(group, parameters)
        if not foreach and any(parameter.device.type != "cpu" and _foreach_by_default(group, [parameter])
                               for parameter in parameters):
            return None
    return "fused" if fused else "foreach" if foreach else "loop"


def _foreach_by_default(group, parameters):
    return _default_to_fused_or_foreach(parameters, bool(group.get("differentiable")), use_fused=False)[1]


def options(kind, group, dtype, place, way):
    """The fields of native.Options, as a key: tensors of equal options go in one call."""
    chosen = place.variant(way)
    on_cpu = chosen in (native.FUSED_CPU, native.LOOP_CPU)
    decoupled = bool(group.get("decoupled_weight_decay", kind is torch.optim.AdamW))
    roots, mode = native.torch_square_roots() if chosen == native.LOOP_CPU else (None, 0)
    return (
        ("rule", RULES[kind].number),
        ("variant", chosen),
        ("parameter_type", TYPES[dtype]),
        ("gradient_type", TYPES[dtype]),
        ("decoupled_decay", decoupled),
        ("coupled_decay", RULES[kind].number == native.ADAM and not decoupled and group["weight_decay"] != 0),
        ("amsgrad", bool(group.get("amsgrad"))),
        ("maximize", bool(group.get("maximize"))),
        ("nesterov", bool(group.get("nesterov") and group["momentum"])),
        ("torch_threads", torch.get_num_threads() if on_cpu else 1),
        ("compute_capability", place.capability),
        ("square_roots", roots),
        ("square_roots_mode", mode),
    )
