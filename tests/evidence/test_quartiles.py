"""Quartiles over runs: equal to numpy's per coordinate, and robust to a single failed run."""

import numpy as np

from icl.core.table import rows
from icl.evidence.intervals import summarise
from icl.evidence.quartiles import with_quartiles

SEEDS = np.arange(6)


def edges(values: np.ndarray) -> dict[str, np.ndarray]:
    """The quartiles, in order of x, of values (runs, points)."""
    x = np.arange(values.shape[1])
    table = with_quartiles(rows("loss", SEEDS[:, None], values, x=x, panel="p", series="s"))
    lone = table[table["statistic"] == "single"].sort_values("x")
    return {name: of["value"].to_numpy() for name, of in lone.groupby("observable")}


def test_quartiles_equal_numpys_at_every_coordinate() -> None:
    values = np.random.default_rng(0).standard_normal((6, 3))
    found = edges(values)
    np.testing.assert_allclose(found["loss, lower quartile"], np.quantile(values, 0.25, axis=0))
    np.testing.assert_allclose(found["loss, upper quartile"], np.quantile(values, 0.75, axis=0))


def test_with_one_failure_in_six_quartiles_stay_within_the_other_runs() -> None:
    values = np.random.default_rng(1).standard_normal((6, 1))
    values[0] = 1e6
    assert edges(values)["loss, upper quartile"].item() <= values[1:].max()


def test_the_median_is_that_of_the_runs_and_quartiles_have_no_interval() -> None:
    table = summarise(with_quartiles(rows("loss", SEEDS, np.arange(6.0), panel="p", series="s")), {"loss": "median"})
    (median,) = table.loc[table["statistic"] == "median", "value"]
    assert median == 2.5
    assert table.loc[table["statistic"] == "single", ["low", "high"]].isna().all(axis=None)
