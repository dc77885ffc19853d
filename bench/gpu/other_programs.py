#!/usr/bin/env python3
"""Programs that are no training loop of one shape, as PyTorch runs them and under Spillway: texts
are generated with caches that grow, convolutions are tried (cudnn.benchmark), evaluations and other
shapes come between, three threads train at once. For each of a program's parts its times, what it
has in use at the highest and what the device has of it; docs/benchmarks.md says how to read them.

With a budget that holds all of it nothing should differ."""

import argparse
import hashlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import threading
import time

GIB = 1 << 30


def device_gib():
    """As the driver tells of all processes; None without nvidia-smi."""
    command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
        return int(told.stdout.split()[0]) / 1024
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return None


def timed(step, count):
    ms = []
    for i in range(count):
        begin = time.monotonic()
        step(i)
        torch.cuda.synchronize()
        ms.append(1e3 * (time.monotonic() - begin))
    return ms


def tell(part, ms, result=""):
    print(json.dumps({"part": part, "ms": ms, "result": result, "device_gib": device_gib(),
                      "peak_gib": torch.cuda.max_memory_allocated() / GIB}), flush=True)


def transformer(width, layers):
    """Token embeddings and blocks that can keep what they attend to."""
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.heads = width // 64
            self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                                     nn.Linear(4 * width, width))

        def forward(self, x, cache=None):
            batch, length, _ = x.shape
            shape = (batch, length, 3, self.heads, 64)
            q, k, v = self.qkv(self.norm(x)).view(shape).permute(2, 0, 3, 1, 4)
            if cache is not None:
                if cache:
                    k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
                cache[:] = [k, v]
            y = F.scaled_dot_product_attention(q, k, v, is_causal=length > 1)
            x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
            return x + self.mlp(self.norm2(x))

    with torch.device("cuda"):
        return nn.Embedding(32000, width), nn.ModuleList(Block() for _ in range(layers))


def generate():
    words, blocks = (part.bfloat16() for part in transformer(2048, 24))
    with torch.no_grad():
        for prompt in (64, 96, 128):
            caches = [[] for _ in blocks]
            made = [torch.randint(32000, (64, prompt), device="cuda")]

            def token(_):
                x = words(made[-1])
                for block, cache in zip(blocks, caches):
                    x = block(x, cache)
                made.append((x[:, -1] @ words.weight.T).argmax(-1, keepdim=True))

            ms = timed(token, 220)
            tokens = torch.cat(made, 1).cpu().numpy().tobytes()
            tell(f"prompt {prompt}", ms[1:], hashlib.sha256(tokens).hexdigest()[:8])


