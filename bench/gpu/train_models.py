#!/usr/bin/env python3
"""One training run for train.py, in plain PyTorch that knows nothing of Spillway.

`train_models.py MODEL [OPTIONS]` prints a JSON object for each step (its time, its loss) and one at
the end (the peak). With --serve it runs steps on demand: a line in, milliseconds out, of the middle
step and of the fastest."""

import argparse
import contextlib
import faulthandler
import json
import os
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


class Skipped(Exception):
    """The model needs what is not installed here."""


class Block(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (part.reshape(shape).transpose(1, 2)
                   for part in self.qkv(self.first(x)).split(width, dim=2))
        attention = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(attention.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.second(x)), approximate="tanh"))


class Transformer(nn.Module):
    """GPT-2's shape, or with causal=False BERT's; the head is the embedding."""

    def __init__(self, layers, width, heads, context, vocabulary, causal=True):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads, causal) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.vocabulary, self.checkpointing = vocabulary, False
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointing else block(x)
        return functional.linear(self.norm(x), self.tokens.weight)


class LlamaBlock(nn.Module):
    """Rotated queries and keys, fewer of the latter, a gated layer of four widths."""

    def __init__(self, width, heads, key_heads):
        super().__init__()
        self.size, self.heads, self.key_heads = width // heads, heads, key_heads
        self.first, self.second = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q = nn.Linear(width, width, bias=False)
        self.kv = nn.Linear(width, 2 * key_heads * self.size, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate_up = nn.Linear(width, 8 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x, cosine, sine):
        def rotated(y):
            a, b = y.chunk(2, dim=-1)
            return torch.cat([a * cosine - b * sine, b * cosine + a * sine], -1).to(y.dtype)

        batch, length, width = x.shape
        y = self.first(x)
        q = self.q(y).reshape(batch, length, self.heads, self.size).transpose(1, 2)
        k, v = (part.reshape(batch, length, self.key_heads, self.size).transpose(1, 2)
                for part in self.kv(y).chunk(2, dim=-1))
        attention = functional.scaled_dot_product_attention(rotated(q), rotated(k), v,
                                                            is_causal=True, enable_gqa=True)
        x = x + self.out(attention.transpose(1, 2).reshape(batch, length, width))
        gate, up = self.gate_up(self.second(x)).chunk(2, dim=-1)
        return x + self.down(functional.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self, layers=16, width=2048, heads=32, key_heads=8, vocabulary=32000):
        super().__init__()
        self.vocabulary, self.size = vocabulary, width // heads
        self.tokens = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(LlamaBlock(width, heads, key_heads) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.checkpointing = False

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)[:, None]
        rates = 10000.0 ** (-torch.arange(0, self.size, 2, device=tokens.device) / self.size)
        cosine, sine = (places * rates).cos(), (places * rates).sin()
        x = self.tokens(tokens)
        for block in self.blocks:
            x = (checkpoint(block, x, cosine, sine, use_reentrant=False) if self.checkpointing
                 else block(x, cosine, sine))
        return self.head(self.norm(x))


class LowRank(nn.Module):
    """A frozen linear layer in bf16 with matrices of a low rank beside it that are trained (LoRA)."""

    def __init__(self, frozen, rank=16):
        super().__init__()
        self.frozen = frozen.to(torch.bfloat16).requires_grad_(False)
        self.down = nn.Linear(frozen.in_features, rank, bias=False)
        self.up = nn.Linear(rank, frozen.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.frozen(x) + self.up(self.down(x))


def llama_lora():
    """Llama whose queries, keys, values and outputs have trained matrices of rank 16; the rest is frozen."""
    model = Llama().to(torch.bfloat16).requires_grad_(False)
    for block in model.blocks:
        for name in ("q", "kv", "out"):
            setattr(block, name, LowRank(getattr(block, name)))
    return model


class Residual(nn.Module):
    """Two convolutions around a time embedding, as diffusion models have them."""

    def __init__(self, inner, outer, time_width):
        super().__init__()
        self.first, self.second = nn.GroupNorm(32, inner), nn.GroupNorm(32, outer)
        self.up, self.down = nn.Conv2d(inner, outer, 3, padding=1), nn.Conv2d(outer, outer, 3, padding=1)
        self.time = nn.Linear(time_width, outer)
        self.beside = nn.Conv2d(inner, outer, 1) if inner != outer else nn.Identity()

    def forward(self, x, time):
        y = self.up(functional.silu(self.first(x))) + self.time(time)[:, :, None, None]
        return self.beside(x) + self.down(functional.silu(self.second(y)))


class UNet(nn.Module):
    """A diffusion model's U-Net: four widths, two blocks of each going down and three coming up."""

    def __init__(self, widths=(192, 384, 384, 768), channels=4):
        super().__init__()
        self.time_width, self.checkpointing = 4 * widths[0], False
        self.time = nn.Sequential(nn.Linear(widths[0], self.time_width), nn.SiLU(),
                                  nn.Linear(self.time_width, self.time_width))
        self.enter = nn.Conv2d(channels, widths[0], 3, padding=1)
        self.falling, self.rising = nn.ModuleList(), nn.ModuleList()
        kept, width = [widths[0]], widths[0]
        for level, outer in enumerate(widths):
            for _ in range(2):
                self.falling.append(Residual(width, outer, self.time_width))
                width = outer
                kept.append(width)
            if level + 1 < len(widths):
                self.falling.append(nn.Conv2d(width, width, 3, stride=2, padding=1))
                kept.append(width)
        self.middle = Residual(width, width, self.time_width)
        for level, outer in reversed(list(enumerate(widths))):
            for _ in range(3):
                self.rising.append(Residual(width + kept.pop(), outer, self.time_width))
                width = outer
            if level > 0:
                self.rising.append(nn.Sequential(nn.Upsample(scale_factor=2),
                                                 nn.Conv2d(width, width, 3, padding=1)))
        self.leave = nn.Sequential(nn.GroupNorm(32, width), nn.SiLU(), nn.Conv2d(width, channels, 3, padding=1))
        # From a pixel's noise to its prediction: what training starts from.
        nn.init.zeros_(self.leave[-1].weight)

    def block(self, block, x, time):
        if not isinstance(block, Residual):
            return block(x)
        return checkpoint(block, x, time, use_reentrant=False) if self.checkpointing else block(x, time)

    def forward(self, x, steps):
        half = self.time[0].in_features // 2
        rates = torch.exp(torch.arange(half, device=x.device) * (-9.21 / half))
        angles = steps[:, None] * rates
        time = functional.silu(self.time(torch.cat([angles.sin(), angles.cos()], 1)))
        x = self.enter(x)
        kept = [x]
        for block in self.falling:
            x = self.block(block, x, time)
            kept.append(x)
        x = self.block(self.middle, x, time)
        for block in self.rising:
            x = (self.block(block, torch.cat([x, kept.pop()], 1), time) if isinstance(block, Residual)
                 else block(x))
        return self.leave(x)


class Dlrm(nn.Module):
    """Embedding tables of 512 MiB each, and small dense layers."""

    def __init__(self, tables=26, rows=1 << 20, width=128, dense=13):
        super().__init__()
        self.rows, self.dense = rows, dense
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum", sparse=True)
                                    for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(dense, 512), nn.ReLU(), nn.Linear(512, 256),
                                    nn.ReLU(), nn.Linear(256, width), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(nn.Linear(pairs + width, 1024), nn.ReLU(), nn.Linear(1024, 512),
                                 nn.ReLU(), nn.Linear(512, 1))
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1))

    def forward(self, dense, indices):
        x = self.bottom(dense)
        all_ = torch.stack([x, *(table(index) for table, index in zip(self.tables, indices))], 1)
        products = torch.bmm(all_, all_.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([x, products], 1)).squeeze(1)


