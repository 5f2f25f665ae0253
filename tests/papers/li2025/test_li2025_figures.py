"""Rates and fits of the theorems, the curves, the drawn run, and refused constants."""

import itertools
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from icl.core.config import ConstantError, grid
from icl.core.runs import Runs
from icl.core.table import Table
from icl.core.training import train
from icl.papers.li2025 import cot_rates, error_figures, one_layer
from icl.papers.li2025.transition_matrices import product
from icl.pipeline import figures
from tests.oracles.training import sweep_of


@cache
def trained() -> Runs:
    return train(figures.sweeps("figure17", "smoke", {})["li_cot"])


def measured(name: str, **test: Any) -> Table:
    (sweep,) = figures.sweeps(name, "smoke", {one_layer.NAME: test}).values()
    return figures.measure(name, {sweep.name: replace(trained(), sweep=sweep)}, "smoke")


# The theorems


def test_rates_by_hand() -> None:
    """alpha = 1/2, K = 3, M = 20, eps = 1/20: 4 * 27 + 60 * (2 + 20)."""
    assert cot_rates.training_terms(0.5, 3, 20, 0.05) == (4 * 27, 60 * (2 + 20))
    assert cot_rates.chain_examples(0.8, 0.5, 0.5) == pytest.approx(25.0, rel=1e-12)
    assert cot_rates.end_examples(0.8, 0.5) == pytest.approx(6.25, rel=1e-12)


def test_the_fit_recovers_the_factors_of_its_times() -> None:
    constants = itertools.product((0.2, 0.5, 1.0), (2, 4, 8))
    terms = np.array([cot_rates.training_terms(alpha, k, 20, 0.1) for alpha, k in constants])
    assert_allclose(cot_rates.fitted_factors(terms, terms @ [0.03, 0.2]), [0.03, 0.2], rtol=1e-6)
    assert np.isnan(cot_rates.fitted_factors(terms, np.full(len(terms), np.nan))).all()


@given(st.floats(-3, 3), st.floats(0.1, 50))
def test_a_power_law_is_fitted_exactly_and_one_of_given_exponent_in_the_mean(
    slope: float, factor: float
) -> None:
    x = np.array([1.0, 2.0, 5.0])
    at = np.array([0.5, 10.0])
    y = factor * x[:, None] ** slope
    assert_allclose(cot_rates.slopes(x, y), slope, atol=1e-12)
    assert_allclose(cot_rates.power_law(x, y, at), factor * at[:, None] ** slope, rtol=1e-10)
    line = cot_rates.power_law(x, y, x, slope=2.0)
    assert_allclose(line / line[0], x[:, None] ** 2)
    assert np.log(line).mean() == pytest.approx(np.log(y).mean())


def test_the_target_loss_is_relative_to_the_squared_norm_of_the_patterns() -> None:
    configs = grid(one_layer.Config, pattern_norm=[1.0, 2.0], seed=[0])
    runs = Runs(sweep_of(one_layer, configs, (20,)), {}, np.full((2, 20), 0.15))
    assert_array_equal(cot_rates.steps_to_target(runs), [np.nan, cot_rates.WINDOW])


# The curves


def test_the_curves_of_the_default_constants_are_equal() -> None:
    """On the authors' later slides three panels agree at alpha' = 0.8, tau_o = 0.5, rho_o = 0.6."""
    table = measured("cot_factors")
    first, *others = (
        table.curve(f"ICL, {factor}", f"{factor}={value}", "classification error")
        for factor, value in {"alpha'": 0.8, "tau_o^f": 0.5, "rho_o^f": 0.6}.items()
    )
    assert len(first) == 11
    for other in others:
        assert_array_equal(other[["x", "value", "band_low"]], first[["x", "value", "band_low"]])


@pytest.mark.parametrize("name", ["figure17", "figure18", "figure19", "figure20"])
def test_the_run_of_the_inferred_seed_is_drawn_and_decides_no_verdict(name: str) -> None:
    facts = []
    for seed, drawn in ((0, 0), (1, 1), (1015, 0)):  # the first run where the seed was not trained
        table = measured(name, drawn_seed=seed)
        curves = table.curves.query("panel == 'main'")
        assert table.drawn_seed == drawn and set(curves["seed"]) == {drawn}
        facts.append(table.runs[table.runs["panel"] == ""])
        pd.testing.assert_frame_equal(facts[-1], facts[0], check_exact=True)
    errors = curves[curves["observable"] == "classification error"]
    assert set(errors["count"]) <= {4 * trained().sweep.test.queries}


# Constants


def test_noisy_steps_have_the_configured_positions() -> None:
    given = one_layer.Evaluation(misled_starts=2, misled_steps=2, specific_patterns=5, primacy=0.6)
    for step in (1, 2, 3):
        test = replace(given, noisy_step=step)
        k = np.array([1, 2, 3])
        for setting, is_exact in (
            (test.end_setting(), k != step),
            (test.misleading_setting(), k % 3 == (step + 2) % 3),
        ):
            assert_array_equal((setting.matrices == np.eye(5)).all(axis=(1, 2)), is_exact)
        assert_allclose(product(test.setting().matrices), product(given.setting().matrices))


@pytest.mark.parametrize(
    ("name", "constants", "named"),
    [
        ("figure17", {"context_length_test": 2}, "relevant_fraction_test"),
        ("figure17", {"path_probability": 0.95}, "path_probability"),
        ("figure17", {"relevant_fraction": 0.01}, "relevant_fraction"),
        ("figure18", {"primacy": 0.2}, "path_probability"),
        ("figure19", {"specific_patterns": 5}, "misled_starts"),
        ("figure19", {"misled_path": 0.05}, "misled_starts"),
        ("cot_factors", {"end_primacy": 0.3}, "end_probability"),
        ("cot_factors", {"end_probability": 0.7}, "end_probability"),
        ("cot_rates", {"path_probability": 0.7}, "path_probability"),
    ],
)
def test_invalid_constants_are_refused_before_training(
    name: str, constants: dict[str, Any], named: str
) -> None:
    with pytest.raises(ConstantError, match=f"constant {named} "):
        figures.sweeps(name, "laptop", {one_layer.NAME: constants})


def test_users_do_not_change_a_pinned_constant() -> None:
    """The user's value applies only to the sweeps that do not vary the constant."""
    given = {"chain_length": 4, "relevant_patterns": 25}
    sweeps = figures.sweeps("cot_rates", "smoke", {one_layer.NAME: given})
    first = {name: sweep.configs[0] for name, sweep in sweeps.items()}
    for panel in cot_rates.PANELS[1:]:
        assert tuple(getattr(first[name], panel.constant) for name in panel.sweeps) == panel.values
    assert first["li_cot_k2"].relevant_patterns == 25
    assert first["li_cot_m10"].chain_length == first["li_cot_alpha"].chain_length == 4


def test_an_evaluation_of_a_band_counts_wrong_answers_up_to_its_queries() -> None:
    wrong = np.random.default_rng(0).random((2, 4000)) < np.array([[0.5], [0.01]])
    many, few = error_figures.evaluations(wrong)
    first = int(np.ceil(error_figures.COUNTED / wrong[0].mean()))
    assert many.tolist() == [group[:first].mean() for group in np.split(wrong[0], 4)]
    assert few.tolist() == [group.mean() for group in np.split(wrong[1], 4)]
