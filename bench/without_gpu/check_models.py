#!/usr/bin/env python3
"""Training steps of all classification models of torchvision, of a dozen each of timm and transformers, and of
a U-Net, recorded without a GPU, and what must hold of the traces.

`check_models.py [--only resnet18,vit_b_16]` (pip install torchvision==0.28.0 timm==1.0.31): a line for each
model, with what is wrong. Checked are: each tensor is written before it is read, none is used after it
died, and, for models of at most --profiled million parameters, the highest sum of what PyTorch holds is
what its profiler (`profile_memory`) sees of the same step on the CPU, within --percent; scratch memory and
workspaces of kernels, which the CPU does not have, are left out. Packages that are not installed are
skipped. Any build of torchvision will do: operators that it compiles are only declared."""

import argparse
import importlib.util
import json
import os
import pathlib
import re
import signal
import sys
import tempfile
import time
import traceback

import torch
import torch._dynamo  # noqa: F401, by now rather than in each process
from torch.profiler import ProfilerActivity, profile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LIMIT_S = 240  # for one process
TIMM = ("beit_base_patch16_224", "convnext_tiny", "deit_small_patch16_224", "edgenext_small",
        "eva02_tiny_patch14_224", "ghostnet_100", "mixer_s16_224", "mobilenetv4_conv_small", "nfnet_l0",
        "poolformer_s12", "resnetv2_50", "swin_tiny_patch4_window7_224", "tf_efficientnetv2_b0")
TEXTS = {"bert": "BertForSequenceClassification", "roberta": "RobertaForSequenceClassification",
         "distilbert": "DistilBertForSequenceClassification", "electra": "ElectraForSequenceClassification",
         "albert": "AlbertForSequenceClassification", "gpt2": "GPT2LMHeadModel",
         "gpt_neox": "GPTNeoXForCausalLM", "opt": "OPTForCausalLM", "llama": "LlamaForCausalLM",
         "mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM", "phi": "PhiForCausalLM",
         "t5": "T5ForConditionalGeneration"}
SMALL = {"hidden_size": 256, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 512,
         "vocab_size": 2048, "pad_token_id": 0}
NAMED = {"distilbert": {"dim": 256, "n_layers": 3, "n_heads": 4, "hidden_dim": 512, "vocab_size": 2048},
         "gpt2": {"n_embd": 256, "n_layer": 3, "n_head": 4, "vocab_size": 2048},
         "opt": {**SMALL, "ffn_dim": 512, "word_embed_proj_dim": 256},
         "mistral": {**SMALL, "num_key_value_heads": 2}, "qwen2": {**SMALL, "num_key_value_heads": 2},
         "t5": {"d_model": 256, "d_kv": 64, "d_ff": 512, "num_layers": 3, "num_heads": 4, "vocab_size": 2048,
                "decoder_start_token_id": 0, "pad_token_id": 0}}


