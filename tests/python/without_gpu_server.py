"""Runs scripts without a GPU for test_without_gpu.py: PyTorch is imported once, each runs in a fork.

A line of JSON in, with the script, its environment, where its output goes, and modules that are imported
before the fork, for later ones too; its exit status out.
"""

import atexit
import importlib
import json
import os
import runpy
import sys
import traceback

import torch
import torch._dynamo  # noqa: F401, by now rather than in each fork


from spillway import without_gpu


def run(request):
    for number, name in ((1, "out"), (2, "err")):
        file = os.open(request[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(file, number)
    os.chdir(request["folder"])
    os.environ.update(request["environment"])
    status = 0
    try:
        without_gpu.start()
        runpy.run_path(request["script"], run_name="__main__")
    except SystemExit as end:
        status = end.code or 0
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    atexit._run_exitfuncs()
    os._exit(status)


for line in sys.stdin:
    request = json.loads(line)
    for module in request["ahead"]:
        importlib.import_module(module)
    child = os.fork()
    if child == 0:
        run(request)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
