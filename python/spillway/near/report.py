"""optimizer.spillway: what is replaced and what is left to PyTorch, a line a group."""

from collections import Counter


class Group:
    """One parameter group in the last step; before the first, as far as it is known."""

    def __init__(self, bits):
        self.bits = bits      # whose bits, for people
        self.tensors = 0      # that Spillway updates
        self.elements = 0
        self.left = Counter() # why not: how many tensors

    def take(self, elements):
        self.tensors += 1
        self.elements += elements

    def __str__(self):
        parts = []
        if self.tensors:
            parts.append(f"Spillway updates {_tensors(self.tensors)} ({self.elements:,} elements) "
                         f"with the bits of {self.bits}")
        parts += [f"PyTorch updates {_tensors(count)}: {reason}"
                  for reason, count in self.left.items()]
        return "; ".join(parts) or "no tensor has a gradient"


class Report:
    """Changes with each step; str() has a line for each group."""

    def __init__(self, name):
        self.name = name
        self.reason = None  # why the whole optimizer is left to PyTorch
        self.groups = []
        self.steps = 0      # in which Spillway updated anything

    @property
    def replaced(self):
        """Whether Spillway updates anything."""
        return any(group.tensors for group in self.groups)

    def lines(self):
        if self.reason is not None:
            return [f"{self.name}: PyTorch updates all tensors: {self.reason}"]
        return [f"{self.name}, group {index}: {group}" for index, group in enumerate(self.groups)]

    def __str__(self):
        return "\n".join(self.lines())


def _tensors(count):
    return "1 tensor" if count == 1 else f"{count} tensors"
