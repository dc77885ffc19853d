"""What PyTorch's own allocator offers beside tensors, each beside memory that wants to be on the
device as well: pools, graphs and trees of them, history, limits."""

import contextlib
import ctypes
import gc
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile

if sys.argv[1].startswith("expandable"):  # which PyTorch reads when it is loaded
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"

from program import GIB, MIB, Others, digest, main
import torch
from torch import nn

torch.manual_seed(0)


def told(others, **values):
    return {"wrong": others.wrong(), "peak_bytes": torch.cuda.max_memory_allocated(), **values}


def layers(width=2048, count=6):
    return nn.Sequential(*[nn.Sequential(nn.Linear(width, width), nn.GELU())
                           for _ in range(count)]).cuda()


def captured(function, pool=None):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        function()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        result = function()
    return graph, result


def shared_pool():
    """Two graphs in one pool, the second of which reads what the first has made."""
    others, model = Others(1024), layers()
    x = torch.randn(2048, 2048, device="cuda")
    with torch.no_grad():
        first, middle = captured(lambda: model[:3](x))
        second, last = captured(lambda: model[3:](middle), first.pool())
    digests = []
    for i in range(4):
        x.fill_(0.1 * (i + 1))
        others.touch()
        first.replay()
        others.touch()
        second.replay()
        digests.append(digest([middle, last]))
    return told(others, digests=digests)


def graphed_callables():
    others, model = Others(1024), layers()
    x = torch.randn(1024, 2048, device="cuda", requires_grad=True)
    graphed = torch.cuda.make_graphed_callables(model, (x,))
    losses = []
    for _ in range(4):
        loss = graphed(x).square().mean()
        loss.backward()
        others.touch()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.sub_(0.1 * parameter.grad)
                parameter.grad = None
        losses.append(loss.item().hex())
    return told(others, losses=losses)


def trees():
    """Training by torch.compile with CUDA graphs, shapes that change, and what was captured."""
    from torch._dynamo.utils import counters
    from torch._inductor import cudagraph_trees

    others, model = Others(512), layers(1024, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    step = torch.compile(lambda x: model(x).square().mean(), mode="reduce-overhead")
    losses = []
    for i in range(12):
        torch.compiler.cudagraph_mark_step_begin()
        x = torch.full((512 if i % 4 < 3 else 768, 1024), 0.01 * (i + 1), device="cuda")
        loss = step(x)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item().hex())
        others.touch()
    manager = cudagraph_trees.get_container(0).tree_manager
    return told(others, losses=losses, graphs=manager.new_graph_id().id,
                skips=counters["inductor"]["cudagraph_skips"])


