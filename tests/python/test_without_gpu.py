"""A training step recorded without a GPU launches what it would on one (docs/traces.md).

The scripts say cuda and know nothing of Spillway. Needs torch; what needs the program or transformers
is skipped where they are missing.
"""

import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest
from conftest import HOOK, clean_environment

pytest.importorskip("torch")

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPILLWAY = pathlib.Path(os.environ.get("SPILLWAY_BUILD", ROOT / "build")) / "spillway"
MODELS = ROOT / "bench" / "gpu" / "train_models.py"
MIB = 1 << 20
needs_program = pytest.mark.skipif(not SPILLWAY.exists(), reason=f"{SPILLWAY} is not built")


@pytest.fixture
def record(fork_servers, tmp_path):
    """(the trace or None, what the script said) of a script; `machine` changes the GPU, `ahead` are modules
    that are there for all that come."""

    def recorded(script, status=0, machine=None, ahead=()):
        trace = tmp_path / "trace.json"
        trace.unlink(missing_ok=True)
        file = tmp_path / "script.py"
        file.write_text(textwrap.dedent(script))
        environment = {**clean_environment(), "PYTORCH_JIT": "0", "OMP_NUM_THREADS": "2",
                       "HF_HUB_OFFLINE": "1"}
        result = fork_servers(environment).run(
            file, tmp_path, {**environment, "SPILLWAY_WITHOUT_GPU": str(trace),
                             "SPILLWAY_WITHOUT_GPU_MACHINE": json.dumps(machine or {})},
            hook=HOOK / "sitecustomize.py", ahead=["torch._dynamo", *ahead])
        assert result.returncode == status, result.stderr
        found = json.loads(trace.read_text()) if trace.exists() else None
        if found is not None:
            check(found)
        return found, result

    return recorded


def check(trace):
    """What must hold of every trace: a write before every read, nothing used after its death."""
    written, dead = set(), {}
    for number, tensor in enumerate(trace["tensors"]):
        assert tensor["bytes"] % 512 == 0 and tensor["bytes"] > 0
        if tensor.get("before"):
            written.add(number)
        dead[number] = tensor.get("gone", len(trace["kernels"]))
    for place, kernel in enumerate(trace["kernels"]):
        for number in kernel["reads"]:
            assert number in written or number in kernel["writes"], (place, kernel["name"], number)
        for number in kernel["reads"] + kernel["writes"]:
            assert place < dead[number], (place, kernel["name"], number)
        written.update(kernel["writes"])
        assert kernel["ms"] > 0


def names(trace):
    return [operator(kernel).removeprefix("aten::") for kernel in trace["kernels"]]


def operator(kernel):
    """Without what is known of the GPU's kernel."""
    return re.sub(r" \((pointwise|product|rows)\)$", "", kernel["name"])


def test_names_say_what_spillway_knows_of_the_kernel(record):
    """A product of half precision is known on an H100, and not on an RTX 4090."""
    script = training("""
        with torch.autocast("cuda"):
            loss = functional.gelu(model(x)).sum()
        """)
    for capability, product in (([9, 0], "aten::mm (product)"), ([8, 9], "aten::mm")):
        trace, _ = record(script, machine={"capability": capability})
        found = {kernel["name"] for kernel in trace["kernels"]}
        assert {product, "aten::gelu (pointwise)", "aten::copy_ (pointwise)", "aten::sum"} <= found


def training(body, optimizer="torch.optim.SGD(model.parameters(), lr=0.1)", steps=3,
             model="torch.nn.Linear(1024, 1024, bias=False)"):
    """A script; `body` makes `loss`."""
    return (textwrap.dedent(f"""
        import torch
        from torch import nn
        from torch.nn import functional
        model = {model}.cuda()
        optimizer = {optimizer}
        x = torch.randn(512, 1024, device="cuda")
        for step in range({steps}):
        """) + textwrap.indent(textwrap.dedent(body), "    ") + textwrap.dedent("""
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        """).replace("\n", "\n    ")) + "\nprint('not reached')\n"


