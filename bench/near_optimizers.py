#!/usr/bin/env python3
"""How long optimizers' steps of a GPT-2 take, PyTorch's own and Spillway's (spillway.near.optimize),
in turns in one process; and whether the losses are the same, to the last bit.

    bench/near_optimizers.py [--layers 6] [--width 512] [--context 128] [--steps 8] [--json FILE]

Needs torch, transformers, and libspillway_near.so (make build).
"""

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # who waits leaves the processor to who works

import torch  # noqa: E402
import transformers  # noqa: E402

import spillway  # noqa: E402

WAYS = {
    "AdamW, fused=True": (torch.optim.AdamW, {"fused": True}),
    "AdamW, default": (torch.optim.AdamW, {}),
    "SGD with momentum, default": (torch.optim.SGD, {"lr": 0.01, "momentum": 0.9}),
}


class Side:
    def __init__(self, config, kind, options, near):
        torch.manual_seed(1)
        self.model = transformers.GPT2LMHeadModel(config)
        self.optimizer = kind(self.model.parameters(), **options)
        if near:
            spillway.near.optimize(self.optimizer)
        self.seconds, self.losses = [], []

    def step(self, tokens):
        self.optimizer.zero_grad()
        loss = self.model(tokens, labels=tokens).loss
        loss.backward()
        start = time.perf_counter()
        self.optimizer.step()
        self.seconds.append(time.perf_counter() - start)
        self.losses.append(loss.item())


def measure(config, kind, options, steps):
    sides = [Side(config, kind, options, near) for near in (False, True)]
    generator = torch.Generator().manual_seed(2)
    for number in range(steps + 1):
        tokens = torch.randint(config.vocab_size, (1, config.n_positions), generator=generator)
        for side in sides if number % 2 else reversed(sides):
            side.step(tokens)
    # States are made in the first step.
    plain, near = (statistics.median(side.seconds[1:]) for side in sides)
    return {"parameters": sum(one.numel() for one in sides[0].model.parameters()),
            "plain_s": plain, "near_s": near, "same_losses": sides[0].losses == sides[1].losses,
            "said": str(sides[1].optimizer.spillway)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("layers", 6), ("width", 512), ("context", 128), ("steps", 8)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    config = transformers.GPT2Config(
        vocab_size=256, n_positions=chosen.context, n_embd=chosen.width, n_layer=chosen.layers, n_head=8,
        bos_token_id=0, eos_token_id=0, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    results = {name: measure(config, *way, chosen.steps) for name, way in WAYS.items()}
    for name, found in results.items():
        print(f"{name:27} plain {1e3 * found['plain_s']:8.1f} ms  near {1e3 * found['near_s']:8.1f} ms  "
              f"{found['plain_s'] / found['near_s']:5.2f} times  "
              f"{'same losses' if found['same_losses'] else 'OTHER LOSSES'}  {found['said']}")
    if chosen.json:
        chosen.json.write_text(json.dumps(
            {"torch": torch.__version__, "threads": torch.get_num_threads(), "results": results}))
    return 0 if all(found["same_losses"] for found in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
