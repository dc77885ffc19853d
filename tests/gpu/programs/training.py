#!/usr/bin/env python3
"""A small GPT in training: losses and parameters, to the bit. See program.py."""

import contextlib
import tempfile
import time

from program import MIB, digest, main
import torch
import torch.utils.checkpoint
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (part.reshape(shape).transpose(1, 2)
                   for part in self.qkv(self.first(x)).split(width, dim=2))
        scores = q @ k.transpose(-2, -1) / (width // self.heads) ** 0.5
        mask = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        attention = scores.masked_fill(mask, float("-inf")).softmax(-1) @ v
        x = x + self.out(attention.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.second(x))))


class Gpt(nn.Module):
    def __init__(self, layers=8, width=768, heads=12, vocabulary=8192, length=512):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.vocabulary, self.checkpointing = vocabulary, False

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = (torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
                 if self.checkpointing else block(x))
        return self.head(self.norm(x))


def training(steps, autocast=False, fused=True, checkpointing=False, batch=8, lengths=(512,)):
    """Losses of some steps on random tokens, and the model."""
    torch.manual_seed(1)
    model = Gpt().cuda()
    model.checkpointing = checkpointing
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=fused)
    numbers = torch.Generator().manual_seed(2)
    losses = []
    for step in range(steps):
        shape = (batch, lengths[step % len(lengths)])
        tokens = torch.randint(model.vocabulary, shape, generator=numbers).cuda()
        with torch.autocast("cuda", torch.bfloat16) if autocast else contextlib.nullcontext():
            logits = model(tokens[:, :-1])
            loss = functional.cross_entropy(logits.reshape(-1, model.vocabulary),
                                            tokens[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return [loss.item() for loss in losses], model


def trained(steps, **options):
    torch.use_deterministic_algorithms(True)
    begin = time.monotonic()
    losses, model = training(steps, **options)
    torch.cuda.synchronize()
    return {"losses": [loss.hex() for loss in losses], "digest": digest(model.state_dict()),
            "seconds": time.monotonic() - begin, "peak_bytes": torch.cuda.max_memory_allocated()}


def losses():
    return trained(10)


def lengths():
    return trained(10, lengths=(512, 130, 300, 77))


def autocast():
    return trained(5, autocast=True, fused=False)


def checkpointing():
    return trained(5, checkpointing=True)


def save():
    """torch.save and torch.load of what lies all over the tiers."""
    _, model = training(2)
    with tempfile.NamedTemporaryFile() as file:
        torch.save(model.state_dict(), file.name)
        read = torch.load(file.name, map_location="cuda")
    same = [torch.equal(read[name], value) for name, value in model.state_dict().items()]
    return {"wrong": same.count(False)}


def compiled():
    """torch.compile, and with CUDA graphs."""
    torch.manual_seed(1)
    wrong = 0
    for mode in ("default", "reduce-overhead"):
        model = Gpt(layers=2).cuda()
        tokens = torch.randint(model.vocabulary, (4, 256), device="cuda")
        expected = model(tokens)
        fast = torch.compile(model, mode=mode)
        for _ in range(4):
            got = fast(tokens)
            wrong += 0 if torch.allclose(got, expected, rtol=2e-2, atol=2e-2) else 1
    return {"wrong": wrong}


def threads():
    """Three threads, each with a model, a stream and shapes of its own."""
    import threading

    torch.use_deterministic_algorithms(True)
    results = [None] * 3

    def train(number):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            numbers = torch.Generator().manual_seed(number)
            weights = [torch.randn(1024, 1024, generator=numbers).cuda().requires_grad_()
                       for _ in range(24)]
            optimizer = torch.optim.SGD(weights, lr=1e-3, momentum=0.9)
            losses = []
            for step in range(12):
                x = torch.randn(256 + 64 * ((step + number) % 5), 1024, generator=numbers).cuda()
                for weight in weights:
                    x = torch.tanh(x @ weight)
                loss = x.square().mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                losses.append(loss.item().hex())
            results[number] = (losses, digest(weights))
        stream.synchronize()

    all_threads = [threading.Thread(target=train, args=(i,)) for i in range(3)]
    for thread in all_threads:
        thread.start()
    for thread in all_threads:
        thread.join()
    return {"results": results, "peak_bytes": torch.cuda.max_memory_allocated(), "mib": MIB}


if __name__ == "__main__":
    main(globals())
