#!/usr/bin/env python3
"""Answers requests of several lengths with a transformer: no gradients, no optimizer."""

import argparse
import random
import time

import torch
from torch import nn

WORDS, WIDTH, BATCH = 4000, 512, 8


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=25)
    options = parser.parse_args()
    torch.manual_seed(1)
    lengths = random.Random(1)
    layer = nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, batch_first=True)
    model = nn.Sequential(nn.Embedding(WORDS, WIDTH),
                          nn.TransformerEncoder(layer, 6, enable_nested_tensor=False),
                          nn.Linear(WIDTH, WORDS)).eval()
    begin = time.monotonic()
    with torch.inference_mode():
        for request in range(options.requests):
            words = torch.randint(WORDS, (BATCH, lengths.choice([64, 128, 192, 256])))
            best = model(words).log_softmax(-1).max(-1).values.sum().item()
            print(f"request {request} {words.shape[1]} {best.hex()}", flush=True)
    print(f"took {time.monotonic() - begin:.3f} s")


if __name__ == "__main__":
    main()
