"""libspillway_near's variants of a GPU against tests/optimizer/cuda_reference.py, which is read from
PyTorch's machine code. No GPU is needed."""

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
native = pytest.importorskip("spillway.near.native")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "optimizer"))
reference = pytest.importorskip("cuda_reference")

from near_steps import TYPES, Ours, differing, numbers  # noqa: E402

LOOP, FOREACH, FUSED = native.LOOP_CUDA, native.FOREACH_CUDA, native.FUSED_CUDA
NAMES = {LOOP: "loop", FOREACH: "foreach", FUSED: "fused"}
STEPS = 5
SIZE = 20011
ADAM = [{}, {"amsgrad": True}, {"maximize": True, "betas": (0.3, 0.9)},
        {"weight_decay": 0.1, "amsgrad": True, "eps": 0.01}]
SGD = [{"weight_decay": 0.1, "maximize": True}, {"momentum": 0.9, "dampening": 0.3, "weight_decay": 0.123},
       {"momentum": 0.9, "nesterov": True, "maximize": True}]
ADAGRAD = [{}, {"weight_decay": 0.123, "lr_decay": 0.01, "eps": 0.01, "maximize": True}]


def cases():
    for dtype in (torch.float32, torch.bfloat16):
        for variant in (LOOP, FOREACH, FUSED):
            for rule, all_options in (("Adam", ADAM), ("AdamW", ADAM), ("SGD", SGD), ("Adagrad", ADAGRAD)):
                if (rule, variant) == ("Adagrad", FUSED):
                    continue  # in double: refused
                for options in all_options:
                    yield pytest.param(rule, variant, dtype, options,
                                       id=f"{rule}-{NAMES[variant]}-{str(dtype)[6:]}-{'-'.join(options)}")


def expected(rule, variant, step, arrays, gradient, bf16, options):
    """The reference's parameter and states."""
    keywords = {"lr": 0.01, "maximize": options.get("maximize", False), "bf16": bf16,
                "weight_decay": options.get("weight_decay", 0.01 if rule == "AdamW" else 0)}
    if variant == FUSED:
        keywords["capability"] = 100
    function = getattr(reference, f"{'adam' if rule == 'AdamW' else rule.lower()}_{NAMES[variant]}_cuda")
    parameter, *states = arrays
    if rule in ("Adam", "AdamW"):
        beta1, beta2 = options.get("betas", (0.9, 0.999))
        result = function(parameter, gradient, *states[:2], step, beta1=beta1, beta2=beta2,
                          eps=options.get("eps", 1e-8), decoupled=rule == "AdamW",
                          vmax=states[2] if options.get("amsgrad") else None, **keywords)
    elif rule == "SGD":
        buffer = states[0] if states and step > 1 else None
        result = function(parameter, gradient, buffer, momentum=options.get("momentum", 0.0),
                          dampening=options.get("dampening", 0.0),
                          nesterov=options.get("nesterov", False), **keywords)
    else:
        result = function(parameter, gradient, states[0], step, eps=options.get("eps", 1e-10),
                          lr_decay=options.get("lr_decay", 0.0), **keywords)
    if variant == FUSED:
        result = (result[0], *result[2:])
    return [x for x in result if x is not None]


@pytest.mark.parametrize("rule, variant, dtype, options", list(cases()))
def test_it_is_as_on_a_gpu(rule, variant, dtype, options):
    source = numbers(SIZE + 64 * STEPS, 3, dtype)
    ours = Ours(rule, [source[:SIZE]], variant, None, lr=0.01, compute_capability=100, **options)
    for step in range(1, STEPS + 1):
        gradient = source[61 * step:61 * step + SIZE].clone()
        before = [x.float().numpy() for x in (ours.parameters[0], *ours.states[0])]
        wanted = expected(rule, variant, step, before, gradient.float().numpy(), dtype == torch.bfloat16,
                          options)
        ours.step(step, [gradient])
        for name, mine, theirs in zip(("parameter", *ours.kept()), (ours.parameters[0], *ours.states[0]),
                                      wanted):
            real = differing(mine, torch.from_numpy(theirs).to(dtype))[1]
            assert real == 0, f"step {step}: {real} of {SIZE} elements differ in {name}"


def test_what_depends_on_an_elements_place_is_refused():
    kind = TYPES[torch.float32]
    for rule, decay in ((native.SGD, 0), (native.ADAM, 1)):
        with pytest.raises(native.Refused, match="where an element lies"):
            native.Update(native.Options(rule, FUSED, kind, kind, compute_capability=90,
                                         coupled_decay=decay))
