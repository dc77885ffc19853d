"""What a script reads of the device, where nothing is ever computed.

A value that is known (a constant, a flag that says whether numbers are broken) is given. Any other is
plausible, 1 for numbers that are not whole, else 0, and one warning has the first place that asks. What
sizes depend on (nonzero, masks) is as large as it can be, with a warning as well.
"""

import torch

from . import says
from .device import on_device

aten = torch.ops.aten
_NOTED = {"fill_", "zero_", "isnan", "isinf", "isfinite", "any", "all", "max", "min", "amax", "view",
          "clone", "logical_not", "copy_"}


class Values:
    """Constants that device storages are known to hold, by the address of PyTorch's object."""

    def __init__(self, storages):
        self.storages = storages
        self.known = {}  # Storage -> number

    def note(self, name, args, results):
        """What an operator leaves, by its name without namespace."""
        if name not in _NOTED or any(isinstance(x, torch.Tensor) and x.layout != torch.strided
                                     for x in (*args[:2], results)):
            return
        if name in ("fill_", "zero_"):
            value = 0 if name == "zero_" else args[1]
            if isinstance(value, (bool, int, float)):
                self.known[self.storages.of(args[0])] = value
            return
        if name in ("isnan", "isinf"):
            self.known[self.storages.of(results)] = False
        elif name == "isfinite":
            self.known[self.storages.of(results)] = True
        elif name in ("any", "all", "max", "min", "view", "clone", "logical_not", "amax"):
            given = self._of(args[0])
            if given is not None and isinstance(results, torch.Tensor):
                self.known[self.storages.of(results)] = not given if name == "logical_not" else given
        elif name == "copy_":
            self._copied(*args[:2])

    def _copied(self, to, source):
        value = None
        if on_device(source):
            value = self._of(source)
        elif 0 < source.numel() <= 1 << 16:
            first = source.reshape(-1)[0]
            value = first.item() if bool((source == first).all()) else None
        self.known.pop(self.storages.of(to), None)
        if value is not None and value == value:
            self.known[self.storages.of(to)] = value

    def _of(self, tensor):
        if (not isinstance(tensor, torch.Tensor) or not on_device(tensor)
                or tensor.layout != torch.strided):
            return None
        return self.known.get(self.storages.of(tensor))

    def changed(self, storages):
        for storage in storages:
            self.known.pop(storage, None)

    def item(self, tensor):
        known = self._of(tensor)
        kind = tensor.dtype
        if known is None:
            known = 1.0 if kind.is_floating_point or kind.is_complex else 0
            says.once("item", f"{{place}} reads a value that is on the device; without a GPU it gets"
                              f" {known}, as do other reads")
        if kind == torch.bool:
            return bool(known)
        return float(known) if kind.is_floating_point else int(known)

    def on_host(self, tensor, dtype=None):
        """A copy out of the device."""
        known = self._of(tensor)
        if known is None:
            says.once("item", "{place} copies values from the device; without a GPU it gets 1 where"
                              " they are not whole, else 0, as do other reads")
            known = 1 if tensor.is_floating_point() else 0
        return torch.full(tensor.shape, known, dtype=dtype or tensor.dtype, device="cpu")


def nonzero(mask):
    says.once("nonzero", "{place}: how many elements a mask selects is not known without a GPU; it is"
                         " taken to select all")
    return torch.empty((mask.numel(), max(mask.dim(), 1)), dtype=torch.int64, device="meta")
