"""Rates, fits and curves of the chain-of-thought theory, and invalid constants, which are refused before training."""

import dataclasses
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

from icl.core.config import ConstantError, grid
from icl.core.runs import Runs, single
from icl.core.sweep import Sweep
from icl.core.table import DRAWN, RUNS, SUMMARY_SEED
from icl.core.training import train
from icl.evidence.intervals import log_slope
from icl.papers.li2025 import cot_rates, one_layer, theory, trainings
from icl.pipeline import figures
from tests import sabotaged

ICL = {"cot_icl_alpha": "alpha'=0.8", "cot_icl_tau": "tau_o^f=0.5", "cot_icl_primacy": "rho_o^f=0.6"}
ERRORS = ("cot_primacy", *ICL)


@cache
def smoke(name: str) -> Runs:
    return train(sabotaged.trainings([*ERRORS, "cot_three_layer"], "smoke")[name])


@cache
def measured(name: str) -> pd.DataFrame:
    runs = {key: dataclasses.replace(smoke(key), sweep=s) for key, s in figures.sweeps(name, "smoke", {}).items()}
    return figures.measure(name, runs, "smoke")


# The theorems


def test_training_time_by_hand() -> None:
    """alpha = 1/2, K = 3, M = 20, eps = 1/20: 4 * 27 + 60 * (2 + 20)."""
    assert theory.chain_training_terms(0.5, 3, 20, 0.05) == (4 * 27, 60 * (2 + 20))


def test_the_fit_recovers_the_factors_of_its_times() -> None:
    terms = np.array([theory.chain_training_terms(a, k, 20, 0.1) for a in (0.2, 0.5, 1.0) for k in (2, 4, 8)])
    np.testing.assert_allclose(theory.fitted_factors(terms, terms @ [0.03, 0.2]), [0.03, 0.2], rtol=1e-6)
    with pytest.raises(ValueError, match="must be positive and finite"):
        theory.fitted_factors(terms, np.full(len(terms), np.nan))


def test_examples_by_hand() -> None:
    assert theory.chain_examples(0.8, 0.5, 0.5) == pytest.approx(25.0, rel=1e-12)


@pytest.mark.parametrize("name", ["fraction", "steps", "patterns"])
def test_exponents_of_the_training_time_are_those_of_its_terms(name: str) -> None:
    """Over a wide range of one constant, the local exponent goes from one extreme to the other and stays between."""
    at = {"fraction": 0.4, "steps": 3, "patterns": 20, "target": 0.05}
    least, largest = {"fraction": (-2, 0), "steps": (1, 3), "patterns": (0, 1)}[name]
    x = np.geomspace(1e-6, 1e6, 25)
    y = np.array([sum(theory.chain_training_terms(**at | {name: value})) for value in x])
    local = np.diff(np.log(y)) / np.diff(np.log(x))
    assert least - 1e-9 <= local.min()
    assert local.max() <= largest + 1e-9
    # The extremes, up to the other terms, which are smaller by a factor of 1e6.
    assert local[0] == pytest.approx({"fraction": -2, "steps": 1, "patterns": 0}[name], abs=1e-3)
    assert local[-1] == pytest.approx({"fraction": 0, "steps": 3, "patterns": 1}[name], abs=1e-3)


# Fits


def test_a_power_law_is_fitted_exactly() -> None:
    x, at = np.array([1.0, 2.0, 5.0]), np.array([0.5, 10.0])
    slopes, factors = np.array([-1.5, 0.7]), np.array([3.0, 40.0])
    y = factors * x[:, None] ** slopes
    np.testing.assert_allclose(cot_rates.power_law(x, y, at), factors * at[:, None] ** slopes, rtol=1e-12)
    np.testing.assert_allclose(cot_rates.slopes(x, y), slopes, rtol=1e-12)


def test_a_line_with_a_given_exponent_passes_through_the_mean() -> None:
    x = np.array([1.0, 2.0, 5.0])
    y = np.array([[3.0], [4.0], [20.0]])
    line = cot_rates.power_law(x, y, x, slope=2.0)
    assert log_slope(x, line[:, 0]) == pytest.approx(2.0)
    assert np.log(line).mean() == pytest.approx(np.log(y).mean())


def test_steps_are_counted_with_a_mean_over_a_window() -> None:
    """One batch below the target is not enough; a run that never reaches the target has NaN."""
    losses = np.ones((3, 60))
    losses[0, 20] = 0.0
    losses[1, 30:] = 0.0
    losses[2, 12:22] = 0.0
    configs = grid(one_layer.Config, pattern_norm=[1.0], seed=range(3))
    runs = Runs(Sweep("some", one_layer.SYSTEM, configs, (60,), one_layer.Test()), {}, losses)
    np.testing.assert_array_equal(cot_rates.steps_to_target(runs), [np.nan, 40, 22])


def test_the_target_loss_is_relative_to_the_squared_norm_of_the_patterns() -> None:
    configs = grid(one_layer.Config, pattern_norm=[1.0, 2.0], seed=[0])
    runs = Runs(Sweep("some", one_layer.SYSTEM, configs, (20,), one_layer.Test()), {}, np.full((2, 20), 0.15))
    np.testing.assert_array_equal(cot_rates.steps_to_target(runs), [np.nan, cot_rates.WINDOW])


def test_a_missing_value_gives_no_exponent() -> None:
    x, y = np.array([1.0, 2.0]), np.array([[1.0, 1.0], [2.0, np.nan]])
    np.testing.assert_allclose(cot_rates.slopes(x, y), [1.0, np.nan], rtol=1e-12)


