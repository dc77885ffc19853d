"""The operators under `spillway run` on the host: what they name is in the record, and the bits stay.

Needs the built program (build/, or the folder that SPILLWAY_BUILD names) and userfaultfd.
"""

import json
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest
from conftest import PROJECT, clean_environment

pytest.importorskip("torch", minversion="2.9")

SPILLWAY = pathlib.Path(os.environ.get("SPILLWAY_BUILD", PROJECT / "build")) / "spillway"

pytestmark = pytest.mark.skipif(not SPILLWAY.exists(), reason=f"{SPILLWAY} is not built")

# Eight layers, each of which saves 2048 x 1024 floats: 8 MiB.
STEPS = """
    import hashlib, sys
    sys.path.insert(0, sys.argv[1])
    import torch
    import spillway.autovm

    torch.manual_seed(0)
    w = [torch.randn(1024).requires_grad_() for _ in range(8)]

    def chain(x):
        for one in w:
            x = torch.tanh(x * one)
        return x.square().sum()

    compiled = torch.compile(chain, backend="spillway", options={"then": sys.argv[2], **OPTIONS})
    digest = hashlib.sha256()
    for _ in range(2):
        loss = compiled(torch.ones(2048, 1024))
        loss.backward()
        for one in w:
            digest.update(one.grad.numpy().tobytes())
            one.grad = None
    print(digest.hexdigest(), sum(report.insertions for report in spillway.autovm.reports()))
"""


def run(tmp_path, then, *options, **settings):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(STEPS).replace("OPTIONS", repr(settings)))
    record = tmp_path / "record"
    record.unlink(missing_ok=True)
    prefix = [SPILLWAY, "run", "--device", "host", "--json", record, *options, "--"] if options else []
    result = subprocess.run([*prefix, sys.executable, script, PROJECT / "python", then], capture_output=True,
                            text=True, timeout=300, env=clean_environment())
    assert result.returncode == 0, result.stderr
    digest, insertions = result.stdout.split()
    return digest, int(insertions), json.loads(record.read_text()) if options else None


def test_what_is_asked_for_is_in_the_record_and_the_bits_stay(tmp_path):
    alone, none, _ = run(tmp_path, "aot_eager")
    assert none == 0  # no budget is known
    budget = ("--device-memory", "48MiB", "--host-memory", "1GiB")
    plain, none, without = run(tmp_path, "aot_eager", *budget, size_threshold="1GiB")
    assert none == 0 and without["asked_prefetch_bytes"] == without["asked_pre_evict_bytes"] == 0
    ours, many, record = run(tmp_path, "aot_eager", *budget, size_threshold="8MiB", distance=2)
    assert many > 0 and ours == plain == alone
    # Whole tensors of 8 MiB, in each of two steps as many.
    for key in ("asked_prefetch_bytes", "asked_pre_evict_bytes"):
        assert record[key] > 0 and record[key] % (2 * (8 << 20)) == 0, record[key]
    assert record["asked_prefetch_bytes"] + record["asked_pre_evict_bytes"] == many * 2 * (8 << 20)
    assert record["pre_evictions"] > 0 and record["prefetched_blocks"] > 0


def test_a_program_that_fits_is_left_alone(tmp_path):
    _, many, record = run(tmp_path, "aot_eager", "--device-memory", "2GiB")
    assert many == 0 and record["pre_evictions"] == 0


def test_the_calls_leave_other_memory_alone(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent("""
        import ctypes
        library = ctypes.CDLL(None)
        for name in ("spillway_prefetch", "spillway_pre_evict"):
            call = getattr(library, name)
            call.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
            ours = bytearray(64 << 20)
            address = ctypes.addressof(ctypes.c_char.from_buffer(ours))
            print(call(None, 8), call(1 << 40, 8), call(id(library), 8), call(address, 0), call(address, 64 << 20))
    """))
    result = subprocess.run([SPILLWAY, "run", "--device", "host", "--device-memory", "32MiB", "--", sys.executable,
                             script], capture_output=True, text=True, timeout=100, env=clean_environment())
    assert result.stdout.split() == ["0", "0", "0", "0", "1"] * 2, result.stderr


DRIVER = SPILLWAY.parent / "fake_driver" / "libcuda.so.1"


@pytest.mark.skipif(not DRIVER.exists(), reason="the fake driver is not built")
def test_the_calls_reach_a_gpus_memory(tmp_path):
    """Twelve tensors of 8 MiB within 64 MiB: the last one is still there, the first one is not."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent("""
        import ctypes, json, sys, time
        sys.path.insert(0, sys.argv[1])
        import spillway
        cuda, ours = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(None)
        for name in ("spillway_prefetch", "spillway_pre_evict"):
            getattr(ours, name).argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
        assert cuda.cuInit(0) == 0 and cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
        assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
        assert cuda.cuCtxSetCurrent(context) == 0
        tensors = []
        for _ in range(12):
            assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(8 << 20)) == 0
            assert cuda.cuMemsetD8_v2(memory, ctypes.c_ubyte(1), ctypes.c_size_t(8 << 20)) == 0
            tensors.append(memory.value)
        assert cuda.cuCtxSynchronize() == 0
        told = [ours.spillway_pre_evict(one, 8 << 20) for one in tensors[-3:]]
        told += [ours.spillway_prefetch(tensors[0], 8 << 20)]
        told += [call(id(cuda), 8) for call in (ours.spillway_pre_evict, ours.spillway_prefetch)]
        for _ in range(1000):
            record = spillway.stats()
            if record["pre_evictions"] >= 3 and record["prefetched_blocks"] >= 1:
                break
            time.sleep(0.01)
        print(json.dumps([told, record]))
    """))
    environment = {**clean_environment(), "SPILLWAY_CUDA_DRIVER": str(DRIVER), "CUDA_VISIBLE_DEVICES": "",
                   "LD_LIBRARY_PATH": str(DRIVER.parent)}
    result = subprocess.run([SPILLWAY, "run", "--device", "cuda", "--device-memory", "64MiB", "--policy", "base_uvm",
                             "--", sys.executable, script, PROJECT / "python"], capture_output=True, text=True,
                            timeout=100, env=environment)
    assert result.returncode == 0, result.stderr
    told, record = json.loads(result.stdout)
    assert told == [1, 1, 1, 1, 0, 0]
    assert record["asked_pre_evict_bytes"] == 24 << 20 and record["asked_prefetch_bytes"] == 8 << 20
    assert record["pre_evictions"] == 3 and record["prefetched_blocks"] == 1
