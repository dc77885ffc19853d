"""The numbers of steps that lie on a device, known at the host.

fused=True keeps `step` on the device. To ask the device each time would wait for all that it still has
to do. So what a tensor holds is remembered together with its version, which each change raises: our
own, PyTorch's (of a tensor that was left to it), and a script's, after which the device is asked again.

GradScaler lets a step be skipped as a number on the device says, `found_inf`, and then the step does
not count. A step that may be skipped is numbered as if it is not: where it is, nobody reads the number.
Whether it was, the next step has to know; that number is then copied to the host behind the backward
pass, and the next step waits for it. By then the whole next backward pass has been issued, so the
device has work, and under pressure a program is never so far ahead.
"""

import weakref

import torch


class _Known:
    __slots__ = ("tensor", "number", "version", "ahead", "more", "skipped")

    def __init__(self, tensor, number, forget):
        self.tensor = weakref.ref(tensor, forget)
        self.number = number
        self.version = tensor._version
        self.ahead = 0        # by how much steps since then raise the version
        self.more = 0         # how many they are
        self.skipped = None   # a function: 1 where the last of them was skipped

    def holds(self, tensor):
        """Whether `number` is what the tensor holds now."""
        if self.tensor() is not tensor or tensor._version != self.version + self.ahead:
            return False
        self.number += self.more
        self.version += self.ahead
        self.ahead = self.more = 0
        if self.skipped is not None:
            self.number -= self.skipped()
            self.skipped = None
        return True


class Steps:
    def __init__(self):
        self._known = {}  # by id

    def numbers(self, place, tensors):
        """What they hold, a number each. Asks the device for those that are not known, all at once."""
        unknown = []
        for tensor in tensors:
            known = self._known.get(id(tensor))
            if known is None or not known.holds(tensor):
                unknown.append(tensor)
        if unknown:
            for tensor, number in zip(unknown, place.read(unknown)):
                key = id(tensor)
                self._known[key] = _Known(tensor, number, lambda _, key=key: self._known.pop(key, None))
        return [self._known[id(tensor)].number for tensor in tensors]

    def advance(self, tensors, found_inf, skipped):
        """On the device, as PyTorch's fused step does: one step further, but for one that is skipped."""
        torch._foreach_add_(tensors, 1)
        if found_inf is not None:
            torch._foreach_sub_(tensors, [found_inf] * len(tensors))
        self.leave(tensors, skipped)

    def leave(self, tensors, skipped=None):
        """The same by PyTorch, later in this step(). Each operation raises a version by one; where that
        turns out to be otherwise the device is asked again."""
        for tensor in tensors:
            known = self._known.get(id(tensor))
            if known is None:
                continue
            if known.skipped is not None:  # of a step before, which nobody has asked for
                del self._known[id(tensor)]
                continue
            known.ahead += 1 if skipped is None else 2
            known.more += 1
            known.skipped = skipped
