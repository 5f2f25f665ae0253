"""Kernel attention is functional gradient descent: literal and reduced forms, trainings and bad input."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from icl.core.config import ConstantError, grid
from icl.core.sweep import Sweep
from icl.core.training import gradient, train
from icl.models import attention, estimators, optimisers
from icl.models.optimisers import Optimiser, halving
from icl.papers.cheng2024 import cheng_functional_gd, evaluation, gauss_newton, stacks, transformers
from icl.papers.cheng2024 import kernel_attention as system
from icl.papers.cheng2024 import prompts as tasks
from icl.papers.cheng2024.kernel_attention import Config
from tests.oracles import cheng2024 as oracles

KERNELS = ("linear", "relu", "exp", "softmax")
FIXED = {"optimiser": "adam", "parametrisation": "matrices", "prompts": 20}
# Rounding of predictions of size one.
CLOSE = {"rtol": 1e-12, "atol": 1e-12}


def sweep(*configs: Config, steps: int = 3) -> Sweep:
    return Sweep("test", "cheng_functional", configs, tuple(range(steps + 1)), system.Test())


def prompts(config: Config, count: int = 30) -> tuple[torch.Tensor, torch.Tensor]:
    drawn = system.prompts_of(config, "test", 0, count)
    return torch.from_numpy(drawn.inputs), torch.from_numpy(drawn.labels)


def matrices(config: Config, size: float = 0.6) -> dict[str, torch.Tensor]:
    """Weights of one run, far from their start."""
    return system.weights_of(system.init([dataclasses.replace(config, init_std=size)]), 0, config)


def scalars(seed: int, layers: int) -> dict[str, torch.Tensor]:
    rng = np.random.default_rng(seed)
    drawn = {"scale": rng.uniform(0.5, 2, layers), "rate": rng.uniform(0.2, 1.5, layers)}
    return {name: torch.from_numpy(values) for name, values in drawn.items()}


# The identity


@pytest.mark.parametrize("law", ["half_exp", "relu"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_stack_is_functional_gradient_descent(kernel: str, law: str) -> None:
    """C1: L layers with the same B and C are L steps in k(u, v) = h(B u, C v), symmetric or not."""
    config = Config(kernel=kernel, labels=law, layers=5, context_length=7, **FIXED)
    weights = matrices(config)
    for name in ("key", "query"):
        weights[name] = weights[name][:1].expand(5, -1, -1)
    inputs, labels = prompts(config)
    k = evaluation.step_kernel(weights["key"][0].numpy(), weights["query"][0].numpy(), kernel)
    steps = estimators.functional_gradient_descent(k, weights["rate"].tolist())
    x, y = inputs.numpy(), labels.numpy()
    expected = steps(x[:, :-1], y[:, :-1], x[:, -1])
    np.testing.assert_allclose(stacks.token_stack(weights, inputs, labels, kernel).numpy(), expected, **CLOSE)
    np.testing.assert_allclose(stacks.predictions(weights, inputs, labels, config.kernel).numpy(), expected, **CLOSE)


@pytest.mark.parametrize(("law", "length"), cheng_functional_gd.CONVERGING.items())
def test_descent_contracts_to_the_bayes_optimum(law: str, length: int) -> None:
    """C2: every step multiplies the distance from f* = k' K^-1 y by at most 1 - r lambda_min / n."""
    distances, bounds = evaluation.descent_errors(Config(labels=law, context_length=length), contexts=100, depth=400)
    # Distances below this, relative to the first, are rounding.
    known = distances[1:] > 1e-9 * distances[0]
    ratios = distances[1:] / distances[:-1]
    assert known.mean() > 0.5
    assert np.all(bounds < 1)
    assert np.max((ratios - bounds)[known]) < 1e-6


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("layers", [1, 2, 4])
def test_residuals_and_tokens_agree_with_other_matrices_in_every_layer(kernel: str, layers: int) -> None:
    config = Config(kernel=kernel, layers=layers, context_length=6, **FIXED)
    inputs, labels = prompts(config)
    for weights in (matrices(config), scalars(3, layers)):
        tokens = stacks.token_stack(weights, inputs, labels, kernel)
        torch.testing.assert_close(stacks.predictions(weights, inputs, labels, config.kernel), tokens, **CLOSE)


