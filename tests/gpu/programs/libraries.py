#!/usr/bin/env python3
"""What others have built over PyTorch: Trainer, accelerate, generation, Lightning. See program.py."""

import os
import tempfile

# With several the Trainer spreads over them by itself: that is for processes.py.
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from program import Others, digest, main  # noqa: E402
import torch  # noqa: E402


def gpt2():
    import transformers

    torch.manual_seed(1)
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=8192, n_positions=256, n_embd=768, n_layer=8, n_head=12))


class Texts(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        numbers = torch.Generator().manual_seed(index)
        tokens = torch.randint(8192, (256,), generator=numbers)
        return {"input_ids": tokens, "labels": tokens}


def trainer():
    """Trains, evaluates, saves checkpoints, and goes on from one."""
    import transformers

    torch.use_deterministic_algorithms(True)
    with tempfile.TemporaryDirectory() as folder:
        def made(steps):
            return transformers.Trainer(
                model=gpt2(), train_dataset=Texts(), eval_dataset=torch.utils.data.Subset(
                    Texts(), range(16)),
                args=transformers.TrainingArguments(
                    output_dir=folder, max_steps=steps, per_device_train_batch_size=8,
                    gradient_accumulation_steps=2, bf16=True, gradient_checkpointing=True,
                    save_steps=3, eval_strategy="steps", eval_steps=3, logging_steps=1,
                    report_to=[], disable_tqdm=True, dataloader_num_workers=2, seed=3))

        first = made(3)
        first.train()
        second = made(6)
        second.train(resume_from_checkpoint=True)
        losses = [entry.get("loss", entry.get("eval_loss"))
                  for entry in second.state.log_history]
        return {"losses": losses, "digest": digest(second.model.state_dict()),
                "peak_bytes": torch.cuda.max_memory_allocated()}


def accelerated():
    import accelerate

    torch.use_deterministic_algorithms(True)
    accelerator = accelerate.Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2)
    model = gpt2()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    data = torch.utils.data.DataLoader(Texts(), batch_size=8)
    model, optimizer, data = accelerator.prepare(model, optimizer, data)
    losses = []
    for batch in data:
        with accelerator.accumulate(model):
            loss = model(**batch).loss
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item().hex())
    return {"losses": losses, "digest": digest(model.state_dict()),
            "peak_bytes": torch.cuda.max_memory_allocated()}


def generation():
    """Greedy and sampled, beside a loop without gradients."""
    torch.use_deterministic_algorithms(True)
    model = gpt2().cuda().eval()
    prompt = Texts()[0]["input_ids"][None, :32].repeat(8, 1).cuda()
    others = Others(256)
    found = []
    with torch.no_grad():
        for sampled in (False, True):
            torch.manual_seed(2)
            tokens = model.generate(prompt, max_new_tokens=64, do_sample=sampled, pad_token_id=0,
                                    attention_mask=torch.ones_like(prompt))
            found.append(tokens.tolist())
            others.touch()
        losses = [model(**{name: value[None].cuda() for name, value in Texts()[i].items()})
                  .loss.item().hex() for i in range(16)]
    return {"tokens": found, "losses": losses, "wrong": others.wrong(),
            "peak_bytes": torch.cuda.max_memory_allocated()}


def lightning():
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = gpt2()
            self.losses = []

        def training_step(self, batch):
            loss = self.model(**batch).loss
            self.losses.append(loss.item().hex())
            return loss

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-4)

    torch.use_deterministic_algorithms(True)
    module = Module()
    with tempfile.TemporaryDirectory() as folder:
        lightning.Trainer(max_steps=6, precision="bf16-mixed", logger=False, devices=1,
                          enable_progress_bar=False, enable_model_summary=False,
                          default_root_dir=folder).fit(
            module, torch.utils.data.DataLoader(Texts(), batch_size=8))
    return {"losses": module.losses, "digest": digest(module.state_dict()),
            "peak_bytes": torch.cuda.max_memory_allocated()}


if __name__ == "__main__":
    main(globals())
