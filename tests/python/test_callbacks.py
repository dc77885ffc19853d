"""spillway.stats(), and the callbacks of trainers: the same numbers as the record's, beside the loss.

Needs the built program (build/, or the folder that SPILLWAY_BUILD names) and userfaultfd.
"""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest
from conftest import clean_environment

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("SPILLWAY_BUILD", ROOT / "build"))
DRIVER = BUILD / "fake_driver" / "libcuda.so.1"

pytestmark = pytest.mark.skipif(not (BUILD / "spillway").exists(), reason="spillway is not built")

KEYS = {"spillway_moved_in_bytes", "spillway_moved_out_bytes", "spillway_waited_seconds",
        "spillway_made_again_bytes"}
NOT_UNDER = "spillway: this process does not run under Spillway, so its callback logs nothing"


def needs(*packages):
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"without {', '.join(missing)}")


def run(folder, script, options=None, **environment):
    """The script's last line, read as JSON. options: those of `spillway run`; None for without."""
    file = folder / "script.py"
    file.write_text(textwrap.dedent(script))
    command = [sys.executable, file]
    if options is not None:
        command = [BUILD / "spillway", "run", "--json", folder / "record", *options, "--", *command]
    result = subprocess.run(
        command, text=True, capture_output=True, timeout=300, cwd=folder,
        env={**clean_environment("PYTHON"), "PYTHONPATH": str(ROOT / "python"),
             "OMP_NUM_THREADS": "2", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "",
             **environment})
    assert result.returncode == 0, result.stderr
    result.told = json.loads(result.stdout.splitlines()[-1])
    return result


HOST = ["--device", "host", "--policy", "base_uvm", "--device-memory"]


def test_stats_are_the_records_numbers_so_far(tmp_path):
    result = run(tmp_path, """
        import json, spillway
        none = spillway.stats()
        blocks = [bytearray(8 << 20) for _ in range(8)]
        first = spillway.stats()
        for block in blocks + blocks:
            block[::4096] = b"x" * 2048
        second = spillway.stats()
        print(json.dumps([none, first, second]))
    """, [*HOST, "32MiB"])
    none, first, second = result.told
    record = json.loads((tmp_path / "record").read_text())
    assert none["policy"] == "" and none["page_faults"] == 0 and none["pid"] == record["pid"]
    assert first["live_bytes"] >= 64 << 20 and first["budget_bytes"]["device"] == 32 << 20
    assert 0 < second["elapsed_s"] < record["elapsed_s"]
    assert second["page_faults"] > first["page_faults"]
    assert second["moved_bytes"]["device_to_host"] > 0
    assert record["moved_bytes"]["device_to_host"] >= second["moved_bytes"]["device_to_host"]
    assert {"used_bytes", "launches", "stalled_s", "given_up_bytes"} < set(second) <= set(record)
    assert not {"command", "longest_waits", "waits_by_module", "timeline"} & set(second)


def test_stats_of_a_child_and_outside(tmp_path):
    script = """
        import json, os, spillway
        block = bytearray(8 << 20)
        here = spillway.stats()
        read, write = os.pipe()
        if os.fork() == 0:
            os.write(write, json.dumps(spillway.stats()).encode())
            os._exit(0)
        os.wait()
        print(json.dumps([here, json.loads(os.read(read, 65536))]))
    """
    here, child = run(tmp_path, script, [*HOST, "32MiB"]).told
    assert here["live_bytes"] >= 8 << 20
    assert child["live_bytes"] == 0 and child["pid"] != here["pid"]
    assert run(tmp_path, script).told == [None, None]


@pytest.mark.skipif(not DRIVER.exists(), reason="the fake driver is not built")
def test_stats_on_a_gpu(tmp_path):
    before, after = run(tmp_path, """
        import ctypes, json, spillway
        cuda = ctypes.CDLL("libcuda.so.1")
        before = spillway.stats()
        device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
        assert cuda.cuInit(0) == 0 and cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
        assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
        assert cuda.cuCtxSetCurrent(context) == 0
        for _ in range(12):
            assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(8 << 20)) == 0
            assert cuda.cuMemsetD8_v2(memory, ctypes.c_ubyte(1), ctypes.c_size_t(8 << 20)) == 0
        assert cuda.cuCtxSynchronize() == 0
        print(json.dumps([before, spillway.stats()]))
    """, ["--device", "cuda", "--device-memory", "64MiB"], SPILLWAY_CUDA_DRIVER=str(DRIVER),
        LD_LIBRARY_PATH=str(DRIVER.parent)).told
    assert before["policy"] == "" and before["live_bytes"] == 0
    assert after["policy"] == "lookahead" and after["budget_bytes"]["device"] == 64 << 20
    assert after["live_bytes"] == 96 << 20
    assert after["moved_bytes"]["device_to_host"] >= 32 << 20