def test_a_step_by_hand(record):
    """One product of 512 x 1024 by 1024 x 1024 in float32: 2 MiB in and out, a weight of 4 MiB. Its
    loss is a sum; the gradient of that is expanded, so it needs no memory of its own. The gradient of
    the weight is a product too, and SGD's foreach adds it."""
    trace, result = record(training("loss = torch.relu(model(x)).sum()"))
    assert names(trace) == ["mm", "relu", "memset", "sum", "fill_", "threshold_backward", "mm",
                            "_foreach_add_"]
    assert "not reached" not in result.stdout
    sizes = collections.Counter(tensor["bytes"] for tensor in trace["tensors"])
    # x, product, relu, its gradient: 2 MiB each; weight and gradient: 4 MiB each.
    assert sizes[2 * MIB] == 4 and sizes[4 * MIB] == 2
    persistent = [tensor["bytes"] for tensor in trace["tensors"] if tensor["persistent"]]
    assert sorted(persistent) == [2 * MIB, 4 * MIB]
    products = [kernel for kernel in trace["kernels"] if operator(kernel) == "aten::mm"]
    assert [kernel["flops"] for kernel in products] == [2 * 512 * 1024 * 1024] * 2


def test_numbers_may_stand_for_tensors(record):
    trace, _ = record(training("""
        y = model(x)
        loss = ((y % 7) + torch.remainder(y, 1.5) + torch.copysign(y, -1) + torch.xlogy(y.detach().abs(), 2)).sum()
    """))
    assert {"remainder", "copysign", "xlogy"} <= set(names(trace))


def test_an_optimizer_takes_its_foreach_form(record):
    trace, _ = record(training("loss = model(x).sum()", "torch.optim.AdamW(model.parameters())"))
    assert "_foreach_addcdiv_" in names(trace) and "addcdiv_" not in names(trace)


def test_a_fused_optimizer_is_one_kernel_and_reads_its_steps(record):
    trace, _ = record(training("loss = model(x).sum()",
                               "torch.optim.AdamW(model.parameters(), fused=True)"))
    kernel = next(k for k in trace["kernels"] if k["name"] == "aten::_fused_adamw_")
    sizes = sorted(trace["tensors"][x]["bytes"] for x in kernel["writes"])
    assert sizes == [4 * MIB] * 3  # weight and two moments, not the gradient


def test_autocast_casts_as_on_cuda(record):
    trace, _ = record(training("""
        with torch.autocast("cuda", torch.bfloat16):
            y = model(x)
            assert y.dtype == torch.bfloat16
            z = functional.layer_norm(y, (1024,))
            assert z.dtype == torch.float32
            assert torch.einsum("ij,kj->ik", x, x).dtype == torch.bfloat16
            loss = functional.cross_entropy(z, torch.zeros(512, dtype=torch.long, device="cuda"))
        """))
    # The weight is cast once: a copy of 2 MiB.
    casts = [k for k in trace["kernels"] if operator(k) == "aten::copy_"
             and [trace["tensors"][x]["bytes"] for x in k["writes"]] == [2 * MIB]
             and 4 * MIB in [trace["tensors"][x]["bytes"] for x in k["reads"]]]
    assert len(casts) == 1
    # The last operand first: the weight, then the input.
    written = [[trace["tensors"][x]["bytes"] for x in k["writes"]] for k in trace["kernels"]
               if operator(k) == "aten::copy_"]
    assert written[:2] == [[2 * MIB], [MIB]]