def convolutions():
    import torchvision
    torch.backends.cudnn.benchmark = True
    with torch.device("cuda"):
        model = torchvision.models.resnet50()
    model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)

    def images(batch, width):
        some = torch.randn(batch, 3, width, width, device="cuda")
        return some.to(memory_format=torch.channels_last)

    def train(_, width=224):
        labels = torch.randint(1000, (128,), device="cuda")
        with torch.autocast("cuda", torch.bfloat16):
            loss = F.cross_entropy(model(images(128, width)), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    def evaluate(_):
        with torch.no_grad():
            model(images(256, 256))

    tell("train", timed(train, 40)[5:])
    model.eval()
    tell("evaluate", timed(evaluate, 20)[2:])
    model.train()
    tell("train again", timed(train, 30))
    tell("four widths", timed(lambda i: train(i, 160 + 32 * (i % 4)), 40))


def evaluations():
    words, blocks = transformer(1024, 16)
    optimizer = torch.optim.AdamW([*words.parameters(), *blocks.parameters()], 1e-4)

    def loss_of(batch, length, full):
        text = torch.randint(32000, (batch, length), device="cuda")
        with torch.autocast("cuda", torch.bfloat16):
            x = words(text)
            for block in blocks:
                x = block(x)
            guesses = x @ words.weight.T
            guesses = guesses.float() if full else guesses
            return F.cross_entropy(guesses.view(-1, 32000), text.view(-1))

    def train(_, length=512):
        loss_of(8, length, False).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    def evaluate(_):
        with torch.no_grad():
            loss_of(32, 512, True)

    def emptied(i):
        train(i)
        if i % 10 == 9:
            torch.cuda.empty_cache()

    for i in range(3):
        tell(f"train {i + 1}", timed(train, 25))
        tell(f"evaluate {i + 1}", timed(evaluate, 8))
    tell("empty_cache", timed(emptied, 30))
    tell("13 lengths", timed(lambda i: train(i, 64 * (1 + 5 * i % 13)), 60))


def threads():
    ms = [[] for _ in range(3)]

    def work(which):
        width = 1024 + 256 * which
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            with torch.device("cuda"):
                layers = nn.ModuleList(nn.Linear(width, width) for _ in range(12))
            optimizer = torch.optim.Adam(layers.parameters())
            for i in range(150):
                begin = time.monotonic()
                x = torch.randn(512 + 64 * (i % (which + 1)), width, device="cuda")
                for layer in layers:
                    x = torch.relu(layer(x))
                x.square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
                stream.synchronize()
                ms[which].append(1e3 * (time.monotonic() - begin))

    working = [threading.Thread(target=work, args=(which,)) for which in range(3)]
    for thread in working:
        thread.start()
    for thread in working:
        thread.join()
    for which in range(3):
        tell(f"thread {which + 1}", ms[which])


PROGRAMS = {"generate": generate, "convolutions": convolutions, "evaluations": evaluations,
            "threads": threads}


def run(program, command, limit_s):
    """Its parts, by name; the last line of what it said if it failed."""
    try:
        ended = subprocess.run([*command, sys.executable, __file__, "--only", program],
                               capture_output=True, text=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired:
        return {}, f"did not end within {limit_s} s"
    except OSError as error:
        return {}, str(error)
    parts = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
    failed = "" if ended.returncode == 0 else (ended.stderr.strip().splitlines() or ["?"])[-1]
    return {part["part"]: part for part in parts}, failed


def row(program, name, plain, ours):
    third = max(1, len(plain["ms"]) // 3)
    at_rest = [statistics.median(part["ms"][-third:]) for part in (plain, ours)]
    device = [f"{part['device_gib']:.1f}" if part["device_gib"] is not None else "?"
              for part in (plain, ours)]
    same = "" if plain["result"] == ours["result"] else "  DIFFERS"
    ratio = at_rest[1] / at_rest[0]
    return (f"{program:13} {name:12} {at_rest[0]:9.2f} {at_rest[1]:9.2f} {ratio:6.3f}"
            f" {statistics.mean(plain['ms']):9.2f} {statistics.mean(ours['ms']):9.2f}"
            f" {plain['peak_gib']:6.1f} {ours['peak_gib']:6.1f}"
            f" {device[0]:>7} {device[1]:>7}{same}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spillway", default="spillway", help="the program to run them under")
    parser.add_argument("--device-memory", default="66GiB")
    parser.add_argument("--host-memory", default="8GiB")
    parser.add_argument("--programs", default=",".join(PROGRAMS),
                        help="of these, separated by commas")
    parser.add_argument("--limit", type=float, default=120, help="seconds for one run")
    parser.add_argument("--only", choices=PROGRAMS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        torch.manual_seed(0)
        PROGRAMS[options.only]()
        return 0
    programs = options.programs.split(",")
    if unknown := [name for name in programs if name not in PROGRAMS]:
        parser.error(f"no such program: {', '.join(unknown)}; there are {', '.join(PROGRAMS)}")
    os.environ.setdefault("SPILLWAY_MODULE_NAMES", "0")
    under = [options.spillway, "run", "--device", "cuda", "--device-memory", options.device_memory,
             "--host-memory", options.host_memory, "--"]
    print(f"{'':26} {'ms, the last third':^26} {'ms, mean':^19} {'in use, GiB':^13}"
          f" {'device, GiB':^15}")
    print(f"{'program':13} {'part':12} {'plain':>9} {'spillway':>9} {'ratio':>6} {'plain':>9}"
          f" {'spillway':>9} {'plain':>6} {'ours':>6} {'plain':>7} {'ours':>7}", flush=True)
    failed = False
    for program in programs:
        plain, why = run(program, [], options.limit)
        ours, why_ours = run(program, under, options.limit)
        for name in plain:
            if name in ours:
                print(row(program, name, plain[name], ours[name]), flush=True)
                failed = failed or plain[name]["result"] != ours[name]["result"]
        for what, reason in (("plain", why), ("spillway", why_ours)):
            if reason:
                failed = True
                print(f"{program:13} {what}: {reason}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    if "--only" in sys.argv:  # who compares them needs no PyTorch
        import torch
        import torch.nn.functional as F
        from torch import nn
    sys.exit(main())
