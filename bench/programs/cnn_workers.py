#!/usr/bin/env python3
"""Trains a small CNN on images that DataLoader workers make, and evaluates it after each epoch."""

import argparse
import time

import numpy
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

CLASSES = 10


class Stripes(Dataset):
    """Noise with stripes; the class is their direction."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        random = numpy.random.default_rng(index)
        label = index % CLASSES
        angle = numpy.pi * label / CLASSES
        row, column = numpy.mgrid[0:64, 0:64]
        stripes = numpy.sin((row * numpy.cos(angle) + column * numpy.sin(angle)) / 3)
        image = stripes + random.normal(size=(3, 64, 64))
        return torch.from_numpy(image.astype(numpy.float32)), label


def block(inputs, outputs):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs),
                         nn.ReLU(), nn.MaxPool2d(2))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    torch.manual_seed(1)
    model = nn.Sequential(block(3, 32), block(32, 64), block(64, 128), nn.Flatten(),
                          nn.Linear(128 * 8 * 8, CLASSES))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images = DataLoader(Stripes(480), batch_size=64, shuffle=True, num_workers=options.workers)
    unseen = DataLoader(Stripes(160), batch_size=80, num_workers=options.workers)
    begin = time.monotonic()
    for epoch in range(options.epochs):
        model.train()
        for image, label in images:
            loss = nn.functional.cross_entropy(model(image), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            right = sum((model(image).argmax(1) == label).sum().item() for image, label in unseen)
        print(f"epoch {epoch} loss {loss.item().hex()} right {right}", flush=True)
    print(f"took {time.monotonic() - begin:.3f} s")


if __name__ == "__main__":
    main()
