"""What the figures of von Oswald et al. compute beside the system's functions."""

import dataclasses

import numpy as np
import pytest

from icl.papers.oswald2023 import linear_attention as system
from icl.papers.oswald2023 import oswald_one_step, trainings
from icl.papers.oswald2023.linear_attention import Config

SADDLE = system.saddle_loss(system.zero_loss(Config()), system.best_loss(Config()), 10)


def test_a_plateau_is_level_and_high() -> None:
    falling, low = np.linspace(0.42, 0.21, 8), np.full(6, 0.206)
    assert len(oswald_one_step.plateau_errors(np.append(falling, low), Config())) == 0
    waiting = np.concatenate([[0.42, 0.41], np.full(5, SADDLE + 0.001), [0.3, 0.21], low])
    found = oswald_one_step.plateau_errors(waiting, Config())
    np.testing.assert_allclose(found, [0.001, 0.001], rtol=0, atol=1e-12)
    elsewhere = oswald_one_step.plateau_errors(np.full(4, SADDLE - 0.03), Config())
    np.testing.assert_allclose(elsewhere, [0.03], rtol=0, atol=1e-12)
    # Three snapshots are too short a wait.
    assert len(oswald_one_step.plateau_errors(np.array([0.42, *[SADDLE] * 3, 0.25, 0.21]), Config())) == 0


def test_gradient_descent_is_at_no_distance_from_itself() -> None:
    config = Config()
    prompts = system.evaluation(config, system.Test(tasks=50))
    gd = system.construction(config, 6.0)
    learnt = system.sensitivity(gd, prompts)
    same = oswald_one_step.compared(gd, learnt, prompts)
    assert same["Preds diff"] == same["Model diff"] == 0 and same["Model cos"] == pytest.approx(1, abs=1e-12)
    double = oswald_one_step.compared(system.construction(config, 12.0), learnt, prompts)
    assert double["Model cos"] == pytest.approx(1, abs=1e-12)
    assert double["Model diff"] == pytest.approx(np.linalg.norm(learnt, axis=1).mean(), rel=1e-12)


def test_errors_of_the_preconditioner() -> None:
    config = Config(dimension=3, context_length=5)
    best = system.construction(config, system.best_rate(config))
    np.testing.assert_allclose(oswald_one_step.preconditioner_errors(best, config), 0, atol=1e-12)
    spoilt = best.key_query.copy()
    spoilt[0, 0], spoilt[1, 2] = 1.2, -0.1
    found = oswald_one_step.preconditioner_errors(best._replace(key_query=spoilt), config)
    assert found == pytest.approx((0.2, 0.1), abs=1e-12)


def test_the_published_step_is_a_switch() -> None:
    config, few = Config(), system.Test(tasks=2000)
    prompts = system.evaluation(config, few)
    assert system.rate_of(config, few, prompts) == system.best_rate(config)
    scanned = dataclasses.replace(few, gd_rate="grid")
    assert system.rate_of(config, scanned, prompts) in system.PUBLISHED_RATES


def test_the_check_of_the_closed_form_does_not_depend_on_its_parts() -> None:
    """Losses of all weights agree with the closed form within 4 % on 5000 tasks, in whatever parts."""
    for config in (Config(), Config(dimension=40, context_length=40)):
        gd = system.construction(config, system.best_rate(config))
        found = system.checked_loss(gd, config, system.Test(checked_tasks=5000))
        assert found == pytest.approx(system.best_loss(config), rel=0.04)


def test_trainings_of_both_engines_share_their_seeds() -> None:
    for scale in ("paper", "laptop", "smoke"):
        assert trainings.sampled(scale).seeds == trainings.population(scale).seeds
        assert trainings.population(scale, 50).snapshots[-1] > trainings.population(scale).configs[0].cooling_from > 0
