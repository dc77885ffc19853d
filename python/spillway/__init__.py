"""The Python side of Spillway: tells the engine which operators an unmodified PyTorch script runs.

hook/sitecustomize.py   runs at the start of every Python program under `spillway run`
operators.py            operator boundaries: turns on the ranges that PyTorch can emit by itself
operands.py             the tensors of each operator, while a policy wants to know them
modules.py              the module that runs, for people, where they have asked for a report
enabling.py             enable(): `spillway run`, asked for by a script
counters.py             stats(): what the run has counted so far
callbacks.py            the same beside the loss, for transformers' and Lightning's trainers
without_gpu/            a GPU that is not there, for `spillway record --without-gpu`
near/                   optimize(): an optimizer's step by Spillway's kernel
autovm/                 optimize(): prefetches and pre-evictions in PyTorch's graphs; torch.compile's backend
install_kernel.py       `spillway install-kernel`, in Python

The hook loads this package as `_spillway`, so a script's own module `spillway` keeps its name.
"""

__version__ = "0.1.0"  # also CMakeLists.txt's; test_enable.py compares them


def enable(device_memory=None, *, device="cuda", host_memory=None, storage=None, policy=None,
           report=None):
    """Gives this script a memory budget, as `spillway run` with options of these names does.

        import spillway
        spillway.enable("20GiB", storage="/var/tmp:100GiB")

    Call it in the first lines of a script, before the first CUDA call: the process starts the
    script again from the top, under `spillway run`, and there this call returns at once. So what
    stands above it runs twice.

    device_memory  the budget of fast memory, for each process. A text with a unit, "20GiB" or
                   "500MB", or a number of bytes. Default: nine tenths of what is free on a GPU,
                   three quarters of what is available on the host.
    device         whose memory that is: "cuda", an NVIDIA GPU's; "host", this machine's own;
                   "auto", a GPU's if there is one, else the host's. Default: "cuda".
    host_memory    memory for what does not fit, as text or bytes; pinned as it is used on a GPU.
                   Default: at most half of what is available.
    storage        where to swap to when that is full: "PATH" or "PATH:SIZE", a folder or a file.
                   Default: nowhere.
    policy         who decides what moves when; `spillway run --help` lists them. Default:
                   "lookahead" on a GPU, "deepum" on the host.
    report         the name of a file: a page about the run is written there at the end. Default:
                   none.

    Raises RuntimeError, with a line that says what is wrong, and goes on without a budget where
    that is caught: there is no GPU and device is "cuda", a value cannot be read, CUDA has been
    used already, or there is no script to start again (a notebook, a terminal, a pipe, a worker
    of multiprocessing).
    """
    # Imported only here: every watched program loads this file.
    from .enabling import enable as enable_here

    enable_here(device_memory, device=device, host_memory=host_memory, storage=storage,
                policy=policy, report=report)


def stats():
    """See counters.py."""
    from .counters import stats as stats_here

    return stats_here()


def __getattr__(name):
    if name not in ("near", "autovm"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return importlib.import_module("." + name, __name__)
