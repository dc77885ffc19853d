#!/usr/bin/env python3
"""Trains a transformer on sequences of one length, with dropout and clipped gradients."""

import argparse
import time

import torch
from torch import nn

WORDS, WIDTH, LENGTH, BATCH = 1000, 384, 192, 8


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=8)
    options = parser.parse_args()
    torch.manual_seed(1)
    layer = nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, dropout=0.1, batch_first=True)
    model = nn.Sequential(nn.Embedding(WORDS, WIDTH),
                          nn.TransformerEncoder(layer, 3, enable_nested_tensor=False),
                          nn.Linear(WIDTH, WORDS))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    begin = time.monotonic()
    for step in range(options.steps):
        words = torch.randint(WORDS, (BATCH, LENGTH + 1))
        loss = nn.functional.cross_entropy(model(words[:, :-1]).reshape(-1, WORDS),
                                           words[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(f"step {step} loss {loss.item().hex()}", flush=True)
    print(f"took {time.monotonic() - begin:.3f} s")


if __name__ == "__main__":
    main()
