"""Operator boundaries of a PyTorch script, without a change to it.

PyTorch can emit a range around each operator for Intel's ITT (instrumentation and tracing) API:
every operator then calls __itt_task_begin and __itt_task_end of the library that the environment
variable INTEL_LIBITTNOTIFY64 names. `spillway run` names its own there, and start() turns the
ranges on, for the main thread and for what autograd runs on its behalf.

PyTorch allows a thread one profiler at a time, and the ranges count as one. So while the script
uses a profiler of its own (torch.profiler, torch.autograd.profiler.profile, emit_itt, emit_nvtx)
on the main thread, these ranges are off; they come back when that profiler stops.

A range around an operator costs a fraction of a microsecond. Where a mode of operands.py is on,
each operator arrives three times, one inside the other: its name, PythonDispatchMode, its name.

Not reported: threads that the script starts, DataLoader workers and other forked children, and
what runs inside a kernel of torch.compile, whose call is one range.
"""

import atexit
import os
import threading
from _thread import get_ident

import torch.autograd.profiler as profiler
import torch.profiler.itt

from . import operands


class Ranges:
    """PyTorch's ranges on the thread that made this object."""

    def __init__(self):
        self.thread = get_ident()
        self.emitter = None  # what to leave; None while the ranges are off
        self.aside = False  # off, until the script's profiler stops
        self.stopped = False

    def enter(self):
        self.emitter = _without_flag(profiler.emit_itt(), "__enter__")

    def leave(self):
        emitter, self.emitter = self.emitter, None
        if emitter is not None:
            _without_flag(emitter, "__exit__", None, None, None)

    def step_aside(self):
        """Whether there was anything to turn off."""
        if get_ident() != self.thread or self.emitter is None:
            return False
        self.leave()
        self.aside = True
        return True

    def come_back(self):
        if get_ident() != self.thread or not self.aside:
            return
        self.aside = False
        if not self.stopped:
            self.enter()

    def stop(self):
        """For good: at exit, and in a forked child, which is not the program that is watched."""
        self.stopped = True
        if get_ident() == self.thread:
            self.leave()


def _without_flag(emitter, method, *args):
    """To the rest of PyTorch no profiler is on: with its flag set, the compiler and what it
    compiled would record details for a profiler to show."""
    flag = profiler._is_profiler_enabled
    try:
        getattr(emitter, method)(*args)
    finally:
        profiler._is_profiler_enabled = flag
    return emitter


def _yield_to_profilers(ranges):
    """All of PyTorch's profilers start and stop through two functions of one module; that
    includes the emitter in ranges, for which the calls below do nothing of their own."""
    enable, disable = profiler._enable_profiler, profiler._disable_profiler

    def enable_profiler(*args, **kwargs):
        stepped_aside = ranges.step_aside()
        try:
            return enable(*args, **kwargs)
        except BaseException:
            if stepped_aside:
                ranges.come_back()
            raise

    def disable_profiler(*args, **kwargs):
        # Profilers of the script that overlap can stop twice; the second stop is not for ours.
        ranges.step_aside()
        try:
            return disable(*args, **kwargs)
        finally:
            ranges.come_back()

    profiler._enable_profiler, profiler._disable_profiler = enable_profiler, disable_profiler


def start():
    """Once, on the main thread. Raises if this PyTorch or this thread cannot report operators."""
    if not torch.profiler.itt.is_available():
        raise RuntimeError("this build of PyTorch is without ITT")
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("torch was imported by a thread that is not the main thread")
    ranges = Ranges()
    ranges.enter()
    _yield_to_profilers(ranges)
    # Ranges that are on when the interpreter is gone make PyTorch warn of a leaked callback.
    atexit.register(ranges.stop)
    os.register_at_fork(after_in_child=ranges.stop)
    operands.follow(operands.preloaded_library())
