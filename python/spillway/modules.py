"""Which module of a PyTorch script runs, for the names in reports and timelines.

Only where SPILLWAY_MODULE_NAMES is 1: `spillway run` sets it for --json, --report, --trace-events.
At each change the preloaded library is told in what the calling thread runs from now on, or NULL:

    void spillway_module(const char* name);

Names are those of named_modules() of the outermost module that is called, "transformer.h.12.mlp";
that one itself, and modules that are not under it, go by their class. A part of it that is called
alone later, as checkpoints do in the backward pass, keeps its name.

Backward: nodes of the graph run in the reverse order of their making. So the last node of a module
says its name as it begins, "transformer.h.12.mlp (backward)", and the last node before a module
that of the module around; those in between keep what was said. "optimizer" is what runs in a step.

Hooks hold names, never modules, tensors or nodes, and what they do raises nothing.
"""

import ctypes
import functools
import os
import sys
import threading
import weakref

import torch
from torch.autograd import Variable
from torch.compiler import is_compiling
from torch.optim.optimizer import (register_optimizer_step_post_hook,
                                   register_optimizer_step_pre_hook)

from . import backward_pass, forward_hooks

_MARK = "spillway_module"  # in the metadata of nodes that say a name
_DEEPEST = 3               # lists and dictionaries in one another, in which tensors are looked for


class _Names:
    """The names of modules, as long as they live."""

    def __init__(self):
        self.known = {}      # by id: a weak reference to the module, its name, whether it is a root
        self.changed = None  # the id of a root in which a module without a name has been called
        self.calls = 0       # of modules that no other has called
        self.next_look = 0   # the call from which on a root that has changed is looked through again

    def find(self, module):
        known = self.known.get(id(module))
        return known if known is not None and known[0]() is module else None

    def of_outermost(self, module):
        known = self.find(module)
        self.calls += 1
        changed = (known is not None and known[2] and self.changed == id(module)
                   and self.calls >= self.next_look)
        if changed:
            # Ever more seldom: it may call a module each time that is in nobody's tree.
            self.next_look = 2 * self.calls
            self.changed = None
        if known is None or changed:
            self.learn(module)
            known = self.find(module)
        return known[1]

    def of_inner(self, module, outermost):
        known = self.find(module)
        if known is None:
            self.changed = outermost
            return self.class_of(module)
        return known[1]

    def learn(self, root):
        for path, module in root.named_modules():
            # torch.compile puts a module of its own around the script's.
            name = ".".join(part for part in path.split(".") if part != "_orig_mod")
            self.add(module, name.encode() if name else self.class_of(module), module is root)

    def add(self, module, name, is_root):
        key = id(module)
        self.known[key] = (weakref.ref(module, lambda _: self.known.pop(key, None)), name, is_root)

    @staticmethod
    def class_of(module):
        module = getattr(module, "_orig_mod", module)
        return type(module).__name__.encode()


class _Thread(threading.local):
    """What one thread runs."""

    def __init__(self):
        self.name = None
        self.stack = []     # of modules that run: its id, and the name before it
        self.backward = []  # of backward passes under way: its number, and the name before it
        self.steps = []     # of optimizers whose step runs, one in another: its id


def _guarded(act):
    """What is wrong here is not the script's affair: from then on there are no names."""

    @functools.wraps(act)
    def guarded(self, *values):
        if self.stopped:
            return
        try:
            act(self, *values)
        except Exception as error:
            self.stop()
            self.tell(None)
            if os.environ.get("SPILLWAY_VERBOSE"):
                print(f"spillway: modules are not named any more: {type(error).__name__}: {error}",
                      file=sys.stderr)

    return guarded


