#!/bin/sh
# PyTorch 2.13.0 on the CPU: torch.optim.SGD(fused=True) leaves bfloat16 parameters as they are. The
# vectors of its kernel compute the update and do not store it; only the elements behind the last full
# vector, numel % 16, move. Nothing is said, and training goes on with a loss that does not fall.
# Expected: what fused=False does. Seen, of 40 parameters with a gradient of ones and a rate of 0.1:
#   fused=False: 40 of 40 moved
#   fused=True: 8 of 40 moved
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
cat > "$folder/sgd.py" <<'END'
import torch

for fused in (False, True):
    parameter = torch.nn.Parameter(torch.linspace(1, 2, 40).bfloat16())
    before = parameter.detach().clone()
    parameter.grad = torch.ones_like(parameter)
    torch.optim.SGD([parameter], lr=0.1, fused=fused).step()
    print(f"fused={fused}: {int((parameter != before).sum())} of 40 moved")
END
seen=$("$PYTHON" "$folder/sgd.py" 2>/dev/null)
echo "$seen"
[ "$seen" = "fused=False: 40 of 40 moved
fused=True: 8 of 40 moved" ]
