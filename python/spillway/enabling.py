"""spillway.enable(): what `spillway run` does, asked for by the script itself.

The script's process becomes `spillway run -- python script.py ...` with the same words, so the
script begins anew, this time watched; there enable() finds that it is, and returns. Libraries that
stand in front of the allocator or the driver have to be there before anything else is: to load one
now would leave out what the interpreter and its modules have already looked up.
"""

import os
import subprocess
import sys
import threading
from pathlib import Path

from .program import find_program

# Set for whatever `spillway run` starts, and for its children.
_UNDER_RUN = "SPILLWAY_RECORD"


def enable(device_memory, *, device, host_memory, storage, policy, report):
    """See __init__.py."""
    if os.environ.get(_UNDER_RUN):
        return
    reason = _why_not(device_memory)
    if reason:
        raise RuntimeError(f"spillway.enable(): {reason}")
    program = _program()
    words = ["--device", device]
    for option, value in (("--device-memory", device_memory), ("--host-memory", host_memory),
                          ("--storage", storage), ("--policy", policy), ("--report", report)):
        if value is not None:
            words += [option, str(value)]
    words += ["--", sys.executable, *_words()]
    _check(program, words)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(program, [program, "run", *words])


def _check(program, words):
    """What `spillway run` would refuse is refused here: it would end this process."""
    result = subprocess.run([program, "can-run", *words], stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                            errors="replace", check=False)
    if result.returncode != 0:
        lines = result.stderr.strip().splitlines() or [f"{program} ended with {result.returncode}"]
        raise RuntimeError("spillway.enable(): " + lines[-1].replace("spillway: ", "", 1))


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
