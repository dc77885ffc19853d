#!/usr/bin/env python3
"""Fits python/spillway/without_gpu/costs.json to recorded steps, and says how well it does on others.

`fit_costs.py --spillway build/spillway --dry FOLDER [--write]`: FOLDER has what check.py --keep left, a
JSON for each model. The first half of the models is fitted, kind by kind: its efficiency is the one
with which its kernels take together as long as the recorded kernels of the kind. The others are not
looked at, only printed."""

import argparse
import collections
import json
import pathlib
import re
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
COSTS = ROOT / "python" / "spillway" / "without_gpu" / "costs.json"
FITTED = ("gpt2", "bert-large", "llama-1b", "resnet152", "dlrm", "inception")
OTHERS = ("gpt2-xl", "vgg19", "regnet-y", "vit-large", "frozen", "weights")
PEAK = {"half": 989e12, "fp32": 67e12}
BANDWIDTH = 4.8e12
# A recorded kernel's kind by its name; the first that fits.
KINDS = (
    ("optimizer", "multi_tensor_apply"), ("copy_in", "^copy in"), ("copy_out", "^copy out"),
    ("attention_backward", "sdpa.*bprop|flash_bwd"), ("attention", "sdpa.*fprop|flash_fwd"),
    ("conv_weights_old", "_ZN17cutlass__5x_cudnn6Kernel|sm80_xmma_wgrad"), ("conv_weights", "wgrad"),
    ("slice", "nhwcSliceC"),
    ("transform", "tensorTransform|nhwcToNchw"), ("pad", "AddPadding"),
    ("reduce", "reduce_kernel|ReduceSplitK|splitKreduce|fmha_reduce"),
    ("conv_old", "cutlass__5x_cudnn::Kernel|convolve"), ("conv", "fprop|dgrad"),
    ("gemm_fp32", "simt|f32f32_f32|gemv|gemvx"), ("gemm_unaligned", "align1$|align1>|s1688gemm"),
    ("gemm_align2", "s16816gemm_bf16"),
    ("gemm", "nvjet|gemm|cutlass"), ("softmax", "SoftMax|softmax"),
    ("average_pool_backward", "avg_pool2d_backward"), ("average_pool", "avg_pool2d"),
    ("pool_backward", "pool.*backward"), ("pool", "pool"),
    ("batch_norm_backward", "batch_norm_backward"), ("batch_norm", "batch_norm"),
    ("norm_backward", "GammaBeta|grad_input_kernel"), ("norm", "layer_norm_kernel|dot_do_o"),
    ("cat", "CatArray"),
    ("fill", "memset|FillFunctor|distribution|arange|init_device_workspace"),
    ("gather", "gather|EmbeddingBag|nll_loss|index_elementwise|indexSelect"),
    ("scatter", "indexFunc|indexing_backward|grad_weight|sum_and_scatter|embedding_backward"),
    ("sort", "radix|scan|segment|unique|compute_num|krn_"),
    ("broadcast", "^(void )?at::native::elementwise_kernel<|^elementwise_kernel<"),
    ("cast", "bfloat16_copy|direct_copy|convert_dq"), ("copy", "copy within"),
    ("elementwise", ""))
ALIKE = {"copy": "broadcast"}  # what recorded names do not tell apart


def kind_of(name):
    name = name.removeprefix("void ")
    return next(kind for kind, pattern in KINDS if re.search(pattern, name))


def recorded(spillway, path):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "trace.json"
        subprocess.run([spillway, "trace", "convert", path, out], check=True, timeout=120)
        return json.loads(out.read_text())


def kinds_ms(trace, of):
    total = collections.Counter()
    for kernel in trace["kernels"]:
        kind = of(kernel)
        total[ALIKE.get(kind, kind)] += kernel["ms"]
    return total


def seconds(kernel, known):
    at = 0.0
    if kernel["moved"]:
        rate = 55.4e9 if kernel["kind"].startswith("copy_") else BANDWIDTH
        at = kernel["moved"] / (rate * known["bytes"])
    if kernel["flops"]:
        single = kernel["kind"] == "gemm_fp32" or "pool" in kernel["kind"]
        peak = PEAK["fp32" if single else "half"]
        at = max(at, kernel["flops"] / (peak * known.get("flops", 0.5)))
    return at


