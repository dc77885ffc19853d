"""Five networks of torchvision by their shapes, for machines whose PyTorch has no torchvision.

Same modules in the same order as torchvision 0.26, so that a training step launches the same; weights
are left as PyTorch makes them. `models.resnet152()` and so on, as bench/gpu/train_models.py asks.
"""

import types
from functools import partial

import torch
from torch import nn
from torch.nn import functional


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                                            nn.BatchNorm2d(outputs))

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        self.relu, self.maxpool = nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        layers, inputs = [], 64
        for stage, count in enumerate(blocks):
            width = 64 << stage
            for n in range(count):
                layers.append(Bottleneck(inputs, width, 2 if n == 0 and stage else 1))
                inputs = 4 * width
        self.layers = nn.Sequential(*layers)
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(2048, 1000)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        return self.fc(torch.flatten(self.avgpool(self.layers(x)), 1))


class VGG(nn.Module):
    def __init__(self):
        super().__init__()
        layers, inputs = [], 3
        for width in (64, 64, 0, 128, 128, 0, 256, 256, 256, 256, 0, 512, 512, 512, 512, 0,
                      512, 512, 512, 512, 0):
            if width:
                layers += [nn.Conv2d(inputs, width, 3, padding=1), nn.ReLU(inplace=True)]
                inputs = width
            else:
                layers.append(nn.MaxPool2d(2, 2))
        self.features, self.avgpool = nn.Sequential(*layers), nn.AdaptiveAvgPool2d(7)
        self.classifier = nn.Sequential(
            nn.Linear(25088, 4096), nn.ReLU(True), nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(True),
            nn.Dropout(), nn.Linear(4096, 1000))

    def forward(self, x):
        return self.classifier(torch.flatten(self.avgpool(self.features(x)), 1))


class EncoderBlock(nn.Module):
    def __init__(self, width, heads, hidden):
        super().__init__()
        norm = partial(nn.LayerNorm, eps=1e-6)
        self.ln_1, self.ln_2 = norm(width), norm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.dropout = nn.Dropout(0.0)
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Dropout(0.0),
                                 nn.Linear(hidden, width), nn.Dropout(0.0))

    def forward(self, x):
        y = self.ln_1(x)
        y, _ = self.attention(y, y, y, need_weights=False)
        y = self.dropout(y) + x
        return y + self.mlp(self.ln_2(y))


class ViT(nn.Module):
    def __init__(self, patch=16, width=1024, layers=24, heads=16, hidden=4096):
        super().__init__()
        self.width = width
        self.conv_proj = nn.Conv2d(3, width, patch, patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.empty(1, (224 // patch) ** 2 + 1, width).normal_(std=0.02))
        self.dropout = nn.Dropout(0.0)
        self.layers = nn.Sequential(*(EncoderBlock(width, heads, hidden) for _ in range(layers)))
        self.ln, self.head = nn.LayerNorm(width, eps=1e-6), nn.Linear(width, 1000)

    def forward(self, x):
        batch = x.shape[0]
        x = self.conv_proj(x).reshape(batch, self.width, -1).permute(0, 2, 1)
        x = torch.cat([self.class_token.expand(batch, -1, -1), x], dim=1)
        x = self.ln(self.layers(self.dropout(x + self.places)))
        return self.head(x[:, 0])


class SqueezeExcitation(nn.Module):
    def __init__(self, width, squeezed):
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1, self.fc2 = nn.Conv2d(width, squeezed, 1), nn.Conv2d(squeezed, width, 1)

    def forward(self, x):
        scale = self.fc2(functional.relu(self.fc1(self.avgpool(x))))
        return torch.sigmoid(scale) * x


class RegNetBlock(nn.Module):
    def __init__(self, inputs, width, stride, group_width):
        super().__init__()
        self.proj = None
        if stride != 1 or inputs != width:
            self.proj = nn.Sequential(nn.Conv2d(inputs, width, 1, stride, bias=False),
                                      nn.BatchNorm2d(width))
        self.f = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
            nn.Conv2d(width, width, 3, stride, 1, groups=width // group_width, bias=False),
            nn.BatchNorm2d(width), nn.ReLU(True), SqueezeExcitation(width, round(0.25 * inputs)),
            nn.Conv2d(width, width, 1, bias=False), nn.BatchNorm2d(width))
        self.activation = nn.ReLU(True)

    def forward(self, x):
        shortcut = x if self.proj is None else self.proj(x)
        return self.activation(shortcut + self.f(x))


class RegNet(nn.Module):
    def __init__(self, depths, widths, group_width):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32),
                                  nn.ReLU(True))
        blocks, inputs = [], 32
        for depth, width in zip(depths, widths):
            for n in range(depth):
                blocks.append(RegNetBlock(inputs, width, 2 if n == 0 else 1, group_width))
                inputs = width
        self.blocks = nn.Sequential(*blocks)
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(inputs, 1000)

    def forward(self, x):
        return self.fc(self.avgpool(self.blocks(self.stem(x))).flatten(1))


class Conv(nn.Module):
    """Inception's: batch norm and relu behind it."""

    def __init__(self, inputs, outputs, size, **more):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, size, bias=False, **more)
        self.bn = nn.BatchNorm2d(outputs, eps=0.001)

    def forward(self, x):
        return functional.relu(self.bn(self.conv(x)), inplace=True)