TRANSFORMERS = """
    import json, torch, transformers
    from spillway.callbacks import TransformersCallback

    class Reports(transformers.TrainerCallback):
        logs = []
        def on_log(self, args, state, control, logs=None, **kwargs):
            self.logs.append(dict(logs))

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(8)])
        def forward(self, x, labels=None):
            y = self.layers(x)
            return {"loss": ((y - labels) ** 2).mean(), "logits": y}

    data = [{"x": torch.ones(1024), "labels": torch.zeros(1024)} for _ in range(8)]
    trainer = transformers.Trainer(
        Model(), transformers.TrainingArguments(
            "out", max_steps=4, logging_steps=2, per_device_train_batch_size=2, report_to=[],
            save_strategy="no", use_cpu=True, disable_tqdm=True),
        train_dataset=data, callbacks=[CALLBACKS])
    trainer.train()
    print(json.dumps([trainer.state.log_history, Reports.logs]))
"""


@needs("torch", "transformers", "accelerate")
@pytest.mark.parametrize("budget", ["48MiB", "1GiB"])
def test_a_transformers_trainer_logs_beside_the_loss(tmp_path, budget):
    result = run(tmp_path, TRANSFORMERS.replace("CALLBACKS", "TransformersCallback(), Reports()"),
                 [*HOST, budget])
    history, reported = result.told
    record = json.loads((tmp_path / "record").read_text())
    logs = [log for log in history if "loss" in log]
    assert len(logs) == 2
    for log, other in zip(logs, reported):
        assert KEYS <= set(log) and log["spillway_moved_in_bytes"] == other["spillway_moved_in_bytes"]
    assert not KEYS & set(history[-1]), "the last is of the whole run, without a loss"
    moved = sum(log["spillway_moved_in_bytes"] for log in logs)
    assert moved <= record["moved_bytes"]["host_to_device"]
    assert (moved > 0) == (budget == "48MiB")
    assert (logs[1]["spillway_waited_seconds"] > 0) >= (budget == "48MiB")


@needs("torch", "transformers", "accelerate")
def test_a_transformers_trainer_without_spillway(tmp_path):
    result = run(tmp_path, TRANSFORMERS.replace("CALLBACKS", "TransformersCallback(), "
                                                "TransformersCallback(), Reports()"))
    assert not any(KEYS & set(log) for log in result.told[0])
    assert result.stderr.count(NOT_UNDER) == 1, result.stderr


LIGHTNING = """
    import json, logging, torch, warnings
    warnings.simplefilter("ignore")
    IMPORT
    from spillway.callbacks import LightningCallback

    class Model(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(8)])
        def training_step(self, batch, index):
            loss = (self.layers(batch) ** 2).mean()
            self.log("loss", loss)
            return loss
        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=1e-4)

    class Log(Logger):
        name = version = "log"
        rows = []
        def log_metrics(self, metrics, step=None):
            self.rows.append(metrics)
        def log_hyperparams(self, *args, **kwargs):
            pass

    log = Log()
    trainer = L.Trainer(max_steps=4, logger=log, log_every_n_steps=1, accelerator="cpu",
                        enable_checkpointing=False, enable_progress_bar=False,
                        enable_model_summary=False, callbacks=[LightningCallback()])
    trainer.fit(Model(), torch.utils.data.DataLoader(torch.ones(16, 1024), batch_size=2))
    print(json.dumps(log.rows))
"""
NAMES = {
    "lightning": "import lightning as L; from lightning.pytorch.loggers.logger import Logger",
    "pytorch_lightning": "import pytorch_lightning as L; "
                         "from pytorch_lightning.loggers.logger import Logger",
}


@pytest.mark.parametrize("package", [pytest.param(name, marks=needs("torch", name)) for name in NAMES])
def test_a_lightning_trainer_logs_beside_the_loss(tmp_path, package):
    result = run(tmp_path, LIGHTNING.replace("IMPORT", NAMES[package]), [*HOST, "48MiB"])
    record = json.loads((tmp_path / "record").read_text())
    rows = [row for row in result.told if "loss" in row]
    assert len(rows) == 4 and all(KEYS <= set(row) for row in rows), result.told
    moved = sum(row["spillway_moved_in_bytes"] for row in rows)
    assert 0 < moved <= record["moved_bytes"]["host_to_device"] * 1.001
    assert rows[-1]["spillway_waited_seconds"] > 0


@needs("torch", "lightning")
def test_a_lightning_trainer_without_spillway(tmp_path):
    result = run(tmp_path, LIGHTNING.replace("IMPORT", NAMES["lightning"]))
    assert [row["epoch"] for row in result.told] and not any(KEYS & set(row) for row in result.told)
    assert result.stderr.count(NOT_UNDER) == 1, result.stderr


def test_the_callbacks_import_nothing_before_they_are_asked_for(tmp_path):
    assert run(tmp_path, """
        import json, sys
        import spillway.callbacks
        print(json.dumps([name in sys.modules for name in ("torch", "transformers", "lightning")]))
    """).told == [False] * 3
