"""What inductor makes of the operators: its generated code has each of them, at its place, and the same kernels."""

import importlib
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", minversion="2.9")

import spillway.autovm  # noqa: E402
from conftest import PROJECT, clean_environment  # noqa: E402
from networks import no_caches_on_disk  # noqa: E402, F401, a fixture
from torch._inductor.utils import run_fw_bw_and_get_code  # noqa: E402

# Of floats 512 x 256 are 512 KiB.
SMALL = {"device_memory": "2MiB", "size_threshold": "256KiB", "distance": 3}


class Blocks(torch.nn.Module):
    """Three times: a product, gelu, a product, a sum. Inductor makes one kernel of what is around gelu."""

    def __init__(self):
        super().__init__()
        self.up = torch.nn.ModuleList([torch.nn.Linear(64, 256) for _ in range(3)])
        self.down = torch.nn.ModuleList([torch.nn.Linear(256, 64) for _ in range(3)])

    def forward(self, x):
        for up, down in zip(self.up, self.down):
            x = x + down(torch.nn.functional.gelu(up(x)))
        return x


def code_of(backend, module=Blocks, shape=(512, 64), **more):
    """Gradients, and the code of the forward and the backward graph."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    made, x = module(), torch.randn(shape)
    compiled = torch.compile(made, backend=backend, **more)
    result, codes = run_fw_bw_and_get_code(lambda: compiled(x))
    assert len(codes) == 2
    return [result.detach(), *(parameter.grad for parameter in made.parameters())], codes


def wrapper(code):
    """The lines of the function that calls the kernels."""
    lines = code[code.index("def call("):].splitlines()
    return [line.strip() for line in lines if re.search(r"kernel|spillway\.|\bcpp_|return \(", line)]


def kernels(code):
    return re.findall(r"async_compile\.cpp_pybinding\(.*?'''\)", code, re.S)


def uses(line, name):
    return re.search(rf"(?<!\.)\b{name}\b", line) is not None


def operators(lines, kind):
    found = [(at, re.search(r"default\((\w+)\)", line)[1]) for at, line in enumerate(lines)
             if f"torch.ops.spillway.{kind}.default" in line]
    assert len({name for _, name in found}) == len(found)
    return found


@pytest.fixture(scope="module")
def both():
    return code_of("inductor"), code_of("spillway", options=SMALL)


def test_the_same_kernels_and_so_the_same_bits(both):
    (plain, plain_codes), (ours, our_codes) = both
    assert all(torch.equal(one, other) for one, other in zip(plain, ours))
    for plain_code, our_code in zip(plain_codes, our_codes):
        assert kernels(plain_code) == kernels(our_code) and kernels(our_code)
        without = [line for line in wrapper(our_code) if "spillway" not in line]
        assert len(without) == len(wrapper(plain_code))  # nothing runs again


def test_each_pre_eviction_stands_behind_the_last_kernel_that_uses_its_tensor(both):
    forward, backward = map(wrapper, both[1][1])
    evicted = operators(forward, "pre_evict")
    # Saved are the product before gelu and gelu itself, three times; the last gelu is needed again at once.
    assert len(evicted) == 5 and operators(backward, "pre_evict") == []
    for at, name in evicted:
        users = [other for other, line in enumerate(forward) if uses(line, name) and other != at
                 and not line.startswith("return")]
        assert users and max(users) == max(other for other in range(at) if "spillway" not in forward[other])
        assert uses(forward[-1], name)  # given to the backward pass


def test_each_prefetch_stands_ahead_of_the_first_kernel_that_uses_its_tensor(both):
    forward, backward = map(wrapper, both[1][1])
    prefetched = operators(backward, "prefetch")
    assert prefetched and operators(forward, "prefetch") == []
    report = str(spillway.autovm.reports()[-1])
    ahead = {name: int(many) for name, many in
             re.findall(r"prefetch (\w+), .*?(\d+) operations ahead", report)}
    assert set(ahead) == {name for _, name in prefetched}
    for at, name in prefetched:
        users = [other for other, line in enumerate(backward) if uses(line, name) and other != at]
        assert min(users) > at
        between = [line for line in backward[at + 1:min(users)] if "spillway" not in line]
        assert between or ahead[name] <= 2, (name, ahead[name])
    # In the order of their uses, and not all at the start.
    firsts = [min(other for other, line in enumerate(backward) if uses(line, name) and other != at)
              for at, name in prefetched]
    assert firsts == sorted(firsts) and prefetched[-1][0] > len(prefetched)


class Normed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(*[part for _ in range(2) for part in
                                            (torch.nn.Conv2d(4, 4, 3, padding=1), torch.nn.BatchNorm2d(4),
                                             torch.nn.ReLU())])

    def forward(self, x):
        return self.layers(x).view(-1, 64)


def test_a_saved_view_is_offloaded_as_the_memory_it_lies_in():
    ours, codes = code_of("spillway", Normed, (2, 4, 64, 64),
                          options={"device_memory": "128KiB", "size_threshold": "16KiB", "distance": 2})
    forward = wrapper(codes[0])
    assert operators(forward, "pre_evict")
    for at, name in operators(forward, "pre_evict"):
        assert name.startswith("buf")  # never a view of one
        assert not any(uses(line, name) for line in forward[at + 1:-1])


def test_shapes_that_are_not_known_stay():
    code_of("spillway", dynamic=True, options=SMALL)
    report = spillway.autovm.reports()[-1]
    assert report.insertions == 0 and "its size is not known here (dynamic shape)" in str(report)


def test_an_operator_of_the_script_runs_once_and_in_order():
    def function(x, w):
        y = torch.tanh(x @ w)
        torch.ops.spillway.pre_evict(y)
        z = torch.sin(y)
        torch.ops.spillway.prefetch(y)
        return z * y

    torch._dynamo.reset()
    x, w = torch.randn(8, 8), torch.randn(8, 8, requires_grad=True)
    _, codes = run_fw_bw_and_get_code(lambda: torch.compile(function)(x, w))
    calls = [re.findall(r"torch\.ops\.spillway\.(\w+)\.default", code) for code in codes]
    assert calls == [["pre_evict", "prefetch"], []]


# --- Caches --------------------------------------------------------------------------------------------------------

# PyTorch is imported once: each run is a fork that has compiled nothing.
IN_NEW_PROCESSES = """
    import os, sys, torch, spillway.autovm
    import torch._inductor.compile_fx
    from torch._dynamo.utils import counters

    def function(x, w):
        for _ in range(3):
            x = torch.tanh(x @ w)
        return x

    def run(backend, memory):
        x, w = torch.ones(64, 64), torch.ones(64, 64, requires_grad=True)
        options = {"device_memory": memory, "size_threshold": "1KiB", "distance": 1} if memory != "-" else None
        compiled = torch.compile(function, backend=backend, options=options)
        compiled(x, w).sum().backward()  # compiled, which calls the operators as well
        with torch.profiler.profile() as profile:
            compiled(x, w).sum().backward()
        names = [event.name for event in profile.events()]
        print(sum(name == "spillway::pre_evict" for name in names),
              sum(name == "spillway::prefetch" for name in names),
              int(counters["aot_autograd"]["autograd_cache_hit"] > 0), flush=True)

    for word in sys.argv[1:]:
        child = os.fork()
        if child == 0:
            try:
                run(*word.split(","))
            except BaseException:
                sys.excepthook(*sys.exc_info())
                os._exit(1)
            os._exit(0)
        if os.waitpid(child, 0)[1] != 0:
            sys.exit(f"{word} has failed")
