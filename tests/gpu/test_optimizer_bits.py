"""Whether tests/optimizer/cuda_reference.py gives the bits of PyTorch's optimizers on this GPU.

Without pytest: python3 tests/gpu/programs/optimizer_bits.py everything
"""

import pytest


@pytest.mark.needs("numpy")
@pytest.mark.parametrize("implementation", ["fused", "foreach", "loop"])
@pytest.mark.parametrize("optimizer", ["Adam", "AdamW", "SGD", "Adagrad"])
def test_steps_give_the_bits_of_the_reference(run, optimizer, implementation):
    found = run("optimizer_bits.py", "compare", optimizer, implementation)
    if not found["cases"]:
        assert found["refused"]
    elif optimizer != "SGD":  # some of whose NaN have other bits: docs/optimizer-bits.md
        assert found.values["nan_bits_wrong"] == 0


@pytest.mark.needs("numpy")
def test_powers_of_betas_are_those_of_the_fused_kernels(run):
    run("optimizer_bits.py", "powers")
