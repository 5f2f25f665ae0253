"""Closed forms of a linear layer's error agree with each other and with simulations."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from icl.models import estimators
from icl.models import linear_attention_theory as theory
from icl.tasks import linear_regression as tasks

ONE = np.eye(3)
SIGNS = np.array([1.0, -1.0, 1.0])
ROOT = tasks.skewed_root(tasks.rotation(np.random.default_rng(3), 3))
SKEWED = ROOT @ ROOT.T
STEP = theory.preconditioner(np.diag([1.0, 2.0, 0.5]), 9)
SKEWED_FOURTH = theory.gaussian_fourth(SKEWED, ONE)
# Name -> a shift of standard normal prompts, and the error after M = 7 examples.
SHIFTS: dict[str, tuple[Callable[..., tasks.Prompts], float]] = {
    "none": (lambda p, rng: p, theory.gaussian_error(STEP, ONE, 7)),
    "noise": (lambda p, rng: tasks.noisy(p, rng, 0.7), theory.gaussian_error(STEP, ONE, 7, 0.49)),
    "covariance": (
        lambda p, rng: tasks.with_covariance(p, ROOT),
        theory.one_step_error(STEP, SKEWED, SKEWED_FOURTH, SKEWED, ONE, 7),
    ),
    "orthant": (
        lambda p, rng: tasks.in_orthants(p, SIGNS),
        theory.one_step_error(STEP, *theory.orthant_moments(SIGNS), ONE, ONE, 7),
    ),
    "match": (lambda p, rng: tasks.matching_query(p), theory.matching_error(0.6, 3, 7)),
}


@pytest.mark.parametrize("name", SHIFTS)
def test_closed_forms_agree_with_simulation(name: str) -> None:
    """Within 4.5 standard errors of 60 000 prompts."""
    shift, wanted = SHIFTS[name]
    rng = np.random.default_rng(0)
    drawn = shift(tasks.gaussian(rng, (60_000,), 7, 3), rng)
    predict = estimators.preconditioned_gradient_descent([0.6 * ONE if name == "match" else STEP])
    answers = predict(drawn.inputs[:, :-1], drawn.labels[:, :-1], drawn.inputs[:, -1])
    square = (answers - drawn.labels[:, -1]) ** 2
    assert abs(square.mean() - wanted) < 4.5 * square.std() / np.sqrt(len(square))


def test_theorem_4_2_is_the_general_error() -> None:
    covariance = np.diag([2.0, 1.0, 0.5, 0.25, 0.1])
    w = np.random.default_rng(1).standard_normal(5)
    task = np.outer(w, w)
    lengths = (1, 10, 1000)
    step = theory.preconditioner(covariance, 10)
    fourth = theory.gaussian_fourth(covariance, task)
    wanted = [theory.lsa_test_error(covariance, w, 10, m) for m in lengths]
    found = theory.one_step_error(step, covariance, fourth, covariance, task, lengths)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("query", [None, np.diag([3.0, 1.0])])
def test_the_gaussian_error_is_the_general_one(query: Any) -> None:
    covariance = np.diag([2.0, 0.5])
    one = np.eye(2)
    step = 0.7 * one
    fourth = theory.gaussian_fourth(covariance, one)
    asked = covariance if query is None else query
    general = theory.one_step_error(step, covariance, fourth, asked, one, 4, 0.3)
    assert theory.gaussian_error(step, covariance, 4, 0.3, query) == general