"""


def test_what_is_cached_on_disk_is_that_of_the_same_settings(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(IN_NEW_PROCESSES))
    words = ["inductor,-", "spillway,80KiB", "spillway,80KiB", "spillway,1GiB", "inductor,-"]
    result = subprocess.run([sys.executable, script, *words], capture_output=True, text=True, timeout=300,
                            env={**clean_environment(), "PYTHONPATH": str(PROJECT / "python"),
                                 "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")})
    assert result.returncode == 0, result.stderr
    plain, first, again, roomy, plain_again = [tuple(map(int, line.split()))
                                               for line in result.stdout.splitlines()]
    assert plain == (0, 0, 0)
    evicted, prefetched, hit = first
    assert evicted > 0 and prefetched > 0 and not hit
    assert again == (evicted, prefetched, 1)  # from the disk, operators and all
    assert roomy == (0, 0, 0)
    assert plain_again == (0, 0, 1)


# --- The backend ---------------------------------------------------------------------------------------------------


def test_it_is_pytorchs_entry_point():
    if sys.version_info < (3, 11):
        pytest.skip("no tomllib")
    import tomllib

    project = tomllib.loads((Path(PROJECT) / "pyproject.toml").read_text())["project"]
    module, name = project["entry-points"]["torch_dynamo_backends"]["spillway"].split(":")
    entry = getattr(importlib.import_module(module), name)
    assert torch._dynamo.lookup_backend("spillway") is entry


def test_without_a_budget_nothing_is_inserted(monkeypatch):
    monkeypatch.delenv("SPILLWAY_DEVICE_MEMORY", raising=False)
    torch._dynamo.reset()
    torch.compile(lambda x: x + 1, backend="spillway", options={"then": "eager"})(torch.ones(4))
    assert "no budget is known" in str(spillway.autovm.reports()[-1])


@pytest.mark.parametrize("options,line", [({"then": "tensorrt"}, "it can be inductor, aot_eager or eager"),
                                          ({"then": "eager", "max_autotune": True}, "have no meaning with"),
                                          ({"device_memory": "much"}, "'much' is not a size")])
def test_options_that_are_wrong(options, line):
    torch._dynamo.reset()
    with pytest.raises(Exception, match=line):
        torch.compile(lambda x: x + 1, backend="spillway", options=options)(torch.ones(4))


def test_the_budget_is_that_of_the_run(monkeypatch):
    monkeypatch.setitem(os.environ, "SPILLWAY_DEVICE_MEMORY", "1234")
    assert spillway.autovm.backend.settings_from().budget_bytes == 1234
