#!/bin/sh
# PyTorch 2.13.0 on the CPU: the sum torch.add(a, b, alpha=...) of two bfloat16 numbers depends on where
# in the tensor they lie, and on torch.get_num_threads(). The operator's vectors round alpha * b + a
# once; behind the last vector of each thread's part, numel % 32, alpha * b is rounded to bfloat16 first.
# So optimizers (weight_decay, SGD's rate) give other bits with another number of threads.
# Expected: an element's sum is a function of its operands. Seen, the same two numbers 33 times:
#   1 sum in place 0 to 31, another in place 32
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
cat > "$folder/add.py" <<'END'
import torch

generator = torch.Generator().manual_seed(0)
for _ in range(1000):
    a, b = torch.randn(2, generator=generator).bfloat16()
    sums = torch.add(a.expand(33).clone(), b.expand(33).clone(), alpha=0.3)
    vectors, behind = set(sums[:32].tolist()), float(sums[32])
    if behind not in vectors:
        print(f"{len(vectors)} sum in place 0 to 31, another in place 32")
        break
END
seen=$("$PYTHON" "$folder/add.py" 2>/dev/null)
echo "$seen"
[ "$seen" = "1 sum in place 0 to 31, another in place 32" ]
