"""Updates that begin some time after step() has returned: those of tensors on a GPU.

A program is far ahead of its device. When it calls step(), the device may still compute the backward
pass. So step() only issues updates, as it would launch kernels: each begins when its gradient is there,
runs at the host beside the rest of that pass, and launches that use its parameter later wait for it.
Nothing is guessed, and nothing has to be undone: a norm that clips, for instance, is computed by
launches in front of the update. In a steady step nothing here waits for the device.
"""

import torch
from torch.autograd.graph import increment_version

from .gradients import Gradients
from .steps import Steps


_LONGEST_REST = 15  # steps
_ASKED_AT_LEAST = 4  # steps in which nothing is taken, for the platform to measure how long they take


class Later:
    def __init__(self):
        self._steps = Steps()
        self._gradients = Gradients()
        self._rest = self._last_rest = self._empty = 0

    def rests(self):
        """Whether this step asks for nothing: after steps in which nothing was taken ever fewer ask, since
        the question costs time for each tensor."""
        self._rest -= 1
        return self._rest >= 0

    def pause(self):
        """In this step nothing is asked for."""
        self._gradients.follow((), None)

    def leave(self, steps):
        """PyTorch is about to take a step with all tensors that these belong to."""
        self._steps.leave(steps)

    def prepare(self, calls, numbers, scaled):
        """What run() takes. `calls`: (place, update, tensors) each; `numbers`: a group's, by id of its
        lists; `scaled`: gradients are divided. May raise: nothing has happened then."""
        return [(place, update, ones, self._described(place, ones, numbers, scaled))
                for place, update, ones in calls]

    def _described(self, place, ones, numbers, scaled):
        steps = [one.step for one in ones if one.step is not None and not place.is_at_host(one.step)]
        known = dict(zip(map(id, steps), self._steps.numbers(place, steps)))
        described = []
        for one in ones:
            if one.step is None:
                step = one.number()
            else:  # where it is at the host it has not been raised yet, as nothing is sure yet
                step = 1 + (known[id(one.step)] if id(one.step) in known else one.number())
            described.append(one.native(step, numbers[id(one.left)], scaled))
        return described

    def run(self, prepared, threads, scale, found_inf):
        """Issues all updates; returns the tensors of those that were not taken."""
        taken, refused = [], []
        for place, update, ones, described in prepared:
            for one, flag in zip(ones, place.run(update, described, threads, scale, found_inf)):
                (taken if flag else refused).append(one)
        at_host = [one.step for one in taken if one.step is not None and one.place.is_at_host(one.step)]
        if at_host:
            torch._foreach_add_(at_host, 1)
        for place in {place for place, *_ in prepared}:
            self._count(place, taken, refused, found_inf)
        increment_version([tensor for one in taken if not one.left.group.get("fused")
                           for tensor in one.written()])
        self._empty = 0 if taken else self._empty + 1
        rests = self._empty > _ASKED_AT_LEAST
        self._rest = self._last_rest = min(2 * self._last_rest + 1, _LONGEST_REST) if rests else 0
        senders = [one.place.sender() for one in taken]  # functions of a library, which have no hash
        same = bool(senders) and all(sender == senders[0] for sender in senders)
        self._gradients.follow([one.whole for one in taken], senders[0] if same else None)
        return refused

    def _count(self, place, taken, refused, found_inf):
        """The steps that lie on the device."""
        ours, others = ([one.step for one in ones if one.place is place and one.step is not None
                         and not place.is_at_host(one.step)] for ones in (taken, refused))
        if not ours and not others:
            return
        skipped = None if found_inf is None else place.copied(found_inf)
        if ours:
            self._steps.advance(ours, found_inf, skipped)
        self._steps.leave(others, skipped)
