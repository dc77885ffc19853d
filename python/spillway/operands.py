"""The tensors that each operator of a PyTorch script reads and writes.

A policy that plans a whole iteration needs them once; asking costs tens of microseconds an
operator. So after every optimizer step the preloaded library says whether it wants the operands of
the iteration that begins there:

    int spillway_wants_operands(void);

A script that takes no steps (inference, generation) is asked where an iteration is found in its
operators. The library wishes to be asked, by having the interpreter call back, and from then on every
module's forward asks, until it wants them no more. `spillway record` asks at every forward:

    int spillway_forward_wants_operands(void);
    void spillway_on_wish(int (*add_pending)(int (*)(void*), void*), int (*callback)(void*));

While it wants them, each operator that reaches the dispatcher below autograd is announced before it runs,
with the storages that it is given, and again when it is done, with those that it returns:

    typedef struct { void* address; size_t bytes; int writes; } spillway_operand;
    int spillway_operator(const char* name, const spillway_operand* operands, size_t count);
    int spillway_operator_done(const char* name, const spillway_operand* operands, size_t count);

A storage is named once in a call. Before: writes is 1 if the operator's schema says that it changes
that argument. After: writes is 1 for new tensors and changed arguments, and 0 for views. Names are
those of the operator ranges, without the overload: aten::add_. What the two return is ignored.

Results are the same, to the last bit. Memory is not quite: while any mode is entered, autograd adds
gradients up into a new tensor where it else adds in place (aten::add for aten::add_), and it saves
tensors for the backward pass through an additional aten::detach.
"""

import atexit
import ctypes
import os
from _thread import get_ident

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils._python_dispatch import (TorchDispatchMode, _get_current_dispatch_mode,
                                          _get_current_dispatch_mode_stack)

from . import backward_pass, forward_hooks


