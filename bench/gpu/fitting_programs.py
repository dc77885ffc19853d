"""Programs that are no training loop of one shape, where all fits: texts are generated with caches
that grow, convolutions are tried (cudnn.benchmark), evaluations and other shapes come between, three
threads train at once. other_programs.py runs them."""

import threading
import time

import torch
from torch import nn
from torch.nn import functional as F

from measuring import digest, tell, timed


def transformer(width, layers, dtype=torch.float32):
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
        words = nn.Embedding(32000, width).to(dtype)
        return words, nn.ModuleList(Block().to(dtype) for _ in range(layers))


def guesses(words, blocks, text):
    x = words(text)
    for block in blocks:
        x = block(x)
    return x @ words.weight.T


def texts(words, blocks, prompts, count, batch):
    """After each prompt so many tokens; what is attended to is kept."""
    for prompt in prompts:
        caches = [[] for _ in blocks]
        made = [torch.randint(32000, (batch, prompt), device="cuda")]

        def token(_):
            x = words(made[-1])
            for block, cache in zip(blocks, caches):
                x = block(x, cache)
            made.append((x[:, -1] @ words.weight.T).argmax(-1, keepdim=True))

        with torch.no_grad():
            ms = timed(token, count)
        tell(f"prompt {prompt}", ms[1:], digest(torch.cat(made, 1)))


def generate():
    texts(*transformer(2048, 24, torch.bfloat16), (64, 96, 128), 220, 64)


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
            y = guesses(words, blocks, text)
            y = y.float() if full else y
            return F.cross_entropy(y.view(-1, 32000), text.view(-1))

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
