"""optimizer.spillway: what is replaced and what is left to PyTorch, a line a group."""

from collections import Counter


class Group:
    """One parameter group in the last step; before the first, as far as it is known."""

    def __init__(self):
        self.bits = self.note = None  # whose bits, and where it is computed, for people
        self.tensors = 0      # that Spillway updates
        self.elements = 0
        self.left = Counter() # why not: how many tensors

    def of(self, place, way):
        """Tensors that Spillway updates lie there (placement.py), and these are their bits (rules.way)."""
        self.bits, self.note = place.bits[way], place.note

    def take(self, elements):
        self.tensors += 1
        self.elements += elements

    def __str__(self):
        parts = []
        if self.tensors:
            parts.append(f"Spillway updates {_tensors(self.tensors)} ({self.elements:,} elements) "
                         f"with the bits of {self.bits}{self.note}")
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
        self.updates = 0    # of tensors, in all of them
        self.say = None     # called with a line, before PyTorch computes what may be wrong
        self._warned = set()

    @property
    def replaced(self):
        """Whether Spillway updates anything."""
        return any(group.tensors for group in self.groups)

    def lines(self):
        if self.reason is not None:
            return [f"{self.name}: PyTorch updates all tensors: {self.reason}"]
        return [f"{self.name}, group {index}: {group}" for index, group in enumerate(self.groups)]

    def warn(self, reason):
        """Says of which groups PyTorch is to update tensors for that reason, each group once."""
        if self.say is None:
            return
        for index, group in enumerate(self.groups):
            count = group.left[reason]
            if count and index not in self._warned:
                self._warned.add(index)
                self.say(f"{self.name}, group {index}: PyTorch updates {_tensors(count)}: {reason}")

    def __str__(self):
        return "\n".join(self.lines())


def nothing(parameters, reason):
    """A group of which PyTorch updates all that have gradients."""
    group = Group()
    count = sum(parameter.grad is not None for parameter in parameters)
    if count:
        group.left[reason] = count
    return group


def _tensors(count):
    return "1 tensor" if count == 1 else f"{count} tensors"
