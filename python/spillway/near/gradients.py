"""Gradients whose backward pass is done with them, told while the rest of that pass goes on.

A hook of each parameter that was updated at the host counts how often its gradient grows. When it has
grown as often as in the step before, it is taken for final and told: a hint, wrong where a script
accumulates more than before, and then a copy was for nothing. Nothing is told of a gradient any more
that was changed after it was told, as clipping does.
"""

import weakref

_NEVER = -1


class _Followed:
    __slots__ = ("parameter", "grown", "final", "told", "handle")

    def __init__(self, parameter, forget):
        self.parameter = weakref.ref(parameter, forget)
        self.grown = 0    # how often, since the last step
        self.final = 0    # at which it is told
        self.told = None  # the gradient's version then


def _hook(followed, send):
    def grew(parameter):
        followed.grown += 1
        if followed.grown == followed.final:
            try:
                gradient = parameter.grad
                send(gradient.data_ptr(), gradient.nbytes)
                followed.told = gradient._version
            except (AttributeError, RuntimeError):  # none, or without memory of its own
                followed.final = _NEVER

    return grew


def _remove(all_followed):
    for followed in list(all_followed.values()):
        followed.handle.remove()


class Gradients:
    """All that are followed; hooks go with this object, or with their parameter."""

    def __init__(self):
        self._followed = {}  # by id of the parameter
        weakref.finalize(self, _remove, self._followed).atexit = False

    def follow(self, parameters, send):
        """Those that a step takes, while their gradients are there. `send`: of an address and a number
        of bytes, or None where nothing is to be told."""
        taken = {id(parameter) for parameter in parameters}
        for key, followed in self._followed.items():
            if followed.told is not None and followed.told != _version(followed.parameter()):
                followed.final = _NEVER
            elif followed.final != _NEVER:
                followed.final = followed.grown if key in taken and send is not None else 0
            followed.grown, followed.told = 0, None
        for parameter in parameters:
            key = id(parameter)
            new = send is not None and key not in self._followed
            if new and parameter.requires_grad and parameter.is_leaf:
                self._followed[key] = followed = _Followed(
                    parameter, lambda _, key=key, all_=self._followed: all_.pop(key, None))
                followed.handle = parameter.register_post_accumulate_grad_hook(_hook(followed, send))


def _version(parameter):
    return None if parameter is None or parameter.grad is None else parameter.grad._version