def static_cache():
    """Generation with a static cache, which transformers compiles into graphs by itself."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.backends.cuda.enable_cudnn_sdp(False)
    others = Others(512)
    config = LlamaConfig(hidden_size=512, intermediate_size=1024, num_hidden_layers=4,
                         num_attention_heads=8, num_key_value_heads=4, vocab_size=2000,
                         attn_implementation="sdpa")
    with torch.device("cuda"):
        model = LlamaForCausalLM(config).to(torch.bfloat16).eval()
    digests = []
    with torch.inference_mode():
        for length in (32, 48):
            prompt = torch.arange(4 * length, device="cuda").reshape(4, length) % 2000
            digests.append(digest(model.generate(prompt, max_new_tokens=24, do_sample=False,
                                                 cache_implementation="static", pad_token_id=0)))
            others.touch()
    return told(others, digests=digests)


def pools():
    others = Others(512)
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        mine = [torch.full((4 * MIB,), float(i), device="cuda") for i in range(16)]
    others.touch()
    for i, tensor in enumerate(mine):
        tensor.add_(i)
    inside = {segment["address"] for segment in pool.snapshot()}
    counted = sum(segment["allocated_size"] for segment in torch.cuda.memory_snapshot()
                  if segment["address"] in inside)
    others.touch()
    value = digest(mine)
    del mine, pool
    gc.collect()
    torch.cuda.empty_cache()
    return told(others, digest=value, bytes=counted, segments=len(inside))


def history():
    others = Others(512)
    torch.cuda.memory._record_memory_history(max_entries=1000)
    kept = [torch.full((MIB,), float(i), device="cuda") for i in range(20)]
    del kept[::2]
    others.touch()
    snapshot = torch.cuda.memory._snapshot()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "snapshot.pickle")
        torch.cuda.memory._dump_snapshot(str(path))
        dumped = pickle.loads(path.read_bytes())
    torch.cuda.memory._record_memory_history(enabled=None)
    actions = [entry["action"] for trace in snapshot["device_traces"] for entry in trace]
    asked = sum(block["requested_size"] for segment in dumped["segments"]
                for block in segment["blocks"] if block["state"] == "active_allocated")
    framed = sum(bool(entry["frames"]) for trace in snapshot["device_traces"] for entry in trace)
    return told(others, allocations=actions.count("alloc"), frees=actions.count("free_requested"),
                with_frames=framed > 0, asked_bytes=asked, digest=digest(kept))


def statistics():
    others = Others(256)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    kept = [torch.empty((i + 1) * MIB, dtype=torch.uint8, device="cuda") for i in range(40)]
    raw = torch.cuda.caching_allocator_alloc(5 * MIB)
    others.touch()
    stats = torch.cuda.memory_stats()
    # Blocks are rounded, and a rest of up to a MiB stays with a block: which, depends on what segments there are.
    added = (torch.cuda.memory_allocated() - before) // (64 * MIB)
    torch.cuda.caching_allocator_delete(raw)
    summary = torch.cuda.memory_summary()
    values = {"keys": len(stats), "added": added,
              "asked": stats["requested_bytes.all.current"],
              "active": stats["active_bytes.all.current"] - stats["allocated_bytes.all.current"],
              "retries": stats["num_alloc_retries"], "summary": "Requested memory" in summary}
    del kept
    torch.cuda.empty_cache()
    return told(others, **values)


def limits():
    """A fraction of the card, and who looks for the largest batch by trying."""
    others = Others(256)
    total = torch.cuda.mem_get_info()[1]
    torch.cuda.set_per_process_memory_fraction(768 * MIB / total)
    most, words = 0, ""
    with contextlib.suppress(torch.OutOfMemoryError):
        for mib in (32, 64, 128, 256, 1024):
            try:
                torch.empty(mib * MIB, dtype=torch.uint8, device="cuda").fill_(1)
                most = mib
            except torch.OutOfMemoryError as error:
                words = str(error).split(".")[0]
                raise
    torch.cuda.set_per_process_memory_fraction(1.0)
    others.touch()
    return told(others, most=most, out_of_memory=words)


def divided():
    """Segments that were divided while there was room; then more is asked for than there is."""
    wide = [torch.empty(80 * MIB, dtype=torch.uint8, device="cuda") for _ in range(2)]
    del wide
    # Each the first half of a segment, of which the second is free.
    halves = [torch.full((40 * MIB,), 7 + i, dtype=torch.uint8, device="cuda") for i in range(2)]
    others = Others(768)
    refused = 0
    for _ in range(3):
        others.touch()
        try:
            torch.empty(8192 << 30, dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError:
            refused += 1
        more = torch.full((64 * MIB,), 3, dtype=torch.uint8, device="cuda")
        others.touch()
        del more
    seconds = [torch.full((40 * MIB,), 17 + i, dtype=torch.uint8, device="cuda") for i in range(2)]
    wrong = sum(int((it != 7 + i).sum()) for i, it in enumerate(halves))
    wrong += sum(int((it != 17 + i).sum()) for i, it in enumerate(seconds))
    return told(others, refused=refused, wrong_halves=wrong)


def segments_are_expandable():
    return sorted({segment["is_expandable"] for segment in torch.cuda.memory_snapshot()})


def expandable():
    """Tensors of many sizes lie side by side, die, and others come where they were."""
    others, model = Others(1024), layers()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for i in range(9):
        x = torch.randn(512 * (1 + i % 3) + 40 * i, 2048, device="cuda")
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item().hex())
        others.touch()
        if i % 4 == 3:
            del x, loss
            torch.cuda.empty_cache()
    return told(others, losses=losses, digest=digest(list(model.parameters())),
                expandable=segments_are_expandable())


def expandable_graph():
    """What a graph uses died while it was captured."""
    others, model = Others(256), layers(1024, 4)
    x = torch.randn(1024, 1024, device="cuda")
    with torch.no_grad():
        graph, result = captured(lambda: model(x))
    digests = []
    for i in range(3):
        x.fill_(0.1 * (i + 1))
        others.touch()
        graph.replay()
        others.touch()
        digests.append(digest(result))
    return told(others, digests=digests, expandable=segments_are_expandable())


ALLOCATOR = """
#include <cuda_runtime_api.h>
#include <sys/types.h>
extern "C" void* make(ssize_t bytes, int, cudaStream_t) {
  void* made = nullptr;
  return cudaMalloc(&made, bytes) == cudaSuccess ? made : nullptr;
}
extern "C" void give_back(void* made, ssize_t, int, cudaStream_t) { cudaFree(made); }
"""


def pluggable():
    """An allocator of the script's own, for everything."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = pathlib.Path(folder, "own.cu"), pathlib.Path(folder, "own.so")
        source.write_text(ALLOCATOR)
        subprocess.run(["nvcc", "-shared", "-Xcompiler", "-fPIC", "-cudart", "shared", "-o", library,
                        source], check=True)
        own = torch.cuda.memory.CUDAPluggableAllocator(str(library), "make", "give_back")
        torch.cuda.memory.change_current_allocator(own)
        others = Others(512)
        x = torch.randn(2048, 2048, device="cuda", generator=torch.Generator("cuda").manual_seed(1))
        for _ in range(3):
            x = torch.tanh(x @ x)
            others.touch()
        return {"wrong": others.wrong(), "peak_bytes": 640 * MIB, "digest": digest(x)}


if __name__ == "__main__":
    main(globals())