class Operand(ctypes.Structure):
    _fields_ = [
        ("address", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
        ("writes", ctypes.c_int),
    ]


def preloaded_library():
    """The library of this process that has the three functions, or None."""
    library = ctypes.CDLL(None)
    try:
        library.spillway_wants_operands.argtypes = []
        for function in (library.spillway_operator, library.spillway_operator_done):
            function.argtypes = [ctypes.c_char_p, ctypes.POINTER(Operand), ctypes.c_size_t]
    except AttributeError:
        return None
    return library


class _Signature:
    """What a schema says of an operator, in the form in which it is asked."""

    def __init__(self, schema):
        self.name = schema.name.encode()
        self.positional = [_changes(argument) for argument in schema.arguments]
        self.named = {argument.name: _changes(argument) for argument in schema.arguments}
        # A result that shares the storage of an argument, unchanged, is a view.
        self.results = [value.alias_info is None or value.alias_info.is_write
                        for value in schema.returns]


def _changes(argument):
    return argument.alias_info is not None and argument.alias_info.is_write


def _add_storages(storages, value, writes):
    """Adds the storages of a tensor, or of the tensors in a list, to {address: [bytes, writes]}."""
    if isinstance(value, torch.Tensor):
        try:
            storage = value.untyped_storage()
            address, size = storage.data_ptr(), storage.nbytes()
        except (RuntimeError, NotImplementedError):
            return  # a tensor without memory of its own: sparse, fake, or on the meta device
        if address and size:
            entry = storages.setdefault(address, [size, writes])
            entry[1] = entry[1] or writes
    elif isinstance(value, (list, tuple)):
        for item in value:
            _add_storages(storages, item, writes)


def _operands(storages):
    array = (Operand * len(storages))()
    for operand, (address, (size, writes)) in zip(array, storages.items()):
        operand.address, operand.bytes, operand.writes = address, size, writes
    return array, len(storages)


class Reporter(TorchDispatchMode):
    """While entered, tells the library of every operator."""

    # Such as checkpoints and loops that a script hands to PyTorch as functions; without this they
    # raise an error while any mode is entered.
    supports_higher_order_operators = True

    def __init__(self, library):
        super().__init__()
        self.library = library
        self.signatures = {}

    @classmethod
    def ignore_compile_internals(cls):
        return True  # else PyTorch would run compiled functions uncompiled, with other bits

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        schema = getattr(func, "_schema", None)
        # Not operators: a function that takes functions, and the begin and end of a range.
        if schema is None or func.namespace == "profiler":
            return func(*args, **kwargs)
        signature = self.signatures.get(func)
        if signature is None:
            signature = self.signatures[func] = _Signature(schema)

        storages = {}
        for value, changes in zip(args, signature.positional):
            _add_storages(storages, value, changes)
        for name, value in kwargs.items():
            _add_storages(storages, value, signature.named.get(name, False))
        self.library.spillway_operator(signature.name, *_operands(storages))

        storages = {}
        try:
            results = func(*args, **kwargs)
            values = results if len(signature.results) > 1 else (results,)
            for value, writes in zip(values, signature.results):
                _add_storages(storages, value, writes)
        finally:  # one that raises an error is done as well, and returns nothing
            self.library.spillway_operator_done(signature.name, *_operands(storages))
        return results


class _Follower:
    """Enters and leaves the reporter where the library's wish changes."""

    def __init__(self, library):
        self.library = library
        self.reporter = Reporter(library)
        self.entered = False
        self.by_forward = False  # entered, and no step has asked
        self.forward_hook = None
        self.thread = get_ident()  # modes, as ranges, belong to a thread
        self.callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(self.wished)

    def after_step(self, *_):
        if not self.may_follow():
            return
        self.by_forward = False
        self.follow(self.library.spillway_wants_operands())

    def wished(self, _):
        """Called between any two instructions of the script, so it changes nothing of PyTorch's
        but the list of hooks."""
        if self.forward_hook is None:
            self.forward_hook = forward_hooks.before_forward(self.before_forward)
        return 0

    def before_forward(self, *_):
        """Of a script that takes no steps: what a step has asked for only a step ends."""
        if not self.may_follow() or self.entered != self.by_forward:
            return
        self.follow(self.library.spillway_forward_wants_operands())
        self.by_forward = self.entered
        if not self.entered and self.forward_hook is not None:
            self.forward_hook.remove()
            self.forward_hook = None

    def may_follow(self):
        """What a thread enters in the middle of a backward pass (a checkpoint runs forwards there,
        hooks take steps) is taken from it when that has ended."""
        return get_ident() == self.thread and backward_pass.current() is None

    def follow(self, wanted):
        self.entered = self.entered and self.reporter in _get_current_dispatch_mode_stack()
        if wanted and not self.entered:
            # Modes leave in the reverse order. One of the script's that is entered now would, when
            # it leaves, take the reporter off in its place; so that iteration goes unreported.
            if _get_current_dispatch_mode() is None:
                self.reporter.__enter__()
                self.entered = True
        elif not wanted:
            self.leave()

    def leave(self):
        # Below one of the script's modes, it waits for a later step.
        if self.entered and _get_current_dispatch_mode() is self.reporter:
            self.reporter.__exit__(None, None, None)
            self.entered = False

    def end(self):
        if hasattr(self.library, "spillway_on_wish"):
            self.library.spillway_on_wish(None, None)
        self.leave()


def follow(library):
    """From now on does what the library wishes. Without a library, nothing."""
    if library is None:
        return
    follower = _Follower(library)
    register_optimizer_step_post_hook(follower.after_step)
    if os.environ.get("SPILLWAY_CAPTURE"):
        forward_hooks.before_forward(follower.before_forward)
    elif hasattr(library, "spillway_on_wish"):
        library.spillway_on_wish.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        library.spillway_on_wish(ctypes.cast(ctypes.pythonapi.Py_AddPendingCall, ctypes.c_void_p),
                                 ctypes.cast(follower.callback, ctypes.c_void_p))
    atexit.register(follower.end)