class Texts:
    """Random tokens, each step others; `lengths` gives that of a step."""

    def __init__(self, model, batch, lengths, causal=True):
        self.model, self.batch, self.lengths, self.causal = model, batch, lengths, causal
        self.numbers = torch.Generator("cpu").manual_seed(2)
        trained = [one for one in model.parameters() if one.requires_grad]
        self.device = trained[0].device
        self.optimizer = torch.optim.AdamW(trained, lr=1e-4, fused=True)

    def loss(self, step):
        tokens = torch.randint(self.model.vocabulary, (self.batch, self.lengths(step) + 1),
                               generator=self.numbers).to(self.device)
        wanted = tokens[:, 1:] if self.causal else tokens[:, :-1]
        with torch.autocast(self.device.type, torch.bfloat16):
            logits = self.model(tokens[:, :-1])
            return functional.cross_entropy(logits.flatten(0, 1), wanted.flatten())


class Images:
    def __init__(self, model, batch, width):
        self.model, self.batch = model.to(memory_format=torch.channels_last), batch
        self.width = width
        self.numbers = torch.Generator(device="cuda").manual_seed(2)
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def loss(self, _):
        images = torch.randn(self.batch, 3, self.width, self.width, device="cuda",
                             generator=self.numbers)
        labels = torch.randint(1000, (self.batch,), device="cuda", generator=self.numbers)
        with torch.autocast("cuda", torch.bfloat16):
            return functional.cross_entropy(
                self.model(images.contiguous(memory_format=torch.channels_last)), labels)


