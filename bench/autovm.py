#!/usr/bin/env python3
"""Compiled training steps under `spillway run` on the host, with AutoVM's pass and without it, by turns.

Trains a GPT-2 and a ResNet-50, compiled by inductor, with half of the peak of live bytes and the policy
`deepum`: once with backend "inductor", once with backend "spillway", and so on. Prints for both the median
of the steps' times behind the first three, with the range of the rounds' medians, the processor's time in a step, what
moved in a step, the losses' equality, and the machine's load meanwhile.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import training

WARM = 3


def step_program():
    """In the child: autovm.py --child NETWORK BACKEND STEPS."""
    network, backend, steps = sys.argv[2], sys.argv[3], int(sys.argv[4])
    sys.path.insert(0, str(training.ROOT / "python"))
    import spillway.autovm
    import torch

    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)  # else an embedding's gradient is summed up in any order
    torch.utils.deterministic.fill_uninitialized_memory = False
    module, inputs = {"gpt2": gpt2, "resnet50": resnet50}[network](torch)
    compiled = torch.compile(module, backend=backend)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
    times, losses, moved, processor_s = [], [], [], []
    for _ in range(steps):
        before, processor_before_s = time.perf_counter(), time.process_time()
        loss = compiled(*inputs)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        times.append(time.perf_counter() - before)
        processor_s.append(time.process_time() - processor_before_s)
        moved.append(sum((spillway.stats() or {"moved_bytes": {}})["moved_bytes"].values()))
    record = spillway.stats() or {}
    print(json.dumps({
        "times": times[WARM:], "processor_s": processor_s[WARM:], "losses": losses, "insertions": sum(r.insertions for r in spillway.autovm.reports()),
        "moved_a_step": (moved[-1] - moved[WARM - 1]) / (steps - WARM),
        **{key: record.get(key) for key in ("peak_bytes", "asked_prefetch_bytes", "asked_pre_evict_bytes",
                                            "pre_evictions", "stalled_s", "page_faults")}}))


def gpt2(torch):
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_embd=256, n_layer=4, n_head=4, vocab_size=2048, n_positions=256, use_cache=False,
                        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    module, words = GPT2LMHeadModel(config), torch.randint(0, 2048, (8, 256))

    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = module

        def forward(self, words):
            return self.inner(input_ids=words, labels=words).loss

    return Loss(), (words,)


def resnet50(torch):
    from transformers import ResNetConfig, ResNetForImageClassification

    module = ResNetForImageClassification(ResNetConfig(num_labels=1000))  # its defaults are ResNet-50's

    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = module

        def forward(self, images, labels):
            return torch.nn.functional.cross_entropy(self.inner(images).logits, labels)

    return Loss(), (torch.randn(8, 3, 64, 64), torch.randint(1000, (8,)))


def run(options, network, backend, budget):
    with tempfile.TemporaryDirectory() as folder:
        command = [str(pathlib.Path(options.build) / "spillway"), "run", "--device", "host", "--device-memory",
                   str(budget), "--policy", "deepum", "--json", str(pathlib.Path(folder) / "record"), "--",
                   sys.executable, __file__, "--child", network, backend, str(options.steps)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    found = training.last_object(result.stdout)
    if result.returncode != 0 or not found:
        sys.exit(f"{' '.join(command)}\nended with {result.returncode}:\n{result.stderr[-2000:]}")
    return found


def main():
    made = training.parser(__doc__)
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--steps", type=int, default=10)
    made.add_argument("--networks", default="gpt2,resnet50")
    options = training.parse(made)
    for network in options.networks.split(","):
        peak = run(options, network, "inductor", 8 << 30)["peak_bytes"]
        results = {"inductor": [], "spillway": []}
        loads = []
        for at in range(options.rounds):
            for backend in ("inductor", "spillway") if at % 2 == 0 else ("spillway", "inductor"):
                results[backend].append(run(options, network, backend, peak // 2))
                loads.append(os.getloadavg()[0])
        losses = {tuple(one["losses"]) for many in results.values() for one in many}
        print(f"{network}: peak {peak} bytes, device memory {peak // 2}; losses "
              f"{'are the same' if len(losses) == 1 else 'DIFFER'}; load {min(loads):.1f} to {max(loads):.1f}")
        for backend, many in results.items():
            medians = sorted(statistics.median(one["times"]) for one in many)
            last = many[-1]
            processor_s = statistics.median(one for run_ in many for one in run_["processor_s"])
            print(f"  {backend}: {statistics.median(medians):.3f} s a step ({medians[0]:.3f} to {medians[-1]:.3f}), "
                  f"{processor_s:.3f} s of the processor, "
                  f"moved {last['moved_a_step'] / 1e6:.0f} MB a step, {last['page_faults']} faults, asked for "
                  f"{last['asked_prefetch_bytes']} prefetched and {last['asked_pre_evict_bytes']} pre-evicted bytes, "
                  f"{last['pre_evictions']} blocks pre-evicted, {last['insertions']} operators")
        if options.json:
            print(json.dumps({network: results}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        step_program()
    else:
        main()
