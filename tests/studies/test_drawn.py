"""The inferred seed: the distances of single runs from the published figures."""

import numpy as np
import pytest

from icl.core import discovery
from icl.core.config import FIRST_SEED
from icl.core.training import train
from icl.evidence import distance, published_curves
from icl.papers.li2024.one_layer_figures import SEEDS
from icl.pipeline import figures
from studies import drawn


def test_the_distance_of_a_run_is_that_of_the_figure_measured_on_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawn, "VISIBLE", {"li_icl": ("figure9",)})
    table = drawn.distances("li_icl", "smoke")
    (sweep,) = figures.sweeps("figure9", "smoke", {}, FIRST_SEED).values()
    assert list(table.index) == sweep.seeds
    second = train(sweep).alone(1)
    measured = figures.measure("figure9", {sweep.name: second}, "smoke")
    expected = distance.of_figure(measured, published_curves.published("figure9")).whole
    # A run alone and in a batch may differ in the last digits.
    assert table["figure9"].iloc[1] == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(table["joint"], np.log1p(table["figure9"]))


@pytest.mark.parametrize("model", drawn.VISIBLE)
def test_the_drawn_seed_is_one_of_the_twenty(model: str) -> None:
    assert discovery.system(model).Test().drawn_seed in range(FIRST_SEED, FIRST_SEED + SEEDS["paper"])


def test_no_hidden_figure_chooses_the_seed() -> None:
    for figure in (name for names in drawn.VISIBLE.values() for name in names):
        assert published_curves.load(figure) is not None
