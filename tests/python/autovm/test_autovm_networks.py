"""Compiled with the pass: the same losses, gradients and statistics, to the last bit, as compiled without it."""

import os

import pytest

torch = pytest.importorskip("torch", minversion="2.9")

import spillway.autovm  # noqa: E402
from networks import ALL, OWN, assert_same, no_caches_on_disk, step  # noqa: E402, F401

# So small that everything of a few KiB moves.
OPTIONS = {"device_memory": "16KiB", "size_threshold": "1KiB", "distance": 3}
# inductor compiles a network for a minute; SPILLWAY_ALL_NETWORKS=1 has it compile all of them.
COMPILED = list(ALL) if os.environ.get("SPILLWAY_ALL_NETWORKS") == "1" else ["gpt2", "residual"]


def compiled(backend, **options):
    torch._dynamo.reset()
    spillway.autovm.backend._reports.clear()
    return lambda module: torch.compile(module, backend=backend, **options)


def inserted():
    return sum(report.insertions for report in spillway.autovm.reports())


@pytest.mark.parametrize("name", ALL)
def test_through_aot_autograd(name):
    plain = step(name, compiled("aot_eager"))
    ours = step(name, compiled("spillway", options={"then": "aot_eager", **OPTIONS}))
    assert_same(plain, ours)
    assert inserted() > 0, [str(report) for report in spillway.autovm.reports()]


@pytest.mark.parametrize("name", COMPILED)
def test_through_inductor(name):
    # With several threads it adds rows of an embedding's gradient in the order in which they happen to come.
    with torch._inductor.config.patch({"cpp.threads": 1}):
        plain = step(name, compiled("inductor"))
        ours = step(name, compiled("spillway", options=OPTIONS))
    assert_same(plain, ours)
    assert inserted() > 0, [str(report) for report in spillway.autovm.reports()]


@pytest.mark.parametrize("name", OWN)
def test_a_traced_module(name):
    torch.manual_seed(0)
    module, inputs = OWN[name]()
    module.train()
    statistics = {key: value.clone() for key, value in module.state_dict().items()}

    def run(called):
        torch.manual_seed(1)
        called.load_state_dict(statistics)
        result = called(*inputs)
        gradients = torch.autograd.grad(result.square().mean(), list(called.parameters()))
        return {"result": result.detach(), **{str(at): one for at, one in enumerate(gradients)},
                **{key: value.clone() for key, value in called.named_buffers()}}

    traced = torch.fx.symbolic_trace(module)
    plain = run(traced)
    spillway.autovm.optimize(traced, inputs, device_memory="4KiB", size_threshold="1KiB", distance=1)
    assert_same(plain, run(traced))
    if name in ("residual", "unet", "dense", "inception"):
        assert spillway.autovm.explain(traced).insertions > 0


def test_torchvisions_classification_models():
    models = pytest.importorskip("torchvision").models
    for name in models.list_models(module=models):
        torch.manual_seed(0)
        module = models.get_model(name, weights=None).eval()
        size = 299 if name == "inception_v3" else 224
        x = torch.randn(1, 3, size, size)
        traced = torch.fx.symbolic_trace(module)
        with torch.no_grad():
            plain = module(x)
            spillway.autovm.optimize(traced, (x,), device_memory="1MiB", distance=2)
            assert torch.equal(plain, traced(x)), name
