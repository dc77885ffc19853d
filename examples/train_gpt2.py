#!/usr/bin/env python3
"""Train a small GPT-2 on text files, with PyTorch on the CPU.

An ordinary training script: Hugging Face's GPT-2, AdamW, real text. It knows nothing of Spillway,
so it shows what Spillway does to a program that was not written for it. Two runs with the same
options on the same machine print the same losses, to the last bit.

Needs: pip install torch transformers. Nothing else is downloaded: the model starts from random
weights, and the vocabulary is the 256 values of a byte.
"""

import argparse
import contextlib
import os
import sys
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent

# Each preset is a whole shape; an option beside it changes one number of it.
PRESETS = {
    "tiny": {"layers": 2, "width": 64, "heads": 2, "context": 32, "batch": 2},
    "default": {"layers": 6, "width": 512, "heads": 16, "context": 512, "batch": 2},
    "gpt2": {"layers": 12, "width": 768, "heads": 12, "context": 1024, "batch": 1},
}

EXAMPLES = """\
examples:
  train_gpt2.py                               five steps of the default model
  train_gpt2.py --layers 12 --steps 3         the same model, twice as deep
  train_gpt2.py --preset gpt2 --steps 1       the shape of the published GPT-2 (124M parameters
                                              less its vocabulary)
  train_gpt2.py --text book.txt               on other text; repeat --text for more files
  train_gpt2.py --losses a.txt                keep the losses, to compare two runs: cmp a.txt b.txt

how much memory it takes: weights, gradients and the two moments of AdamW need 16 bytes for each
parameter, and there are about 12 * layers * width^2 parameters; what the forward pass keeps for
the backward pass grows with layers * width * context * batch.
"""


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return number


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        description="Train a GPT-2 on text, byte by byte, on the CPU.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run = parser.add_argument_group("the run")
    run.add_argument("--steps", type=positive, default=5, metavar="N",
                     help="training steps (default: %(default)s)")
    run.add_argument("--text", type=Path, action="append", metavar="FILE",
                     help="text to learn from (default: this project's README.md and docs/*.md)")
    run.add_argument("--seed", type=int, default=1, metavar="N",
                     help="for the weights, the order of the text and dropout "
                          "(default: %(default)s)")
    run.add_argument("--threads", type=positive, default=os.cpu_count(), metavar="N",
                     help="threads that compute (default: all processors, %(default)s)")
    model = parser.add_argument_group("the model (defaults: the preset's)")
    model.add_argument("--preset", choices=PRESETS, default="default",
                       help="; ".join(f"{name}: " + ", ".join(f"{key} {value}"
                                                              for key, value in shape.items())
                                      for name, shape in PRESETS.items()))
    model.add_argument("--layers", type=positive, metavar="N", help="transformer blocks")
    model.add_argument("--width", type=positive, metavar="N",
                       help="numbers in the vector of a token (n_embd)")
    model.add_argument("--heads", type=positive, metavar="N",
                       help="attention heads; must divide the width")
    model.add_argument("--context", type=positive, metavar="N",
                       help="bytes of text in one sample")
    model.add_argument("--batch", type=positive, metavar="N", help="samples in one step")
    output = parser.add_argument_group("output")
    output.add_argument("--losses", type=Path, metavar="FILE",
                        help="write the loss of each step, one a line, as an exact hexadecimal "
                             "number (Python's float.hex)")
    output.add_argument("--quiet", action="store_true", help="print nothing")
    options = parser.parse_args(arguments)

    for key, value in PRESETS[options.preset].items():
        if getattr(options, key) is None:
            setattr(options, key, value)
    if options.width % options.heads:
        parser.error(f"--heads {options.heads} does not divide --width {options.width}: "
                     "each head gets an equal part of the width")
    try:
        options.corpus = read_text(options.text)
    except OSError as error:
        parser.error(f"--text: {error.strerror}: {error.filename}")
    if len(options.corpus) <= options.context:
        parser.error(f"--text: {len(options.corpus)} bytes are too few for --context "
                     f"{options.context}: give more text, or a smaller context")
    return parser, options


def read_text(files):
    files = files or [PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md"))]
    return b"".join(file.read_bytes() for file in files)


def peak_resident_bytes():
    # Not resource.getrusage: its maximum also counts the process that started this one.
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def build_model(options):
    # Before the import, which reads them: nothing may look for files on the network.
    os.environ.update(HF_HUB_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1", TRANSFORMERS_OFFLINE="1")
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(
        vocab_size=256,
        n_positions=options.context,
        n_embd=options.width,
        n_layer=options.layers,
        n_head=options.heads,
        bos_token_id=0,
        eos_token_id=0,
        use_cache=False,  # keys and values of earlier tokens: only generating text reads them
    ))


def train(options, losses):
    """One line to losses, an open file or None, after each step."""
    # A thread that waits for the others sleeps. Where anything else runs, the default, to spin,
    # keeps from the processor the very thread that is waited for. Read when torch is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    # Here, because it takes seconds, which --help and a mistyped option should not.
    import torch

    torch.set_num_threads(options.threads)
    torch.use_deterministic_algorithms(True)
    # Else every new tensor is first filled with NaN, to show reads of what nothing wrote.
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.manual_seed(options.seed)
    report = (lambda *_, **__: None) if options.quiet else print

    model = build_model(options).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    corpus = torch.frombuffer(bytearray(options.corpus), dtype=torch.uint8).long()
    parameters = sum(parameter.numel() for parameter in model.parameters())
    report(f"{parameters / 1e6:.1f} million parameters, {len(corpus)} bytes of text, "
           f"{options.batch} x {options.context} bytes a step")

    offsets = torch.arange(options.context + 1)  # one more: each byte is to predict the next
    for step in range(1, options.steps + 1):
        started = time.perf_counter()
        starts = torch.randint(len(corpus) - options.context, (options.batch, 1))
        tokens = corpus[starts + offsets]
        optimizer.zero_grad()
        logits = model(input_ids=tokens[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        value = loss.item()
        report(f"step {step:3}  loss {value:.4f}  {time.perf_counter() - started:6.2f} s",
               flush=True)
        if losses:
            print(value.hex(), file=losses, flush=True)
    report(f"peak resident memory {peak_resident_bytes() / 2**30:.2f} GiB")


def main(arguments=None):
    parser, options = parse_arguments(arguments)
    with contextlib.ExitStack() as files:
        losses = None
        if options.losses:
            try:
                losses = files.enter_context(options.losses.open("w"))
            except OSError as error:
                parser.error(f"--losses: {error.strerror}: {error.filename}")
        train(options, losses)
    return 0


if __name__ == "__main__":
    sys.exit(main())
