#!/bin/sh
# PyTorch 2.13.0 on the CPU: the gradient of an embedding is the same bits at each call in eager mode,
# and not under torch.compile with two threads or more: inductor's kernel adds the rows with atomic
# additions from all threads, in the order in which they happen to come. (On a GPU eager mode differs as
# well, which is known.) torch.use_deterministic_algorithms or one thread cures it.
# Expected: on the CPU a compiled step repeats itself as the eager one does. Seen, of 200 calls:
#   different results: eager 1, compiled more than 1, compiled and deterministic 1
# PYTHON names a Python with that PyTorch; without it one is installed into a temporary folder. Needs two
# processors and a C++ compiler, as torch.compile does. Exit status 0 while that is so, 1 when it has
# changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if [ -z "${PYTHON:-}" ]; then
  python3 -m venv "$folder/venv"
  PYTHON=$folder/venv/bin/python
  "$PYTHON" -m pip install --quiet --disable-pip-version-check torch==2.13.0 setuptools
fi
cat > "$folder/repeats.py" <<'PROGRAM'
import torch

torch.set_num_threads(2)
torch.manual_seed(0)
table = torch.randn(4, 256, requires_grad=True)
index = torch.randint(4, (4096,))
weights = torch.randn(4096, 256)


def loss(table):
    return (torch.nn.functional.embedding(index, table) * weights).sum()


def different(call):
    seen = set()
    for _ in range(200):
        (gradient,) = torch.autograd.grad(call(table), table)
        seen.add(gradient.numpy().tobytes())
    return len(seen)


eager, compiled = different(loss), different(torch.compile(loss))
torch._dynamo.reset()
torch.use_deterministic_algorithms(True)
print(f"different results: eager {eager}, compiled {'more than 1' if compiled > 1 else compiled}, "
      f"compiled and deterministic {different(torch.compile(loss))}")
PROGRAM
seen=$(TORCHINDUCTOR_CACHE_DIR="$folder/cache" "$PYTHON" "$folder/repeats.py" 2>/dev/null)
echo "$seen"
[ "$seen" = "different results: eager 1, compiled more than 1, compiled and deterministic 1" ]
