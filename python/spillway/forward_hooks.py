"""Hooks of every module's forward that a compiler does not see: under torch.compile they do nothing,
break no graph, and are not warned of."""

import warnings

from torch.compiler import is_compiling
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook


def _unseen(hook):
    # That hooks run for the compiler's own module around the script's as well is meant.
    warnings.filterwarnings("ignore", message=r"Using `torch\.compile\(module\)` when there are global "
                                              "hooks")

    def unless_compiling(*args):
        if not is_compiling():
            hook(*args)

    return unless_compiling


def before_forward(hook):
    """hook(module, args); returns what takes it away again."""
    return register_module_forward_pre_hook(_unseen(hook))


def after_forward(hook):
    """hook(module, args, output), also where the forward has raised an error."""
    return register_module_forward_hook(_unseen(hook), always_call=True)
