"""Optimizers whose updates run at the host, next to their states (docs/near-memory.md): the same losses,
parameters and states as in plain PyTorch, within half of the memory, with --near-optimizer and without."""

import pytest

CASES = [("AdamW", "fused", ""), ("AdamW", "foreach", ""), ("AdamW", "loop", ""), ("Adam", "foreach", ""),
         ("SGD", "foreach", ""), ("SGD", "loop", ""), ("Adagrad", "foreach", ""), ("Adagrad", "loop", ""),
         ("AdamW", "fused", "clip"), ("AdamW", "foreach", "clip"), ("AdamW", "fused", "scaler"),
         ("AdamW", "foreach", "scaler"), ("AdamW", "fused", "accumulate"), ("AdamW", "fused", "schedule"),
         ("AdamW", "fused", "closure"), ("AdamW", "fused", "checkpoint"), ("AdamW", "foreach", "checkpoint")]
# So slow that updates pay at the host, however busy its processors are.
SLOW = "4GB"
# With one state an update goes to the host only where more than the state has left the device. With a scaler, fused
# steps begin behind the last gradient, so that updates at the host are hidden by nothing.
FEW = (("SGD", "foreach", ""), ("SGD", "loop", ""), ("Adagrad", "foreach", ""), ("Adagrad", "loop", ""),
       ("AdamW", "fused", "scaler"))


@pytest.mark.parametrize("kind, way, how", CASES)
def test_updates_at_the_host_are_the_same_bits(same_bits, kind, way, how):
    found = same_bits("near_training.py", "train", kind, way, how, near="on", link=SLOW,
                      SPILLWAY_TEST_NEAR=0 if (kind, way, how) in FEW else 1)
    assert found["waits"] == 0
    assert found.record["updates"] >= found["updated"]


@pytest.mark.parametrize("policy", ["base_uvm", "deepum", "lookahead", "g10"])
def test_under_every_policy(same_bits, policy):
    same_bits("near_training.py", "train", "AdamW", "fused", "", percent=[50, 35], policy=policy, near="on",
              link=SLOW, SPILLWAY_TEST_NEAR=1)


def test_states_in_the_swap_file(run):
    plain = run("near_training.py", "train", "AdamW", "fused", "")
    peak = plain["peak_bytes"]
    found = run("near_training.py", "train", "AdamW", "fused", "", device=peak // 2, host=peak // 3,
                storage=3 * peak, near="on", link=SLOW, SPILLWAY_TEST_NEAR=1)
    assert [found[key] for key in ("losses", "digest", "states")] == [
        plain[key] for key in ("losses", "digest", "states")]


def test_off_and_where_everything_fits_nothing_is_taken(same_bits):
    for near, percent in (("off", 50), ("on", 150)):
        found = same_bits("near_training.py", "train", "AdamW", "fused", "", percent=percent, near=near)
        assert found["updated"] == 0
