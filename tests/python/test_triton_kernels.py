"""What is told of torch.compile's Triton kernels (python/spillway/triton_kernels.py)."""

import importlib.util
import pathlib
import types

import pytest

FILE = pathlib.Path(__file__).resolve().parents[2] / "python" / "spillway" / "triton_kernels.py"


@pytest.fixture
def kernels():
    spec = importlib.util.spec_from_file_location("triton_kernels", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("kernel, names, letters", [
    ("triton_poi_fused_gelu_3", ["in_ptr0", "in_ptr1", "out_ptr0", "xnumel"], "rr.."),
    ("triton_poi_fused_add_3", ["in_out_ptr0", "in_ptr0", "xnumel"], ".r."),
    ("triton_poi_fused_two_3", ["in_ptr0", "out_ptr0", "out_ptr1", "xnumel"], "r..."),
    ("triton_red_fused_sum_3", ["in_ptr0", "out_ptr0", "xnumel", "r0_numel"], "r..."),
    ("triton_tem_fused_mm_3", ["arg_A", "in_ptr2", "out_ptr0"], ""),
    ("mine", ["in_ptr0", "out_ptr0"], ""),
])
def test_names_say_what_is_done(kernels, kernel, names, letters):
    assert kernels.roles(kernel, names) == letters


def test_what_is_constant_is_no_parameter(kernels):
    names = ["in_ptr0", "out_ptr0", "xnumel", "XBLOCK"]
    signature = {"in_ptr0": "*bf16", "out_ptr0": "*fp32", "xnumel": "i32", "XBLOCK": "constexpr"}
    assert kernels.given(names, signature, {(3,): 512}) == names[:3]
    assert kernels.given(names, {0: "*bf16", 1: "*fp32", 2: "i32"}, {2: 1}) == names[:2]


class Launcher:
    """A kernel of PyTorch's static launcher."""

    def __init__(self, name, arg_names, arg_tys):
        self.name, self.arg_names, self.arg_tys = name, arg_names, arg_tys
        self.full_constexprs, self.declared_constexprs = [3], [3]
        self.function = None

    def load_kernel(self, device):
        self.function = 100 + device

    def close(self):
        self.function = None


class Compiled:
    """A kernel of Triton's own."""

    def __init__(self):
        self.name, self.function = "triton_poi_fused_2", None
        self.src = types.SimpleNamespace(
            fn=types.SimpleNamespace(arg_names=["in_ptr0", "out_ptr0", "xnumel"]),
            signature={"in_ptr0": "*bf16", "out_ptr0": "*bf16", "xnumel": "i32"}, constants={})

    def _init_handles(self):
        self.function = 200


def test_the_library_is_told_once_a_kernel_is_loaded(kernels, monkeypatch):
    told = []
    monkeypatch.setattr(kernels, "_tell_function", lambda: lambda *said: told.append(said))
    launcher = type("Launcher", (Launcher,), {"load_kernel": Launcher.load_kernel,
                                              "close": Launcher.close})
    kernels.follow_static_launcher(types.SimpleNamespace(StaticallyLaunchedTritonKernel=launcher))
    names = ["in_ptr0", "out_ptr0", "xnumel", "XBLOCK"]
    first = launcher("triton_poi_fused_1", names, "OOi")
    first.load_kernel(1)
    first.load_kernel(1)
    first.close()
    launcher("triton_poi_fused_1", names, "OO").load_kernel(2)  # not as it was understood
    launcher("triton_poi_fused_1", None, "OO").load_kernel(3)
    compiled = type("Compiled", (Compiled,), {"_init_handles": Compiled._init_handles})
    kernels.follow_triton(types.SimpleNamespace(CompiledKernel=compiled))
    compiled()._init_handles()
    assert told == [(101, b"triton_poi_fused_1", b"r.."), (101, b"", None),
                    (102, b"triton_poi_fused_1", None), (103, b"", None),
                    (200, b"triton_poi_fused_2", b"r..")]


def test_nothing_changes_without_the_library(kernels, monkeypatch):
    monkeypatch.setattr(kernels, "_tell_function", lambda: None)
    before = Launcher.load_kernel
    kernels.follow_static_launcher(types.SimpleNamespace(StaticallyLaunchedTritonKernel=Launcher))
    assert Launcher.load_kernel is before
