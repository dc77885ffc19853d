#!/usr/bin/env python3
"""Trains an LSTM and a transformer on sequences of other lengths each step, as text is."""

import argparse
import random
import time

import torch
from torch import nn

WORDS, WIDTH = 2000, 256


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.LSTM(WIDTH, WIDTH, num_layers=1, batch_first=True)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, words):
        return self.head(self.layers(self.embedding(words))[0])


class Attending(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, words):
        return self.head(self.layers(self.embedding(words)))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=12)
    options = parser.parse_args()
    torch.manual_seed(1)
    lengths = random.Random(1)
    models = [Recurrent(), Attending()]
    optimizers = [torch.optim.AdamW(model.parameters(), lr=1e-3) for model in models]
    begin = time.monotonic()
    for step in range(options.steps):
        model, optimizer = models[step % 2], optimizers[step % 2]
        words = torch.randint(WORDS, (lengths.randint(4, 16), lengths.randint(60, 240)))
        scores = model(words[:, :-1])
        loss = nn.functional.cross_entropy(scores.reshape(-1, WORDS), words[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} {tuple(words.shape)} loss {loss.item().hex()}", flush=True)
    print(f"took {time.monotonic() - begin:.3f} s")


if __name__ == "__main__":
    main()
