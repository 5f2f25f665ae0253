"""Quantities in the figures of Zheng et al. and Sander et al., compared with the layer and with counts."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icl.evidence import published_curves
from icl.models import autoregressive as system
from icl.models import autoregressive_readout as readout
from icl.models import autoregressive_theory as theory
from icl.models import autoregressive_trainings as trainings
from icl.papers.sander2024 import sander_coefficients
from icl.papers.zheng2024 import zheng_a_and_b, zheng_heatmap, zheng_ratio_estimators
from icl.pipeline import figures
from tests.oracles import autoregressive as oracle


@pytest.mark.parametrize("length", [3, 9, 40])
def test_ratios_match_the_layers_last_prediction(length: int) -> None:
    """To 1e-9, because the geometric sum is divided by w_r / w_j - 1, which is small for close phases."""
    config = system.Config(gradient_estimator="population_scalar", length=length, dimension=4)
    ratio, x = zheng_ratio_estimators.ratios(config, 0.7, 50)
    sequences = system.sequences(config, "evaluate", 50)
    np.testing.assert_allclose(x, sequences[:, -1], rtol=0, atol=1e-12)
    predicted = oracle.last_prediction(0.7 * np.eye(4), np.eye(4), sequences)
    np.testing.assert_allclose(ratio * x, predicted, rtol=0, atol=1e-9)
    wanted = (predicted.conj() * x).sum().real / (abs(x) ** 2).sum()
    assert zheng_ratio_estimators.least_squares(ratio, x) == pytest.approx(wanted, rel=1e-9)


def test_the_two_ratios_of_the_theorem() -> None:
    """A mean of ratios ab E u^2 and a least-squares ratio ab E u^4 / E u^2, three times as large for a Gaussian."""
    config = system.Config(gradient_estimator="population_scalar", length=200)
    estimates = []
    for seed in range(8):
        ratio, x = zheng_ratio_estimators.ratios(dataclasses.replace(config, seed=seed), 0.8, 5000)
        estimates.append(
            [zheng_ratio_estimators.mean_of_ratios(ratio, x), zheng_ratio_estimators.least_squares(ratio, x)]
        )
    error = np.std(estimates, axis=0, ddof=1) / np.sqrt(len(estimates))
    assert (abs(np.mean(estimates, axis=0) - [0.2, 0.6]) < 5 * error).all()


@pytest.mark.parametrize(
    ("dimension", "values"), [(5, (0.600, 0.884, 0.939, 0.9935, 0.9994)), (10, (0.414, 0.781, 0.877, 0.986, 0.9986))]
)
def test_the_approach_to_the_asymptote(dimension: int, values: tuple[float, ...]) -> None:
    for most, value in zip((10, 50, 100, 1000, 10000), values, strict=True):
        ratio = sander_coefficients.optimum(dimension, most) * most / 1.5
        assert ratio == pytest.approx(value, abs=6e-4)


def test_the_published_values_are_at_drawn_epochs() -> None:
    published = published_curves.load("zheng_ab_dynamics")
    assert published is not None
    assert set(published["panel"]) == set("abcd") and set(published["series"]) <= set(trainings.STARTS)
    assert published["x"].between(0, trainings.EPOCHS - 1).all()


@pytest.mark.parametrize(("law", "wanted"), [("sparse", 0.0), ("signs", 0.0), ("uniform", 4 / 25), ("gaussian", 0.4)])
def test_the_error_for_long_sequences(law: str, wanted: float) -> None:
    """1 - k_1^2 / (E u^2 k_2) for T to infinity; other coordinates contribute a term of order (d - 1) / T."""
    config = system.Config(gradient_estimator="population_scalar", law=law, length=3000)
    ratio, x = zheng_ratio_estimators.ratios(config, theory.limit(config), 20_000)
    assert zheng_ratio_estimators.relative_error(ratio, x) == pytest.approx(wanted, abs=0.02)
    second, fourth, sixth = (config.moment(order) for order in (2, 4, 6))
    assert 1 - fourth**2 / (second * sixth) == pytest.approx(wanted, abs=1e-12)


def test_only_multiples_of_the_identity_are_gradient_steps() -> None:
    config = system.Config(law="full-one", scale=1.0, length=20)
    one, seen = np.eye(5), system.sequence_statistics(config)
    share, loss = zheng_heatmap.against_gradient_steps(0.5 * one, one, config)
    assert share == pytest.approx(0, abs=1e-12)
    losses = [seen.loss(eta * one, one)[0] for eta in np.linspace(0.1, 1.5, 1401)]
    assert loss == pytest.approx(seen.loss(0.5 * one, one)[0] / min(losses), rel=1e-6)
    share, _ = zheng_heatmap.against_gradient_steps(one, np.roll(one, 1, axis=0), config)
    assert share > 0.5


def test_panel_d_does_not_show_the_quantity_in_its_label() -> None:
    """Half the summed error starts at 12.2; the squared error at the last position is at most c^2 for ab <= 8."""
    config = system.Config(law="sparse", learning_rate=0.03)
    for ab in (0.01, 0.75, 4.0):
        block = np.sqrt(ab) * np.eye(5)
        last = readout.last_error(block, block, config)
        assert last == pytest.approx(0.25 * (1 - ab / 4) ** 2, abs=1e-12)
        loss = system.sequence_statistics(config).loss(block, block)[0]
        assert loss == pytest.approx(98 / 2 * last, abs=1e-10)


def test_pages_42_and_43_need_no_randomness() -> None:
    for name in ("zheng_ab_dynamics", "zheng_heatmap"):
        assert figures.note(name, "laptop", {}) == "laptop scale, exact: no randomness"


@given(a=st.floats(0.05, 5), b=st.floats(0.05, 5))
def test_product_and_difference_of_squares_determine_both_factors(a: float, b: float) -> None:
    assert zheng_a_and_b.split(a * b, a**2 - b**2) == pytest.approx((a, b), rel=1e-6)
