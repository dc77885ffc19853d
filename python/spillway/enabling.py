"""spillway.enable(): what `spillway run` does, asked for by the script itself.

The script's process becomes `spillway run -- python script.py ...` with the same words, so the
script begins anew, this time watched; there enable() finds that it is, and returns. Libraries that
stand in front of the allocator or the driver have to be there before anything else is: to load one
now would leave out what the interpreter and its modules have already looked up.
"""

import os
import sys
import threading
from pathlib import Path

from .program import find_program

# Set for whatever `spillway run` starts, and for its children.
_UNDER_RUN = "SPILLWAY_RECORD"


def enable(device_memory=None, *, device="cuda", host_memory=None, storage=None, policy=None,
           report=None):
    """Runs this script with a memory budget, as `spillway run` with options of these names does.

    To be called at the top of a script, before its first CUDA call and before it does anything that
    must not happen twice: what stands above runs twice. Sizes are texts such as "30GiB", or bytes.
    device: "cuda", "host" or "auto". Returns in the process that is watched; in one that is
    already, at once. Raises RuntimeError where it cannot be: too late, or no script to run again.
    """
    if os.environ.get(_UNDER_RUN):
        return
    reason = _why_not(device_memory)
    if reason:
        raise RuntimeError(f"spillway.enable(): {reason}")
    command = [_program(), "run", "--device", device]
    for option, value in (("--device-memory", device_memory), ("--host-memory", host_memory),
                          ("--storage", storage), ("--policy", policy), ("--report", report)):
        if value is not None:
            command += [option, str(value)]
    command += ["--", sys.executable, *_words()]
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(command[0], command)


def _why_not(device_memory):
    kernel = sys.modules.get("ipykernel.kernelapp")
    if kernel is not None and kernel.IPKernelApp.initialized():
        size = "20GiB" if device_memory is None else device_memory
        return ("a notebook cannot begin anew: `spillway install-kernel --device-memory "
                f"{size}`, in a terminal, adds a kernel that runs under Spillway; choose that one")
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return ("too late: CUDA is initialized in this process; call it before the first CUDA call, "
                "or start the script with `spillway run`")
    if threading.current_thread() is not threading.main_thread():
        return "call it in the main thread"
    if "multiprocessing" in sys.modules:
        import multiprocessing

        if multiprocessing.parent_process() is not None:
            return "call it in the program's first process, not in one of its workers"
    if sys.flags.interactive or hasattr(sys, "ps1") or not _can_begin_anew():
        return ("there is no script that could be run again (it came from a terminal or a pipe): "
                "start it with `spillway run`")
    return None


def _can_begin_anew():
    """Whether the interpreter's words lead to the script a second time: a pipe is read once."""
    main = sys.modules["__main__"]
    if getattr(main, "__spec__", None) is not None:  # -m, a folder or an archive
        return True
    file = getattr(main, "__file__", None)
    if file is None:
        return sys.argv[:1] == ["-c"]
    return os.path.isfile(file)


def _program():
    """The command, beside this package or in PATH."""
    found = find_program()
    if found is None:
        raise RuntimeError("spillway.enable(): there is no program `spillway`, neither beside this "
                           "package nor in PATH")
    return found


def _words():
    """What the interpreter was started with, without its own name."""
    if hasattr(sys, "orig_argv"):  # Python 3.10
        return sys.orig_argv[1:]
    return [os.fsdecode(word) for word in
            Path("/proc/self/cmdline").read_bytes().rstrip(b"\0").split(b"\0")[1:]]
