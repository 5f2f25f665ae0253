"""Deep linear attention: layers are preconditioned steps, all forms of the loss agree, one layer learns equation 2."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from icl.core.config import ConstantError
from icl.core.streams import stream
from icl.core.sweep import Sweep
from icl.core.training import gradient, train
from icl.models import attention, estimators
from icl.models import linear_attention_theory as theory
from icl.models.optimisers import adam
from icl.papers.ahn2023 import evaluation, prompts
from icl.papers.ahn2023 import linear_attention as system
from icl.papers.ahn2023.gram_recursions import Whitened
from icl.papers.ahn2023.linear_attention import AVERAGED, SAMPLED, SKEWED, Config
from icl.tasks import linear_regression as tasks
from tests.oracles import ahn2023 as oracles

SMALL: dict[str, Any] = {"dimension": 3, "context_length": 6, "spectrum": "1 0.5 2", "prompts": 7, "init_std": 0.3}
# Sums of some hundred products of order one, in float64.
CLOSE: dict[str, Any] = {"rtol": 1e-11, "atol": 1e-12}


def sweep(*configs: Config, steps: int = 4) -> Sweep:
    return Sweep("test", "ahn_linear", configs, tuple(range(steps + 1)), system.Test())


def batch_of(config: Config, count: int) -> dict[str, torch.Tensor]:
    return as_batch(system.draw(config, stream("test", config.seed, "batch"), count))


def literal_batch(config: Config, count: int) -> dict[str, torch.Tensor]:
    return as_batch(oracles.draw_tokens(config, stream("test", config.seed, "batch"), count))


def as_batch(drawn: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(array)[None] for name, array in drawn.items()}


def loss_and_gradient(
    config: Config, params: dict[str, torch.Tensor], batch: dict[str, torch.Tensor]
) -> tuple[float, dict[str, np.ndarray]]:
    losses, gradients = gradient(system, sweep(config), params, {}, batch)
    return float(losses[0].detach()), {name: g[0].numpy() for name, g in gradients.items()}


# Constructions


@pytest.mark.parametrize("layers", [1, 2, 4])
def test_sparse_layers_are_preconditioned_steps(layers: int) -> None:
    """A8, lemma 1 of Ahn et al.: with P = 0 the stack is L steps preconditioned by -A_l."""
    config = Config(parametrisation="sparse", layers=layers, **SMALL)
    params = system.init([config])
    z = literal_batch(config, 20)["tokens"][0]
    steps = [-a.T.numpy() for a in params["Q"][0, :, :-1, :-1]]
    inputs, labels = z[:, :-1].mT.numpy(), z[:, -1].numpy()
    wanted = estimators.preconditioned_gradient_descent(steps)(inputs[:, :-1], labels[:, :-1], inputs[:, -1])
    np.testing.assert_allclose(oracles.attention_predictions(params, z[None])[0].numpy(), wanted, rtol=0, atol=1e-12)


@settings(max_examples=15)
@given(
    seed=st.integers(0, 1000), layers=st.integers(1, 3), parametrisation=st.sampled_from(["full", "sparse", "relaxed"])
)
def test_predictions_do_not_depend_on_the_order_of_the_examples(seed: int, layers: int, parametrisation: str) -> None:
    config = Config(parametrisation=parametrisation, layers=layers, gradient_estimator=SAMPLED, seed=seed, **SMALL)
    params, z = system.init([config]), literal_batch(config, 3)["tokens"]
    order = np.random.default_rng(seed).permutation(z.shape[-1] - 1)
    shuffled = torch.cat([z[..., :-1][..., order], z[..., -1:]], dim=-1)
    before, after = (oracles.attention_predictions(params, tokens) for tokens in (z, shuffled))
    torch.testing.assert_close(after, before, **CLOSE)


@settings(max_examples=15)
@given(seed=st.integers(0, 1000))
def test_the_averaged_loss_does_not_depend_on_a_rotation_of_whitened_coordinates(seed: int) -> None:
    """Weights and Gram matrices are rotated together; tasks are w ~ N(0, Sigma^-1)."""
    config = Config(**SMALL | {"spectrum": "", "seed": seed})
    params, g = system.init([config]), batch_of(config, 4)["gram"]
    turn = torch.from_numpy(tasks.rotation(np.random.default_rng(seed), 3))
    moved = {name: w.clone() for name, w in params.items()}
    for w in moved.values():
        w[..., :3, :3] = turn @ w[..., :3, :3] @ turn.mT
    turned = torch.einsum("ij,rjkm,lk->rilm", turn, g, turn)
    before, after = system.loss(params, {"gram": g}, [config]), system.loss(moved, {"gram": turned}, [config])
    torch.testing.assert_close(after, before, **CLOSE)


def closed_loss(matrix: np.ndarray, covariance: np.ndarray, task: np.ndarray, n: int) -> float:
    return float(theory.one_step_loss(matrix, covariance, task, n))


@pytest.mark.parametrize("n", [5, 10, 20, 50])
@pytest.mark.parametrize("task", ["identity", "inverse"])
def test_the_best_step_is_stationary_and_least(n: int, task: str) -> None:
    """A1 and A7: numerical derivatives vanish in every direction, and the loss rises in each."""
    for seed in range(3):
        sigma = system.covariance(Config(spectrum=SKEWED, seed=seed))
        inverse = np.linalg.inv(sigma)
        # A E[G^2] = E[G], with the moments of a Wishart matrix written out.
        square = (n + 1) / n * sigma @ sigma + np.trace(sigma) / n * sigma
        slack = theory.preconditioner(sigma, n) @ square - sigma
        assert np.linalg.norm(slack) <= 1e-12 * np.linalg.norm(sigma)
        step = theory.best_step(sigma, inverse, n)
        assert np.linalg.norm(step - n / (n + 6) * inverse) <= 1e-12 * np.linalg.norm(step)
    weights = np.eye(5) if task == "identity" else np.linalg.inv(sigma)
    best = theory.preconditioner(sigma, n) if task == "identity" else n / (n + 6) * np.linalg.inv(sigma)
    np.testing.assert_allclose(theory.best_step(sigma, weights, n), best, rtol=1e-11, atol=1e-12)
    least = closed_loss(best, sigma, weights, n)
    generator = stream("test", n, "directions")
    for _ in range(50):
        direction = generator.standard_normal((5, 5))
        direction *= 1e-2 / np.linalg.norm(direction)
        up, down = (closed_loss(best + s * direction, sigma, weights, n) for s in (1, -1))
        assert min(up, down) > least
        # The loss is quadratic, so the difference is proportional to the derivative, up to rounding.
        assert abs(up - down) < 1e-12


def test_a_preconditioner_beats_the_best_step_size() -> None:
    """A6: the least loss of any step, and of a step eta I, whose loss is a parabola in eta."""
    sigma, eye = system.covariance(Config(spectrum=SKEWED)), np.eye(5)
    assert closed_loss(theory.preconditioner(sigma, 20), sigma, eye, 20) == pytest.approx(0.6818, abs=1e-4)
    eta = np.linspace(0.5, 1.2, 7001)
    losses = theory.one_step_loss(eta[:, None, None] * eye, sigma, eye, 20)
    assert losses.min() == pytest.approx(0.7536, abs=1e-4)
    assert eta[losses.argmin()] == pytest.approx(0.835, abs=1e-3)


@pytest.mark.parametrize("task", ["identity", "inverse"])
def test_the_closed_loss_is_the_mean_over_prompts(task: str) -> None:
    config = Config(parametrisation="sparse", layers=1, task_covariance=task, **SMALL)
    params = system.init([config])
    sigma = system.covariance(config)
    weights = np.eye(3) if task == "identity" else np.linalg.inv(sigma)
    wanted = closed_loss(-params["Q"][0, 0, :3, :3].mT.numpy(), sigma, weights, 6)
    losses = [
        loss_and_gradient(config, params, batch_of(dataclasses.replace(config, seed=s), 4000))[0] for s in range(9)
    ]
    # The batches are whitened, so their seeds do not change Sigma.
    error = np.std(losses, ddof=1) / 3
    assert abs(np.mean(losses) - wanted) < 4 * error < 0.05 * wanted


# Forms of the loss


@pytest.mark.parametrize("parametrisation", ["full", "sparse", "relaxed"])
@pytest.mark.parametrize("layers", [1, 3])
def test_the_gram_form_is_dense_attention(parametrisation: str, layers: int) -> None:
    """A9: loss and gradient on the same prompts."""
    config = Config(parametrisation=parametrisation, layers=layers, gradient_estimator=SAMPLED, **SMALL)
    params, batch = system.init([config]), literal_batch(config, 30)
    leaves = {name: w.clone().requires_grad_() for name, w in params.items()}
    wanted = oracles.attention_loss(leaves, batch, config)
    slopes = dict(zip(leaves, torch.autograd.grad(wanted.sum(), list(leaves.values())), strict=True))
    gram_loss, gram_slopes = loss_and_gradient(config, params, prompts.gram_and_query_of(batch))
    assert gram_loss == pytest.approx(float(wanted.detach()), rel=1e-12)
    for name in ("V", "Q"):
        np.testing.assert_allclose(gram_slopes[name], slopes[name][0].numpy(), **CLOSE)
    # Entries that are not trained have no gradient.
    for name, trained in system.trained_entries(config).items():
        assert not gram_slopes[name][:, ~trained].any()


@pytest.mark.parametrize(
    ("parametrisation", "layers"),
    [("sparse", 1), ("sparse", 3), ("relaxed", 1), ("relaxed", 2), ("relaxed", 4), ("full", 1)],
)
@pytest.mark.parametrize("task", ["identity", "inverse"])
def test_the_averaged_loss_is_the_expectation_over_task_and_query(parametrisation: str, layers: int, task: str) -> None:
    """Compared with the sampled loss under a quadrature that is exact at this degree."""
    config = Config(parametrisation=parametrisation, layers=layers, task_covariance=task, **SMALL)
    g = batch_of(config, 1)["gram"]
    nodes = oracles.quadrature_over_task_and_query(config, g[0, ..., 0].numpy())
    params = system.init([config])
    averaged, slopes = loss_and_gradient(config, params, {"gram": g})
    leaves = {name: w.clone().requires_grad_() for name, w in params.items()}
    z, query = nodes["gram"], nodes["query"]
    for layer in range(layers):
        v, q = leaves["V"][:, layer, None], leaves["Q"][:, layer, None]
        last = attention.linear_gram_query(z, query, v, q)
        z, query = attention.linear_gram_layer(z, query, v, q)
    wanted = ((last[..., -1, 0] + nodes["target"]).square() * nodes["mass"]).sum()
    assert averaged == pytest.approx(float(wanted.detach()), rel=1e-11)
    for name, slope in zip(leaves, torch.autograd.grad(wanted, list(leaves.values())), strict=True):
        trained = system.trained_entries(config)[name]
        np.testing.assert_allclose(slopes[name][:, trained], slope[0].numpy()[:, trained], rtol=1e-9, atol=1e-11)
        assert not slopes[name][:, ~trained].any()


@pytest.mark.parametrize("task", ["identity", "inverse"])
def test_wishart_prompts_have_the_distribution_of_literal_ones(task: str) -> None:
    """First and second moments of the statistics that enter the loss, over 20 000 prompts each."""
    config = Config(gradient_estimator=SAMPLED, task_covariance=task, **SMALL)
    literal = prompts.gram_and_query_of(literal_batch(config, 20000))
    direct = batch_of(config, 20000)
    for name in ("gram", "query", "target"):
        a, b = (x[name].movedim(-1, 0).reshape(20000, -1).numpy() for x in (literal, direct))
        for power in (1, 2):
            spread = np.sqrt((a**power).var(axis=0) / 20000 + (b**power).var(axis=0) / 20000)
            # Five standard errors over some 20 numbers.
            assert (abs((a**power).mean(axis=0) - (b**power).mean(axis=0)) <= 5 * spread).all()


@pytest.mark.parametrize("parametrisation", ["sparse", "relaxed"])
def test_whitened_coordinates_absorb_the_covariance(parametrisation: str) -> None:
    """The loss of a skewed run is that of an isotropic run at its whitened weights, on whitened prompts."""
    config = Config(parametrisation=parametrisation, **SMALL)
    isotropic = dataclasses.replace(config, spectrum="")
    params, batch = system.init([config]), batch_of(config, 9)
    p, a = system.whitened(params, [config])
    moved = {name: w.clone() for name, w in params.items()}
    moved["V"][..., :-1, :-1], moved["Q"][..., :-1, :-1] = p, a
    assert loss_and_gradient(isotropic, moved, batch)[0] == pytest.approx(loss_and_gradient(config, params, batch)[0])


def test_the_balance_of_value_and_key_query_is_free() -> None:
    """(V, Q) -> (2 V, Q / 2) leaves the loss unchanged, so only products are compared with the theory."""
    config = Config(parametrisation="full", gradient_estimator=SAMPLED, layers=2, **SMALL)
    params, batch = system.init([config]), batch_of(config, 9)
    other = {"V": 2 * params["V"], "Q": params["Q"] / 2}
    assert loss_and_gradient(config, other, batch)[0] == pytest.approx(loss_and_gradient(config, params, batch)[0])


# Training


def test_one_layer_ends_at_equation_2() -> None:
    """A3 to A5 at a small scale: full V and Q, skewed inputs, tasks w ~ N(0, I)."""
    config = Config(
        parametrisation="full", layers=1, task_covariance="identity", spectrum="1 1 0.5 0.5 1", prompts=100,
        learning_rate=0.05, halving=100, init_std=0.02, beta2=0.999,
    )  # fmt: skip
    runs = train(sweep(config, steps=400))
    value, key_query = (runs.last()[name][0, 0].numpy() for name in ("V", "Q"))
    learnt, best = -value[-1, -1] * key_query[:5, :5], theory.preconditioner(system.covariance(config), 20)
    # The tolerance covers the gradient noise of the last steps, at a sixteenth of the learning rate.
    assert np.linalg.norm(learnt - best) < 0.1 * np.linalg.norm(best)
    assert np.linalg.norm(value[-1, :5]) < 0.02 * abs(value[-1, -1])


@pytest.mark.parametrize("estimator", [AVERAGED, SAMPLED])
def test_a_run_alone_equals_the_run_in_a_sweep(estimator: str) -> None:
    configs = [Config(gradient_estimator=estimator, seed=seed, **SMALL) for seed in range(3)]
    together = train(sweep(*configs))
    for run, config in enumerate(configs):
        alone = train(sweep(config))
        for name in ("V", "Q"):
            # The order of summation may depend on the shapes.
            torch.testing.assert_close(alone.weights[name][0], together.weights[name][run], rtol=1e-12, atol=1e-14)
    assert not torch.equal(together.weights["Q"][0, -1], together.weights["Q"][1, -1])


def test_a_diverging_neighbour_changes_nothing() -> None:
    calm, wild = Config(**SMALL), Config(**SMALL | {"seed": 1, "learning_rate": 1e200})
    assert torch.equal(
        train(sweep(calm, wild)).weights["Q"][0], train(sweep(calm, dataclasses.replace(calm, seed=1))).weights["Q"][0]
    )


def test_global_generators_change_nothing() -> None:
    config = Config(**SMALL)
    first = train(sweep(config))
    np.random.seed(7)  # noqa: NPY002
    torch.manual_seed(7)
    assert torch.equal(train(sweep(config)).weights["Q"], first.weights["Q"])


def test_prompts_stay_until_they_are_resampled() -> None:
    config = Config(**SMALL | {"resample": 3})
    first, same, other = (system.sample([config], step)["gram"] for step in (0, 2, 3))
    np.testing.assert_array_equal(first, same)
    assert not np.array_equal(first, other)


def test_fresh_losses_are_the_loss_on_fresh_prompts() -> None:
    config = Config(**SMALL)
    params = system.init([config])
    blocks = system.whitened(params, [config])
    loss = evaluation.losses_on(Whitened(blocks.p[0], blocks.a[0]), evaluation.fresh_gram_matrices(config, 50), config)
    g = system.draw_whitened(config, stream(system.SYSTEM, 0, "evaluate"), 50)["gram"]
    wanted = loss_and_gradient(config, params, {"gram": torch.from_numpy(g)[None]})[0]
    assert float(loss) == pytest.approx(wanted)


def test_the_distance_to_a_multiple_of_the_identity() -> None:
    eye = torch.eye(4, dtype=torch.float64)
    assert float(evaluation.distance_to_scalar(-3 * eye)) < 1e-15
    swapped = eye[[1, 0, 3, 2]]
    assert float(evaluation.distance_to_scalar(swapped)) == pytest.approx(1.0)


# The optimiser


def test_clipping_is_per_matrix_and_run() -> None:
    inner = adam(1.0)
    step = system.clipped(inner, 0.5)
    grads = {"Q": torch.tensor([[[[3.0, 4.0]], [[0.03, 0.04]]], [[[0.0, 0.1]], [[6.0, 8.0]]]])}
    start = {"Q": torch.zeros_like(grads["Q"])}
    cut = {"Q": torch.tensor([[[[0.3, 0.4]], [[0.03, 0.04]]], [[[0.0, 0.1]], [[0.3, 0.4]]]])}
    clipped, wanted = (o.update(start, g, o.init(start), 0)[1] for o, g in ((step, grads), (inner, cut)))
    for name in wanted:
        torch.testing.assert_close(clipped[name], wanted[name])


# Bad input


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        ({"spectrum": "1 1 0 1 1"}, "spectrum .* = '1 1 0 1 1': must be of positive eigenvalues"),
        ({"spectrum": "1 1 -2 1 1"}, "not positive definite"),
        ({"spectrum": "1 nan 1 1 1"}, "not positive definite"),
        ({"spectrum": "1 2"}, "must be 5 eigenvalues because dimension = 5; it has 2"),
        ({"spectrum": "one"}, "must be 5 numbers"),
        ({"layers": 0}, "layers .* = 0: must be at least 1"),
        ({"context_length": 0}, "context_length .* = 0: must be at least 1"),
        ({"dimension": 0}, "dimension .* = 0"),
        ({"parametrisation": "dense"}, "parametrisation = 'dense': must be one of full, sparse, relaxed"),
        ({"parametrisation": "full"}, "gradient_estimator = .*: must be sampled_prompts for full"),
        ({"learning_rate": 0.0}, "learning_rate .* = 0.0: must be above 0"),
    ],
)
def test_bad_constants_are_refused_before_training(constants: dict[str, Any], message: str) -> None:
    with pytest.raises(ConstantError, match=message):
        Config(**constants)


@pytest.mark.parametrize("n", [0, -1])
def test_a_context_length_below_one_is_refused(n: int) -> None:
    with pytest.raises(ValueError, match="context length"):
        theory.gamma(np.eye(3), n)


def test_a_covariance_without_an_inverse_is_refused() -> None:
    with pytest.raises(ValueError, match="positive definite"):
        tasks.root(np.diag([1.0, 0.0]))
