#!/bin/sh
# numba-cuda 0.30.4 with numba 0.62.1: the simulator (NUMBA_ENABLE_CUDASIM=1), with which programs are
# tried where there is no GPU, refuses cuda.event(timing=False), which the device's own API declares.
# A program that orders its streams by events without timing runs on a GPU and ends in the simulator.
# Expected: the simulator takes what the API declares. Seen on Python 3.11, without a GPU:
#   declared: (timing=True)
#   simulated: TypeError: Event() takes no arguments
# Installs into a temporary folder. Exit status 0 while that is so, 1 when it has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check numba==0.62.1 numba-cuda==0.30.4
cat > "$folder/events.py" <<'END'
import inspect
import os

from numba import cuda

if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
    try:
        cuda.event(timing=False)
        print("simulated: an event")
    except TypeError as error:
        print(f"simulated: TypeError: {error}")
else:
    print(f"declared: {inspect.signature(cuda.event)}")
END
seen=$("$folder/venv/bin/python" "$folder/events.py"
       NUMBA_ENABLE_CUDASIM=1 "$folder/venv/bin/python" "$folder/events.py")
echo "$seen"
[ "$seen" = "declared: (timing=True)
simulated: TypeError: Event() takes no arguments" ]
