"""`spillway estimate` of programs: a table for each machine, from one recording without a GPU."""

import json
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest
from conftest import clean_environment

pytest.importorskip("torch")

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPILLWAY = pathlib.Path(os.environ.get("SPILLWAY_BUILD", ROOT / "build")) / "spillway"
MIB = 1 << 20
pytestmark = pytest.mark.skipif(not SPILLWAY.exists(), reason=f"{SPILLWAY} is not built")

# Weights of 16 MiB, their gradient as large; of each of the batch 8 KiB in, product, and gradient.
SCRIPT = """
    import sys
    import torch
    model = torch.nn.Linear(2048, 2048, bias=False).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(int(sys.argv[1]), 2048, device="cuda")
    print("begins")
    for step in range(3):
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    print("not reached")
"""


@pytest.fixture
def estimate(tmp_path):
    script = tmp_path / "train.py"

    def run(*options, command=None, text=SCRIPT):
        script.write_text(textwrap.dedent(text))
        return subprocess.run(
            [SPILLWAY, "estimate", *options, "--", *(command or [sys.executable, script, "1024"])],
            capture_output=True, text=True, timeout=120, env=clean_environment(), check=False)

    run.script = script
    return run


def test_a_row_for_each_machine_and_the_batch_that_fits(estimate):
    """A product of 2 * 1024 * 2048 * 2048 operations in float32, twice: the RTX 4090 is said to do 82.6
    and the H200 67 of 10^12 a second, so the H200 takes longer by the ratio, or by its bandwidth less."""
    done = estimate("--json", "--machine", "rtx4090-24gb,h200", "--device-memory", "400MiB", "--batch",
                    "1024,2048", command=[sys.executable, estimate.script, "{batch}"])
    assert done.returncode == 0, done.stderr
    assert "begins" in done.stderr and "not reached" not in done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]  # and nothing of the script's
    assert [row["machine"] for row in rows] == ["rtx4090-24gb", "h200"]
    for row in rows:
        assert row["what"].endswith("train.py 1024")
        assert row["times"] == "estimated" and row["fits"] == "yes"
        # x and the weights, the product, the gradient of the weights: 8 + 16 + 8 MiB, then 8 + 16 + 16.
        assert 40 * MIB <= row["peak_bytes"] <= 60 * MIB
        assert row["step_s"] == row["in_memory_s"] > 0
        # 400 MiB leave a fifteenth: 375, of which 32 and workspaces do not grow; x alone, 8 KiB each,
        # and product or not.
        assert 300 * MIB / (16 << 10) < row["largest_batch"] < 350 * MIB / (8 << 10)
        # What does not fit has to move more than its computation takes: 16 KiB each over the link, against
        # 17 million operations.
        assert row["largest_batch"] <= row["worth_largest_batch"] <= 27 * row["largest_batch"]
        assert row["checkpointed_peak_bytes"] is None  # one layer alone
    assert rows[0]["in_memory_s"] != rows[1]["in_memory_s"]


def test_checkpointing_by_hand_is_as_pytorch_s_own(estimate):
    """Beside the estimate of a script, the recorded step of the same script with checkpointing."""
    text = """
        import sys
        import torch
        from torch.utils.checkpoint import checkpoint
        layers = torch.nn.ModuleList(torch.nn.Sequential(
            torch.nn.LayerNorm(512), torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 512))
            for _ in range(8)).cuda()
        optimizer = torch.optim.SGD(layers.parameters(), lr=0.1)
        given = torch.randn(8192, 512, device="cuda")
        for step in range(3):
            x = given
            for layer in layers:
                x = x + (checkpoint(layer, x, use_reentrant=False) if sys.argv[1] == "with" else layer(x))
            x.sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        """
    row = {}
    for how in ("with", "without"):
        done = estimate("--json", "--machine", "h200", text=text, command=[sys.executable, estimate.script, how])
        assert done.returncode == 0, done.stderr
        row[how] = json.loads(done.stdout)
    assert row["without"]["checkpointed_peak_bytes"] == pytest.approx(row["with"]["peak_bytes"], rel=0.02)
    assert row["without"]["checkpointed_peak_bytes"] < row["without"]["peak_bytes"] / 2
    assert row["without"]["checkpointed_step_s"] == pytest.approx(row["with"]["in_memory_s"], rel=0.05)


def test_a_program_that_fails_is_not_estimated(estimate):
    done = estimate("--machine", "h200", text="import torch\nraise SystemExit('no data')\n")
    assert done.returncode == 125 and done.stdout == ""
    assert "no data" in done.stderr
    assert "nothing is estimated: the program ended before a step" in done.stderr
    done = estimate("--machine", "h200", command=["true"])
    assert done.returncode == 125 and "no Python that imports torch" in done.stderr
