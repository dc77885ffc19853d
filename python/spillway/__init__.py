"""The Python side of Spillway: tells the engine which operators an unmodified PyTorch script runs.

hook/sitecustomize.py   runs at the start of every Python program under `spillway run`
operators.py            operator boundaries: turns on the ranges that PyTorch can emit by itself
operands.py             the tensors of each operator, while a policy wants to know them
modules.py              the module that runs, for people, where they have asked for a report
enabling.py             enable(): `spillway run`, asked for by a script
counters.py             stats(): what the run has counted so far
callbacks.py            the same beside the loss, for transformers' and Lightning's trainers
near/                   optimize(): an optimizer's step by Spillway's kernel
install_kernel.py       `spillway install-kernel`, in Python

The hook loads this package as `_spillway`, so a script's own module `spillway` keeps its name.
"""


def enable(*arguments, **options):
    """See enabling.py. Imported only here: every watched program loads this file."""
    from .enabling import enable as enable_here

    enable_here(*arguments, **options)


def stats():
    """See counters.py."""
    from .counters import stats as stats_here

    return stats_here()


def __getattr__(name):
    if name != "near":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return importlib.import_module(".near", __name__)
