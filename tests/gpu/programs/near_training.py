#!/usr/bin/env python3
"""A small GPT trained with each optimizer whose updates may run at the host: 20 losses, parameters and states, to the
bit, and how many tensors Spillway has updated. See program.py.

`near_training.py train KIND WAY [HOW]`: AdamW, Adam, SGD or Adagrad; fused, foreach or loop; clip, scaler, accumulate,
schedule, closure or checkpoint. With SPILLWAY_TEST_NEAR=1 it fails if nothing was updated at the host.
"""

import contextlib
import io
import os
import time
import warnings

from program import digest, main
import torch
from torch.nn import functional
from training import Gpt

STEPS, STEADY = 20, 15
SETTINGS = {"AdamW": {"lr": 1e-3}, "Adam": {"lr": 1e-3}, "SGD": {"lr": 0.05, "momentum": 0.9},
            "Adagrad": {"lr": 1e-2, "lr_decay": 0.01}}
WAYS = {"fused": {"fused": True}, "foreach": {}, "loop": {"foreach": False}}


class Training:
    def __init__(self, kind, way, how):
        torch.manual_seed(1)
        self.kind, self.way, self.how = kind, way, how
        self.model = Gpt().cuda()
        self.numbers = torch.Generator().manual_seed(2)
        # So large that the first steps are skipped, and that it grows and skips again later.
        self.scaler = (torch.amp.GradScaler("cuda", init_scale=2.0**26, growth_interval=3)
                       if how == "scaler" else None)
        self.losses, self.updated, self.syncs = [], 0, 0
        self.begin()

    def begin(self):
        """An optimizer and what belongs to it."""
        self.optimizer = getattr(torch.optim, self.kind)(
            [{"params": [one for one in self.model.parameters() if (one.dim() > 1) == decays],
              "weight_decay": 0.1 if decays and self.kind == "AdamW" else 0.0} for decays in (True, False)],
            **SETTINGS[self.kind], **WAYS[self.way])
        self.schedule = None
        if self.how == "schedule":
            self.schedule = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, 0.01, total_steps=2 * STEPS,
                                                                cycle_momentum=False)

    def end(self):
        self.updated += getattr(getattr(self.optimizer, "spillway", None), "updates", 0)

    def loss(self):
        tokens = torch.randint(self.model.vocabulary, (4, 257), generator=self.numbers).cuda()
        with torch.autocast("cuda", torch.float16) if self.scaler else contextlib.nullcontext():
            logits = self.model(tokens[:, :-1])
            return functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    def backward(self):
        self.optimizer.zero_grad(set_to_none=len(self.losses) % 2 == 0)
        for _ in range(3 if self.how == "accumulate" else 1):
            loss = self.loss()
            (self.scaler.scale(loss) if self.scaler else loss).backward()
        return loss.detach()

    def update(self):
        if self.how == "clip":
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 0.5)
        if self.scaler:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            with self.counted():
                self.optimizer.step()
        if self.schedule:
            self.schedule.step()

    @contextlib.contextmanager
    def counted(self):
        """How often a steady step waits for the device, as far as PyTorch knows of it."""
        if len(self.losses) < STEADY or self.how == "checkpoint":
            yield
            return
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            yield
            torch.cuda.set_sync_debug_mode("default")
        self.syncs += sum("called a synchronizing" in str(one.message) for one in said)

    def step(self):
        if self.how == "closure":
            self.losses.append(self.optimizer.step(self.backward).detach())
        else:
            loss = self.backward()
            self.update()
            self.losses.append(loss)

    def reload(self, near):
        """Through a file, into another optimizer; one that is plain PyTorch's unless `near`."""
        file = io.BytesIO()
        torch.save([self.model.state_dict(), self.optimizer.state_dict()], file)
        file.seek(0)
        self.end()
        model, states = torch.load(file, map_location="cpu")
        self.model = Gpt().cuda()
        self.model.load_state_dict(model)
        self.begin()
        self.optimizer.load_state_dict(states)
        if not near:
            self.optimizer.spillway = None  # which leaves it alone


def train(kind, way, how=""):
    torch.use_deterministic_algorithms(True)
    begin = time.monotonic()
    training = Training(kind, way, how)
    for number in range(STEPS):
        training.step()
        if how == "checkpoint" and number in (6, 12):
            training.reload(near=number == 12)
    training.end()
    torch.cuda.synchronize()
    if os.environ.get("SPILLWAY_TEST_NEAR") == "1" and training.updated == 0:
        raise SystemExit(f"no tensor was updated at the host: {getattr(training.optimizer, 'spillway', None)}")
    return {"losses": [loss.item().hex() for loss in training.losses], "digest": digest(training.model.state_dict()),
            "states": digest(training.optimizer.state_dict()), "waits": training.syncs, "updated": training.updated,
            "report": str(getattr(training.optimizer, "spillway", None)),
            "seconds": time.monotonic() - begin, "peak_bytes": torch.cuda.max_memory_allocated()}


if __name__ == "__main__":
    main(globals())
