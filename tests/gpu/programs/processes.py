#!/usr/bin/env python3
"""Several devices and several processes: NCCL, data parallel and sharded training, copies between
peers, memory that is handed to another process. See program.py."""

import json
import os
import subprocess
import sys
import tempfile
import time

from program import MIB, Others, digest, main
import torch
import torch.distributed as dist
from torch import nn


def ranks(name, count):
    """Runs a function of this file in one process for each device; what the first one says, and how
    much was wrong in all of them."""
    with tempfile.TemporaryDirectory() as folder:
        children = [subprocess.Popen(
            [sys.executable, __file__, "rank", name, str(rank), str(count), f"{folder}/meet"],
            stdout=subprocess.PIPE, text=True) for rank in range(count)]
        while None in [child.poll() for child in children]:
            if any(child.poll() for child in children):  # the others would wait for it for ever
                for child in children:
                    child.kill()
            time.sleep(0.1)
        printed = [child.communicate()[0] for child in children]
    assert all(child.returncode == 0 for child in children), [c.returncode for c in children]
    found = [json.loads(text.splitlines()[-1]) for text in printed]
    return {**found[0], "wrong": sum(each.get("wrong", 0) for each in found)}


def rank(name, number, count, meet):
    torch.cuda.set_device(int(number))
    dist.init_process_group("nccl", init_method=f"file://{meet}", rank=int(number),
                            world_size=int(count), device_id=torch.device("cuda", int(number)))
    try:
        return globals()[name](int(number), int(count))
    finally:
        dist.barrier()
        dist.destroy_process_group()


def of_each_kind(number, count):
    """Every collective, after what it uses has had to leave."""
    words = 8 * MIB
    x = torch.full((words,), float(number + 1), device="cuda")
    parts = [torch.zeros(words, device="cuda") for _ in range(count)]
    whole = torch.zeros(count * words, device="cuda")
    others = Others(768)
    total = count * (count + 1) / 2
    wrong = 0

    def check(tensor, expected):
        nonlocal wrong
        others.touch()
        wrong += int((tensor != expected).sum())
        others.touch()

    for _ in range(2):
        y = x.clone()
        others.touch()
        dist.all_reduce(y)
        check(y, total)
        dist.broadcast(y.fill_(number + 5.0), 0)
        check(y, 5.0)
        dist.all_gather(parts, x)
        for i, part in enumerate(parts):
            check(part, i + 1.0)
        dist.all_gather_into_tensor(whole, x)
        for i, part in enumerate(whole.split(words)):
            check(part, i + 1.0)
        dist.reduce_scatter_tensor(y, whole)
        check(y, (number + 1.0) * count)
        received = torch.empty_like(whole)
        dist.all_to_all_single(received, whole.fill_(number + 1.0))
        for i, part in enumerate(received.split(words)):
            check(part, i + 1.0)
        for operation in dist.batch_isend_irecv([
                dist.P2POp(dist.isend, x, (number + 1) % count),
                dist.P2POp(dist.irecv, y, (number - 1) % count)]):
            operation.wait()
        check(y, (number - 1) % count + 1.0)
        many = [torch.full((1000 + 37 * i,), float(number), device="cuda") for i in range(60)]
        others.touch()
        with dist._coalescing_manager(device=x.device, async_ops=True) as manager:
            for each in many:
                dist.all_reduce(each)
        manager.wait()
        for each in many:
            wrong += int((each != total - count).sum())
    return {"wrong": wrong + others.wrong()}


def trained(number, wrap):
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(1)
    model = wrap(nn.Sequential(*[nn.Sequential(nn.Linear(2048, 2048), nn.GELU())
                                 for _ in range(16)]).cuda())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    numbers = torch.Generator().manual_seed(10 + number)
    losses = []
    for _ in range(8):
        x = torch.randn(2048, 2048, generator=numbers).cuda()
        loss = (model(x) - x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item().hex())
    return {"losses": losses, "peak_bytes": torch.cuda.max_memory_allocated(),
            "digest": digest([p.to_local() if hasattr(p, "to_local") else p
                              for p in model.parameters()])}


def in_parallel(number, _count):
    return trained(number, lambda model: nn.parallel.DistributedDataParallel(
        model, device_ids=[number]))


def in_shards(number, _count):
    from torch.distributed.fsdp import fully_shard

    def wrap(model):
        for layer in model:
            fully_shard(layer)
        return fully_shard(model)
    return trained(number, wrap)


def collectives(count="2"):
    return ranks("of_each_kind", int(count))


def parallel(count="2"):
    return ranks("in_parallel", int(count))


def sharded(count="2"):
    return ranks("in_shards", int(count))


def peers():
    """Copies between devices, and a model replicated over both."""
    torch.manual_seed(1)
    here = [torch.full((8 * MIB,), float(i), device="cuda:0") for i in range(30)]
    others = Others(256)
    there = []
    for tensor in here:
        there.append(tensor.to("cuda:1", non_blocking=True))
        others.touch()
    wrong = sum(int((tensor != float(i)).sum()) for i, tensor in enumerate(there))
    for tensor in there:
        tensor.add_(1.0)
    for i, tensor in enumerate(there):
        here[i].copy_(tensor, non_blocking=True)
        others.touch()
    wrong += sum(int((tensor != i + 1.0).sum()) for i, tensor in enumerate(here))
    model = nn.DataParallel(nn.Sequential(nn.Linear(1024, 1024), nn.Linear(1024, 8)).cuda())
    for _ in range(3):
        model(torch.randn(256, 1024, device="cuda")).square().mean().backward()
        others.touch()
    wrong += sum(0 if bool(p.grad.isfinite().all()) else 1 for p in model.parameters())
    return {"wrong": wrong + others.wrong()}


def squares(inbox, outbox):
    """Another process: changes what it is handed where it lies, and hands back memory of its own."""
    others = Others(256)
    while (given := inbox.get()) is not None:
        others.touch()
        given.add_(1.0)
        outbox.put((given * given, others.wrong()))
        del given


def handed_over():
    """Tensors for another process and of it, beside memory that is used in turn in both."""
    import torch.multiprocessing as multiprocessing

    context = multiprocessing.get_context("spawn")
    inbox, outbox = context.Queue(), context.Queue()
    child = context.Process(target=squares, args=(inbox, outbox))
    child.start()
    others = Others(512)
    wrong, seen = 0, []
    # All of a segment, a part of one, and one that is not contiguous.
    for count, of in [(16 * MIB, slice(None)), (1000, slice(100, 900)), (16 * MIB, slice(0, None, 2)),
                      (16 * MIB, slice(None))]:
        given = torch.arange(count, dtype=torch.float32, device="cuda")[of]
        others.touch()
        inbox.put(given)
        squared, wrong_there = outbox.get(timeout=120)
        torch.cuda.synchronize()
        seen.append(digest([given, squared]))
        wrong += wrong_there + int((squared != given * given).sum())
        del given, squared
        others.touch()
    inbox.put(None)
    child.join()
    return {"wrong": wrong + others.wrong(), "status": child.exitcode, "digest": digest(seen),
            "peak_bytes": torch.cuda.max_memory_allocated()}


if __name__ == "__main__":
    main(globals())
