"""The table of docs/results.md of steps recorded without a GPU beside recordings of an H200: what is quick to
record is recorded again, and has to come to the figures that stand there.

Needs torch and the built program, and is skipped without them.
"""

import importlib.util
import os
import pathlib
import sys

import pytest

pytest.importorskip("torch")

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPILLWAY = pathlib.Path(os.environ.get("SPILLWAY_BUILD", ROOT / "build")) / "spillway"
FOLDER = ROOT / "bench" / "without_gpu"
# For each column what a tool prints of equal steps may differ by, because it is rounded.
TOLERANCE = {"peak": 0.001, "kernels": 0.001, "time": 0.01, "time at half": 0.01}
QUICK = ("dlrm", "vgg19")  # one that is fitted, one that is left out


def load(name):
    spec = importlib.util.spec_from_file_location(f"without_gpu_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def table():
    """Of each model its cells, by column."""
    text = (ROOT / "docs" / "results.md").read_text()
    section = text.partition("## Traces without a GPU beside recordings")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")]
            for line in section.splitlines() if line.startswith("|")]
    header, _, *rows = rows
    return {row[0]: dict(zip(header, row)) for row in rows}


def test_the_table_has_all_recorded_models():
    check, fit = load("check"), load("fit_costs")
    rows = table()
    assert set(rows) == set(check.MODELS)
    assert {model for model, row in rows.items() if row["left out"] == "yes"} == set(fit.OTHERS)
    assert set(fit.FITTED) | set(fit.OTHERS) == set(check.MODELS) and len(fit.OTHERS) >= 6


@pytest.mark.skipif(not SPILLWAY.exists(), reason=f"{SPILLWAY} is not built")
@pytest.mark.parametrize("model", QUICK)
def test_figures_are_what_they_were(model, tmp_path):
    check = load("check")
    ours, _ = check.dry(model, tmp_path / "ours.json")
    theirs = check.recorded(SPILLWAY, model, tmp_path)
    peak, allocations, kernels, plain, half = check.compared(SPILLWAY, ours, theirs, tmp_path)
    row = table()[model]
    assert allocations == row["allocations of 1 MiB and more: missing, too many"]
    for column, figure in (("peak", peak), ("kernels", kernels), ("time", plain), ("time at half", half)):
        assert abs(float(figure) - float(row[column])) <= TOLERANCE[column] * 1.01, (column, figure)
