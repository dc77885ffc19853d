#!/bin/sh
# PyTorch 2.13.0 on the CPU, ExecutionTraceObserver (schema 1.1.1-chakra.0.0.4), and the tensors of its
# file (torch_external_id_is_not_rf_id.sh is about finding its operators in another file): memory that an
# operator allocates for its result has no node of its own. If the operator fills it by another one, its
# storage is first seen as an input: addmm's result as what copy_ writes to, a sum's as what fill_ does.
# A reader that takes what is read before anything made it for older than the trace counts activations
# as parameters; only the operator around, which returns it without taking it, says that it is new.
# Expected: a storage is an output before it is an input. Seen:
#   first use of addmm's result: an input of aten::copy_ in aten::addmm
#   first use of sum's result: an input of aten::fill_ in aten::sum
# PYTHON names a Python with that PyTorch; without it one is installed into a temporary folder. Exit
# status 0 while that is so, 1 when it has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if [ -z "${PYTHON:-}" ]; then
  python3 -m venv "$folder/venv"
  PYTHON=$folder/venv/bin/python
  "$PYTHON" -m pip install --quiet --disable-pip-version-check torch==2.13.0
fi
cat > "$folder/first.py" <<'END_OF_SCRIPT'
import json
import sys

import torch
from torch.profiler import ExecutionTraceObserver

a, bias = torch.ones(4, 4), torch.ones(4)
observer = ExecutionTraceObserver().register_callback(sys.argv[1])
observer.start()
kept = [torch.addmm(bias, a, a), a.sum(0)]
observer.stop()
observer.unregister_callback()
nodes = sorted(json.load(open(sys.argv[1]))["nodes"], key=lambda node: node["id"])
names = {node["id"]: node["name"] for node in nodes}


def storages(values):
    return [value[1] for value in values if isinstance(value, list) and len(value) == 6]


# Nodes end in the reverse order of their beginning where one is inside of the other.
for name in ("addmm", "sum"):
    (result,) = (storages(node["outputs"]["values"])[0] for node in nodes
                 if node["name"] == "aten::" + name)
    inside = next(node for node in reversed(nodes) if node["name"] != "aten::" + name and
                  result in storages(node["inputs"]["values"]) and
                  names[node["ctrl_deps"]] == "aten::" + name and "_conj" not in node["name"])
    makers = [node["name"] for node in nodes if result in storages(node["outputs"]["values"]) and
              result not in storages(node["inputs"]["values"])]
    assert makers == ["aten::" + name], makers
    print(f"first use of {name}'s result: an input of {inside['name']} in {names[inside['ctrl_deps']]}")
END_OF_SCRIPT
seen=$("$PYTHON" "$folder/first.py" "$folder/chakra.json" 2>/dev/null)
echo "$seen"
[ "$seen" = "first use of addmm's result: an input of aten::copy_ in aten::addmm
first use of sum's result: an input of aten::fill_ in aten::sum" ]