def test_dropout_saves_a_mask_of_bytes(record):
    trace, _ = record(training("loss = functional.dropout(model(x), 0.1).sum()"))
    assert "native_dropout" in names(trace)
    kernel = next(k for k in trace["kernels"] if k["name"] == "aten::native_dropout")
    assert sorted(trace["tensors"][x]["bytes"] for x in kernel["writes"]) == [MIB // 2, 2 * MIB]


ATTENTION = """
    q = model(x).view(1, 512, 16, 64).transpose(1, 2){cast}
    loss = functional.scaled_dot_product_attention(q, q, q, is_causal=True).float().sum()
    """


@pytest.mark.parametrize(("capability", "cast", "chosen"), [
    ((9, 0), ".bfloat16()", "_scaled_dot_product_cudnn_attention"),
    ((8, 0), ".bfloat16()", "_scaled_dot_product_flash_attention"),
    ((8, 0), "", "_scaled_dot_product_efficient_attention"),
    ((7, 5), ".half()", "_scaled_dot_product_efficient_attention")])
def test_attention_is_the_one_that_the_gpu_has(record, capability, cast, chosen):
    trace, _ = record(training(ATTENTION.format(cast=cast)), machine={"capability": capability})
    assert chosen in names(trace) and chosen + "_backward" in names(trace)


def test_values_that_are_read_get_one_warning_with_the_line(record):
    trace, result = record(training("""
        loss = model(x).square().mean()
        if loss.item() > 1e6 or float(loss) < 0:
            break
        """))
    lines = [line for line in result.stderr.splitlines() if line.startswith("spillway:")]
    assert len(lines) == 1 and "script.py:11 reads a value" in lines[0]
    assert [k["name"] for k in trace["kernels"] if k.get("sync")] == ["copy out"] * 2


def test_grad_scaler_and_clipping_go_on(record):
    trace, result = record("""
        import torch
        model = torch.nn.Linear(1024, 1024).cuda()
        optimizer = torch.optim.AdamW(model.parameters())
        scaler = torch.amp.GradScaler("cuda")
        for step in range(5):
            with torch.autocast("cuda", torch.float16):
                loss = model(torch.randn(64, 1024, device="cuda")).float().square().mean()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        """)
    assert "_amp_foreach_non_finite_check_and_unscale_" in names(trace)
    assert "_foreach_norm" in names(trace)
    assert "spillway:" not in result.stderr  # found_inf is known to be 0


def test_masks_are_taken_to_select_all(record):
    trace, result = record(training("y = model(x)\nloss = y[y > 0].sum()"))
    assert "script.py:10: how many elements a mask selects is not known" in result.stderr
    assert "nonzero count" in names(trace)


def test_a_model_made_on_the_host_keeps_its_ties(record):
    trace, _ = record("""
        import torch
        class Tied(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = torch.nn.Embedding(4096, 512), torch.nn.Linear(512, 4096, bias=False)
                self.b.weight = self.a.weight
        model = Tied()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model.to("cuda")
        assert model.a.weight is model.b.weight and model.a.weight.is_cuda
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(
            torch.randint(4096, (64, 16))), batch_size=8, shuffle=True, pin_memory=True)
        for tokens, in loader:
            loss = model.b(model.a(tokens.cuda(non_blocking=True))).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        """)
    persistent = [tensor["bytes"] for tensor in trace["tensors"] if tensor["persistent"]]
    assert persistent.count(8 * MIB) == 1
    assert names(trace)[0] == "copy in"


def test_large_tensors_on_the_host_take_no_memory(record):
    """A model of 4 GiB that is made on the host, in a process that may have 2 GiB resident."""
    _, result = record("""
        import resource, torch
        model = torch.nn.Sequential(*(torch.nn.Linear(8192, 8192, bias=False) for _ in range(16)))
        model.cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)
        for step in range(3):
            model(torch.randn(8, 8192).cuda()).sum().backward()
            optimizer.step()
        """)
    assert int(result.stdout.split()[0]) < 2048


def test_a_reshape_that_has_to_copy_is_a_kernel(record):
    """Within embedding: an expanded index is not one row of memory."""
    trace, _ = record(training("""
        row = torch.zeros(1, 16, dtype=torch.long, device="cuda")
        loss = model(row.expand(64, 16)).sum()
        """, model="torch.nn.Embedding(512, 64)"))
    assert names(trace)[:3] == ["zero_", "copy_", "index_select"]


def test_checkpointing_computes_again(record):
    body = """
        from torch.utils.checkpoint import checkpoint
        loss = checkpoint(lambda y: torch.relu(model(y)), x.requires_grad_(), use_reentrant={}).sum()
        """
    for reentrant in (False, True):
        trace, _ = record(training(body.format(reentrant)))
        assert names(trace).count("relu") == 2


def test_nothing_is_saved(record, tmp_path):
    _, result = record(training("loss = model(x).sum()\ntorch.save(model.state_dict(), 'w.pt')"))
    assert "without a GPU nothing is written" in result.stderr
    assert not (tmp_path / "w.pt").exists()


def test_too_few_steps_are_one_line(record):
    trace, result = record(training("loss = model(x).sum()", steps=2), status=125)
    assert trace is None
    assert "2 steps of an optimizer ended, and 3 are needed" in result.stderr


def test_a_script_that_refuses_its_options_ends_with_its_own_status(record):
    trace, result = record("""
        import argparse
        import torch
        parser = argparse.ArgumentParser()
        parser.add_argument("--data", required=True)
        parser.parse_args([])
        """, status=2)
    assert trace is None and "--data" in result.stderr
    assert "steps of an optimizer ended" not in result.stderr


def test_optimizers_that_take_turns_are_one_iteration(record):
    """As a GAN's: from the last one's step to its next, whatever that is inside of."""
    turns = """
        import torch
        one, other = torch.nn.Linear(512, 512).cuda(), torch.nn.Linear(512, 512).cuda()
        steps = [(model, torch.optim.SGD(model.parameters(), lr=0.1, fused=True)) for model in (one, other)]
        x = torch.randn(64, 512, device="cuda")
        for _ in range(4):
            for model, optimizer in steps:
                optimizer.zero_grad()
                (model(x) if model is one else torch.tanh(model(x))).sum().backward()
                optimizer.step()
        """
    trace, _ = record(turns)
    found = names(trace)
    assert found.count("_fused_sgd_") == 2 and found[-1] == "_fused_sgd_"
    assert found.index("_fused_sgd_") < found.index("tanh")


def test_an_optimizer_that_steps_no_more_is_not_waited_for(record):
    once = """
        import torch
        model = torch.nn.Linear(512, 512).cuda()
        steps = [torch.optim.SGD(model.parameters(), lr=0.1, fused=True) for _ in range(2)]
        x = torch.randn(64, 512, device="cuda")
        for step in range(60):
            model(x).sum().backward()
            steps[step == 1].step()
        """
    trace, _ = record(once)
    assert names(trace).count("_fused_sgd_") == 17, "those that step 2 is still waited for"


def test_what_repeats_is_an_iteration_without_an_optimizer(record):
    """Behind two others the third of seven tokens, which makes a cache of four rows of 4 KiB."""
    trace, result = record("""
        import torch
        weight, x = torch.randn(1024, 1024, device="cuda"), torch.randn(1, 1024, device="cuda")
        cache = torch.zeros(1, 1024, device="cuda")
        for token in range(7):
            x = x @ weight
            cache = torch.cat([cache, torch.relu(x)])
        """)
    assert names(trace) == ["mm", "relu", "cat"]
    assert [trace["tensors"][x]["bytes"] for x in trace["kernels"][2]["writes"]] == [4 * 4096]
    persistent = [tensor["bytes"] for tensor in trace["tensors"] if tensor["persistent"]]
    assert persistent == [4 * MIB]


def test_tiles_of_a_product_keep_all_processors_busy():
    """6144 x 1600 has 20 x 13 tiles of 320 x 128 and fills 132 processors 260 / 132 times; with a bias, where
    there are none of these, 48 x 10 of 128 x 160. 4096 x 2304 has 22 x 12 of 192 x 192, two times just so."""
    sys.path.insert(0, str(ROOT / "python"))
    try:
        from spillway.without_gpu import products
    finally:
        sys.path.remove(str(ROOT / "python"))
    assert products.waves(6144, 1600, 1, 132, False) == 260 / 132
    assert products.waves(6144, 1600, 1, 132, True) == 480 / 132
    assert products.waves(4096, 2304, 1, 132, True) == 2


def test_the_gpu_is_the_machines(record):
    record("""
        import torch
        properties = torch.cuda.get_device_properties(0)
        assert properties.total_memory == 24 << 30 and properties.name == "rtx4090-24gb"
        assert torch.cuda.get_device_capability() == (8, 9) and torch.cuda.is_available()
        a = torch.empty(1000, device="cuda")
        assert torch.cuda.memory_allocated() == 4096 and a.device == torch.device("cuda:0")
        del a
        assert torch.cuda.memory_allocated() == 0 and torch.cuda.max_memory_allocated() == 4096
        with torch.cuda.stream(torch.cuda.Stream()), torch.device("cuda"):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            assert (torch.ones(1 << 24) + 1).is_cuda
            end.record()
        assert begin.elapsed_time(end) > 0
        generator = torch.Generator("cuda").manual_seed(1)
        assert torch.randn(4, device="cuda", generator=generator).is_cuda
        """, status=125, machine={"name": "rtx4090-24gb", "memory_bytes": 24 << 30,
                                  "capability": [8, 9]})


NETWORKS = {
    "unet": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.down, self.mid = nn.Conv2d(4, 64, 3, 2, 1), nn.Conv2d(64, 64, 3, padding=1)
                self.up = nn.ConvTranspose2d(64, 4, 2, 2)
                self.norm = nn.GroupNorm(8, 64)
            def forward(self, x):
                y = functional.silu(self.norm(self.down(x)))
                y = functional.interpolate(functional.avg_pool2d(self.mid(y), 2), scale_factor=2)
                return self.up(y) + x
        model, inputs = Net(), torch.randn(2, 4, 64, 64)
        """,
    "lstm": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.rnn, self.out = nn.LSTM(64, 128, 2, batch_first=True, dropout=0.1), nn.Linear(128, 9)
            def forward(self, x):
                return self.out(self.rnn(x)[0])
        model, inputs = Net(), torch.randn(4, 16, 64)
        """,
    "gru": "model, inputs = nn.GRU(64, 128), torch.randn(4, 16, 64)",
    "conv1d": "model, inputs = nn.Sequential(nn.Conv1d(8, 16, 3, groups=4), nn.BatchNorm1d(16), nn.ELU(),"
              " nn.MaxPool1d(2)), torch.randn(4, 8, 64)",
    "conv3d": "model, inputs = nn.Sequential(nn.Conv3d(3, 8, 3), nn.BatchNorm3d(8), nn.LeakyReLU()),"
              " torch.randn(2, 3, 8, 16, 16)",
    "encoder": "model, inputs = nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, 128,"
               " batch_first=True), 2), torch.randn(4, 16, 64)",
    "mixture": """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.gate = nn.Linear(64, 4)
                self.experts = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))
            def forward(self, x):
                weights, chosen = self.gate(x).softmax(-1).topk(2)
                y = torch.zeros_like(x)
                for n, expert in enumerate(self.experts):
                    rows, which = torch.where(chosen == n)
                    y.index_add_(0, rows, expert(x[rows]) * weights[rows, which, None])
                return y
        model, inputs = Net(), torch.randn(32, 64)
        """,
}


@pytest.mark.parametrize("network", NETWORKS)
def test_networks_of_all_kinds(record, network):
    trace, _ = record("import torch\nfrom torch import nn\nfrom torch.nn import functional\n"
                      + textwrap.dedent(NETWORKS[network]) + textwrap.dedent("""
        model.cuda()
        optimizer = torch.optim.Adam(model.parameters())
        for step in range(3):
            out = model(inputs.cuda())
            out = out[0] if isinstance(out, tuple) else out
            out.square().mean().backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        """))
    assert len(trace["kernels"]) > 10


TRANSFORMERS = {
    "gpt2": "GPT2LMHeadModel(GPT2Config(n_embd=64, n_layer=2, n_head=4))",
    "bert": "BertForMaskedLM(BertConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4,"
            " intermediate_size=128))",
    "llama": "LlamaForCausalLM(LlamaConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4,"
             " num_key_value_heads=2, intermediate_size=128))",
    "t5": "T5ForConditionalGeneration(T5Config(d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4,"
          " decoder_start_token_id=0))",
    "vit": "ViTForImageClassification(ViTConfig(hidden_size=64, num_hidden_layers=2,"
           " num_attention_heads=4, intermediate_size=128))",
    "resnet": "ResNetForImageClassification(ResNetConfig(embedding_size=16, hidden_sizes=[16, 32],"
              " depths=[1, 1]))",
    "roberta": "RobertaForMaskedLM(RobertaConfig(hidden_size=64, num_hidden_layers=2,"
               " num_attention_heads=4, intermediate_size=128, max_position_embeddings=600))",
    "distilbert": "DistilBertForMaskedLM(DistilBertConfig(dim=64, n_layers=2, n_heads=4,"
                  " hidden_dim=128))",
    "opt": "OPTForCausalLM(OPTConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4,"
           " ffn_dim=128, word_embed_proj_dim=64))",
    "qwen2": "Qwen2ForCausalLM(Qwen2Config(hidden_size=64, num_hidden_layers=2, num_attention_heads=4,"
             " num_key_value_heads=2, intermediate_size=128))",
    "convnext": "ConvNextForImageClassification(ConvNextConfig(hidden_sizes=[16, 32, 32, 32],"
                " depths=[1, 1, 1, 1]))",
    "gpt_neox": "GPTNeoXForCausalLM(GPTNeoXConfig(hidden_size=64, num_hidden_layers=2,"
                " num_attention_heads=4, intermediate_size=128))",
}


@pytest.mark.parametrize("model", TRANSFORMERS)
def test_models_of_transformers(record, model):
    pytest.importorskip("transformers")
    trace, _ = record(textwrap.dedent("""
        import torch
        from transformers import {}
        model = {}.cuda()
        optimizer = torch.optim.AdamW(model.parameters())
        if "pixel_values" in model.main_input_name:
            batch = dict(pixel_values=torch.randn(2, 3, 224, 224), labels=torch.zeros(2, dtype=torch.long))
        else:
            tokens = torch.randint(1000, (2, 32))
            batch = dict(input_ids=tokens, labels=tokens, attention_mask=torch.ones_like(tokens))
        for step in range(3):
            with torch.autocast("cuda", torch.bfloat16):
                loss = model(**{{name: value.cuda() for name, value in batch.items()}}).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        """).format(", ".join(re.findall(r"[A-Z]\w+", TRANSFORMERS[model])), TRANSFORMERS[model]),
                      ahead=["transformers.modeling_utils"])
    assert len(trace["kernels"]) > 50


def spillway(*arguments):
    return subprocess.run([SPILLWAY, *map(str, arguments)], text=True, capture_output=True,
                          timeout=300, env=clean_environment())


def large(trace):
    return collections.Counter(-(-tensor["bytes"] // 4096) for tensor in trace["tensors"]
                               if tensor["bytes"] >= MIB)


def peak(trace):
    """Of what is alive from its first use to its last."""
    first, last = {}, {}
    for place, kernel in enumerate(trace["kernels"]):
        for number in kernel["reads"] + kernel["writes"]:
            first.setdefault(number, place)
            last[number] = place
    change = collections.Counter()
    for number, tensor in enumerate(trace["tensors"]):
        if tensor["persistent"]:
            change[0] += tensor["bytes"]
        elif number in first:
            change[first[number]] += tensor["bytes"]
            change[last[number] + 1] -= tensor["bytes"]
    now = most = 0
    for place in range(len(trace["kernels"]) + 1):
        now += change[place]
        most = max(most, now)
    return most


@needs_program
@pytest.mark.parametrize("model", ["dlrm", "gpt2"])
def test_as_recorded_on_an_h200(model, tmp_path):
    """bench/without_gpu/check.py does the same for all models."""
    trace = tmp_path / "trace.json"
    done = spillway("record", "--without-gpu", "--machine", "h200", "-o", trace, "--", sys.executable,
                    MODELS, model, "--steps", "4")
    assert done.returncode == 0, done.stderr
    ours = json.loads(trace.read_text())
    real = tmp_path / "real.json"
    assert spillway("trace", "convert", ROOT / f"traces/h200/{model}.swt", real).returncode == 0
    theirs = json.loads(real.read_text())
    assert large(ours) == large(theirs)
    assert abs(peak(ours) / peak(theirs) - 1) < 0.02
    assert abs(len(ours["kernels"]) / len(theirs["kernels"]) - 1) < 0.05
    ms = [sum(kernel["ms"] for kernel in each["kernels"]) for each in (ours, theirs)]
    assert abs(ms[0] / ms[1] - 1) < 0.25
    info = spillway("trace", "info", trace)
    assert info.returncode == 0 and "h200" in info.stdout


@needs_program
def test_mistakes_are_one_line(tmp_path):
    out = tmp_path / "step.swt"
    slow = tmp_path / "slow.toml"
    slow.write_text(subprocess.run([SPILLWAY, "machine", "show", "h200"], capture_output=True,
                                   text=True, check=True).stdout.replace("processors = 132",
                                                                         "processors = 0"))
    for arguments, status, line in (
            (("--machine", slow), 2, "does not say how fast its GPU is"),
            (("--machine", "h2000"), 2, "h2000")):
        done = spillway("record", "--without-gpu", *arguments, "-o", out, "--", sys.executable, "-c", "")
        assert done.returncode == status and line in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
    done = spillway("record", "--without-gpu", "-o", out, "--", "true")
    assert done.returncode == 125 and "no Python that imports torch" in done.stderr, done.stderr
    done = spillway("record", "--without-gpu", "-o", out, "--", sys.executable, "-c",
                    "import torch, os; os.abort()")
    assert done.returncode == 134 and "nothing is recorded" in done.stderr, done.stderr
    assert not out.exists()
