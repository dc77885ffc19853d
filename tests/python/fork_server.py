"""Runs scripts, each in a fork of a process that has imported PyTorch (fork_servers in conftest.py).

A line of JSON in: the script, its arguments, folder, environment and folders of PYTHONPATH, where its
output goes, and modules that are imported before the fork, for later scripts too; its exit status out.
A hook runs before the script, as at the start of Python, but PyTorch is there already. The script ends as
a program does.
"""

import importlib.util
import json
import os
import runpy
import signal
import sys


def accept():
    """The request, in a process of its own; None when there are no more."""
    for line in sys.stdin:
        request = json.loads(line)
        for module in request["ahead"]:
            importlib.import_module(module)
        child = os.fork()
        if child == 0:
            return request
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    return None


def become(request):
    signal.alarm(300)
    for number, name in enumerate((os.devnull, request["out"], request["err"])):
        file = os.open(name, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, number)
        os.close(file)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv[:] = [request["script"], *request["arguments"]]
    sys.path[:1] = [os.path.dirname(request["script"]), *request["path"]]
    if request["hook"]:
        spec = importlib.util.spec_from_file_location("sitecustomize", request["hook"])
        sys.modules["sitecustomize"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["sitecustomize"])


asked = accept()
if asked is not None:
    become(asked)
    runpy.run_path(asked["script"], run_name="__main__")
