"""Installs a kernel for Jupyter; `spillway install-kernel` runs this file with the kernel's Python.

    python install_kernel.py NAME DISPLAY_NAME WHERE PROGRAM run OPTIONS...

WHERE: --user, --sys-prefix, or a folder. What is written is ipykernel's own kernel, with the words
of `spillway run` before its own. Interrupts come as messages: the kernel then sends itself the
signal, whoever started it; one that a server sends to the process that it has started would reach
`spillway run`, which leaves Ctrl-C to its program.
"""

import os
import sys
import tempfile

_FOLDER = os.path.dirname(os.path.abspath(__file__))
# Our modules are no top-level ones.
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _FOLDER]


def install(name, display_name, where, run):
    """Returns the folder in which it is."""
    from ipykernel.kernelspec import get_kernel_dict, write_kernel_spec
    from jupyter_client.kernelspec import KernelSpecManager

    python, *words = get_kernel_dict()["argv"]
    with tempfile.TemporaryDirectory() as folder:
        written = write_kernel_spec(os.path.join(folder, "kernel"), {
            "argv": [*run, "--", python, "-Xfrozen_modules=off", *words],
            "display_name": display_name,
            "interrupt_mode": "message",
        })
        prefix = {"--user": None, "--sys-prefix": sys.prefix}.get(where, where)
        return KernelSpecManager().install_kernel_spec(written, kernel_name=name,
                                                       user=prefix is None, prefix=prefix)


def main(name, display_name, where, *run):
    try:
        folder = install(name, display_name, where, run)
    except ModuleNotFoundError as error:
        sys.exit(_complain(2, f"{sys.executable} has no {error.name}, which a kernel needs: "
                              f"{sys.executable} -m pip install ipykernel"))
    except ValueError as error:
        sys.exit(_complain(2, f"--name: {error}"))
    except OSError as error:
        sys.exit(_complain(1, f"the kernel cannot be installed: {error.filename}: "
                              f"{error.strerror}; --prefix takes another place"))
    print(f"{display_name}: {folder}")


def _complain(status, line):
    print("spillway: " + " ".join(line.split()), file=sys.stderr)
    return status


if __name__ == "__main__":
    main(*sys.argv[1:])
