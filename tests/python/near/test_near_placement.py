"""What decides for a GPU without one: which of PyTorch's implementations it is, what the native functions are called
with, and what a library without them takes."""

import ctypes
import shutil
import subprocess
import types

import pytest

from twins import one_thread, torch  # noqa: F401, one_thread is a fixture

from spillway.near import native, placement, rules

ADAM, SGD = torch.optim.Adam, torch.optim.SGD


def test_which_implementation_it_is(monkeypatch):
    """PyTorch's default is foreach where all of a group's tensors are on a GPU."""
    on_gpu, on_cpu = torch.nn.Parameter(torch.ones(3, device="meta")), torch.nn.Parameter(torch.ones(3))
    from torch.optim import optimizer

    monkeypatch.setattr(optimizer, "_get_foreach_kernels_supported_devices", lambda: ["meta"])
    group = {"fused": None, "foreach": None, "lr": 0.1}
    for changed, parameters, kind, expected in [
            ({}, [on_gpu, on_gpu], ADAM, "foreach"), ({}, [on_cpu], ADAM, "loop"), ({}, [on_gpu, on_cpu], ADAM, None),
            ({"foreach": False}, [on_gpu, on_cpu], ADAM, "loop"), ({"fused": False}, [on_gpu], ADAM, "loop"),
            ({"fused": True}, [on_gpu], ADAM, "fused"), ({"foreach": True}, [on_cpu], SGD, "foreach"),
            ({"lr": torch.tensor(0.1)}, [on_gpu], ADAM, "loop"), ({"lr": torch.tensor(0.1)}, [on_gpu], SGD, "foreach")]:
        assert rules.way(kind, {**group, **changed}, parameters) == expected, (changed, expected)


def gpu(monkeypatch, major=9, minor=0):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (major, minor))
    made = placement.Gpu(0)
    made.device = torch.device("cpu")
    return made


def test_whose_bits(monkeypatch):
    place = gpu(monkeypatch, 9)
    assert [place.variant(way) for way in ("fused", "foreach", "loop")] == [
        native.FUSED_CUDA, native.FOREACH_CUDA, native.LOOP_CUDA]
    group = {"weight_decay": 0.1, "lr": 0.1, "fused": True}
    key = dict(rules.options(torch.optim.AdamW, group, torch.float32, place, "fused"))
    assert (key["variant"], key["compute_capability"], key["square_roots"]) == (native.FUSED_CUDA, 90, None)
    assert key["decoupled_decay"] and not key["coupled_decay"]
    native.Update(native.Options(**key))
    key = rules.options(ADAM, group, torch.float32, place, "fused")  # below 10.0 its bits depend on the place
    with pytest.raises(native.Refused, match="where an element lies"):
        native.Update(native.Options(**dict(key)))
    on_host = dict(rules.options(ADAM, group, torch.float32, placement.HOST, "loop"))
    assert on_host["variant"] == native.LOOP_CPU and on_host["torch_threads"] == torch.get_num_threads()


def test_numbers_that_lie_there(monkeypatch):
    place = gpu(monkeypatch)
    assert place.read([torch.tensor(3.0), torch.tensor([7.0]), torch.tensor(5.0, dtype=torch.float64)]) == [3, 7, 5]
    assert place.holds_number(None) and place.holds_number(torch.tensor(1.0))
    assert not place.holds_number(torch.tensor(1.0, dtype=torch.float64))
    assert not place.holds_number(torch.empty((), device="meta"))
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    place._send = print
    assert place.sender() is None, "reductions come after the hooks"
    monkeypatch.undo()
    assert place.sender() is print


def test_what_is_asked_in_a_step(monkeypatch):
    place = gpu(monkeypatch)
    monkeypatch.setattr(native, "takes_on_gpu", lambda: False)
    assert place.why_not_now() == "everything fits on the device"
    monkeypatch.setattr(native, "takes_on_gpu", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    assert place.why_not_now() == "a CUDA graph is being captured"
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    assert place.why_not_now() is None


def test_a_library_without_the_functions(monkeypatch):
    native.knows_gpus.cache_clear()
    monkeypatch.setattr(native, "library", lambda: types.SimpleNamespace())
    try:
        assert not native.knows_gpus() and not native.takes_on_gpu() and native.sender() is None
        native.wait()
        assert placement.Places().of(torch.empty(1, device="meta")) is None
        assert placement.Places().of(torch.empty(1)) is placement.HOST
    finally:
        native.knows_gpus.cache_clear()


STUB = """
#include <stddef.h>
#include <stdint.h>
void spillway_near_update_on_gpu(void* pool, const void* update, const char* tensors, size_t count, void* stream,
                                 uint8_t* taken, const float* gradient_scale, const float* found_inf) {
  for (size_t i = 0; i < count; ++i) taken[i] = tensors[168 * i] != 0;
  taken[0] = pool == (void*)11 && update == (void*)12 && stream == (void*)13 && *gradient_scale == 2.5f && !found_inf;
}
int spillway_near_takes_on_gpu(void) { return 1; }
void spillway_near_send_gradient(const void* p, size_t bytes) { ++*(size_t*)p; *(size_t*)p += bytes; }
void spillway_near_wait(void) {}
"""


def test_the_arguments_arrive(tmp_path):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    (tmp_path / "stub.c").write_text(STUB)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", tmp_path / "stub.so", tmp_path / "stub.c"], check=True)
    library = native.with_gpu_functions(ctypes.CDLL(str(tmp_path / "stub.so")))
    update = types.SimpleNamespace(_library=library, _handle=12)
    scale = torch.tensor(2.5)
    tensors = [native.Tensor(native.Step(step=0.0)), native.Tensor(native.Step(step=5e-324)),
               native.Tensor(native.Step(step=0.0))]
    taken = native.Update.run_on_gpu(update, tensors, types.SimpleNamespace(_handle=11), 13, scale.data_ptr(), None)
    assert taken == [1, 1, 0]
    assert native.Update.run_on_gpu(update, tensors, None, 0, scale.data_ptr()) == [0, 1, 0]
    word = torch.tensor([40])
    library.spillway_near_send_gradient(word.data_ptr(), 8)
    assert word.item() == 49


def test_outside_of_a_run_nothing_is_taken():
    if not native.knows_gpus():
        pytest.skip("the library has no functions for GPUs")
    how = native.Update(native.Options(native.SGD, native.FOREACH_CUDA, compute_capability=90))
    one, gradient = torch.ones(1 << 20), torch.ones(1 << 20)
    tensor = native.in_place(native.Step(step=1, learning_rate=0.1), one.numel(), one.data_ptr(), gradient.data_ptr())
    assert how.run_on_gpu([tensor, tensor], None, 0) == [0, 0]
    native.wait()
    assert bool((one == 1).all())
