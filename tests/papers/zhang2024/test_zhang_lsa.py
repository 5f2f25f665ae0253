"""One linear self-attention layer: what moves, where it goes, what is conserved, and its error under every shift."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from icl.core.config import ConstantError
from icl.core.runs import Runs
from icl.core.streams import stream
from icl.core.sweep import Sweep
from icl.core.training import gradient, train
from icl.models import estimators, theory
from icl.papers.zhang2024 import linear_attention as system
from icl.papers.zhang2024 import trainings
from icl.papers.zhang2024.linear_attention import Blocks, Config
from icl.tasks import linear_regression as tasks

SKEWED = "2 1 0.5 0.25 0.1"
CASES = [
    Config(),
    Config(eigenvalues=SKEWED, context_length=10, initial_scale=0.3),
    Config(eigenvalues=SKEWED, start="gaussian", seed=3),
    Config(eigenvalues="1 2", dimension=2, context_length=3, covariance="exponential"),
]


def sweep(*configs: Config, steps: int, test: Any = None) -> Sweep:
    return Sweep("test", "zhang_lsa", configs, tuple(range(steps + 1)), test or system.Test())


def flowed(config: Config, steps: int) -> tuple[Runs, Blocks]:
    """A training in logarithmic time, and its blocks (steps + 1, ...)."""
    runs = train(sweep(dataclasses.replace(config, rate=0.01, growth=0.15), steps=steps))
    u, c = system.moving(runs.weights)
    return runs, Blocks(u[0], c[0])


def distance(found: Blocks, wanted: Blocks) -> float:
    return float(max(np.linalg.norm(found.u - wanted.u) / np.linalg.norm(wanted.u), abs(found.c / wanted.c - 1)))


def general(config: Config, seed: int = 0) -> Blocks:
    """Any U and c, far from the limit and without symmetry."""
    rng = np.random.default_rng(seed)
    return Blocks(rng.standard_normal((config.dimension, config.dimension)), np.array(1 + rng.random()))


# The population loss


@pytest.mark.parametrize("config", CASES[:3])
def test_the_moments_are_those_of_gamma(config: Config) -> None:
    law, covariance = system.moments(config), np.diag(config.spectrum())
    gamma = theory.gamma(covariance, config.context_length)
    np.testing.assert_allclose(law.quadratic, gamma @ covariance @ np.ones_like(gamma) @ covariance, rtol=1e-14)
    np.testing.assert_allclose(law.linear, covariance @ covariance, rtol=1e-14)


def test_exponential_moments_are_averages_of_those_of_fixed_covariances() -> None:
    config = dataclasses.replace(CASES[3], covariance="exponential")
    values = config.spectrum() * stream("test", 0, "moments").standard_exponential((400_000, 2))
    gamma = (1 + 1 / 3) * values + values.sum(axis=1, keepdims=True) / 3
    products = (gamma * values)[:, :, None] * values[:, None, :]
    law = system.moments(config)
    for drawn, wanted in ((products, law.quadratic), (values**2, np.diagonal(law.linear))):
        error = drawn.std(axis=0) / np.sqrt(len(drawn))
        assert (abs(drawn.mean(axis=0) - wanted) < 4.5 * error).all()


@pytest.mark.parametrize("config", CASES)
def test_the_velocity_is_minus_the_derivative_of_the_loss(config: Config) -> None:
    law, at, step = system.moments(config), general(config), 1e-6
    moved = system.velocity(at, law)
    for index in np.ndindex(at.u.shape):
        shift = np.zeros_like(at.u)
        shift[index] = step
        rise = system.population_loss(Blocks(at.u + shift, at.c), config)
        fall = system.population_loss(Blocks(at.u - shift, at.c), config)
        assert -(rise - fall) / (2 * step) == pytest.approx(moved.u[index], abs=1e-6)
    rise, fall = (system.population_loss(Blocks(at.u, at.c + s), config) for s in (step, -step))
    assert -(rise - fall) / (2 * step) == pytest.approx(moved.c, abs=1e-5)


@pytest.mark.parametrize("config", CASES)
def test_equation_4_1_is_stationary_and_the_least(config: Config) -> None:
    law, end = system.moments(config), system.limit(config)
    moved = system.velocity(end, law)
    assert max(abs(moved.u).max(), abs(moved.c)) < 1e-12
    least = system.population_loss(end, config)
    for seed in range(20):
        shift = general(config, seed)
        near = Blocks(end.u + 1e-2 * shift.u, end.c + 1e-2 * (shift.c - 1.5))
        assert system.population_loss(near, config) > least


def test_the_limit_is_the_papers_and_ahns() -> None:
    """Equation 4.1 in any basis; c U is the minimiser of one layer (Ahn et al., equation 2)."""
    config = CASES[1]
    basis = tasks.rotation(np.random.default_rng(0), 5)
    covariance = basis @ np.diag(config.spectrum()) @ basis.T
    u, c = theory.lsa_limit(covariance, config.context_length)
    end = system.limit(config)
    np.testing.assert_allclose(basis.T @ u @ basis, end.u, atol=1e-14)
    assert c == pytest.approx(float(end.c), rel=1e-14)
    ahn = theory.preconditioner(covariance, config.context_length)
    np.testing.assert_allclose(c * u, ahn, rtol=1e-12, atol=1e-13)
    # Ahn's minimiser solves E[G^2] A = E[G] with G = (1/n) sum_i x_i x_i', for w ~ N(0, I)
    n, trace = config.context_length, np.trace(covariance)
    second = (1 + 1 / n) * covariance @ covariance + trace / n * covariance
    np.testing.assert_allclose(second @ ahn, covariance, atol=1e-13)


def test_the_limits_of_random_covariances() -> None:
    """Theorem 4.5, E[Lambda^2] / E[Gamma Lambda^2], by hand for eigenvalues of mean 1: 2 / (6 + (10 + 2 d) / N)."""
    for n in (5, 20, 10**9):
        end = system.limit(Config(covariance="exponential", context_length=n))
        np.testing.assert_allclose(end.c * end.u, np.eye(5) * 2 / (6 + 20 / n), rtol=1e-12)


# The flow


def test_it_reaches_equation_4_1() -> None:
    """As many decades as the integrator is accurate to, whatever the basis of the start."""
    for config, steps in ((CASES[0], 60), (CASES[1], 100), (CASES[2], 100), (CASES[3], 85)):
        runs, path = flowed(config, steps)
        assert distance(Blocks(path.u[-1], path.c[-1]), system.limit(config)) < 1e-8, config
        assert np.diff(runs.losses[0]).max() < 1e-12


@pytest.mark.parametrize("config", CASES)
def test_balance_is_conserved(config: Config) -> None:
    _, path = flowed(config, 60)
    assert abs(path.c**2 - np.sum(path.u**2, axis=(1, 2))).max() < 1e-7


def test_a_step_of_the_loop_is_the_flow() -> None:
    """Against many small steps of another integrator, and in two halves; to the tolerance of the integration."""
    config = dataclasses.replace(CASES[2], initial_scale=0.4)
    law, start = system.moments(config), Blocks(*(part[0] for part in system.moving(system.init([config]))))
    once = system.flow(start, law, 2.0)
    halves = system.flow(system.flow(start, law, 1.0), law, 1.0)
    state, span = start, 2.0 / 400
    for _ in range(400):  # Runge-Kutta of order 4
        slopes = [system.velocity(state, law)]
        for part in (0.5, 0.5, 1.0):
            last = slopes[-1]
            slopes.append(system.velocity(Blocks(state.u + part * span * last.u, state.c + part * span * last.c), law))
        weights = np.array([1, 2, 2, 1]) * span / 6
        state = Blocks(*(part + sum(w * s for w, s in zip(weights, each, strict=True))
                         for part, each in zip(state, zip(*slopes, strict=True), strict=True)))  # fmt: skip
    for other in (halves, state):
        assert distance(other, once) < 1e-8
    trained = train(sweep(dataclasses.replace(config, rate=2.0), steps=1))
    u, c = system.moving(trained.last())
    assert distance(Blocks(u[0], c[0]), once) < 1e-14


def test_times_grow_as_they_say() -> None:
    np.testing.assert_allclose(system.times(Config(rate=0.5, growth=0.1), 4), [0, 0.5, 0.55, 0.605, 0.6655])
    np.testing.assert_allclose(system.times(Config(rate=0.5), 4), [0, 0.5, 1, 1.5, 2])


@pytest.mark.parametrize("engine", ["flow", "sampled"])
def test_a_run_alone_is_the_run_in_the_sweep(engine: str) -> None:
    configs = [
        Config(engine=engine, seed=seed, eigenvalues=values, start="gaussian", prompts=16)
        for seed, values in ((0, ""), (1, SKEWED), (2, ""))
    ]
    together = train(sweep(*configs, steps=4))
    for run, config in enumerate(configs):
        alone = train(sweep(config, steps=4))
        np.testing.assert_array_equal(alone.losses[0], together.losses[run])
        for name, w in alone.weights.items():
            assert torch.equal(w[0], together.weights[name][run])


def test_a_run_that_diverges_changes_no_other() -> None:
    wild = Config(engine="sampled", rate=100.0, prompts=8)
    calm = Config(engine="sampled", seed=1, prompts=8)
    together, alone = train(sweep(wild, calm, steps=30)), train(sweep(calm, steps=30))
    assert not np.isfinite(together.losses[0]).all()
    np.testing.assert_array_equal(together.losses[1], alone.losses[0])


def test_seeds_matter_and_global_generators_do_not() -> None:
    def end(seed: int) -> torch.Tensor:
        return train(sweep(Config(engine="sampled", seed=seed, prompts=8), steps=2)).last()["W_KQ"]

    first = end(0)
    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002
    assert torch.equal(end(0), first)
    assert not torch.equal(end(1), first)


# The literal model


def literal_gradients(config: Config, at: Blocks) -> tuple[torch.Tensor, dict[str, torch.Tensor], int]:
    """Gradients of many independent batches at the same weights: (batches, d + 1, d + 1) each."""
    count = 200
    configs = tuple(dataclasses.replace(config, seed=seed) for seed in range(count))
    value, key_query = system.matrices(at)
    weights = {"W_PV": value.expand(count, -1, -1), "W_KQ": key_query.expand(count, -1, -1)}
    batch = {name: torch.from_numpy(array) for name, array in system.sample(configs, 0).items()}
    losses, found = gradient(system, sweep(*configs, steps=1), weights, {}, batch)
    return losses, found, count


@pytest.mark.parametrize("config", [CASES[1], CASES[3]])
@pytest.mark.parametrize("at", ["start", "anywhere"])
def test_the_mean_literal_gradient_is_the_populations_and_the_other_blocks_stay(config: Config, at: str) -> None:
    """All entries of both matrices within 4.5 standard errors: U and c move as in the flow, the rest not at all."""
    config = dataclasses.replace(config, engine="sampled", prompts=200, context_length=6)
    here = Blocks(config.initial_scale * system.theta(config), np.array(config.initial_scale))
    if at == "anywhere":
        here = Blocks(0.5 * general(config).u, np.array(0.7))
    losses, found, count = literal_gradients(config, here)
    moved = system.velocity(here, system.moments(config))
    wanted = dict(zip(("W_PV", "W_KQ"), system.matrices(Blocks(-moved.u, -moved.c)), strict=True))
    wanted_loss = float(system.population_loss(here, config))
    assert abs(losses.mean() - wanted_loss) < 4.5 * losses.std() / count**0.5
    for name, drawn in found.items():
        error = drawn.std(dim=0) / count**0.5
        # Where the prediction does not depend on an entry, both are exactly 0.
        assert ((drawn.mean(dim=0) - wanted[name]).abs() <= 4.5 * error).all(), name


def test_the_limit_predicts_by_one_step_of_preconditioned_gradient_descent() -> None:
    config = CASES[1]
    end = system.limit(config)
    own = tasks.gaussian(np.random.default_rng(5), (7,), 30, 5)
    batch = {name: torch.from_numpy(getattr(own, name)) for name in ("inputs", "labels")}
    literal = system.literal_prediction(
        *(w[None] for w in system.matrices(end)), {n: b[None] for n, b in batch.items()}
    )
    step = estimators.preconditioned_gradient_descent([theory.preconditioner(np.diag(config.spectrum()), 10)])
    wanted = step(own.inputs[:, :-1], own.labels[:, :-1], own.inputs[:, -1])
    np.testing.assert_allclose(literal[0], wanted, rtol=0, atol=1e-12)


def test_the_literal_layer_is_the_papers_formula() -> None:
    """f = E + W^PV E (E' W^KQ E) / rho, written out for one prompt in numpy; the query's label slot is 0."""
    rng = np.random.default_rng(2)
    value, key_query = rng.standard_normal((2, 3, 3))
    own = tasks.gaussian(rng, (), 4, 2)
    e = np.concatenate([own.inputs.T, [[*own.labels[:-1], 0.0]]])
    f = e + value @ e @ (e.T @ key_query @ e) / 4
    batch = {"inputs": torch.from_numpy(own.inputs)[None, None], "labels": torch.from_numpy(own.labels)[None, None]}
    found = system.literal_prediction(torch.from_numpy(value)[None], torch.from_numpy(key_query)[None], batch)
    assert found.item() == pytest.approx(f[-1, -1], rel=1e-13)
    whole = system.literal_output(*map(torch.from_numpy, (value, key_query, e)))
    np.testing.assert_allclose(whole, f, rtol=1e-13)


@pytest.mark.slow
def test_sampled_training_follows_the_flow() -> None:
    """Ten seeds, up to t = 3: the mean of c U within 2 % of the flow's; what does not move stays below 3 %.

    Noise adds its variance to the squares, eta / B of it per unit of time and more to |U|^2, which has more entries,
    than to c^2: so c alone is lower by some 7 % here, and U higher.
    """
    config = Config(engine="sampled", rate=0.02, prompts=256, initial_scale=0.4)
    trained = train(sweep(*(dataclasses.replace(config, seed=s) for s in range(10)), steps=150))
    flow = train(sweep(dataclasses.replace(config, engine="flow"), steps=150))
    u, c = system.moving(trained.last())
    wanted_u, wanted_c = (part[0] for part in system.moving(flow.last()))
    product = np.mean(c[:, None, None] * u, axis=0)
    assert np.linalg.norm(product - wanted_c * wanted_u) < 0.02 * np.linalg.norm(wanted_c * wanted_u)
    assert 0.9 * wanted_c < c.mean() < wanted_c
    rest = {name: w.mean(dim=0) for name, w in trained.last().items()}
    rest["W_PV"][-1, -1] = rest["W_KQ"][:-1, :-1] = 0
    assert max(float(w.abs().max()) for w in rest.values()) < 0.03


# Test errors in closed form


def simulated(step: np.ndarray, drawn: tasks.Prompts) -> tuple[float, float]:
    """Mean squared error of the one-step estimator on noise-free query labels, and its standard error."""
    estimate = estimators.preconditioned_gradient_descent([step])
    answer = estimate(drawn.inputs[:, :-1], drawn.labels[:, :-1], drawn.inputs[:, -1])
    square = (answer - drawn.labels[:, -1]) ** 2
    return float(square.mean()), float(square.std() / np.sqrt(len(square)))


def test_theorem_4_2_is_the_general_error() -> None:
    config = CASES[1]
    covariance, w = np.diag(config.spectrum()), np.random.default_rng(1).standard_normal(5)
    task = np.outer(w, w)
    step, fourth = theory.preconditioner(covariance, 10), theory.gaussian_fourth(covariance, task)
    for m in (1, 10, 1000):
        wanted = theory.lsa_test_error(covariance, w, 10, m)
        assert theory.one_step_error(step, covariance, fourth, covariance, task, m) == pytest.approx(wanted, rel=1e-12)


def test_the_least_loss_is_half_the_error_of_theorem_4_2() -> None:
    """At M = N and averaged over w ~ N(0, I)."""
    config = CASES[1]
    covariance, identity = np.diag(config.spectrum()), np.eye(5)
    error = sum(theory.lsa_test_error(covariance, axis, 10, 10) for axis in identity)
    assert float(system.population_loss(system.limit(config), config)) == pytest.approx(error / 2, rel=1e-12)


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


def test_prompts_by_their_gram_matrices_have_the_same_errors() -> None:
    """What the figures draw instead of long prompts: the closed form within 4.5 standard errors, noise included."""
    spectrum, one, m = np.array([1.0, 2.0, 0.5]), np.eye(3), 7
    covariance, step = np.diag(spectrum), theory.preconditioner(np.diag(spectrum), 9)
    fourth = theory.gaussian_fourth(covariance, one)
    for noise in (0.0, 0.49):
        drawn = trainings.statistics(stream("test", 0, "gram"), 60_000, spectrum, m, noise)
        square = drawn.error(step) ** 2
        wanted = theory.one_step_error(step, covariance, fourth, covariance, one, m, noise)
        assert abs(square.mean() - wanted) < 4.5 * square.std() / np.sqrt(len(square))


# Bad input


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"eigenvalues": "1 1 1 1 0"}, "eigenvalues .Lambda. = '1 1 1 1 0': must be finite and above 0: .*definite"),
        ({"eigenvalues": "1 1 1 1 -2"}, "positive definite"),
        ({"eigenvalues": "1 1 nan 1 1"}, "positive definite"),
        ({"eigenvalues": "1 1"}, "5 numbers, one per dimension, or empty; these are 2"),
        ({"eigenvalues": "1 1 x 1 1"}, "numbers separated by blanks"),
        ({"dimension": 0}, "dimension .d. = 0: must be at least 1"),
        ({"initial_scale": 2.0}, r"initial_scale .sigma. = 2.0: must be below 0.8295: Theorem 4.1, .* < 2"),
        ({"initial_scale": 2.0, "covariance": "exponential"}, "must be below .* zero weights"),
        ({"initial_scale": -0.1}, "must be above 0"),
        ({"context_length": 0}, "context_length .N. = 0: must be at least 1"),
        ({"engine": "exact"}, "must be one of flow, sampled"),
        ({"engine": "sampled", "growth": 0.1}, "growth = 0.1: must be 0 for the engine sampled"),
    ],
)
def test_bad_constants_are_refused_before_training(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConstantError, match=message):
        Config(**values)


def test_the_largest_scale_is_assumption_3_3s() -> None:
    config = CASES[1]
    bound, _ = system.largest_scale(config)
    gamma = theory.gamma(np.diag(config.spectrum()), 10)
    assert bound**2 * np.linalg.norm(gamma, 2) * np.sqrt(5) == pytest.approx(2, rel=1e-14)
