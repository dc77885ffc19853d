"""optimize() for every optimizer of a program, before its first step; what `spillway run
--near-optimizer` asks for.

A line on standard error says what is replaced and what is not; each such line once.
"""

import os
import sys

from torch.compiler import is_compiling
from torch.optim.optimizer import register_optimizer_step_pre_hook

from . import native, placement, replacement

_said = set()
_places = placement.Places()


def start():
    try:
        native.library()
    except OSError as error:
        _say(f"the steps of optimizers are PyTorch's: {error}")
        return
    register_optimizer_step_pre_hook(_before_step)


def _before_step(optimizer, *_):
    if is_compiling() or "spillway" in vars(optimizer):
        return
    try:
        parameters = [one for group in optimizer.param_groups for one in group["params"]]
        if _places.are_idle(parameters):
            return
        report = replacement.replace(optimizer).spillway
    except Exception as error:  # a script that works without Spillway works with it
        if os.environ.get("SPILLWAY_VERBOSE"):
            _say(f"{type(optimizer).__name__}: the step is PyTorch's: {type(error).__name__}: {error}")
        return
    report.say = _say
    for line in report.lines():
        _say(line)


def _say(line):
    if line not in _said:
        _said.add(line)
        print(f"spillway: {line}", file=sys.stderr)
