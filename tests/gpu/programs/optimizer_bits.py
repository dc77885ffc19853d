#!/usr/bin/env python3
"""PyTorch's optimizers on CUDA against tests/optimizer/cuda_reference.py, bit by bit. See program.py.

`optimizer_bits.py everything` needs NumPy and PyTorch only; `everything 3` makes 3 steps instead of 20. Where a step
differs, the reference goes on from what the GPU has, so each step is counted for itself.
"""

import concurrent.futures
import os
import pathlib
import sys
import time

import numpy as np
from program import main
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "optimizer"))
import cuda_arithmetic as arithmetic  # noqa: E402, it is found there
import cuda_reference as reference  # noqa: E402

SIZES = (1_048_581, 1_048_576)  # fused kernels go another way where a size is no multiple of four
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 3.4e38, -3.4e38, 1.17549435e-38, 1e-45, -1e-45, 1, -1, 1e-8],
                   np.float32)


def values(random, size, bf16, scale, positive=False):
    """Ordinary numbers; in every 16th place any magnitude, any bits, or a special value, NaN in few places."""
    x = (random.standard_normal(size) * scale).astype(np.float32)
    hard = np.arange(0, size, 16)
    kind = (hard // 16) % 4
    magnitudes = np.float32(10) ** random.uniform(-44, 38, hard.size).astype(np.float32)
    signs = np.where(random.integers(0, 2, hard.size), np.float32(1), np.float32(-1))
    chosen = magnitudes * signs
    any_bits = random.integers(0, 2**32, hard.size, np.uint64).astype(np.uint32).view(np.float32)
    chosen = np.where(kind == 1, any_bits, chosen)
    chosen = np.where(kind == 2, SPECIAL[random.integers(0, SPECIAL.size, hard.size)], chosen)
    chosen = np.where((kind != 2) & ~np.isfinite(chosen), np.float32(0.5), chosen)
    x[hard] = chosen
    if positive:
        x = np.abs(x)
    return arithmetic.round_to_bf16(x) if bf16 else x


def on_device(x, bf16):
    tensor = torch.from_numpy(np.ascontiguousarray(x))
    return (tensor.to(torch.bfloat16) if bf16 else tensor).cuda()


def from_device(tensor):
    """As float32 with the bits that are there: a NaN of bfloat16 keeps its own."""
    if tensor.dtype == torch.bfloat16:
        bits = tensor.detach().cpu().view(torch.int16).numpy().astype(np.uint16)
        return (bits.astype(np.uint32) << 16).view(np.float32)
    return tensor.detach().cpu().numpy()


class Tally:
    """What differs, in elements and in units in the last place."""

    def __init__(self):
        self.wrong = self.nan_bits_wrong = self.ulp = 0
        self.first = None

    def compare(self, name, step, found, expected):
        """What is to go on with."""
        expected = np.broadcast_to(np.asarray(expected, np.float32), found.shape)
        a, b = found.view(np.uint32), np.ascontiguousarray(expected).view(np.uint32)
        both_nan = np.isnan(found) & np.isnan(expected)
        differs = (a != b) & ~both_nan
        self.nan_bits_wrong += int(((a != b) & both_nan).sum())
        count = int(differs.sum())
        if count:
            def ordered(x):
                x = x[differs].astype(np.int64)
                return np.where(x >> 31, -(x & 0x7FFFFFFF), x)
            self.wrong += count
            self.ulp = max(self.ulp, int(np.abs(ordered(a) - ordered(b)).max()))
            index = int(np.argmax(differs))
            self.first = self.first or [name, step, count, index, float(found[index]), float(expected[index])]
        return found.copy()


def capability():
    major, minor = torch.cuda.get_device_capability()
    return 10 * major + minor


def try_out(kind, implementation, steps, size, bf16, options, bf16_states=False):
    """One optimizer with one set of options over `steps` steps."""
    random = np.random.default_rng(size + bf16)
    options = dict(options)
    scale = options.pop("grad_scale", None)
    chosen = {"fused": {"fused": True}, "foreach": {"foreach": True}, "loop": {"foreach": False, "fused": False}}
    p = values(random, size, bf16, 0.02)
    parameter = torch.nn.Parameter(on_device(p, bf16))
    optimizer = getattr(torch.optim, kind)([parameter], **chosen[implementation], **options)
    if scale is not None:
        optimizer.grad_scale, optimizer.found_inf = (torch.tensor(float(x), device="cuda") for x in (scale, 0))
    names = {"SGD": ["momentum_buffer"] if options.get("momentum") else [], "Adagrad": ["sum"]}.get(
        kind, ["exp_avg", "exp_avg_sq"] + (["max_exp_avg_sq"] if options.get("amsgrad") else []))
    states = [None if kind == "SGD" else np.zeros(size, np.float32) for _ in names]
    if bf16_states:
        optimizer.state[parameter] = {name: torch.zeros(size, dtype=torch.bfloat16, device="cuda") for name in names}
        optimizer.state[parameter]["step"] = torch.zeros((), device="cuda")
    tally = Tally()
    for step in range(1, steps + 1):
        g = values(random, size, bf16, 0.01 * (scale or 1))
        parameter.grad = on_device(g, bf16)
        optimizer.step()
        expected = expect(kind, implementation, p, g, states, step, options, scale, bf16, bf16_states)
        p = tally.compare("parameter", step, from_device(parameter), expected[0])
        states = [tally.compare(name, step, from_device(optimizer.state[parameter][name]), each)
                  for name, each in zip(names, expected[1])]
        if scale is not None:
            tally.compare("gradient", step, from_device(parameter.grad), expected[2])
    return tally


PIECE = 1 << 15  # a multiple of what a block of the fused kernels does at a time
POOL = concurrent.futures.ThreadPoolExecutor(os.cpu_count())


def in_pieces(function, *arrays):
    """function of the arrays, piece by piece, so that it runs in caches and on all cores."""
    def piece(start):
        return function(*(None if x is None else x[start:start + PIECE] for x in arrays))

    pieces = list(POOL.map(piece, range(0, arrays[0].size, PIECE)))
    return [None if each[0] is None else np.concatenate(each) for each in zip(*pieces)]


def expect(kind, implementation, p, g, states, step, options, scale, bf16, bf16_states):
    """The parameter, the states and the gradient after a step."""
    options = dict(options, bf16=bf16)
    fused = implementation == "fused"
    if fused:
        options["grad_scale"] = scale
    if fused and kind != "Adagrad":
        options.update(capability=capability(), aligned=p.size % 4 == 0)
    if kind in ("Adam", "AdamW"):
        options["beta1"], options["beta2"] = options.pop("betas", (0.9, 0.999))
        options.update(decoupled=kind == "AdamW", eps=options.get("eps", 1e-8))
        options.setdefault("weight_decay", 0.01 if kind == "AdamW" else 0.0)
        if bf16_states:
            options["bf16_states"] = True
        function = getattr(reference, f"adam_{implementation}_cuda")
        amsgrad = options.pop("amsgrad", False)
        result = in_pieces(lambda p, g, m, v, vmax: function(p, g, m, v, step, vmax=vmax, **options),
                           p, g, *states[:2], states[2] if amsgrad else None)
    elif kind == "SGD":
        function = getattr(reference, f"sgd_{implementation}_cuda")
        result = in_pieces(lambda *arrays: function(*arrays, **options), p, g, states[0] if states else None)
    else:
        function = getattr(reference, f"adagrad_{implementation}_cuda")
        result = in_pieces(lambda *arrays: function(*arrays, step, **options), p, g, states[0])
    if fused:
        return result[0], result[2:], result[1]
    return result[0], result[1:], g


OPTIONS = {
    "Adam": [{"lr": 1e-3}, {"lr": 0.01, "weight_decay": 0.1}, {"lr": 0.01, "weight_decay": 0.1, "maximize": True},
             {"lr": 1e-3, "weight_decay": 0.01, "amsgrad": True, "betas": (0.5, 0.95)}],
    "AdamW": [{"lr": 1e-3}, {"lr": 0.02, "weight_decay": 0.3, "betas": (0.95, 0.99), "eps": 1e-6},
              {"lr": 1e-3, "weight_decay": 0.01, "amsgrad": True, "maximize": True}],
    "SGD": [{"lr": 0.1}, {"lr": 0.7, "weight_decay": 0.3, "maximize": True}, {"lr": 0.7, "momentum": 0.9},
            {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.01},
            {"lr": 0.7, "momentum": 0.9, "dampening": 0.3, "maximize": True},
            {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}],
    "Adagrad": [{"lr": 0.1}, {"lr": 0.1, "lr_decay": 0.01, "weight_decay": 0.1, "maximize": True}],
}


def cases(kind, implementation):
    """(bf16, options, states in bf16)"""
    for bf16 in (False, True):
        for options in OPTIONS[kind]:
            yield bf16, options, False
            if implementation == "fused":
                yield bf16, {**options, "grad_scale": 1100.0}, False
    if implementation == "fused" and kind in ("Adam", "AdamW") and release() >= (2, 13):
        for options in OPTIONS[kind]:
            yield False, options, True


def release():
    return tuple(int(x) for x in torch.__version__.split("+")[0].split(".")[:2])


def compare(kind, implementation, steps="20"):
    """All cases of one implementation of one optimizer."""
    if (kind, implementation) == ("Adagrad", "fused") and release() < (2, 13):
        return {"wrong": 0, "cases": {}, "refused": "no fused Adagrad on CUDA before PyTorch 2.13"}
    found = {}
    for bf16, options, bf16_states in cases(kind, implementation):
        for size in SIZES:
            count = int(steps) if size == SIZES[0] else min(3, int(steps))
            tally = try_out(kind, implementation, count, size, bf16, options, bf16_states)
            name = f"{'bf16' if bf16 else 'fp32'}{' bf16 states' if bf16_states else ''} {size} {options}"
            found[name] = [tally.wrong, tally.ulp, tally.nan_bits_wrong, tally.first]
            print(f"{kind} {implementation} {name}: {tally.wrong} differ by up to {tally.ulp} ulp, "
                  f"{tally.nan_bits_wrong} NaN in bits only; first {tally.first}", flush=True)
    return {"wrong": sum(each[0] for each in found.values()), "cases": found,
            "nan_bits_wrong": sum(each[2] for each in found.values())}


def powers():
    """How far off the approximate reciprocal in the GPU's powf is, for each beta, and whether it matters."""
    steps = np.arange(1, 100_001)
    result, wrong = {}, 0
    for beta in (0.9, 0.95, 0.8, 0.98, 0.99, 0.999, 0.9999):
        device = torch._foreach_pow(float(np.float32(beta)), [torch.from_numpy(steps.astype(np.float32)).cuda()])
        device = device[0].cpu().numpy()
        differ = {ulp: int((arithmetic.device_powf(beta, steps, ulp) != device).sum()) for ulp in (-1, 0, 1)}
        corrections = arithmetic.add(1, -device) != arithmetic.add(1, -arithmetic.device_powf(beta, steps))
        wrong += int(corrections.sum())
        result[str(beta)] = differ
    return {"wrong": wrong, "powers_that_differ_by_ulp_of_reciprocal": result}


def everything(steps="20"):
    started = time.monotonic()
    results = {"powers": powers()["wrong"]}
    for kind in OPTIONS:
        for implementation in ("fused", "foreach", "loop"):
            results[f"{kind} {implementation}"] = compare(kind, implementation, steps)["wrong"]
    return {"wrong": sum(results.values()), "seconds": round(time.monotonic() - started), "results": results,
            "torch": torch.__version__, "gpu": torch.cuda.get_device_name()}


if __name__ == "__main__":
    main(globals())
