"""Small networks of many kinds, each as a function that makes a module and its inputs."""

import pytest
import torch
import torch._functorch.config
import torch._inductor.config
from torch import nn


@pytest.fixture(scope="session", autouse=True)
def no_caches_on_disk():
    """What comes from there was decided in another process, and has no report to look at."""
    with torch._functorch.config.patch(enable_autograd_cache=False), \
            torch._inductor.config.patch(fx_graph_cache=False):
        yield


class _Conv(nn.Sequential):
    def __init__(self, inputs, outputs, **options):
        super().__init__(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False, **options),
                         nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


class _Residual(nn.Module):
    def __init__(self, many):
        super().__init__()
        self.one, self.norm = _Conv(many, many), nn.BatchNorm2d(many)
        self.other = nn.Conv2d(many, many, 3, padding=1, bias=False)

    def forward(self, x):
        return torch.relu(self.norm(self.other(self.one(x))) + x)


class _Dense(nn.Module):
    def __init__(self, many, layers):
        super().__init__()
        self.layers = nn.ModuleList([_Conv(many + at * 4, 4) for at in range(layers)])

    def forward(self, x):
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return x


class _UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.deep, self.deeper = _Conv(3, 8), _Conv(8, 16), _Conv(16, 16)
        self.up, self.end = nn.ConvTranspose2d(16, 8, 2, stride=2), _Conv(16, 4)

    def forward(self, x):
        skip = self.down(x)
        y = self.deeper(self.deep(nn.functional.max_pool2d(skip, 2)))
        return self.end(torch.cat([self.up(y), skip], 1))


class _Inception(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = _Conv(3, 8)
        self.ways = nn.ModuleList([nn.Conv2d(8, 4, size, padding=size // 2) for size in (1, 3, 5)])

    def forward(self, x):
        x = self.first(x)
        return torch.cat([torch.relu(way(x)) for way in self.ways] + [nn.functional.avg_pool2d(x, 3, 1, 1)], 1)


class _Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.other_norm = nn.LayerNorm(32), nn.LayerNorm(32)
        self.tokens = nn.Sequential(nn.Linear(16, 24), nn.GELU(), nn.Dropout(0.1), nn.Linear(24, 16))
        self.channels = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))

    def forward(self, x):
        x = x + self.tokens(self.norm(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.other_norm(x))


def images(many=2, size=16):
    return torch.randn(many, 3, size, size)


def convolutions(module):
    return module, (images(),)


def transformer(name, **sizes):
    transformers = pytest.importorskip("transformers")
    config = getattr(transformers, f"{name}Config")(**sizes)
    return transformers, config


def words(many=64, length=16):
    return torch.randint(0, many, (2, length))


def _gpt2():
    transformers, config = transformer("GPT2", n_embd=32, n_layer=2, n_head=2, vocab_size=64, n_positions=32,
                                       use_cache=False)
    return transformers.GPT2LMHeadModel(config), {"input_ids": words(), "labels": words()}


def _bert():
    transformers, config = transformer("Bert", hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                                       intermediate_size=64, vocab_size=64, max_position_embeddings=32)
    return transformers.BertForMaskedLM(config), {"input_ids": words(), "labels": words()}


def _llama():
    transformers, config = transformer("Llama", hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                                       num_key_value_heads=2, intermediate_size=64, vocab_size=64,
                                       max_position_embeddings=32, use_cache=False)
    return transformers.LlamaForCausalLM(config), {"input_ids": words(), "labels": words()}


def _t5():
    transformers, config = transformer("T5", d_model=32, d_kv=16, num_heads=2, d_ff=64, num_layers=2, vocab_size=64,
                                       decoder_start_token_id=0, use_cache=False)
    return transformers.T5ForConditionalGeneration(config), {"input_ids": words(), "labels": words(length=8)}


def _vit():
    transformers, config = transformer("ViT", hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                                       intermediate_size=64, image_size=16, patch_size=4)
    return transformers.ViTForImageClassification(config), {"pixel_values": images(),
                                                           "labels": torch.randint(0, 2, (2,))}


def _resnet():
    transformers, config = transformer("ResNet", embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1],
                                       layer_type="basic", num_labels=4)
    return transformers.ResNetForImageClassification(config), {"pixel_values": images(),
                                                              "labels": torch.randint(0, 4, (2,))}


TRANSFORMERS = {"gpt2": _gpt2, "bert": _bert, "llama": _llama, "t5": _t5, "vit": _vit, "resnet": _resnet}
# All of these torch.fx can trace.
OWN = {
    "vgg": lambda: convolutions(nn.Sequential(_Conv(3, 8), _Conv(8, 8), nn.MaxPool2d(2), _Conv(8, 16),
                                              nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 32), nn.ReLU(),
                                              nn.Dropout(0.2), nn.Linear(32, 4))),
    "residual": lambda: convolutions(nn.Sequential(_Conv(3, 8), _Residual(8), _Residual(8))),
    "dense": lambda: convolutions(nn.Sequential(_Conv(3, 8), _Dense(8, 3))),
    "unet": lambda: convolutions(_UNet()),
    "inception": lambda: convolutions(_Inception()),
    "depthwise": lambda: convolutions(nn.Sequential(_Conv(3, 8), _Conv(8, 8, groups=8), nn.Conv2d(8, 16, 1),
                                                    nn.Hardswish(), nn.AdaptiveAvgPool2d(1))),
    "autoencoder": lambda: convolutions(nn.Sequential(nn.Conv2d(3, 8, 4, 2, 1), nn.GroupNorm(2, 8), nn.SiLU(),
                                                      nn.ConvTranspose2d(8, 3, 4, 2, 1), nn.Tanh())),
    "mixer": lambda: (nn.Sequential(_Mixer(), _Mixer()), (torch.randn(2, 16, 32),)),
}
ALL = {**TRANSFORMERS, **OWN}


def step(name, run=lambda module: module):
    """One training step from one seed: loss, gradients, and the buffers that it wrote."""
    torch.manual_seed(0)
    module, inputs = ALL[name]()
    module.train()
    ran = run(module)
    torch.manual_seed(1)
    result = ran(**inputs) if isinstance(inputs, dict) else ran(*inputs)
    loss = result.loss if hasattr(result, "loss") else result.square().mean()
    loss.backward()
    gradients = {key: value.grad for key, value in module.named_parameters() if value.grad is not None}
    assert gradients
    return {"loss": loss.detach(), **gradients, **{key: value.clone() for key, value in module.named_buffers()}}


def assert_same(one, other):
    assert one.keys() == other.keys()
    for key in one:
        assert torch.equal(one[key], other[key]), key
