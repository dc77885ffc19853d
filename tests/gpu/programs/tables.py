"""python3 tables.py kernel|large|pinned|anew: tables.cu, built beside the system's temporary files."""

import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).with_suffix(".cu")


def built():
    key = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    program = pathlib.Path(tempfile.gettempdir()) / f"spillway-tables-{os.getuid()}-{key}"
    if not program.exists():
        made = program.with_suffix(f".{os.getpid()}")
        subprocess.run([os.environ.get("NVCC", "nvcc"), "-O2", "-arch=native", "-o", made, SOURCE],
                       check=True, stdout=sys.stderr)
        made.rename(program)
    return program


if __name__ == "__main__":
    program = built()
    os.execv(program, [program, *sys.argv[1:]])
