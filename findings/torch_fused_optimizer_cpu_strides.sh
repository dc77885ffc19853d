#!/bin/sh
# PyTorch 2.13.0 on the CPU: an optimizer with fused=True takes the elements of parameter and gradient
# in the order in which they lie in memory and does not look at strides. torch.autograd.grad gives the
# gradient of a convolution's weight in the order of its input (channels_last here), and backward()
# copies it into the weight's order; who sets .grad by hand does not, and each element of the weight
# gets the gradient of another one. With fused=False the step is right.
# Expected: the step of SGD with lr=1 is weight - gradient, either way. Seen:
#   strides of weight (27, 9, 3, 1), of gradient (27, 1, 9, 3)
#   fused=False: weight - gradient True
#   fused=True: weight - gradient False
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
cat > "$folder/strides.py" <<'PROGRAM'
import torch

torch.manual_seed(0)
conv = torch.nn.Conv2d(3, 4, 3, bias=False)
images = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
(gradient,) = torch.autograd.grad(conv(images).square().sum(), conv.weight)
print(f"strides of weight {conv.weight.stride()}, of gradient {gradient.stride()}")
for fused in (False, True):
    weight = torch.nn.Parameter(conv.weight.detach().clone())
    weight.grad = gradient
    torch.optim.SGD([weight], lr=1.0, fused=fused).step()
    print(f"fused={fused}: weight - gradient {torch.equal(weight.detach(), conv.weight.detach() - gradient)}")
PROGRAM
seen=$("$PYTHON" "$folder/strides.py" 2>/dev/null)
echo "$seen"
[ "$seen" = "strides of weight (27, 9, 3, 1), of gradient (27, 1, 9, 3)
fused=False: weight - gradient True
fused=True: weight - gradient False" ]