class Noise:
    """A U-Net learns which noise is in a picture's latents."""

    def __init__(self, model, batch, width):
        self.model, self.batch, self.width = model.to(memory_format=torch.channels_last), batch, width
        self.numbers = torch.Generator(device="cuda").manual_seed(2)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def loss(self, _):
        shape = (self.batch, 4, self.width, self.width)
        clean, noise = (torch.randn(shape, device="cuda", generator=self.numbers) for _ in range(2))
        steps = torch.randint(1000, (self.batch,), device="cuda", generator=self.numbers)
        much = torch.cos(steps / 1000 * 1.57)[:, None, None, None]
        noisy = much * clean + (1 - much * much).sqrt() * noise
        with torch.autocast("cuda", torch.bfloat16):
            found = self.model(noisy.contiguous(memory_format=torch.channels_last), steps)
            return functional.mse_loss(found, noise)


class Clicks:
    def __init__(self, model, batch, per_bag=8):
        self.model, self.batch, self.per_bag = model, batch, per_bag
        self.numbers = torch.Generator(device="cuda").manual_seed(2)
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def loss(self, _):
        dense = torch.randn(self.batch, self.model.dense, device="cuda", generator=self.numbers)
        indices = [torch.randint(self.model.rows, (self.batch, self.per_bag), device="cuda",
                                 generator=self.numbers) for _ in self.model.tables]
        clicked = torch.randint(2, (self.batch,), device="cuda", generator=self.numbers).float()
        return functional.binary_cross_entropy_with_logits(self.model(dense, indices), clicked)


def image_model(name, batch=256, width=224, **more):
    try:
        import torchvision
    except ImportError as error:
        raise Skipped("torchvision is not installed") from error
    return Images(getattr(torchvision.models, name)(**more), batch, width)


def gpt2_xl():
    return Transformer(48, 1600, 25, 1024, 50257)


def changing_lengths(step):
    return (1024, 384, 768, 128, 896, 512, 256, 640)[step % 8]


MODELS = {
    "gpt2-xl": lambda: Texts(gpt2_xl(), 6, lambda _: 1024),
    "gpt2-3b": lambda: Texts(Transformer(38, 2560, 20, 1024, 50257), 4, lambda _: 1024),
    "gpt2-xl-compiled": lambda: Texts(torch.compile(gpt2_xl()), 6, lambda _: 1024),
    "gpt2": lambda: Texts(Transformer(12, 768, 12, 1024, 50257), 8, lambda _: 512),
    "bert-large": lambda: Texts(Transformer(24, 1024, 16, 512, 30522, causal=False), 32,
                                lambda _: 512, causal=False),
    "resnet152": lambda: image_model("resnet152"),
    "vgg19": lambda: image_model("vgg19"),
    "inception": lambda: image_model("inception_v3", width=299, aux_logits=False,
                                     init_weights=False),
    "regnet-y": lambda: image_model("regnet_y_16gf"),  # with SENet's squeeze and excitation
    "vit-large": lambda: image_model("vit_l_16"),
    "llama-1b": lambda: Texts(Llama(), 8, lambda _: 2048),
    "llama-1b-lora": lambda: Texts(llama_lora(), 8, lambda _: 2048),
    "unet": lambda: Noise(UNet(), 16, 64),
    "dlrm": lambda: Clicks(Dlrm(), 8192),
    "lengths": lambda: Texts(Transformer(24, 1024, 16, 1024, 50257), 8, changing_lengths),
}


class Torchao:
    """States and updates on the CPU, by torchao."""

    def __init__(self, task):
        try:
            from torchao.optim import CPUOffloadOptimizer
        except ImportError as error:
            raise Skipped("torchao is not installed") from error
        self.optimizer = CPUOffloadOptimizer(task.model.parameters(), torch.optim.AdamW, fused=True, lr=1e-4)

    def update(self, loss):
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