class _Follower:
    def __init__(self, tell):
        self.tell = tell
        self.names = _Names()
        self.thread = _Thread()
        self.stopped = False

    def say(self, thread, name):
        if name != thread.name:
            thread.name = name
            self.tell(name)

    # Modules

    @_guarded
    def enter(self, module, args):
        thread = self.thread
        if thread.stack:
            name = self.names.of_inner(module, thread.stack[0][0])
        else:
            self.forget_failed(thread)
            name = self.names.of_outermost(module)
        outer = thread.name
        # What a compiler has made of the module around it.
        if (outer is not None and isinstance(module, torch.fx.GraphModule)
                and name == self.names.class_of(module)):
            name = outer
        if torch.is_grad_enabled():
            self.name_nodes(args, outer, _DEEPEST)
        thread.stack.append((id(module), outer))
        self.say(thread, name)

    @_guarded
    def leave(self, module, output):
        thread = self.thread
        # One that ended by an exception that is no Exception (KeyboardInterrupt) has not left.
        at = len(thread.stack) - 1
        while at >= 0 and thread.stack[at][0] != id(module):
            at -= 1
        if at < 0:
            return
        outer = thread.stack[at][1]
        name = thread.name if at == len(thread.stack) - 1 else thread.stack[at + 1][1]
        del thread.stack[at:]
        self.say(thread, outer)
        if torch.is_grad_enabled():
            self.name_nodes(output, name, _DEEPEST)

    # Backward

    def name_nodes(self, value, name, deep):
        if isinstance(value, torch.Tensor):
            self.name_node(value, name)
        elif deep > 0 and isinstance(value, (list, tuple)):
            for item in value:
                self.name_nodes(item, name, deep - 1)
        elif deep > 0 and isinstance(value, dict):
            for item in value.values():
                self.name_nodes(item, name, deep - 1)

    def name_node(self, tensor, name):
        # The questions are no affair of a script's own __torch_function__.
        with torch._C.DisableTorchFunction():
            # To ask a view for its node after the memory has been changed makes a new node, and
            # their order is the order of sums.
            if not tensor.requires_grad or tensor.is_leaf or (tensor._is_view() and tensor._version):
                return
            node = tensor.grad_fn
        if node is None or _MARK in node.metadata:
            return
        node.metadata[_MARK] = True
        if name is not None and not name.endswith(b" (backward)"):
            name = name + b" (backward)"

        def before_node(_):
            if not is_compiling():
                self.node_begins(name)

        node.register_prehook(before_node)

    @_guarded
    def node_begins(self, name):
        thread = self.thread
        number = backward_pass.current()
        if not thread.backward or thread.backward[-1][0] != number:
            if not thread.stack:
                self.forget_failed(thread)
            thread.backward.append((number, thread.name))
            begun = thread.backward
            Variable._execution_engine.queue_callback(lambda: self.backward_ends(begun, number))
        self.say(thread, name)

    @_guarded
    def backward_ends(self, begun, number):
        thread = self.thread
        for at, (begun_number, outer) in enumerate(begun):
            if begun_number == number:
                del begun[at:]
                if begun is thread.backward:  # or it has ended on another thread
                    self.say(thread, outer)
                return

    def forget_failed(self, thread):
        """One that ended by an exception calls nobody."""
        if thread.backward and backward_pass.current() is None:
            outer = thread.backward[0][1]
            thread.backward.clear()
            self.say(thread, outer)

    # Optimizers

    @_guarded
    def step_begins(self, optimizer):
        thread = self.thread
        self.forget_step(thread, optimizer)  # one that ended by an exception
        thread.steps.append(id(optimizer))
        thread.stack.clear()
        thread.backward.clear()
        self.say(thread, b"optimizer")

    @_guarded
    def step_ends(self, optimizer):
        thread = self.thread
        self.forget_step(thread, optimizer)
        if not thread.steps:
            self.say(thread, None)

    @staticmethod
    def forget_step(thread, optimizer):
        if id(optimizer) in thread.steps:
            del thread.steps[thread.steps.index(id(optimizer)):]

    def stop(self):
        """Also in a forked child, which is not the program that is watched."""
        self.stopped = True


def _tell_function():
    """The library's; None where there is none. The thread keeps Python's lock: it is short."""
    try:
        tell = ctypes.PyDLL(None).spillway_module
    except AttributeError:
        return None
    tell.argtypes, tell.restype = [ctypes.c_char_p], None
    return tell


def start():
    """Once; without the preloaded library, nothing."""
    tell = _tell_function()
    if tell is None:
        return
    follower = _Follower(tell)

    forward_hooks.before_forward(follower.enter)
    forward_hooks.after_forward(lambda module, _, output: follower.leave(module, output))
    register_optimizer_step_pre_hook(lambda optimizer, *_: follower.step_begins(optimizer))
    register_optimizer_step_post_hook(lambda optimizer, *_: follower.step_ends(optimizer))
    os.register_at_fork(after_in_child=follower.stop)
