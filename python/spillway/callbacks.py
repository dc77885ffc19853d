"""Callbacks of trainers, which log what Spillway did beside the loss:

    TransformersCallback    for transformers' Trainer(callbacks=[...])
    LightningCallback       for Lightning's Trainer(callbacks=[...])

Each name imports its library only when it is asked for. Both log the same numbers, since the log
before: spillway_moved_in_bytes and spillway_moved_out_bytes (into device memory and out of it),
spillway_waited_seconds (at least one thread was stopped) and spillway_made_again_bytes (given up
instead of moved, for a launch to make again). Where the process does not run under Spillway they
log nothing, and say so once.
"""

import sys

from .counters import stats

_WHERE = {"TransformersCallback": "transformers_callback", "LightningCallback": "lightning_callback"}
__all__ = list(_WHERE)


def __getattr__(name):
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module("." + _WHERE[name], __package__), name)


class Since:
    """What happened since it was last asked; the first time, since it was made."""

    _said = False

    def __init__(self):
        self._before = self._now()
        if self._before is None and not Since._said:
            Since._said = True
            print("spillway: this process does not run under Spillway, so its callback logs nothing: "
                  "start it with `spillway run`", file=sys.stderr)

    def take(self):
        """By the names above; empty where the process does not run under Spillway."""
        if self._before is None:
            return {}
        before, self._before = self._before, self._now()
        return {key: self._before[key] - before[key] for key in before}

    @staticmethod
    def _now():
        record = stats()
        if record is None:
            return None
        moved = record["moved_bytes"]
        return {
            "spillway_moved_in_bytes": moved["host_to_device"] + moved["storage_to_device"],
            "spillway_moved_out_bytes": moved["device_to_host"] + moved["device_to_storage"],
            "spillway_waited_seconds": record["stalled_s"],
            "spillway_made_again_bytes": record["given_up_bytes"],
        }
