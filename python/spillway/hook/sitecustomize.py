"""Runs at the start of every Python program under `spillway run`, before the program itself.

`spillway run` puts this folder, and nothing else of Spillway, first in PYTHONPATH; Python then
imports this file by its name. It does nine things:

- leaves sys.path as it would be without Spillway. The variable PYTHONPATH stays as it is, so
  Python programs that this one starts are watched, too;
- if SPILLWAY_OPERATORS is 1, waits for the program to import torch, and then starts operators.py.
  It never imports torch itself, so a program without torch pays for one file;
- if SPILLWAY_DEVICE is cuda, waits for the program to import what loads Triton's kernels, and has
  them told (triton_kernels.py);
- has the library told of limits that the program sets to PyTorch's allocator (memory_fraction.py),
  there as well;
- if SPILLWAY_CAPTURE is set as well, starts operands.py then (docs/traces.md);
- if SPILLWAY_MODULE_NAMES is 1, starts modules.py then (docs/python.md);
- if SPILLWAY_NEAR_OPTIMIZER is on, has near/everywhere.py replace optimizers' steps (docs/near-memory.md);
- if SPILLWAY_WITHOUT_GPU is set, and nothing else then, starts without_gpu (docs/traces.md);
- runs the sitecustomize of the user or the distribution, which this one stands in front of.

Python does not come here if it is told to ignore its environment or its site packages (-E, -I,
-S). Such a program runs, but its operators are not reported.
"""

import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))


def _harmless(start):
    """A script that works without Spillway works with it, whatever is wrong here."""

    def harmless():
        try:
            _package()
            start()
        except Exception as error:
            _not_reported(error)

    return harmless


@_harmless
def _start():
    """Report operators from now on; torch is there."""
    from _spillway import operators

    operators.start()


@_harmless
def _tell_operands():
    """The same on a GPU, where the driver is told of launches, under `spillway record`."""
    from _spillway import operands

    operands.follow(operands.preloaded_library())


@_harmless
def _name_modules():
    from _spillway import modules

    modules.start()


@_harmless
def _replace_optimizers():
    from _spillway.near import everywhere

    everywhere.start()


@_harmless
def _tell_fractions():
    import torch

    from _spillway import memory_fraction

    memory_fraction.follow(torch)


def _stand_in():
    """A GPU that is not there. Without it the program must not go on: it would do something else."""
    try:
        _package()
        from _spillway import without_gpu

        without_gpu.start()
    except Exception as error:
        print("spillway: this PyTorch cannot be recorded without a GPU:"
              f" {type(error).__name__}: {' '.join(str(error).split())}", file=sys.stderr)
        sys.stderr.flush()
        os._exit(125)


def _package():
    """The package around this folder, under a name that no other can have."""
    if "_spillway" not in sys.modules:
        import importlib.util

        package = os.path.dirname(_FOLDER)
        spec = importlib.util.spec_from_file_location(
            "_spillway",
            os.path.join(package, "__init__.py"),
            submodule_search_locations=[package],
        )
        module = importlib.util.module_from_spec(spec)
        sys.modules["_spillway"] = module
        spec.loader.exec_module(module)


def _not_reported(error):
    if os.environ.get("SPILLWAY_VERBOSE"):
        reason = " ".join(str(error).split())
        print(f"spillway: operators are not reported: {type(error).__name__}: {reason}",
              file=sys.stderr)


def _kernels(follow):
    """What triton_kernels.py does with a module."""

    def then(module):
        try:
            _package()
            from _spillway import triton_kernels

            getattr(triton_kernels, follow)(module)
        except Exception as error:
            if os.environ.get("SPILLWAY_VERBOSE"):
                print(f"spillway: Triton's kernels are not told: {error}", file=sys.stderr)

    return then


class _ImportWatch:
    """An import finder that finds nothing of its own: calls then(module) after a module's import."""

    def __init__(self, watched, then):
        self._watched = watched
        self._then = then

    def find_spec(self, name, path=None, target=None):
        if name != self._watched:
            return None
        for finder in sys.meta_path:
            find_spec = getattr(finder, "find_spec", None)
            spec = None if finder is self or find_spec is None else find_spec(name, path, target)
            if spec is not None:
                break
        else:
            return None
        # To look for a module is not to import it; only its execution is. The loader stays the
        # object that it was, because others ask what kind it is.
        execute = getattr(spec.loader, "exec_module", None)
        if execute is not None:
            try:
                spec.loader.exec_module = lambda module: self._execute(execute, module)
            except AttributeError:
                pass  # a loader with fixed attributes: the module works, unwatched
        return spec

    def _execute(self, execute, module):
        execute(module)
        if self in sys.meta_path:
            sys.meta_path.remove(self)
            self._then(module)


def _after_import(name, then):
    if name in sys.modules:  # a .pth file can have imported it
        then(sys.modules[name])
    else:
        sys.meta_path.insert(0, _ImportWatch(name, then))


def _chain():
    """Import the sitecustomize that would have been imported instead of this one."""
    ours = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401, not this file any more: its folder has left sys.path
    except ImportError as error:
        if error.name != "sitecustomize":
            raise  # Python reports it as it would have without this file
        if ours is not None:
            sys.modules["sitecustomize"] = ours


sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _FOLDER]
_starts = []  # what begins once torch is there
if os.environ.get("SPILLWAY_OPERATORS") == "1":
    _starts.append(_start)
if os.environ.get("SPILLWAY_DEVICE") == "cuda":
    for _launcher in ("static_triton_launcher", "static_cuda_launcher"):
        _after_import(f"torch._inductor.runtime.{_launcher}", _kernels("follow_static_launcher"))
    _after_import("triton.compiler.compiler", _kernels("follow_triton"))
    _starts.append(_tell_fractions)
    if os.environ.get("SPILLWAY_CAPTURE"):
        _starts.append(_tell_operands)
if os.environ.get("SPILLWAY_MODULE_NAMES") == "1":
    _starts.append(_name_modules)
if os.environ.get("SPILLWAY_NEAR_OPTIMIZER") == "on":
    _starts.append(_replace_optimizers)
if os.environ.get("SPILLWAY_WITHOUT_GPU"):
    _starts = [_stand_in]
if _starts:
    _after_import("torch", lambda torch: [start() for start in _starts])
_chain()
