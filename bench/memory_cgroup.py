"""A memory limit for one child process, through a control group of its own. Part of streaming.py."""

import contextlib
import os
import pathlib
import time

LIMIT_FILES = ("memory.max", "memory.limit_in_bytes")  # of version 2, of version 1


def _mount_points():
    """Where the memory controller is mounted: [(folder, is version 2)]."""
    points = []
    for line in pathlib.Path("/proc/self/mounts").read_text().splitlines():
        _, folder, kind, options, *_ = line.split()
        if kind == "cgroup2":
            points.append((pathlib.Path(folder), True))
        elif kind == "cgroup" and "memory" in options.split(","):
            points.append((pathlib.Path(folder), False))
    return sorted(points, key=lambda point: point[1])  # version 1 first: it has the controller then


def _own_group(is_version_2):
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if (controllers == "") if is_version_2 else ("memory" in controllers.split(",")):
            return path.lstrip("/")
    return ""


def _parents():
    """Groups in which one for the child may be made. In version 2 a group that has processes gives
    its controllers to no other, so the group above ours is tried as well; its limits still hold."""
    for folder, is_version_2 in _mount_points():
        own = folder / _own_group(is_version_2)
        yield own
        if is_version_2 and own != folder:
            yield own.parent


def _remove(group):
    for _ in range(50):  # the child's last pages may still be on their way out
        try:
            group.rmdir()
            return
        except OSError:
            time.sleep(0.1)


@contextlib.contextmanager
def limited(limit_bytes):
    """Gives what a child must call before it becomes the program (preexec_fn), or None where no
    group with a limit can be made."""
    for parent in _parents():
        group = parent / f"spillway-bench-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            limit = next((group / name for name in LIMIT_FILES if (group / name).exists()), None)
            if limit is None:
                continue
            limit.write_text(str(limit_bytes))
            yield lambda: (group / "cgroup.procs").write_text(str(os.getpid()))
            return
        except PermissionError:
            continue
        finally:
            _remove(group)
    yield None
