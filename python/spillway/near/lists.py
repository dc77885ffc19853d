"""The lists of a step: what PyTorch fills for each group, and the tensors in them that Spillway updates."""

from . import choices, native, rules


class Left:
    """A group's lists, as PyTorch filled them; at the end without what Spillway updates."""

    def __init__(self, kind, group, lists, returned):
        self.group = group
        self.lists = lists
        self.returned = returned
        self.way = rules.way(kind, group, self["parameter"])
        self.kept = []  # indices of what PyTorch updates

    def __getitem__(self, role):
        return self.lists.get(role) or ()

    def entries(self, index):
        """Of one parameter, by role: what there is."""
        return {role: entries[index] for role, entries in self.lists.items()
                if entries and entries[index] is not None}

    def keep(self):
        """Only what PyTorch updates."""
        self.kept.sort()
        for entries in self.lists.values():
            if entries:  # some are empty, without amsgrad or momentum
                entries[:] = [entries[index] for index in self.kept]


class Taken:
    """A tensor that Spillway updates, or on a GPU may update."""

    def __init__(self, left, index, place, told):
        self.left = left
        self.index = index
        self.place = place
        self.told = told  # the group of the report
        self.whole = left["parameter"][index]
        self.tensors = {role: choices.local(tensor) for role, tensor in left.entries(index).items()}
        self.step = self.tensors.pop("step", None)
        self.is_first = False  # its state is made in this step
        parameter = self.tensors["parameter"]
        self.elements = parameter.numel()
        self.bytes = self.elements * parameter.element_size()  # of each of them
        self.at = {role: tensor.data_ptr() for role, tensor in self.tensors.items()}

    def add(self, role, tensor):
        self.tensors[role] = tensor
        self.at[role] = tensor.data_ptr()

    def number(self):
        """Of this step, where that can be read."""
        if self.step is not None:
            return self.step.item()
        return 1 if self.is_first else 2

    def native(self, step, numbers, gradient_out=False):
        """What native.py takes; `gradient_out`: divided gradients are written back."""
        at = self.at
        return native.in_place(
            native.Step(step=step, **numbers), self.elements, at["parameter"], at["gradient"],
            at.get("first"), at.get("second"), at.get("max_second"),
            gradient_out=at["gradient"] if gradient_out else None)

    def written(self):
        return [tensor for role, tensor in self.tensors.items() if role != "gradient"]


def collect(optimizer, kind, roles):
    """All groups' lists, from PyTorch. Where it fails, the states that it began are gone."""
    new = [parameter for group in optimizer.param_groups for parameter in group["params"]
           if parameter.grad is not None and not optimizer.state.get(parameter)]
    try:
        lefts = []
        for group in optimizer.param_groups:
            lists = {role: [] for role in roles}
            returned = kind._init_group(optimizer, group, *lists.values())
            lefts.append(Left(kind, group, lists, returned))
        return lefts
    except BaseException:
        for parameter in new:
            optimizer.state.pop(parameter, None)
        raise
