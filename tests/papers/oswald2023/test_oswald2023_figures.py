"""Quantities in the figures of von Oswald et al.: plateaus, distances from gradient descent, sampled losses, seeds."""

import dataclasses

import numpy as np
import pytest
import torch

from icl.core.config import grid
from icl.core.runs import Runs
from icl.core.table import join
from icl.papers.oswald2023 import closed_forms, evaluation, oswald_gd_steps, oswald_one_step, oswald_weights, trainings
from icl.papers.oswald2023 import linear_attention as system
from icl.papers.oswald2023.linear_attention import Config
from icl.pipeline import figures

SADDLE = closed_forms.saddle_loss(closed_forms.zero_loss(Config()), closed_forms.best_loss(Config()), 10)


def test_a_plateau_is_level_and_high() -> None:
    falling, low = np.linspace(0.42, 0.21, 8), np.full(6, 0.206)
    assert len(oswald_one_step.plateau_errors(np.append(falling, low), Config())) == 0
    waiting = np.concatenate([[0.42, 0.41], np.full(5, SADDLE + 0.001), [0.3, 0.21], low])
    errors = oswald_one_step.plateau_errors(waiting, Config())
    np.testing.assert_allclose(errors, [0.001, 0.001], rtol=0, atol=1e-12)
    elsewhere = oswald_one_step.plateau_errors(np.full(4, SADDLE - 0.03), Config())
    np.testing.assert_allclose(elsewhere, [0.03], rtol=0, atol=1e-12)
    # Three snapshots are too short for a plateau.
    assert len(oswald_one_step.plateau_errors(np.array([0.42, *[SADDLE] * 3, 0.25, 0.21]), Config())) == 0


def test_the_distance_of_gradient_descent_from_itself_is_zero() -> None:
    config = Config()
    prompts = evaluation.evaluation_prompts(config, system.Test(tasks=50))
    gd = evaluation.construction(config, 6.0)
    slopes = evaluation.sensitivity(gd, prompts)
    same = evaluation.distances(gd, slopes, prompts)
    assert same["Preds diff"] == same["Model diff"] == 0 and same["Model cos"] == pytest.approx(1, abs=1e-12)
    double = evaluation.distances(evaluation.construction(config, 12.0), slopes, prompts)
    assert double["Model cos"] == pytest.approx(1, abs=1e-12)
    assert double["Model diff"] == pytest.approx(np.linalg.norm(slopes, axis=1).mean(), rel=1e-12)


def test_errors_of_the_preconditioner() -> None:
    config = Config(dimension=3, context_length=5)
    best = evaluation.construction(config, closed_forms.best_step_size(config))
    np.testing.assert_allclose(evaluation.preconditioner_errors(best, config), 0, atol=1e-12)
    spoilt = best.key_query.copy()
    spoilt[0, 0], spoilt[1, 2] = 1.2, -0.1
    errors = evaluation.preconditioner_errors(best._replace(key_query=spoilt), config)
    assert errors == pytest.approx((0.2, 0.1), abs=1e-12)


def test_a_diverging_layer_leaves_the_median_at_every_mark() -> None:
    few = system.Test(tasks=20)
    sweep = dataclasses.replace(
        trainings.on_fresh_prompts("smoke"), configs=grid(Config, seed=range(3)), snapshots=(50,), test=few
    )
    wanted = oswald_weights.constructed(Config())
    one, value = torch.eye(11, dtype=torch.float64), torch.from_numpy(wanted["values"])
    # The second layer's steps are so large that its losses overflow.
    sizes = torch.tensor([1.0, 1e9, 1.0], dtype=torch.float64).reshape(3, 1, 1, 1)
    layer = (torch.from_numpy(wanted["keys"]), one, value, one)
    weights = {
        name: sizes * w if name == "W_P" else w.expand(3, 1, 11, 11)
        for name, w in zip(system.MATRICES, layer, strict=True)
    }
    runs = Runs(sweep, weights, np.zeros((3, 50)))
    with np.errstate(all="ignore"):
        table = figures.measure("oswald_gd_steps", {sweep.name: runs}, "smoke")
    marks = table[(table["series"] == oswald_gd_steps.TRAINED) & (table["statistic"] == "median")]
    assert len(marks) == 17 and np.isfinite(marks["value"]).all()
    distances = table[(table["observable"] == "largest distance from GD, relative") & (table["statistic"] == "run")]
    np.testing.assert_allclose(distances["value"], [0, oswald_gd_steps.FAR, 0], atol=1e-12)


@pytest.mark.parametrize("scale", ["paper", "laptop", "smoke"])
@pytest.mark.parametrize("size", trainings.SIZES)
def test_both_trainings_share_their_seeds(scale: str, size: int) -> None:
    sampled, population = trainings.on_fresh_prompts(scale, size), trainings.on_population(scale, size)
    assert sampled.seeds == population.seeds
    assert population.snapshots[-1] > population.configs[0].cooling_from > 0
    assert sampled.configs[0].cooling_from == 0


def test_the_drawn_means_are_over_the_published_number_of_seeds() -> None:
    """Further seeds are drawn as single curves and not included in means, but claims are judged on all seeds."""
    few = system.Test(tasks=20)
    sweep = dataclasses.replace(
        trainings.on_fresh_prompts("smoke"), configs=grid(Config, seed=range(7)), snapshots=(0, 10, 20, 50), test=few
    )
    drawn = torch.randn(4, 7, 4, 11, 11, generator=torch.Generator().manual_seed(0))
    runs = Runs(sweep, dict(zip(system.MATRICES, drawn, strict=True)), np.zeros((7, 50)))
    table = join(oswald_one_step._along_training(runs))
    seeds = table.groupby(["panel", "series"])["seed"].agg(set)
    for panel, series in (("A", "Trained TF"), ("A", "GD"), ("B", "Model diff"), ("B cosine", "Model cos")):
        assert seeds[panel, series] == set(range(5))
    assert seeds["A", "Trained TF, further seeds"] == {5, 6}
    assert set(table[table["observable"] == "seeds with a plateau"]["seed"]) == set(range(7))


def test_the_distance_of_the_construction_from_itself_is_zero_at_any_scale() -> None:
    """The scale between keys and values is free: W_Q times c and W_P over c are the same layer."""
    config = Config(dimension=4, context_length=6)
    wanted = oswald_weights.constructed(config)
    one = torch.eye(config.tokens, dtype=torch.float64)
    for scale in (0.5, -3.0):
        params = {
            "W_Q": scale * torch.from_numpy(wanted["keys"])[None],
            "W_K": one[None],
            "W_V": torch.from_numpy(wanted["values"])[None],
            "W_P": one[None] / scale,
        }
        distances = oswald_weights.distances(oswald_weights.products(params, 0), wanted)
        assert max(distances.values()) < 1e-12