class Branches(nn.Module):
    """Side by side, each a row of modules; a tuple in a row forks its input again."""

    def __init__(self, *branches):
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x):
        return torch.cat([branch(x) for branch in self.branches], 1)


def inception_a(inputs, pooled):
    return Branches(
        Conv(inputs, 64, 1),
        nn.Sequential(Conv(inputs, 48, 1), Conv(48, 64, 5, padding=2)),
        nn.Sequential(Conv(inputs, 64, 1), Conv(64, 96, 3, padding=1), Conv(96, 96, 3, padding=1)),
        nn.Sequential(nn.AvgPool2d(3, 1, 1), Conv(inputs, pooled, 1)))


def inception_b(inputs):
    return Branches(
        Conv(inputs, 384, 3, stride=2),
        nn.Sequential(Conv(inputs, 64, 1), Conv(64, 96, 3, padding=1), Conv(96, 96, 3, stride=2)),
        nn.MaxPool2d(3, 2))


def inception_c(inputs, width):
    def across(a, b):
        return Conv(a, b, (1, 7), padding=(0, 3))

    def down(a, b):
        return Conv(a, b, (7, 1), padding=(3, 0))

    return Branches(
        Conv(inputs, 192, 1),
        nn.Sequential(Conv(inputs, width, 1), across(width, width), down(width, 192)),
        nn.Sequential(Conv(inputs, width, 1), down(width, width), across(width, width),
                      down(width, width), across(width, 192)),
        nn.Sequential(nn.AvgPool2d(3, 1, 1), Conv(inputs, 192, 1)))


def inception_d(inputs):
    return Branches(
        nn.Sequential(Conv(inputs, 192, 1), Conv(192, 320, 3, stride=2)),
        nn.Sequential(Conv(inputs, 192, 1), Conv(192, 192, (1, 7), padding=(0, 3)),
                      Conv(192, 192, (7, 1), padding=(3, 0)), Conv(192, 192, 3, stride=2)),
        nn.MaxPool2d(3, 2))


def inception_e(inputs):
    def fork(a):
        return Branches(Conv(a, 384, (1, 3), padding=(0, 1)), Conv(a, 384, (3, 1), padding=(1, 0)))

    return Branches(
        Conv(inputs, 320, 1), nn.Sequential(Conv(inputs, 384, 1), fork(384)),
        nn.Sequential(Conv(inputs, 448, 1), Conv(448, 384, 3, padding=1), fork(384)),
        nn.Sequential(nn.AvgPool2d(3, 1, 1), Conv(inputs, 192, 1)))


class Inception(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            Conv(3, 32, 3, stride=2), Conv(32, 32, 3), Conv(32, 64, 3, padding=1), nn.MaxPool2d(3, 2),
            Conv(64, 80, 1), Conv(80, 192, 3), nn.MaxPool2d(3, 2),
            inception_a(192, 32), inception_a(256, 64), inception_a(288, 64), inception_b(288),
            inception_c(768, 128), inception_c(768, 160), inception_c(768, 160), inception_c(768, 192),
            inception_d(768), inception_e(1280), inception_e(2048), nn.AdaptiveAvgPool2d(1))
        self.dropout, self.fc = nn.Dropout(0.5), nn.Linear(2048, 1000)

    def forward(self, x):
        return self.fc(torch.flatten(self.dropout(self.layers(x)), 1))


models = types.SimpleNamespace(
    resnet152=lambda: ResNet((3, 8, 36, 3)), vgg19=VGG, vit_l_16=ViT,
    inception_v3=lambda **_: Inception(),
    regnet_y_16gf=lambda: RegNet((2, 4, 11, 1), (224, 448, 1232, 3024), 112))