class DeepSpeed:
    """The same by DeepSpeed's ZeRO-2."""

    def __init__(self, task):
        try:
            import deepspeed
        except ImportError as error:
            raise Skipped("deepspeed is not installed") from error
        for name, value in (("MASTER_ADDR", "localhost"), ("MASTER_PORT", "29571"), ("RANK", "0"),
                            ("LOCAL_RANK", "0"), ("WORLD_SIZE", "1")):
            os.environ.setdefault(name, value)
        self.engine, *_ = deepspeed.initialize(
            model=task.model, model_parameters=task.model.parameters(),
            config={"train_micro_batch_size_per_gpu": task.batch, "gradient_accumulation_steps": 1,
                    "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "weight_decay": 0.01}},
                    "zero_optimization": {"stage": 2, "offload_optimizer": {
                        "device": "cpu", "pin_memory": True}}})
        task.model = self.engine

    def update(self, loss):
        self.engine.backward(loss)
        self.engine.step()


class Plain:
    def __init__(self, task):
        self.optimizer = task.optimizer

    def update(self, loss):
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


OPTIMIZERS = {"plain": Plain, "torchao": Torchao, "deepspeed": DeepSpeed}


class Training:
    def __init__(self, options):
        torch.manual_seed(1)
        with torch.device("cuda"):
            self.task = MODELS[options.model]()
        if options.checkpointing:
            if not hasattr(self.task.model, "checkpointing"):
                raise Skipped("this model has no checkpointing, or is compiled")
            self.task.model.checkpointing = True
        if options.optimizer != "plain" and not isinstance(self.task, Texts):
            raise Skipped(f"{options.optimizer} is for AdamW")
        self.optimizer = OPTIMIZERS[options.optimizer](self.task)
        self.saved = ((lambda: torch.autograd.graph.save_on_cpu(pin_memory=True))
                      if options.save_on_cpu else contextlib.nullcontext)
        self.steps = 0

    def step(self):
        with self.saved():
            loss = self.task.loss(self.steps)
        self.optimizer.update(loss)
        self.steps += 1
        return loss.detach()


def say(**what):
    print(json.dumps(what), flush=True)


def train(options):
    training = Training(options)
    torch.cuda.synchronize()
    while training.steps < options.steps and (
            training.steps < 3 or time.monotonic() - begin < options.seconds):
        start = time.monotonic()
        if training.steps <= 1:
            begin = start  # not of what is compiled or pinned in the first step
        loss = training.step()
        torch.cuda.synchronize()
        say(step=training.steps - 1, ms=1e3 * (time.monotonic() - start), loss=loss.item().hex())
    say(peak_bytes=torch.cuda.max_memory_allocated(), torch=torch.__version__,
        device=torch.cuda.get_device_name())


def serve(options):
    training = Training(options)
    for _ in range(5):
        training.step()
    torch.cuda.synchronize()
    print("ready", flush=True)
    for _ in sys.stdin:
        times = []
        for _ in range(options.steps):
            start = time.monotonic()
            training.step()
            torch.cuda.synchronize()
            times.append(1e3 * (time.monotonic() - start))
        print(statistics.median(times), min(times), flush=True)


def be_deterministic(warn_only=False):
    # Only then: PyTorch parses it anew for each matrix product, three times with a bias.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    # Flash attention's backward pass is so only where nothing but that is allowed; VGG's pooling
    # has no such backward pass, and is the same from run to run all the same.
    torch.use_deterministic_algorithms(True, warn_only=warn_only)
    torch.utils.deterministic.fill_uninitialized_memory = False
    # Its backward pass is not deterministic, and says so only by a warning.
    torch.backends.cuda.enable_cudnn_sdp(False)


def main():
    faulthandler.enable()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--steps", type=int, default=8, help="in all, or for each line")
    parser.add_argument("--seconds", type=float, default=60, help="no step begins so long after the second")
    parser.add_argument("--stacks-after", type=float, help="seconds: say where everybody stands")
    parser.add_argument("--save-on-cpu", action="store_true")
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="plain", help="whose, of a transformer")
    parser.add_argument("--checkpointing", action="store_true", help="activations are computed again")
    parser.add_argument("--activation-budget", type=float, default=1.0,
                        help="how much a compiled model keeps instead of computing it again")
    parser.add_argument("--deterministic", action="store_true")
    parser.add_argument("--serve", action="store_true")
    options = parser.parse_args()
    if options.stacks_after:
        faulthandler.dump_traceback_later(options.stacks_after)
    if options.activation_budget != 1:
        from torch._functorch import config
        config.activation_memory_budget = options.activation_budget
    if options.deterministic:
        be_deterministic(warn_only=options.model == "vgg19")
    try:
        serve(options) if options.serve else train(options)
    except Skipped as reason:
        say(skipped=str(reason))
    except torch.OutOfMemoryError as error:
        say(failed="out of memory: " + str(error).splitlines()[0])


if __name__ == "__main__":
    main()
