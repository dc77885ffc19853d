"""Programs that are no training loop, for budgets that are smaller than they are: a model that is only
read writes a text, small matrices are trained beside frozen weights, batches are accumulated, noise
is taken from images, two networks train against each other, matrices are decomposed and sorted.
other_programs.py runs them."""

import torch
from torch import nn
from torch.nn import functional as F

from fitting_programs import guesses, texts, transformer
from measuring import digest, tell, timed

BF16 = torch.bfloat16


def weight(*shape):
    return torch.randn(shape, device="cuda", dtype=BF16) * 0.02


def weights():
    """15.3 GiB of them, read once for each token of eight texts."""
    texts(*transformer(4096, 40, BF16), (128, 256), 16, 8)


def trained(name, step, count):
    losses = []

    def kept(i):
        losses.append(step(i).detach())

    tell(name, timed(kept, count), digest(torch.stack(losses)))


def frozen():
    """9 GiB of weights that stay as they are, and matrices of rank 16 beside them."""
    width = 4096
    layers = [(weight(4 * width, width), weight(width, 4 * width), weight(width, width))
              for _ in range(32)]
    small = [(nn.Parameter(torch.randn(16, width, device="cuda") * 0.02),
              nn.Parameter(torch.zeros(4 * width, 16, device="cuda"))) for _ in layers]
    optimizer = torch.optim.AdamW([matrix for pair in small for matrix in pair], 1e-3)

    def train(_):
        x = torch.randn(2048, width, device="cuda", dtype=BF16)
        with torch.autocast("cuda", BF16):
            for (up, down, last), (a, b) in zip(layers, small):
                y = F.layer_norm(x, (width,))
                x = x + F.gelu(y @ up.T + (y @ a.T) @ b.T) @ down.T
                x = x + F.layer_norm(x, (width,)) @ last.T
            loss = (x.float() - 1).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    trained("train", train, 14)


def accumulated():
    """fp16 with a scaler, four batches a step, clipped, with a moving average of the weights: 12,000
    launches a step, limited by the processor."""
    words, blocks = transformer(1536, 24)
    parameters = [*words.parameters(), *blocks.parameters()]
    average = [parameter.detach().clone() for parameter in parameters]
    optimizer = torch.optim.AdamW(parameters, 1e-4)
    scaler = torch.amp.GradScaler()

    def train(_):
        for _ in range(4):
            text = torch.randint(32000, (4, 512), device="cuda")
            with torch.autocast("cuda", torch.float16):
                y = guesses(words, blocks, text)
                loss = F.cross_entropy(y.view(-1, 32000), text.view(-1)) / 4
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(parameters, 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            torch._foreach_lerp_(average, parameters, 0.01)
        return loss

    trained("train", train, 12)


class Residual(nn.Module):
    def __init__(self, before, after):
        super().__init__()
        self.norm, self.norm2 = nn.GroupNorm(32, before), nn.GroupNorm(32, after)
        self.first = nn.Conv2d(before, after, 3, padding=1)
        self.second = nn.Conv2d(after, after, 3, padding=1)
        self.short = nn.Conv2d(before, after, 1)

    def forward(self, x):
        y = self.first(F.silu(self.norm(x)))
        return self.short(x) + self.second(F.silu(self.norm2(y)))


class Denoiser(nn.Module):
    """A U-Net of four levels."""

    def __init__(self):
        super().__init__()
        widths = (128, 256, 384, 512)
        self.first, self.last = nn.Conv2d(3, 128, 3, padding=1), nn.Conv2d(128, 3, 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        for level, width in enumerate(widths):
            above = widths[max(0, level - 1)]
            self.down.append(nn.Sequential(Residual(above, width), Residual(width, width)))
            self.up.insert(0, nn.Sequential(Residual(2 * width, width), Residual(width, above)))

    def forward(self, x):
        x = self.first(x)
        kept = []
        for level, down in enumerate(self.down):
            x = down(x)
            kept.append(x)
            x = F.avg_pool2d(x, 2) if level < 3 else x
        for level, up in enumerate(self.up):
            x = F.interpolate(x, scale_factor=2) if level > 0 else x
            x = up(torch.cat([x, kept.pop()], 1))
        return self.last(x)


def denoiser():
    with torch.device("cuda"):
        model = Denoiser()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)

    def train(_):
        x = torch.randn(48, 3, 128, 128, device="cuda")
        noise = torch.randn_like(x)
        with torch.autocast("cuda", BF16):
            loss = F.mse_loss(model(x + noise), noise)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    trained("train", train, 14)
    model.eval()
    image = torch.randn(192, 3, 128, 128, device="cuda")

    def sample(_):
        with torch.no_grad(), torch.autocast("cuda", BF16):
            image.sub_(0.1 * model(image))
        return image.sum()

    trained("sample", sample, 10)


def adversaries():
    """Two networks take turns, one of them twice in every other step."""
    def layers(count, between):
        return nn.Sequential(*(layer for _ in range(count)
                               for layer in (nn.Linear(4096, 4096), between)))

    with torch.device("cuda"):
        makes, judges = layers(10, nn.ReLU()), layers(14, nn.LeakyReLU(0.2))
    of_makes = torch.optim.Adam(makes.parameters(), 1e-4)
    of_judges = torch.optim.Adam(judges.parameters(), 1e-4)

    def train(i):
        x = torch.randn(16384, 4096, device="cuda")
        for _ in range(1 + i % 2):
            with torch.no_grad():
                made = makes(torch.randn_like(x))
            loss = F.softplus(-judges(x)).mean() + F.softplus(judges(made)).mean()
            loss.backward()
            of_judges.step()
            of_judges.zero_grad()
        loss = F.softplus(-judges(makes(torch.randn_like(x)))).mean()
        loss.backward()
        of_makes.step()
        of_makes.zero_grad()
        of_judges.zero_grad()
        return loss

    trained("train", train, 12)


def algebra():
    """Matrices of 20,000 x 20,000."""
    a, b = (torch.randn(20000, 20000, device="cuda") for _ in range(2))
    trained("products", lambda _: (a @ b).sum(), 4)
    square = a @ a.T / 20000
    square.diagonal().add_(1)
    trained("cholesky", lambda _: torch.linalg.cholesky(square).diagonal().sum(), 3)
    trained("solve", lambda _: torch.linalg.solve(square, b[:, :4096]).sum(), 3)
    trained("fft", lambda _: torch.fft.ifft2(2 * torch.fft.fft2(a)).real.sum(), 4)
    trained("sort", lambda _: torch.sort(b.view(-1)[:200_000_000])[0][::1000].sum(), 4)
    trained("choose", lambda _: a[a > 0.5].sum(), 4)


PROGRAMS = {"weights": weights, "frozen": frozen, "accumulated": accumulated,
            "denoiser": denoiser, "adversaries": adversaries, "algebra": algebra}
