#!/usr/bin/env python3
"""Patterns in memory, by streams, loaders, graphs and lists of pointers. See program.py."""

from program import MIB, Others, main
import torch
from torch import nn


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
    assert "Allocated memory" in cuda.memory_summary()
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
    gibibytes = len(kept)
    kept.clear()
    cuda.set_per_process_memory_fraction(budget / 2 / total)  # of the card
    try:
        torch.empty(int(budget * 0.6), dtype=torch.uint8, device="cuda")
        raise AssertionError("a fraction that is not kept")
    except torch.OutOfMemoryError:
        pass
    x.fill_(7)
    assert int(x.sum().item()) == 7 * 100 * MIB
    return {"wrong": 0, "gibibytes_before_out_of_memory": gibibytes, "error": text}


def graphs():
    """A captured forward and backward, replayed beside other memory."""
    torch.manual_seed(1)
    layers = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(6)]).cuda()
    x = torch.randn(4096, 2048, device="cuda")
    others = Others(768)
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
    for _ in range(5):
        new = torch.randn(4096, 2048, device="cuda")
        x.copy_(new)
        graph.replay()
        expected = layers(new).square().mean()
        wrong += 0 if torch.allclose(expected, loss, rtol=1e-5) else 1
        del expected
        wrong += others.wrong()
    return {"wrong": wrong}


def streams():
    """Work on side streams, with record_stream and frees in flight."""
    side = [torch.cuda.Stream() for _ in range(3)]
    parts = [torch.full((16 * MIB,), float(i), device="cuda") for i in range(24)]
    torch.cuda.synchronize()
    sums = []
    for _ in range(4):
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


def lists():
    """Batches of matrices by pointer arrays, and foreach kernels."""
    a = torch.randn(32, 256, 256, device="cuda", dtype=torch.float64)
    others = Others(768)
    lower, pivots = torch.linalg.lu_factor(a)
    solution = torch.linalg.lu_solve(lower, pivots, a)
    eye = torch.eye(256, device="cuda", dtype=torch.float64)
    wrong = 0 if bool((solution - eye).abs().max() < 1e-6) else 1
    torch._foreach_add_(others.tensors, 1.0)
    torch._foreach_sub_(others.tensors, 1.0)
    return {"wrong": wrong + others.wrong()}


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
    return {"wrong": 0 if loss.item() == loss.item() else 1}


if __name__ == "__main__":
    main(globals())
