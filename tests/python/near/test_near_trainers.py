"""accelerate, transformers' Trainer, Lightning, DDP and FSDP2, with replaced steps and without."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

from twins import assert_same, one_thread, spillway, torch  # noqa: F401, one_thread is a fixture

ROOT = pathlib.Path(__file__).resolve().parents[3]


def needs(*packages):
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"without {', '.join(missing)}")


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.layers = torch.nn.Sequential(torch.nn.Linear(24, 24), torch.nn.Tanh(), torch.nn.Linear(24, 24))

    def forward(self, x, labels=None):
        y = self.layers(x)
        return {"loss": ((y - labels) ** 2).mean(), "logits": y}


def data():
    generator = torch.Generator().manual_seed(4)
    return [{"x": torch.randn(24, generator=generator), "labels": torch.randn(24, generator=generator)}
            for _ in range(24)]


@needs("accelerate")
@pytest.mark.parametrize("before", [True, False])
def test_accelerate(before):
    from accelerate import Accelerator

    results = []
    for near in (False, True):
        accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
        network = Model()
        inner = torch.optim.AdamW(network.parameters(), lr=0.01)
        schedule = torch.optim.lr_scheduler.LinearLR(inner, total_iters=5)
        if near and before:
            spillway.near.optimize(inner)
        network, optimizer, loader, schedule = accelerator.prepare(
            network, inner, torch.utils.data.DataLoader(data(), batch_size=4), schedule)
        if near and not before:
            spillway.near.optimize(inner)
        losses = []
        for batch in loader:
            with accelerator.accumulate(network):
                loss = network(**batch)["loss"]
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(network.parameters(), 0.5)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            losses.append(loss.item())
        results.append([losses, dict(network.state_dict()), optimizer.state_dict()])
    assert_same(*results)
    assert inner.spillway.steps == 3 and inner.spillway.replaced


@needs("transformers", "accelerate")
@pytest.mark.parametrize("name", ["adamw_torch", "adamw_torch_fused", "sgd", "adagrad"])
def test_the_trainer(tmp_path, name):
    import transformers

    results = []
    for near in (False, True):
        trainer = transformers.Trainer(Model(), transformers.TrainingArguments(
            str(tmp_path / str(near)), max_steps=6, logging_steps=1, per_device_train_batch_size=4,
            gradient_accumulation_steps=2, report_to=[], save_steps=3, use_cpu=True, disable_tqdm=True,
            optim=name, weight_decay=0.1, warmup_steps=2, seed=1), train_dataset=data())
        trainer.create_optimizer()
        if near:
            spillway.near.optimize(trainer.optimizer)
        trainer.train()
        inner = trainer.optimizer.optimizer
        results.append([[log["loss"] for log in trainer.state.log_history if "loss" in log],
                        dict(trainer.model.state_dict()), inner.state_dict(),
                        torch.load(tmp_path / str(near) / "checkpoint-3" / "optimizer.pt")])
    assert_same(*results)
    assert inner.spillway.steps == 6 and inner.spillway.replaced, str(inner.spillway)


@needs("lightning")
def test_lightning(tmp_path):
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self, near):
            super().__init__()
            self.inner, self.near, self.losses = Model(), near, []

        def training_step(self, batch, index):
            loss = self.inner(**batch)["loss"]
            self.losses.append(loss.item())
            return loss

        def configure_optimizers(self):
            optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
            schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
            if self.near:
                spillway.near.optimize(optimizer)
            return [optimizer], [{"scheduler": schedule, "interval": "step"}]

    results = []
    for near in (False, True):
        module = Module(near)
        trainer = lightning.Trainer(
            max_steps=6, logger=False, accelerator="cpu", enable_checkpointing=False, gradient_clip_val=0.5,
            enable_progress_bar=False, enable_model_summary=False, default_root_dir=tmp_path)
        trainer.fit(module, torch.utils.data.DataLoader(data(), batch_size=4))
        results.append([module.losses, dict(module.state_dict()), trainer.optimizers[0].state_dict()])
    assert_same(*results)
    assert trainer.optimizers[0].spillway.steps == 6 and trainer.optimizers[0].spillway.replaced


TWO = """
    import os, sys, torch, torch.distributed as dist
    sys.path[:0] = [PATHS]
    from test_near_trainers import Model, assert_same, data, spillway
    from torch.nn.parallel import DistributedDataParallel
    from torch.distributed.fsdp import fully_shard

    torch.set_num_threads(1)
    rank = int(sys.argv[1])
    dist.init_process_group("gloo", store=dist.FileStore(sys.argv[2], 2), rank=rank, world_size=2)
    batches = torch.utils.data.DataLoader(data()[rank::2], batch_size=3)

    def local(value):
        if isinstance(value, dict):
            return {key: local(item) for key, item in value.items()}
        return value.to_local() if hasattr(value, "to_local") else value

    def train(near, wrap, **options):
        network = Model()
        wrapped = wrap(network) or network
        optimizer = torch.optim.AdamW(network.parameters(), lr=0.01, **options)
        if near:
            spillway.near.optimize(optimizer)
        losses = []
        for number in range(3):
            for batch in batches:
                optimizer.zero_grad()
                loss = wrapped(**batch)["loss"]
                loss.backward()
                torch.nn.utils.clip_grad_norm_(network.parameters(), 0.5)
                optimizer.step()
                losses.append(loss.item())
        kept = {name: value.detach() for name, value in network.named_parameters()}
        return [losses, local(kept), local(dict(enumerate(optimizer.state.values())))], optimizer

    def sharded(network):
        for layer in network.layers:
            if list(layer.parameters()):
                fully_shard(layer)
        fully_shard(network)

    ways = {"ddp": DistributedDataParallel, "fsdp2": sharded,
            "buckets": lambda network: DistributedDataParallel(network, gradient_as_bucket_view=True)}
    for name, wrap in ways.items():
        for fused in (False, True):
            (plain, _), (near, optimizer) = (train(near, wrap, fused=fused) for near in (False, True))
            assert_same(plain, near, name)
            print(name, fused, optimizer.spillway.steps, str(optimizer.spillway), flush=True)
    dist.destroy_process_group()
"""


@pytest.mark.skipif(not torch.distributed.is_available() or not torch.distributed.is_gloo_available(),
                    reason="without gloo")
def test_two_processes(tmp_path):
    """DDP and FSDP2 on gloo. Each process updates its parts."""
    script = tmp_path / "script.py"
    paths = [str(ROOT / "python"), str(pathlib.Path(__file__).parent)]
    script.write_text(textwrap.dedent(TWO).replace("[PATHS]", repr(paths)))
    ranks = [subprocess.Popen([sys.executable, script, str(rank), tmp_path / "store"], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env={**os.environ, "OMP_NUM_THREADS": "1"}) for rank in range(2)]
    outputs = [rank.communicate(timeout=280) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], outputs
    for out, _ in outputs:
        lines = out.splitlines()
        assert [line.split()[0] for line in lines] == ["ddp"] * 2 + ["fsdp2"] * 2 + ["buckets"] * 2, out
        assert all(" 12 AdamW, group 0: Spillway updates 4 tensors" in line and "PyTorch" not in line
                   for line in lines), out
