"""Training of the softmax layer: invariants, closed-form times, learning rates, phases."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from icl import registry
from icl.core.config import ConstantError
from icl.core.runs import Runs
from icl.core.training import train
from icl.papers.huang2024 import evaluation, huang_four_phases
from icl.papers.huang2024 import softmax_attention as model
from icl.papers.huang2024.population_gradient import Column, full_matrix
from icl.papers.huang2024.softmax_attention import Config
from icl.pipeline import figures
from tests.oracles.training import sweep_of


def trained(config: Config, steps: int) -> Runs:
    return train(sweep_of(model, [config], range(steps + 1)))


# Invariants and times


@pytest.mark.parametrize("estimator", ["population", "infinite_context", "fixed_prompts"])
@pytest.mark.parametrize("dominant", [0.5, 0.0])
def test_column_sums_are_conserved(estimator: str, dominant: float) -> None:
    """H11: for any prompts; with balanced features in the population |B_{k,n}| (K - 1) = A_k."""
    few = dict(features=5, dominant_probability=dominant, learning_rate=4.0)
    q = trained(Config(gradient_estimator=estimator, **few), 40).weights["Q"][0, -1].numpy()
    matrix = q if estimator == "fixed_prompts" else full_matrix(q, 5)
    assert abs(matrix).max() > 0.1
    assert abs(matrix.sum(axis=0)).max() < 1e-10
    if dominant == 0 and estimator != "fixed_prompts":
        assert_allclose(matrix, q[1, 0] * (5 * np.eye(5) - 1) / 4, rtol=1e-9)


@pytest.mark.parametrize(
    ("dominant", "fractions"), [(0.5, (0.4, 2 / 3, 1, 2)), (0.3, (0.2857, 0.476, 0.714, 1.43))]
)
def test_the_limit_of_many_features_and_long_prompts_has_closed_form_times(
    dominant: float, fractions: tuple[float, ...]
) -> None:
    """|beta_{k,1}| / alpha_k = 2, 1, 1/2 and the escape are at eta t (1 - p_1) / K^2 = 1/5, 1/3,
    1/2, 1 for large K.
    """
    limit = Config(
        gradient_estimator="infinite_context", features=10000, dominant_probability=dominant
    )
    path = evaluation.trajectory(trained(replace(limit, learning_rate=0.5, growth=1 / 150), 2400))
    times = [evaluation.crossing(path.time, path.influence, level) for level in (2, 1, 0.5)]
    assert_allclose(np.array([*times, path.escape]) / 10000**2, fractions, rtol=0.07)
    assert path.escape == pytest.approx(evaluation.escape_time(10000, dominant), rel=0.07)


def test_a_growing_learning_rate_follows_the_same_flow() -> None:
    steady = Config(features=8)
    growing = Config(features=8, learning_rate=0.5, growth=1 / 150)
    paths = [evaluation.trajectory(trained(*one)) for one in ((steady, 2000), (growing, 800))]
    assert all(path.time[-1] > 1000 and (np.diff(path.other.error) < 0).all() for path in paths)
    times = [path.reached(path.other.error)[:2] for path in paths]
    assert_allclose(times[1], times[0], rtol=0.01)
    assert model.schedule(0.0, 10**6) == 1 and model.schedule(0.01, 101) == pytest.approx(1.01)


def test_fixed_prompts_are_those_of_the_seed_at_every_step() -> None:
    first = Config(gradient_estimator="fixed_prompts", features=5, prompts=20)
    exact = Config(features=5)
    before = model.sample((first,), 0)
    model._fixed_prompts.cache_clear()
    after = model.sample((first,), 7)
    other = model.sample((replace(first, seed=1),), 0)
    for name, array in before.items():
        assert_array_equal(after[name], array)
        assert (other[name] != array).any()
    assert model.is_random((first,)) and model.is_random((exact, replace(exact, seed=1)))
    assert model.sample((exact,), 0) == {} and not model.is_random((exact,))


# Evaluation


def test_the_boundaries_of_the_phases_and_interpolated_times_of_a_known_training() -> None:
    time = np.array([0.0, 1.0, 3.0])
    falling = np.array([4.0, 2.0, 1.0])
    crossings = [evaluation.crossing(time, falling, level) for level in (3.0, 1.5, 5.0, 0.5)]
    assert_array_equal(crossings, [0.5, 2.0, 0.0, np.nan])
    ratio = np.array([4, 3, 2, 1.5, 1, 0.8, 0.5, 0.3, 0.2])
    steps = np.arange(9)
    column = Column(steps, np.stack([np.ones(9), -ratio, 0 * ratio], axis=1), steps)
    weights = np.stack([np.linspace(0, 3.6, 9)] * 3, axis=1)
    path = evaluation.Trajectory(Config(), steps, steps, weights, column, column)
    usual = huang_four_phases.boundaries(path, model.Evaluation())
    assert usual == {"t_I": 2.0, "t_switch": 4.0, "t_II": 6.0, "t_III": 7.0}
    other = huang_four_phases.boundaries(path, model.Evaluation(phase_ratio=4.0, phase_weight=0.5))
    assert other == {"t_I": 0.0, "t_switch": 4.0, "t_II": 8.0, "t_III": 4.0}


@pytest.mark.slow
def test_the_heatmap_has_an_animation() -> None:
    sweeps = figures.sweeps("huang_heatmap", "smoke", {})
    runs = {name: train(sweep) for name, sweep in sweeps.items()}
    table = figures.measure("huang_heatmap", runs, "smoke")
    pictures = registry.figure("huang_heatmap").frames(table)
    assert len(pictures) >= 10
    assert len({tuple(picture.get_size_inches()) for picture in pictures}) == 1


@pytest.mark.parametrize(
    ("figure", "estimator"), [("huang_stages", "fixed_prompts"), ("huang_empirical", "population")]
)
def test_figures_refuse_another_gradient(figure: str, estimator: str) -> None:
    sweeps = figures.sweeps(figure, "smoke", {"huang_softmax": {"gradient_estimator": estimator}})
    runs = {name: train(replace(sweep, snapshots=(0, 1))) for name, sweep in sweeps.items()}
    with pytest.raises(ConstantError, match="gradient_estimator"):
        registry.figure(figure).measure(runs, "smoke")
