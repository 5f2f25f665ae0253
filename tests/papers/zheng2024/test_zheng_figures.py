"""Figures of Zheng et al. and Sander et al., against the literal layer and closed forms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from icl.models.autoregressive import theory
from icl.models.autoregressive.config import Config, drawn, sequences
from icl.papers.sander2024 import sander_coefficients as sander
from icl.papers.zheng2024 import zheng_ab_dynamics, zheng_heatmap
from icl.papers.zheng2024 import zheng_ratio_estimators as estimators
from icl.tasks.unitary_statistics import population
from tests.oracles import autoregressive as oracle


@pytest.mark.parametrize("length", [3, 9, 40])
def test_ratios_are_those_of_the_layers_last_prediction(length: int) -> None:
    """To 1e-9: the geometric sum is divided by w_r / w_j - 1, which is small for close phases."""
    config = Config(gradient_estimator="population_scalar", length=length, dimension=4)
    one = np.eye(4)
    ratio, x = estimators.ratios(config, 0.7, 50)
    literal = sequences(config, "evaluate", 50)
    diagonal = 0.7 * drawn(config, "evaluate", 50)[1] ** 2
    y = oracle.block_predictions(0.7 * one, one, literal)[:, -1]
    square = (abs(x) ** 2).sum()
    assert_allclose(x, literal[:, -1], rtol=0, atol=1e-12)
    assert_allclose(ratio * x, y, rtol=0, atol=1e-9)
    off_diagonal = np.sqrt((abs(y / x - diagonal) ** 2).mean() / (diagonal**2).mean())
    wanted = (
        (y / (x + 1e-5)).mean().real,
        (y * x.conj()).sum().real / square,
        (abs(y - x) ** 2).sum() / square,
    )
    assert estimators.estimates(config, 0.7, 50) == pytest.approx((*wanted, off_diagonal), rel=1e-7)


@pytest.mark.parametrize(
    ("law", "wanted"), [("sparse", 0.0), ("signs", 0.0), ("uniform", 4 / 25), ("gaussian", 0.4)]
)
def test_the_error_for_long_sequences(law: str, wanted: float) -> None:
    """1 - k_1^2 / (E u^2 k_2) for T to infinity; other coordinates add order (d - 1) / T."""
    config = Config(gradient_estimator="population_scalar", law=law, length=3000)
    error = estimators.estimates(config, theory.limit(config), 20_000)[2]
    assert error == pytest.approx(wanted, abs=0.02)


def test_only_multiples_of_the_identity_are_gradient_steps() -> None:
    config = Config(law="full-one", scale=1.0, length=20)
    one = np.eye(5)
    seen = population("full-one", 5, 1.0, 20)
    share, loss = zheng_heatmap.against_gradient_steps(0.5 * one, one, config)
    least = min(seen.loss(eta * one, one)[0] for eta in np.linspace(0.1, 1.5, 1401))
    wanted = 0, seen.loss(0.5 * one, one)[0] / least
    assert (share, loss) == pytest.approx(wanted, rel=1e-6, abs=1e-12)
    assert zheng_heatmap.against_gradient_steps(one, np.roll(one, 1, axis=0), config)[0] > 0.5


@pytest.mark.parametrize("ab", [0.01, 0.75, 4.0])
def test_panel_d_does_not_show_the_quantity_in_its_label(ab: float) -> None:
    """That is half the error over 98 positions; the error at the last is at most c^2 here."""
    config = Config(law="sparse")
    block = np.sqrt(ab) * np.eye(5)
    last = zheng_ab_dynamics.last_error(block, block, config)
    assert last == pytest.approx(0.25 * (1 - ab / 4) ** 2, abs=1e-12)
    loss = population("sparse", 5, 0.5, 100).loss(block, block)[0]
    assert loss == pytest.approx(98 / 2 * last, abs=1e-10)


@given(a=st.floats(0.05, 5), b=st.floats(0.05, 5))
def test_product_and_difference_of_squares_determine_both_factors(a: float, b: float) -> None:
    assert zheng_ab_dynamics.split(a * b, a**2 - b**2) == pytest.approx((a, b), rel=1e-6)


@given(d=st.integers(2, 20), most=st.integers(3, 1000))
def test_the_optimum_of_sander_is_that_of_the_loss(d: int, most: int) -> None:
    law = {"law": "full-one", "scale": 1.0, "gradient_estimator": "population_unnormalised"}
    kappa, curvature, _ = theory.unnormalised_coefficients(Config(dimension=d, length=most, **law))
    assert sander.optimum(d, most) == pytest.approx(kappa / curvature, rel=1e-12)
