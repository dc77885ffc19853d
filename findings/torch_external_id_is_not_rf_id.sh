#!/bin/sh
# PyTorch 2.13.0 on the CPU, ExecutionTraceObserver, and the profiler's Chrome trace, which has the times
# that the observer's file lacks: what links an operator of one to the other is "Record function id", and
# it is 0 unless an observer runs. "External id", which kernels name and which agrees with rf_id where both
# began together, is another number: where operators ran between the two beginnings, links by it go to
# other operators of the same step, and nothing shows it.
# Expected: one number for an operator in both files. Seen, operators whose name is that of their link:
#   together: 6 of 6 by Record function id, 6 of 6 by External id
#   observer first: 6 of 6 by Record function id, 0 of 6 by External id
#   no observer: Record function ids {0}
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
cat > "$folder/link.py" <<'END_OF_SCRIPT'
import json
import sys

import torch
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile

CHAKRA, KINETO = f"{sys.argv[1]}/chakra.json", f"{sys.argv[1]}/kineto.json"
a = torch.ones(4, 4)


def step():
    ((a + a) * a).relu().exp().neg()


def operators():
    events = json.load(open(KINETO))["traceEvents"]
    return [event for event in events if event.get("cat") == "cpu_op"]


def links():
    names = {attribute["value"]: node["name"] for node in json.load(open(CHAKRA))["nodes"]
             for attribute in node["attrs"] if attribute["name"] == "rf_id"}
    found = operators()
    return ", ".join(
        f"{sum(names.get(event['args'][key]) == event['name'] for event in found)} of {len(found)} by {key}"
        for key in ("Record function id", "External id"))


observer = ExecutionTraceObserver().register_callback(CHAKRA)
with profile(activities=[ProfilerActivity.CPU], execution_trace_observer=observer) as profiler:
    step()
observer.unregister_callback()
profiler.export_chrome_trace(KINETO)
print("together:", links())

observer = ExecutionTraceObserver().register_callback(CHAKRA)
observer.start()
a.cos().sin().tan()
with profile(activities=[ProfilerActivity.CPU]) as profiler:
    step()
observer.stop()
observer.unregister_callback()
profiler.export_chrome_trace(KINETO)
print("observer first:", links())

with profile(activities=[ProfilerActivity.CPU]) as profiler:
    step()
profiler.export_chrome_trace(KINETO)
print("no observer: Record function ids", {event["args"]["Record function id"] for event in operators()})
END_OF_SCRIPT
seen=$("$PYTHON" "$folder/link.py" "$folder" 2>/dev/null | grep : | grep -v USDT)
echo "$seen"
[ "$seen" = "together: 6 of 6 by Record function id, 6 of 6 by External id
observer first: 6 of 6 by Record function id, 0 of 6 by External id
no observer: Record function ids {0}" ]