@settings(max_examples=15)
@given(seed=st.integers(0, 1000), kernel=st.sampled_from(KERNELS), layers=st.integers(1, 4))
def test_predictions_do_not_depend_on_order_or_rotation(seed: int, kernel: str, layers: int) -> None:
    """Permuted examples and rotated inputs, with kernels that are functions of <u, v>."""
    weights = scalars(seed, layers)
    inputs, labels = prompts(Config(kernel=kernel, context_length=6, seed=seed), 3)
    rng = np.random.default_rng(seed)
    order = [*rng.permutation(6), 6]
    turn = torch.from_numpy(np.linalg.qr(rng.standard_normal((5, 5)))[0])
    before = stacks.predictions(weights, inputs, labels, kernel)
    after = stacks.predictions(weights, inputs[:, order] @ turn, labels[:, order], kernel)
    torch.testing.assert_close(after, before, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kernel", [*KERNELS, "linear_exp"])
@pytest.mark.parametrize("layers", [1, 3])
def test_the_residual_form_equals_the_published_transformer(kernel: str, layers: int) -> None:
    """Predictions and gradients, with covariate blocks and heads, against the model as the paper defines it."""
    config = Config(kernel=kernel, layers=layers, context_length=5, covariates=True, init_std=0.3, **FIXED)
    inputs, labels = prompts(config, 6)
    runs = system.init([config, dataclasses.replace(config, seed=1)])
    weights = {name: w[:, :layers].requires_grad_() for name, w in runs.items()}
    reduced = transformers.predictions(weights, inputs.expand(2, -1, -1, -1), labels.expand(2, -1, -1), kernel)
    by_head = transformers.with_heads(weights)
    expected = [
        oracles.published_transformer({n: w[run] for n, w in by_head.items()}, inputs, labels, kernel) for run in (0, 1)
    ]
    torch.testing.assert_close(reduced, torch.stack(expected), **CLOSE)
    gradients = [
        torch.autograd.grad((answers**2).sum(), list(weights.values()), materialize_grads=True)
        for answers in (reduced, torch.stack(expected))
    ]
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_the_matched_kernel_converges_to_the_bayes_optimum() -> None:
    config = Config(labels="half_exp", context_length=4, layers=1)
    inputs, labels = prompts(config, 50)
    x, y = inputs.numpy(), labels.numpy()
    kernel = tasks.kernel("half_exp")
    values = np.linalg.eigvalsh(kernel(x[:, :-1], x[:, :-1]))
    well = values[:, 0] / values[:, -1] > 0.02
    x, y = x[well], y[well]
    rate = 4 / values[well].max()
    answer = estimators.functional_gradient_descent(kernel, [rate] * 2000)(x[:, :-1], y[:, :-1], x[:, -1])
    bayes = estimators.gaussian_process(kernel)(x[:, :-1], y[:, :-1], x[:, -1])
    # (1 - 0.02)^2000 is 3e-18; the condition number of 50 loses two digits.
    np.testing.assert_allclose(answer, bayes, atol=1e-12)


def test_one_step_of_the_linear_kernel_in_closed_form() -> None:
    """The loss of one step is quadratic in r, least at r = d / (1 + (d - 1)/n), where it is (d - 1) / (n + d - 1)."""
    n, d = 8, 5
    best = d / (1 + (d - 1) / n)
    config = Config(kernel="linear", labels="linear", layers=1, context_length=n)

    def loss(rate: float) -> float:
        weights = {"scale": torch.ones(1, dtype=torch.float64), "rate": torch.tensor([rate], dtype=torch.float64)}
        return float(evaluation.errors(weights, config, 20_000).mean())

    # The standard error over 20000 prompts is 1.5 %; all rates are compared on the same prompts.
    assert loss(best) == pytest.approx(1 / 3, rel=0.06)
    assert loss(0.9 * best) > loss(best) < loss(1.1 * best)


# Derivatives


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("layers", [1, 3])
def test_the_jacobian_equals_that_of_the_literal_stack(kernel: str, layers: int) -> None:
    """The literal stack on tokens is differentiated automatically."""
    config = Config(kernel=kernel, layers=layers, context_length=5)
    inputs, labels = prompts(config, 4)
    weights = scalars(1, layers)

    def literal(scale: torch.Tensor, rate: torch.Tensor) -> torch.Tensor:
        return stacks.token_stack({"scale": scale, "rate": rate}, inputs, labels, kernel)

    by_scale, by_rate = torch.autograd.functional.jacobian(literal, (weights["scale"], weights["rate"]))
    answer, jacobian = gauss_newton.jacobian(weights["scale"], weights["rate"], inputs, labels, kernel)
    torch.testing.assert_close(answer, literal(weights["scale"], weights["rate"]), **CLOSE)
    torch.testing.assert_close(jacobian, torch.stack([by_scale, by_rate], dim=1), rtol=1e-11, atol=1e-12)


def test_gauss_newton_reaches_the_minimum_that_scipy_finds() -> None:
    from scipy.optimize import least_squares

    config = Config(kernel="exp", labels="half_exp", layers=2, prompts=100, resample=0)
    trained = train(sweep(config, steps=40))
    inputs, labels = (torch.from_numpy(a) for a in system.sample([config], 0).values())

    def residuals(values: np.ndarray) -> np.ndarray:
        scale, rate = torch.from_numpy(values).reshape(2, 2)
        weights = {"scale": scale, "rate": rate}
        return (stacks.predictions(weights, inputs, labels, config.kernel) - labels[:, -1]).numpy()

    start = np.concatenate([w.numpy() for w in system.weights_of(trained.last(), 0, config).values()])
    best = least_squares(residuals, start, xtol=1e-14, ftol=1e-14, gtol=1e-14)
    # scipy starts where our steps end, so it lowers the loss further if they have not converged.
    assert trained.losses[0, -1] == pytest.approx(np.mean(best.fun**2), rel=1e-5)
    assert trained.losses[0, -1] < 0.9 * trained.losses[0, 0]


@pytest.mark.parametrize("covariates", [False, True])
@pytest.mark.parametrize("parametrisation", ["scalars", "matrices"])
def test_the_gradient_agrees_with_finite_differences(parametrisation: str, covariates: bool) -> None:
    config = Config(
        kernel="softmax", layers=2, context_length=5, optimiser="adam", prompts=10, parametrisation=parametrisation,
        covariates=covariates, init_std=0.5,
    )  # fmt: skip
    weights = system.init([config])
    assert ("covariate" in weights) == covariates
    batch = {name: torch.from_numpy(a).double() for name, a in system.sample([config], 0).items()}
    _, slopes = gradient(system, sweep(config), weights, {}, batch)
    for name, w in weights.items():
        place = (0, *[0] * (w.dim() - 1))
        moved = {sign: dict(weights) for sign in (1, -1)}
        for sign, at in moved.items():
            at[name] = w.clone()
            at[name][place] += sign * 1e-6
        plus, minus = (system.loss(moved[sign], batch, [config])[0].item() for sign in (1, -1))
        assert (plus - minus) / 2e-6 == pytest.approx(slopes[name][place].item(), rel=1e-5, abs=1e-8)


def test_the_last_layer_does_not_use_its_covariate_block() -> None:
    config = Config(layers=2, covariates=True, context_length=5, **FIXED)
    weights = matrices(config)
    inputs, labels = prompts(config)
    moved = weights | {"covariate": weights["covariate"] * torch.tensor([1.0, 5.0])[:, None, None]}
    before, after = (stacks.predictions(w, inputs, labels, config.kernel) for w in (weights, moved))
    torch.testing.assert_close(before, after, **CLOSE)
    moved["covariate"][0] *= 5
    assert not torch.allclose(before, stacks.predictions(moved, inputs, labels, config.kernel))


# The published training


def rule_of(optimiser: str, config: Config) -> Optimiser:
    """One of the model's optimisers, or the literal published one (`clipped`)."""
    if optimiser == "clipped":
        return oracles.clipped([config.learning_rate], halving(config.halving), config.momentum)
    return system.optimiser([dataclasses.replace(config, optimiser=optimiser)])


def moves_of(optimiser: str, layers: int = 7, size: float = 1.0) -> dict[str, torch.Tensor]:
    """The change of the weights after sixty steps on fixed pseudo-gradients."""
    config = Config(optimiser="normalised", parametrisation="matrices", layers=layers, momentum=0.9)
    weights, rule = system.init([config]), rule_of(optimiser, config)
    state, moved = rule.init(weights), dict(weights)
    rng = np.random.default_rng(0)
    for step in range(60):
        grads = {name: size * torch.from_numpy(rng.standard_normal(w.shape) + 0.3) for name, w in weights.items()}
        moved, state = rule.update(moved, grads, state, step)
    return {name: moved[name] - weights[name] for name in weights}


def test_normalised_steps_equal_the_published_clipped_ones() -> None:
    """In every layer their directions have a cosine above 0.999 and their lengths agree within 10 %."""
    a, b = moves_of("clipped"), moves_of("normalised")
    for layer in range(7):
        u, v = (torch.cat([w[0, layer].reshape(-1) for w in moves.values()]) for moves in (a, b))
        assert torch.dot(u, v) / u.norm() / v.norm() > 0.999
        assert 0.9 < u.norm() / v.norm() <= 1.0001


def test_normalised_steps_ignore_the_gradients_size_and_are_slow_in_early_layers() -> None:
    a, b = moves_of("normalised"), moves_of("normalised", size=1e-7)
    for name in a:
        torch.testing.assert_close(a[name], b[name], rtol=1e-9, atol=1e-12)
    lengths = [torch.cat([w[0, layer].reshape(-1) for w in a.values()]).norm() for layer in range(7)]
    assert lengths[6] / lengths[0] == pytest.approx(9**2 / 3**2, rel=0.1)


def test_adam_on_directions_is_adam_with_longer_steps_of_the_rate() -> None:
    """Adam on gradients of norm one per layer, in which r is measured in units of 3 n."""
    config = Config(
        kernel="softmax",
        optimiser="directions",
        parametrisation="matrices",
        layers=3,
        context_length=6,
        learning_rate=0.1,
    )
    weights = system.init([config])
    rule, adam = rule_of("directions", config), optimisers.adam([0.1], beta1=0.9, beta2=0.99)
    scaled = weights | {"rate": weights["rate"] / 18}
    moved, state, other = weights, rule.init(weights), adam.init(scaled)
    for step in range(5):
        rng = np.random.default_rng(step)
        grads = {name: torch.from_numpy(rng.standard_normal(w.shape)) for name, w in weights.items()}
        norms = torch.stack([torch.cat([g[0, layer].reshape(-1) for g in grads.values()]).norm() for layer in range(8)])
        unit = {name: g / norms.reshape(1, 8, *[1] * (g.dim() - 2)) for name, g in grads.items()}
        moved, state = rule.update(moved, grads, state, step)
        scaled, other = adam.update(scaled, unit, other, step)
    for name in weights:
        torch.testing.assert_close(moved[name], scaled[name] * (18 if name == "rate" else 1))


@pytest.mark.parametrize("optimiser", ["normalised", "directions", "adam"])
def test_the_learning_rate_halves(optimiser: str) -> None:
    config = Config(optimiser=optimiser, parametrisation="matrices", layers=1)
    moves = []
    for interval in (0, 3):
        rule, weights = system.optimiser([dataclasses.replace(config, halving=interval)]), system.init([config])
        grads = {name: torch.ones_like(w) for name, w in weights.items()}
        state = rule.init(weights)
        for step in range(7):
            moved, state = rule.update(weights, grads, state, step)
        moves.append((moved["key"] - weights["key"])[0, 0])
    torch.testing.assert_close(moves[1], moves[0] / 4)


def test_a_layer_without_a_gradient_does_not_move() -> None:
    config = Config(optimiser="normalised", parametrisation="matrices", layers=1)
    weights = system.init([config])
    rule = system.optimiser([config])
    moved, _ = rule.update(weights, {n: torch.zeros_like(w) for n, w in weights.items()}, rule.init(weights), 0)
    for name, w in weights.items():
        assert torch.equal(moved[name], w)


@pytest.mark.parametrize("optimiser", ["normalised", "directions", "adam"])
def test_training_learns(optimiser: str) -> None:
    config = Config(
        kernel="linear", labels="linear", layers=1, parametrisation="matrices", optimiser=optimiser, prompts=100,
        learning_rate=2.0 if optimiser == "normalised" else 0.05,
    )  # fmt: skip
    losses = train(sweep(config, steps=150)).losses[0]
    assert losses[-1] < 0.5 < 0.7 < losses[0]


# Runs and prompts


@pytest.mark.parametrize(
    ("optimiser", "form", "covariates"),
    [("gauss_newton", "scalars", False), ("normalised", "matrices", False), ("normalised", "matrices", True)],
)
def test_a_run_alone_equals_the_run_in_a_sweep(optimiser: str, form: str, covariates: bool) -> None:
    """The sweep also has runs of other depths and lengths.

    Transformers take single-precision products of small matrices, whose last bit depends on their place in memory.
    """
    rounding = 1e-6 if covariates else 0.0
    common = {"optimiser": [optimiser], "parametrisation": [form], "layers": [2], "context_length": [5]}
    common |= {"prompts": [20], "resample": [0], "covariates": [covariates]}
    other = {"optimiser": optimiser, "parametrisation": form, "covariates": covariates}
    configs = (
        *grid(Config, kernel=KERNELS, labels=("relu", "comb"), seed=(0, 1), **common),
        Config(layers=5, context_length=9, prompts=7, resample=0, **other),
    )
    together = train(sweep(*configs))
    for run in (0, 5, 15, 16):
        alone = train(sweep(configs[run]))
        np.testing.assert_allclose(alone.losses[0], together.losses[run], rtol=rounding, atol=0)
        for name, w in alone.weights.items():
            torch.testing.assert_close(w[0], together.weights[name][run], rtol=rounding, atol=rounding)


def test_seeds_matter_and_global_generators_do_not() -> None:
    config = Config(prompts=10, resample=0)
    first = train(sweep(config))
    np.random.seed(5)  # noqa: NPY002
    torch.manual_seed(5)
    np.testing.assert_array_equal(first.losses, train(sweep(config)).losses)
    assert (first.losses != train(sweep(dataclasses.replace(config, seed=1))).losses).all()


def test_prompts_are_resampled_every_second_step() -> None:
    config = Config(optimiser="adam", prompts=5, resample=2)
    drawn = [next(iter(system.sample([config], step).values())) for step in range(4)]
    assert np.array_equal(drawn[0], drawn[1]) and np.array_equal(drawn[2], drawn[3])
    assert not np.array_equal(drawn[1], drawn[2])


def test_a_transformation_of_the_inputs_is_undone_by_the_weights() -> None:
    """x = U D xi with B -> B (U D)^-1, and C likewise, gives the same predictions and the same metric in xi."""
    config = Config(kernel="exp", layers=2, context_length=5, **FIXED)
    there = dataclasses.replace(config, deviations="1 1 0.5 1.5 1")
    weights = matrices(config)
    inverse = torch.from_numpy(np.linalg.inv(there.transformation()))
    moved = weights | {name: weights[name] @ inverse for name in ("key", "query")}
    np.testing.assert_allclose(
        evaluation.errors(moved, there, 20), evaluation.errors(weights, config, 20), rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(evaluation.metrics(moved, there), evaluation.metrics(weights, config), atol=1e-13)


def test_anisotropy() -> None:
    assert evaluation.anisotropy(3 * np.eye(4)) == 0
    assert evaluation.anisotropy(np.diag([1.0, -1.0])) == 1
    config = Config(layers=2, **FIXED)
    identity = torch.eye(5, dtype=torch.float64).expand(2, 5, 5)
    weights = {"key": 2 * identity, "query": identity, "rate": torch.ones(2)}
    np.testing.assert_allclose(evaluation.nearest_scalars(weights, config)["scale"], [2, 2])


def test_the_layer_refuses_an_unknown_kernel() -> None:
    with pytest.raises(ValueError, match="kernel 'cosine'"):
        attention.similarity("cosine")


REFUSED = {
    "kernel": ({"kernel": "cosine"}, "constant kernel .h. = 'cosine': must be one of linear, relu, exp, softmax"),
    "law": ({"labels": "cubic"}, "constant labels .K. = 'cubic': must be one of linear"),
    "depth": ({"layers": 0}, "constant layers .L. = 0: must be at least 1"),
    "too deep": ({"layers": 9}, "constant layers .L. = 9: must be .* at most 8"),
    "no examples": ({"context_length": 0}, "constant context_length .n. = 0: must be at least 1"),
    "std": ({"init_std": 0.0}, "constant init_std .sigma. = 0.0: must be above 0"),
    "rate": ({"learning_rate": 0.0}, "constant learning_rate .eta. = 0.0: must be above 0"),
    "comb": ({"labels": "comb", "dimension": 3}, "constant dimension .d. = 3: must be at least 4 for labels = comb"),
    "shapes": ({"deviations": "1 1 1"}, "constant deviations .D. = '1 1 1': must be 5 numbers, one per .*, not 3"),
    "sign": ({"deviations": "1 1 0 1 1"}, "constant deviations .D. = '1 1 0 1 1': must be positive"),
    "words": ({"deviations": "one"}, "constant deviations .D. = 'one': must be numbers separated by blanks"),
    "newton": ({"parametrisation": "matrices"}, "constant optimiser = 'gauss_newton': must be another one; "),
    "two heads": ({"kernel": "linear_exp"}, "constant kernel .h. = 'linear_exp': must be a kernel with one head"),
    "moving": ({"resample": 10}, "constant resample = 10: must be 0 with gauss_newton"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused(name: str) -> None:
    constants, message = REFUSED[name]
    with pytest.raises(ConstantError, match=message):
        Config(**{"resample": 0, **constants})
