"""The experiment with numbers: cells that are what they say, and gains that can be losses."""

import numpy as np
import pytest

from experiments.figure import Terms
from experiments.regression import FIGURE, MODELS, SCORES, cell_of, gains, run, verdict
from experiments.results import KEYS, Job, Results


def table_of(areas):
    """Results: setting -> score -> areas by seed."""
    rows = [
        (setting, score, seed, 60, area, area, 1.0)
        for setting, scores in areas.items()
        for score, each in scores.items()
        for seed, area in enumerate(each)
    ]
    return Results.of((*KEYS, "labels", "area", "rmse", "nll"), rows)


@pytest.mark.parametrize("kind", ["matched", "shifted"])
def test_a_cell_is_scaled_and_has_a_test_set_of_its_own(kind):
    cell = cell_of("diabetes", kind, 3)
    np.testing.assert_allclose(cell.x.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose([cell.y.mean(), cell.y.std()], [0, 1], atol=1e-9)
    pool = {row.tobytes() for row in cell.x}
    assert not any(row.tobytes() in pool for row in cell.test[0])
    assert (cell.targets is None) == (kind == "matched")
    assert np.array_equal(cell_of("diabetes", kind, 3).x, cell.x)
    if kind == "shifted":
        gap = np.abs(cell.test[0].mean(axis=0)).max()
        assert gap > 0.3
        assert np.abs(cell.targets.mean(axis=0) - cell.test[0].mean(axis=0)).max() < gap


@pytest.mark.parametrize("model", MODELS)
def test_a_run_is_one_row_and_the_same_again(model):
    job = Job(f"friedman1, shifted, {model}", "epig", 1)
    (row,) = run(job, Terms("quick"), [])
    assert row["labels"] == 20
    assert 0 < row["rmse"] < 3
    assert list(run(job, Terms("quick"), [])) == [row]
    assert list(run(job, Terms("quick"), [row])) == []


def test_gains_may_be_losses():
    good = {"epig": [0.9, 0.8, 0.9], "random": [1.0, 1.0, 1.1], "variance": [0.8, 0.7, 0.8]}
    results = table_of({"a, matched, gp": good, "b, matched, gp": good | {"epig": [0.9, 0.9, 1.0]}})
    ahead, behind = (gains(results, other, "matched", "gp") for other in ("random", "variance"))
    assert ahead.mean > 0 > behind.mean
    assert ahead.mean == pytest.approx(np.mean([[0.1, 0.2, 0.2 / 1.1], [0.1, 0.1, 0.1 / 1.1]]))
    assert (ahead.behind, behind.ahead, behind.behind) == (0, 0, 2)
    assert gains(results, "random", "shifted", "gp") is None
    assert "| matched | gp | 2 | variance |" in verdict(results)


def test_all_cells_are_there():
    assert len(FIGURE.settings) == 7 * 2 * 3
    assert all(setting.scores == SCORES for setting in FIGURE.settings)
