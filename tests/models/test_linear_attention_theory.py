"""Closed forms of a linear layer's error agree with each other and with simulations."""

import numpy as np
import pytest

from icl.models import estimators
from icl.models import linear_attention_theory as theory
from icl.tasks import linear_regression as tasks


def test_theorem_4_2_is_the_general_error() -> None:
    covariance, w = np.diag([2.0, 1.0, 0.5, 0.25, 0.1]), np.random.default_rng(1).standard_normal(5)
    task = np.outer(w, w)
    step, fourth = theory.preconditioner(covariance, 10), theory.gaussian_fourth(covariance, task)
    for m in (1, 10, 1000):
        wanted = theory.lsa_test_error(covariance, w, 10, m)
        assert theory.one_step_error(step, covariance, fourth, covariance, task, m) == pytest.approx(wanted, rel=1e-12)


def simulated(step: np.ndarray, drawn: tasks.Prompts) -> tuple[float, float]:
    """Mean squared error of the one-step estimator on noise-free query labels, and its standard error."""
    estimate = estimators.preconditioned_gradient_descent([step])
    answer = estimate(drawn.inputs[:, :-1], drawn.labels[:, :-1], drawn.inputs[:, -1])
    square = (answer - drawn.labels[:, -1]) ** 2
    return float(square.mean()), float(square.std() / np.sqrt(len(square)))


SHIFTS = ("none", "noise", "query", "covariance", "orthant", "match")


@pytest.mark.parametrize("shift", SHIFTS)
def test_closed_forms_agree_with_simulation(shift: str) -> None:
    """Within 4.5 standard errors of 60 000 prompts, at d = 3 and M = 7."""
    d, m, rng = 3, 7, np.random.default_rng(SHIFTS.index(shift))
    one, step = np.eye(d), theory.preconditioner(np.diag([1.0, 2.0, 0.5]), 9)
    own = tasks.gaussian(rng, (60_000,), m, d)
    wanted = dict(step=step, second=one, fourth=theory.gaussian_fourth(one, one), query=one, task=one, test_length=m)
    if shift == "noise":
        own, wanted = tasks.noisy(own, rng, 0.7), wanted | {"noise": 0.49}
    if shift == "query":
        own, wanted = tasks.scaled_query(own, 3.0), wanted | {"query": 9 * one}
    if shift == "covariance":
        root = tasks.skewed_root(tasks.rotation(rng, d))
        own, s = tasks.with_covariance(own, root), root @ root.T
        wanted |= {"second": s, "query": s, "fourth": theory.gaussian_fourth(s, one)}
    if shift == "orthant":
        signs = np.array([1.0, -1.0, 1.0])
        own = tasks.in_orthants(own, signs)
        wanted |= dict(zip(("second", "fourth"), theory.orthant_moments(signs), strict=True))
    if shift == "match":
        mean, error = simulated(0.6 * one, tasks.matching_query(own))
        assert abs(mean - theory.matching_error(0.6, d, m)) < 4.5 * error
        return
    mean, error = simulated(step, own)
    assert abs(mean - theory.one_step_error(**wanted)) < 4.5 * error  # type: ignore[arg-type]


def test_the_gaussian_error_is_the_general_one() -> None:
    covariance, query, one = np.diag([2.0, 0.5]), np.diag([3.0, 1.0]), np.eye(2)
    fourth = theory.gaussian_fourth(covariance, one)
    for asked in (None, query):
        general = theory.one_step_error(
            0.7 * one, covariance, fourth, covariance if asked is None else asked, one, 4, 0.3
        )
        assert theory.gaussian_error(0.7 * one, covariance, 4, 0.3, asked) == general
