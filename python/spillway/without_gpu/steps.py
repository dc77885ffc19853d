"""Where an iteration ends, and what then: as `spillway record` does it, behind an optimizer's step. Of
several optimizers that take turns, such as a GAN's, it is the step of the one that came last. Of a program
that has no optimizer the iteration is found in its kernels (repeated.py) when it ends."""

import atexit
import os
import sys
import time
import weakref

from torch.optim.optimizer import register_optimizer_step_post_hook

from . import repeated, says, trace_file

_SAYS_EVERY_S = 2
_STEPS_WITHOUT = 16  # of others, after which an optimizer is not waited for any more


class Steps:
    def __init__(self, recorder, path, warm_up):
        self.recorder, self.path, self.warm_up = recorder, path, warm_up
        self.ended = 0
        self.process = os.getpid()
        self.began = self.said = time.monotonic()
        self.optimizers = weakref.WeakSet()
        self.last = lambda: None  # of these the one that came last
        self.steps_without = 0
        self.exit_argument = None  # of the script's sys.exit

    def ends_iteration(self, optimizer):
        self.steps_without += 1
        came_before = optimizer in self.optimizers and self.last() not in (None, optimizer)
        if came_before and self.steps_without <= _STEPS_WITHOUT:
            return False
        self.optimizers.add(optimizer)
        self.last = weakref.ref(optimizer)
        self.steps_without = 0
        return True

    def after_step(self, optimizer, *_):
        if os.getpid() != self.process or not self.ends_iteration(optimizer):
            return
        self.ended += 1
        if self.ended == self.warm_up:
            self.recorder.begin()
        if self.ended <= self.warm_up:
            self.tell_progress()
        elif self.ended == self.warm_up + 1:
            # Nothing of the script runs any more, so nothing is saved that was never computed.
            self.write_and_exit()

    def note_exit(self, argument=None, /):
        self.exit_argument = argument
        raise SystemExit(argument)

    def tell_progress(self):
        now = time.monotonic()
        if "SPILLWAY_WITHOUT_GPU_PROGRESS" in os.environ and now - self.said >= _SAYS_EVERY_S:
            self.said = now
            says.say(f"step {self.ended} of {self.warm_up + 1} has ended, after"
                     f" {now - self.began:.0f} s")

    def write_and_exit(self):
        trace_file.write(self.path, self.recorder)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)

    def at_exit(self):
        if os.getpid() != self.process or getattr(sys, "last_type", None) is not None:
            return  # a child of the program, or it has failed and Python has said why
        if self.exit_argument not in (None, 0):
            return  # it refuses to run, as for an option that it does not know, and has said why
        if self.ended == 0 and repeated.found(self.recorder, self.warm_up):
            self.write_and_exit()
        says.say(f"nothing is recorded: {self.ended} steps of an optimizer ended, and"
                 f" {self.warm_up + 1} are needed with --warm-up {self.warm_up}; let the program"
                 " run longer")
        sys.stdout.flush()
        os._exit(125)


def follow(recorder):
    steps = Steps(recorder, os.environ["SPILLWAY_WITHOUT_GPU"],
                  int(os.environ.get("SPILLWAY_CAPTURE_WARM_UP", "2")))
    register_optimizer_step_post_hook(steps.after_step)
    atexit.register(steps.at_exit)
    sys.exit = steps.note_exit
