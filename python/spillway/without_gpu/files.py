"""What a script loads is shapes only, and what it would save is not written: it was never computed."""

import torch

from . import says
from .device import real


def _load(load):
    def loaded(f, map_location=None, **kwargs):
        if isinstance(map_location, (str, torch.device)):
            map_location = real(map_location)
        if isinstance(f, str) and "mmap" not in kwargs:
            try:
                return load(f, map_location=map_location or "cpu", mmap=True, **kwargs)
            except (RuntimeError, ValueError):
                pass  # an old format
        return load(f, map_location=map_location or "cpu", **kwargs)

    return loaded


def _save(obj, f, *args, **kwargs):
    says.once("save", "{place} saves tensors; without a GPU nothing is written")


def _compile(model=None, **kwargs):
    says.once("compile", "{place}: torch.compile is left out, the model is recorded uncompiled")
    return (lambda function: function) if model is None else model


def start():
    torch.load = _load(torch.load)
    torch.save = _save
    torch.compile = _compile
    torch.nn.Module.compile = lambda self, *args, **kwargs: _compile(self)