def import_torchvision():
    """Where its compiled part belongs to another build of PyTorch, the operators that it wants to give shapes
    to are declared: no classification model calls them."""
    folder = pathlib.Path(importlib.util.find_spec("torchvision").origin).parent
    try:
        torch.ops.load_library(folder / "_C.so")
    except OSError:
        import_torchvision.kept = library = torch.library.Library("torchvision", "DEF")
        for name in re.findall(r'register_fake\("torchvision::(\w+)"\)',
                               (folder / "_meta_registrations.py").read_text()):
            library.define(f"{name}(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    import torchvision
    return torchvision


def models():
    """Of each package that is there: (package, name)."""
    found = [("train_models", "unet")]  # bench/gpu's
    if importlib.util.find_spec("torchvision"):
        torchvision = import_torchvision()
        found += [("torchvision", name) for name in torchvision.models.list_models(torchvision.models)]
    if importlib.util.find_spec("timm"):
        import timm  # noqa: F401
        found += [("timm", name) for name in TIMM]
    if importlib.util.find_spec("transformers"):
        import transformers  # noqa: F401
        found += [("transformers", name) for name in TEXTS]
    return found


def made(package, name, device):
    """The model and what makes its loss."""
    torch.manual_seed(0)
    if package == "transformers":
        import transformers
        config = transformers.AutoConfig.for_model(name, **NAMED.get(name, SMALL))
        config._attn_implementation = "eager"  # a CPU's fused attention keeps other tensors
        for key, value in config.to_dict().items():
            if "drop" in key and isinstance(value, float):
                setattr(config, key, 0.0)  # a CPU keeps its mask in floats
        model = getattr(transformers, TEXTS[name])(config).to(device)
        tokens = torch.randint(1, 2048, (4, 128), device=device)
        labels = torch.zeros(4, dtype=torch.int64, device=device) if "Sequence" in TEXTS[name] else tokens
        return model, [tokens, labels], lambda: model(input_ids=tokens, labels=labels).loss
    if package == "train_models":
        sys.path.append(str(ROOT / "bench" / "gpu"))
        from train_models import UNet
        model = UNet((64, 128, 128, 256)).to(device)
        noisy, noise = torch.randn(2, 2, 4, 64, 64, device=device)
        steps = torch.randint(1000, (2,), device=device)
        return model, [noisy, noise, steps], lambda: torch.nn.functional.mse_loss(model(noisy, steps), noise)
    if package == "timm":
        import timm
        timm.layers.set_fused_attn(False)
        model = timm.create_model(name)
        width = model.default_cfg["input_size"][-1]
    else:
        import torchvision
        model = torchvision.models.get_model(name)
        width = 299 if name == "inception_v3" else 224
    model = model.to(device)
    images = torch.randn(2, 3, width, width, device=device)
    labels = torch.zeros(2, dtype=torch.int64, device=device)

    def loss():
        results = model(images)
        first, *more = results if isinstance(results, tuple) else (results,)
        found = torch.nn.functional.cross_entropy(first, labels)
        for other in more:
            if other is not None:
                found = found + 0.3 * torch.nn.functional.cross_entropy(other, labels)
        return found

    return model, [images, labels], loss


def step(loss, optimizer):
    loss().backward()
    optimizer.step()
    optimizer.zero_grad()


def record(package, name):
    """Ends the process with the iteration behind the first (without_gpu/steps.py)."""
    from spillway import without_gpu
    without_gpu.start()
    model, _, loss = made(package, name, "cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        step(loss, optimizer)


def measure(package, name, out):
    """The most that PyTorch's allocator for the CPU has handed out in a step, by its profiler."""
    model, inputs, loss = made(package, name, "cpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step(loss, optimizer)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step(loss, optimizer)
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
                for tensor in (*model.parameters(), *model.buffers(), *inputs)}
    now = most = sum(storages.values())
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    out.write_text(json.dumps(most))


def peak(trace):
    """Of what PyTorch holds in the iteration, without scratch memory and workspaces."""
    first = {}
    for place, kernel in enumerate(trace["kernels"]):
        for number in kernel["reads"] + kernel["writes"]:
            first.setdefault(number, place)
    count = len(trace["kernels"])
    change = [0] * (count + 1)
    for number, tensor in enumerate(trace["tensors"]):
        if tensor.get("scratch"):
            continue
        change[0 if tensor.get("before") else first[number]] += tensor["bytes"]
        # One that died when n kernels had been launched was there while number n - 1 ran, and no longer.
        change[min(tensor.get("gone", count), count)] -= tensor["bytes"]
    now = most = 0
    for place in range(count):
        now += change[place]
        most = max(most, now)
    return most


def mistakes(trace):
    """What must not be, in words."""
    written, found = set(), []
    count = len(trace["kernels"])
    for number, tensor in enumerate(trace["tensors"]):
        if tensor.get("before"):
            written.add(number)
    for place, kernel in enumerate(trace["kernels"]):
        for number in kernel["reads"]:
            if number not in written and number not in kernel["writes"]:
                found.append(f"kernel {place} {kernel['name']} reads tensor {number}, which nobody wrote")
        for number in kernel["reads"] + kernel["writes"]:
            if place >= trace["tensors"][number].get("gone", count):
                found.append(f"kernel {place} {kernel['name']} uses tensor {number}, which is dead")
        written.update(kernel["writes"])
    return found


def child(work, said):
    """Its process: runs work, and says what went wrong to a file."""
    process = os.fork()
    if process:
        return process
    file = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(file, 1)
    os.dup2(file, 2)
    signal.alarm(LIMIT_S)
    try:
        work()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def last_line(file):
    lines = file.read_text().strip().splitlines() if file.exists() else []
    return lines[-1][:160] if lines else "ended without a word"


def check(package, name, folder, options):
    """(what is wrong, a line about it)"""
    trace_file, out, said = folder / f"{name}.json", folder / "peak", folder / "said"
    for file in (trace_file, out):
        file.unlink(missing_ok=True)
    os.environ.update(SPILLWAY_WITHOUT_GPU=str(trace_file), SPILLWAY_CAPTURE_WARM_UP="1")
    begin = time.monotonic()
    os.waitpid(child(lambda: record(package, name), said), 0)
    seconds = time.monotonic() - begin
    if not trace_file.exists():
        return [f"no trace: {last_line(said)}"], ""
    trace = json.loads(trace_file.read_text())
    found = mistakes(trace)
    line = f"{len(trace['kernels'])} kernels, {seconds:.1f} s"
    held = sum(tensor["bytes"] for tensor in trace["tensors"] if tensor["persistent"])
    if held > 4e6 * options.profiled:
        return found, line
    os.waitpid(child(lambda: measure(package, name, out), said), 0)
    if not out.exists():
        return [*found, f"no step on the CPU: {last_line(said)}"], ""
    ratio = peak(trace) / json.loads(out.read_text())
    if abs(ratio - 1) > options.percent / 100:
        found.append(f"peak {ratio:.3f} of the profiler's")
    return found, f"{line}, peak {ratio:.3f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="names, separated by commas")
    parser.add_argument("--percent", type=float, default=2, help="by which a peak may differ")
    parser.add_argument("--profiled", type=float, default=30, help="million parameters")
    options = parser.parse_args()
    sys.path[0] = str(ROOT / "python")  # not this folder: its torchvision.py has five models only
    os.environ["HF_HUB_OFFLINE"] = "1"
    only = options.only.split(",") if options.only else None
    chosen = [(package, name) for package, name in models() if only is None or name in only]
    right = 0
    with tempfile.TemporaryDirectory() as folder:
        for package, name in chosen:
            found, line = check(package, name, pathlib.Path(folder), options)
            right += not found
            print(f"{package:12} {name:34} {line}{'' if found else ': right'}", flush=True)
            for mistake in found[:3]:
                print(f"    {mistake}", flush=True)
    print(f"{right} of {len(chosen)} right")
    return 0 if chosen and right == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
