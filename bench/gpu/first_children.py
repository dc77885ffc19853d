#!/usr/bin/env python3
"""What first_programs.py runs, each in a process of its own: plain PyTorch that knows nothing of
Spillway. `first_children.py NAME [ARGUMENTS]` prints a JSON object as its last line, or fails."""

import contextlib
import faulthandler
import hashlib
import json
import os
import sys
import tempfile
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

MIB = 1 << 20


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


def training(steps, autocast=False, fused=True, checkpointing=False, batch=8, length=512):
    """Losses of some steps on random tokens, and the model."""
    torch.manual_seed(1)
    model = Gpt().cuda()
    model.checkpointing = checkpointing
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=fused)
    numbers = torch.Generator().manual_seed(2)
    losses = []
    for _ in range(steps):
        tokens = torch.randint(model.vocabulary, (batch, length), generator=numbers).cuda()
        with torch.autocast("cuda", torch.bfloat16) if autocast else contextlib.nullcontext():
            logits = model(tokens[:, :-1])
            loss = functional.cross_entropy(logits.reshape(-1, model.vocabulary),
                                            tokens[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return [loss.item() for loss in losses], model


def digest(model):
    whole = hashlib.sha256()
    for value in model.state_dict().values():
        whole.update(value.cpu().numpy().tobytes())
    return whole.hexdigest()[:16]


def trained(steps, **options):
    torch.use_deterministic_algorithms(True)
    begin = time.monotonic()
    losses, model = training(steps, **options)
    torch.cuda.synchronize()
    seconds = time.monotonic() - begin
    return {"losses": [loss.hex() for loss in losses], "hash": digest(model), "seconds": seconds,
            "peak_bytes": torch.cuda.max_memory_allocated()}


def tensors(count="40", mib="64"):
    """Patterns in many tensors, written and read in turn."""
    words = int(mib) * MIB // 8
    base = torch.arange(words, device="cuda", dtype=torch.int64)
    all_tensors = [base * 3 + i for i in range(int(count))]
    for step in range(3):
        for i, tensor in enumerate(all_tensors):
            tensor.add_(base, alpha=step + i)
    wrong = torch.zeros((), device="cuda", dtype=torch.int64)
    for i, tensor in enumerate(all_tensors):
        wrong += (tensor != base * (3 + 3 + 3 * i) + i).sum()
    return {"wrong": wrong.item()}


def losses():
    return trained(10)


def autocast():
    return trained(5, autocast=True, fused=False)


def checkpointing():
    import torch.utils.checkpoint  # noqa: F401

    return trained(5, checkpointing=True)


def memory(budget_bytes):
    """What torch.cuda.memory_* say. It allocates until there is no more: never without a budget."""
    budget = int(budget_bytes)
    cuda = torch.cuda
    free, total = cuda.mem_get_info()
    assert budget - 64 * MIB <= free <= budget <= total, ("free", free, total, budget)
    before = cuda.memory_allocated()
    x = torch.empty(100 * MIB, dtype=torch.uint8, device="cuda")
    assert cuda.memory_allocated() - before == 100 * MIB, cuda.memory_allocated()
    y = torch.empty(300 * MIB, dtype=torch.uint8, device="cuda")
    del y
    assert cuda.max_memory_allocated() - before >= 400 * MIB, cuda.max_memory_allocated()
    assert cuda.memory_reserved() >= cuda.memory_allocated()
    cuda.reset_peak_memory_stats()
    assert cuda.max_memory_allocated() - before == 100 * MIB, cuda.max_memory_allocated()
    stats = cuda.memory_stats()
    assert stats["allocated_bytes.all.current"] == cuda.memory_allocated(), "memory_stats"
    cuda.empty_cache()
    free_after, _ = cuda.mem_get_info()
    assert free - free_after >= 100 * MIB, (free, free_after)
    kept = []
    try:
        while len(kept) < 10000:
            kept.append(torch.empty(1024 * MIB, dtype=torch.uint8, device="cuda"))
        raise AssertionError("no end of memory")
    except torch.OutOfMemoryError as error:
        text = str(error).splitlines()[0]
    gigabytes = len(kept)
    kept.clear()
    cuda.set_per_process_memory_fraction(budget / 2 / total)  # of the card
    try:
        torch.empty(int(budget * 0.6), dtype=torch.uint8, device="cuda")
        raise AssertionError("a fraction that is not kept")
    except torch.OutOfMemoryError:
        pass
    x.fill_(7)
    assert int(x.sum().item()) == 7 * 100 * MIB
    return {"gibibytes_before_out_of_memory": gigabytes, "error": text}


def graphs():
    """A captured forward and backward, replayed beside other memory."""
    torch.manual_seed(1)
    layers = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(6)]).cuda()
    x = torch.randn(4096, 2048, device="cuda")
    others = [torch.full((32 * MIB // 4,), float(i), device="cuda") for i in range(24)]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            layers(x).square().mean().backward()
    torch.cuda.current_stream().wait_stream(side)
    layers.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = layers(x).square().mean()
        loss.backward()
    wrong = 0
    for step in range(5):
        new = torch.randn(4096, 2048, device="cuda")
        x.copy_(new)
        graph.replay()
        expected = layers(new).square().mean()
        wrong += 0 if torch.allclose(expected, loss, rtol=1e-5) else 1
        del expected
        for i, other in enumerate(others):
            wrong += 0 if bool((other == float(i)).all()) else 1
    return {"wrong": wrong}


def streams():
    """Work on side streams, with record_stream and frees in flight."""
    side = [torch.cuda.Stream() for _ in range(3)]
    parts = [torch.full((16 * MIB,), float(i), device="cuda") for i in range(24)]
    torch.cuda.synchronize()
    sums = []
    for round_ in range(4):
        for i, part in enumerate(parts):
            stream = side[i % 3]
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                temporary = part * 2
                sums.append((temporary.sum(), 2.0 * i * part.numel()))
            temporary.record_stream(torch.cuda.current_stream())
            temporary.add_(0)
            del temporary
    torch.cuda.synchronize()
    return {"wrong": sum(abs(value.item() - expected) > 1e-3 * expected for value, expected in sums)}


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.full((1 * MIB,), float(index))


def loader():
    """Workers, pinned memory, copies that do not wait."""
    kept, wrong = [], 0
    data = torch.utils.data.DataLoader(Numbers(), batch_size=4, num_workers=2, pin_memory=True)
    for number, batch in enumerate(data):
        kept.append(batch.cuda(non_blocking=True) * 2)
        assert batch.is_pinned()
        expected = torch.arange(4 * number, 4 * number + 4, device="cuda")[:, None] * 2.0
        wrong += int((kept[-1] != expected).sum().item())
    for number, batch in enumerate(kept):
        expected = torch.arange(4 * number, 4 * number + 4, device="cuda")[:, None] * 2.0
        wrong += int((batch != expected).sum().item())
    return {"wrong": wrong}


def save():
    """torch.save and torch.load of what lies all over the tiers."""
    _, model = training(2)
    with tempfile.NamedTemporaryFile() as file:
        torch.save(model.state_dict(), file.name)
        read = torch.load(file.name, map_location="cuda")
    same = [torch.equal(read[name], value) for name, value in model.state_dict().items()]
    return {"wrong": same.count(False)}


def convolutions():
    """cudnn.benchmark asks for all memory that is free, just to see."""
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True
    layers = nn.Sequential(*[nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.BatchNorm2d(64),
                                           nn.ReLU()) for _ in range(8)]).cuda()
    x = torch.randn(64, 64, 112, 112, device="cuda")
    for _ in range(3):
        loss = layers(x).square().mean()
        loss.backward()
    return {"loss": loss.item(), "wrong": 0 if loss.item() == loss.item() else 1}


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


def lists():
    """Batches of matrices by pointer arrays, and foreach kernels."""
    a = torch.randn(32, 256, 256, device="cuda", dtype=torch.float64)
    others = [torch.full((32 * MIB // 4,), float(i), device="cuda") for i in range(24)]
    l, u = torch.linalg.lu_factor(a)
    solution = torch.linalg.lu_solve(l, u, a)
    eye = torch.eye(256, device="cuda", dtype=torch.float64)
    wrong = 0 if bool((solution - eye).abs().max() < 1e-6) else 1
    torch._foreach_add_(others, 1.0)
    wrong += sum(0 if bool((other == i + 1.0).all()) else 1 for i, other in enumerate(others))
    return {"wrong": wrong}


def serve(rounds="6"):
    """Step times on demand: a line in, milliseconds out."""
    torch.manual_seed(1)
    model = Gpt(layers=12, vocabulary=16384).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    tokens = torch.randint(model.vocabulary, (8, 513), device="cuda")

    def step():
        with torch.autocast("cuda", torch.bfloat16):
            logits = model(tokens[:, :-1])
            loss = functional.cross_entropy(logits.reshape(-1, model.vocabulary),
                                            tokens[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(5):
        step()
    torch.cuda.synchronize()
    print("ready", flush=True)
    for _ in range(int(rounds)):
        sys.stdin.readline()
        begin = time.monotonic()
        for _ in range(20):
            step()
        torch.cuda.synchronize()
        print((time.monotonic() - begin) * 50, flush=True)
    return {"peak_bytes": torch.cuda.max_memory_allocated()}


def main():
    faulthandler.enable()
    if seconds := os.environ.get("FIRST_PROGRAMS_STACKS_AFTER"):
        faulthandler.dump_traceback_later(float(seconds))
    print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])), flush=True)


if __name__ == "__main__":
    main()