# The curves


def test_the_curves_of_the_default_constants_are_equal() -> None:
    """As on the authors' later slides, the three ICL figures agree at alpha' = 0.8, tau_o = 0.5 and rho_o = 0.6."""
    curves = []
    for name, series in ICL.items():
        table = measured(name)
        curve = table[(table["series"] == series) & (table["seed"] == SUMMARY_SEED)].sort_values("x")
        assert len(curve) == 11
        curves.append(curve[["x", "value", "band_low", "band_high"]].to_numpy())
    np.testing.assert_array_equal(curves[0], curves[1])
    np.testing.assert_array_equal(curves[0], curves[2])


@pytest.mark.parametrize("name", ["figure17", "figure18", "figure19", "figure20"])
def test_the_run_of_the_inferred_seed_is_drawn_and_decides_no_verdict(name: str) -> None:
    (sweep,) = figures.sweeps(name, "smoke", {}).values()
    tables = {}
    for seed in (0, 1, 1015):
        test = dataclasses.replace(sweep.test, drawn_seed=seed)
        runs = dataclasses.replace(smoke(sweep.name), sweep=dataclasses.replace(sweep, test=test))
        tables[seed] = figures.measure(name, {sweep.name: runs}, "smoke")
    for seed, drawn in ((0, 0), (1, 1), (1015, 0)):  # the first run where the seed was not trained
        table = tables[seed]
        main = table[table["panel"] == "main"]
        assert set(main.loc[main["statistic"] == "run", "seed"]) == {drawn}
        assert list(table.loc[table["panel"] == DRAWN, "seed"]) == [drawn]
        assert set(table.loc[table["panel"] == RUNS, "seed"]) == {0, 1}
        claims = [tables[key][tables[key]["panel"] == ""].reset_index(drop=True) for key in (0, seed)]
        pd.testing.assert_frame_equal(*claims, check_exact=True)
    errors = main[(main["seed"] == SUMMARY_SEED) & (main["observable"] == "classification error")]
    assert set(errors["count"]) <= {4 * sweep.test.queries}


def test_attention_of_every_head_sums_to_one() -> None:
    table = measured("cot_three_layer")
    weights = table[(table["observable"] == "attention weight") & (table["statistic"] == "run")]
    sums = weights.groupby(["panel", "x", "seed"])["value"].agg(["sum", "count"])
    assert len(weights["panel"].unique()) == 6
    assert (sums["count"] == 4).all()
    # Sums of dozens of weights with rounding errors of 1e-16.
    np.testing.assert_allclose(sums["sum"], 1, rtol=0, atol=1e-12)


# Invalid constants


@pytest.mark.parametrize(
    ("name", "constants", "message"),
    [
        ("figure17", {"context_length_test": 2}, "relevant_fraction_test"),
        ("figure18", {"primacy": 0.2}, "path_probability"),
        ("figure19", {"specific_patterns": 5}, "misled_starts"),
        ("cot_primacy", {"specific_patterns": 2}, "path_probability"),
        ("cot_primacy", {"path_probability": 0.75}, "path_probability"),
        ("cot_icl_tau", {"specific_patterns": 4}, "end_probability"),
        ("cot_icl_tau", {"end_primacy": 0.3}, "end_probability"),
        ("cot_icl_primacy", {"specific_patterns": 4}, "end_probability"),
        ("cot_icl_primacy", {"end_probability": 0.7}, "end_probability"),
        ("cot_icl_alpha", {"context_length_test": 2}, "relevant_fraction_test"),
        ("cot_rates", {"path_probability": 0.9}, "path_probability"),
        ("cot_rates", {"relevant_fraction": 0.04, "context_length": 20}, "relevant_fraction"),
        ("cot_three_layer", {"context_length": 0}, "context_length"),
    ],
)
def test_invalid_constants_are_refused_before_training(name: str, constants: dict[str, Any], message: str) -> None:
    with pytest.raises(ConstantError, match=message):
        figures.sweeps(name, "laptop", {one_layer.SYSTEM: constants})


def test_varied_constants_name_the_setting_that_fails() -> None:
    """With one noisy step, tau = 0.5 and rho^f = 0.9 need eleven patterns."""
    kind = trainings.varied_test(end_primacy=(0.5, 0.9))
    assert kind(specific_patterns=11).variation({"end_primacy": 0.9}).end_primacy == 0.9
    with pytest.raises(ConstantError, match=r"end_probability \(tau_o\^f\) = 0.5: .*rho = 0.9"):
        kind(specific_patterns=10)


def test_runs_of_several_sweeps_are_not_single() -> None:
    runs = {"one": smoke("li_cot")}
    assert single(runs) is runs["one"]
    with pytest.raises(ValueError, match="one, two"):
        single(runs | {"two": runs["one"]})


def test_users_do_not_change_a_pinned_constant() -> None:
    """The user's value applies only to the sweeps that do not vary the constant."""
    planned = figures.sweeps("cot_rates", "smoke", {one_layer.SYSTEM: {"chain_length": 4, "relevant_patterns": 25}})
    assert [planned[f"li_cot_k{k}"].configs[0].chain_length for k in cot_rates.CHAINS] == list(cot_rates.CHAINS)
    assert [planned[f"li_cot_m{m}"].configs[0].relevant_patterns for m in cot_rates.PATTERNS] == list(
        cot_rates.PATTERNS
    )
    assert planned["li_cot_k2"].configs[0].relevant_patterns == 25
    assert planned["li_cot_m10"].configs[0].chain_length == planned["li_cot_alpha"].configs[0].chain_length == 4