def predicted_ms(kernel, costs):
    known = costs["kinds"].get(kernel["kind"]) or costs["kinds"]["elementwise"]
    least = costs["least_ns"]["backward" if kernel["backward"] else "forward"]
    return max(1e9 * seconds(kernel, known) + known.get("extra_ns", 2000), least) / 1e6


def fit_kind(kind, kernels, wanted_ms, costs):
    """Scales both efficiencies together until the sum is right."""
    known = costs["kinds"].setdefault(kind, {"bytes": 0.6})
    start = dict(known)
    low, high = 0.02, 20.0
    for _ in range(50):
        middle = (low * high) ** 0.5
        for name in ("bytes", "flops"):
            if name in start:
                known[name] = start[name] * middle
        if sum(predicted_ms(kernel, costs) for kernel in kernels) > wanted_ms:
            low = middle
        else:
            high = middle
    for name in ("bytes", "flops"):
        if name in start:
            known[name] = round(min(max(known[name], 0.01), 1.5), 3)


def least_ns(traces):
    """What a kernel that moves next to nothing lasts: median of memsets and small copies."""
    small = {False: [], True: []}
    for trace in traces:
        sizes = [tensor["bytes"] for tensor in trace["tensors"]]
        seen_loss = False
        for kernel in trace["kernels"]:
            seen_loss = seen_loss or "nll_loss_backward" in kernel["name"]
            if sum(sizes[x] for x in kernel["reads"] + kernel["writes"]) < 1 << 21:
                small[seen_loss].append(1e6 * kernel["ms"])
    return {"forward": round(statistics.median(small[False])),
            "backward": round(statistics.median(small[True]))}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spillway", default="build/spillway")
    parser.add_argument("--dry", required=True, type=pathlib.Path)
    parser.add_argument("--write", action="store_true", help="replace costs.json")
    options = parser.parse_args()
    real, dry = {}, {}
    for model in FITTED + OTHERS:
        if (options.dry / f"{model}.json").exists():
            real[model] = recorded(options.spillway, ROOT / "traces" / "h200" / f"{model}.swt")
            dry[model] = json.loads((options.dry / f"{model}.json").read_text())
    costs = json.loads(COSTS.read_text())
    fitted = [model for model in FITTED if model in real]
    costs["least_ns"] = least_ns([real[model] for model in fitted])
    wanted, kernels = collections.Counter(), collections.defaultdict(list)
    for model in fitted:
        wanted += kinds_ms(real[model], lambda kernel: kind_of(kernel["name"]))
        for kernel in dry[model]["kernels"]:
            kernels[kernel["kind"]].append(kernel)
    for kind in sorted(kernels):
        if ALIKE.get(kind) or kind not in wanted:
            continue
        fit_kind(kind, kernels[kind], wanted[kind], costs)
    for model in real:
        ours = sum(predicted_ms(kernel, costs) for kernel in dry[model]["kernels"])
        theirs = sum(kernel["ms"] for kernel in real[model]["kernels"])
        print(f"{model:12} {'fitted' if model in fitted else 'left out':9} recorded {theirs:8.2f} ms"
              f"  estimated {ours:8.2f} ms  ratio {ours / theirs:.3f}")
        now = kinds_ms({"kernels": [{"kind": k["kind"], "ms": predicted_ms(k, costs)}
                                    for k in dry[model]["kernels"]]}, lambda k: k["kind"])
        was = kinds_ms(real[model], lambda kernel: kind_of(kernel["name"]))
        off = sorted(set(now) | set(was), key=lambda kind: -abs(now[kind] - was[kind]))[:4]
        print("    " + ", ".join(f"{kind} {now[kind]:.1f} for {was[kind]:.1f}" for kind in off))
    if options.write:
        COSTS.write_text(json.dumps(costs, indent=2) + "\n")


if __name__ == "__main__":
    main()
