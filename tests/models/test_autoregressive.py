"""The autoregressive layer: its theorems, and seven equal gradients, from the definition to a and b alone."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from icl.core.config import ConstantError
from icl.core.runs import diverged
from icl.core.sweep import Sweep
from icl.core.training import train
from icl.models import autoregressive as system
from icl.models import autoregressive_definition as definition
from icl.models import autoregressive_gradients as gradients
from icl.models import autoregressive_readout as readout
from icl.models import autoregressive_theory as theory
from icl.models.autoregressive import Config
from icl.tasks import linear_dynamics as tasks
from tests.oracles import autoregressive as oracle

STARTS = ("0.1 0.1", "0.5 1.5", "2 2")
LEARNING_RATES = {"gaussian": 1e-3, "sparse": 3e-2, "full-one": 5e-4}
LAWS = tuple(LEARNING_RATES)


def config(law: str = "gaussian", **constants: object) -> Config:
    scale = 1.0 if law == "full-one" else 0.5
    return Config(**{"law": law, "scale": scale, "learning_rate": LEARNING_RATES[law], **constants})  # type: ignore[arg-type]


def sweep(*configs: Config, steps: int = 5, every: int = 1) -> Sweep:
    return Sweep("test", "zheng_ar", configs, tuple(range(0, steps + 1, every)), system.Test())


def weights_of(seed: int, like: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    rng = np.random.default_rng(seed)
    return {name: torch.from_numpy(rng.standard_normal(tuple(w.shape))) for name, w in like.items()}


def gauged(w: np.ndarray, angle: float) -> np.ndarray:
    """Rotate all phases together."""
    return w * np.exp(1j * angle)


# theorems


@pytest.mark.parametrize("law", ["gaussian", "sparse"])
def test_theorem_4_1(law: str) -> None:
    """From every start, the blocks stay multiples of the identity and ab tends to k_1 / (k_2 + k_3 S / (T - 2))."""
    configs = [config(law, start=start) for start in STARTS]
    trained = train(sweep(*configs, steps=1100, every=50))
    for run, own in enumerate(configs):
        for block in (*trained.weights["KQ"][run], *trained.weights["PV"][run]):
            assert torch.equal(block, torch.diag(torch.diagonal(block)))
        found = readout.products({n: w[run, -1] for n, w in trained.weights.items()}, own)
        assert found == pytest.approx(theory.limit(own), rel=1e-11)


@pytest.mark.parametrize(("scale", "length"), [(0.5, 4), (0.5, 100), (2.0, 30)])
def test_example_4_1_is_recovered_exactly(scale: float, length: int) -> None:
    """With one coordinate +-c and ab = 1 / c^2, (ab / (T - 2)) sum_i x_i x_i* x_{T-1} is x_{T-1}, so y = W x_{T-1}."""
    of_law = Config(gradient_estimator="population_scalar", law="sparse", scale=scale, length=length)
    w, u = system.drawn(of_law, "evaluate", 5)
    x = w[:, None] ** np.arange(length - 1)[:, None] * u[:, None]  # x_1 ... x_{T-1}: (sequences, T - 1, d)
    summed = np.einsum("nti,ntj,nj->ni", x[:, 1:], x[:, :-1].conj(), x[:, -1])
    np.testing.assert_allclose(summed / (scale**2 * (length - 2)), w * x[:, -1], rtol=1e-10, atol=1e-12)
    assert theory.limit(of_law) == pytest.approx(1 / scale**2)


@pytest.mark.parametrize(
    ("law", "scale", "length", "expected"),
    [
        ("gaussian", 0.5, 100, 0.76762), ("gaussian", 1.0, 100, 0.19191), ("gaussian", 2.0, 100, 0.04798),
        ("gaussian", 0.5, 20, 0.6924), ("gaussian", 0.5, 1000, 0.7952), ("gaussian", 0.5, 100000, 0.7999),
        ("sparse", 0.5, 100, 4.0), ("sparse", 1.0, 7, 1.0), ("sparse", 2.0, 100, 0.25),
        ("full-one", 1.0, 100, 0.82583),
    ],
)  # fmt: skip
def test_limits_of_ab(law: str, scale: float, length: int, expected: float) -> None:
    assert theory.limit(
        Config(gradient_estimator="population_scalar", law=law, scale=scale, length=length)
    ) == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize("law", ["gaussian", "sparse"])
def test_the_recursion_of_a_and_b_is_the_population_gradient(law: str) -> None:
    """The tolerance 1e-12 allows the rounding of 200 steps."""
    configs = [config(law, start=start) for start in STARTS]
    full = train(sweep(*configs, steps=200))
    two = train(
        sweep(*[dataclasses.replace(own, gradient_estimator="population_scalar") for own in configs], steps=200)
    )
    identity = torch.eye(5, dtype=torch.float64)
    for name in ("KQ", "PV"):
        expected = two.weights[name][..., None, None] * identity
        torch.testing.assert_close(full.weights[name], expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(full.losses[:, 1:], two.losses[:, 1:], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("law", LAWS)
def test_masked_blocks_follow_a_and_b(law: str) -> None:
    masked, two = (
        train(sweep(config(law, gradient_estimator=estimator), steps=60))
        for estimator in ("population_diagonal", "population_scalar")
    )
    expected = two.weights["KQ"][..., None, None] * torch.eye(5, dtype=torch.float64)
    torch.testing.assert_close(masked.weights["KQ"], expected, rtol=0, atol=1e-12)


def test_the_flow_keeps_a2_minus_b2_and_ends_at_the_limit() -> None:
    for start in STARTS:
        own = config(start=start)
        a, b = theory.flow(own, np.linspace(0, 5, 200))
        drift = a**2 - b**2 - (own.starts[0] ** 2 - own.starts[1] ** 2)
        assert abs(drift).max() < 1e-9
        assert a[-1] * b[-1] == pytest.approx(theory.limit(own), rel=1e-9)


def test_gradient_descent_tends_to_the_flow() -> None:
    """Euler's error falls with the step."""
    distances = []
    for factor in (1, 4):
        own = config(learning_rate=1e-3 / factor, start="2 2", gradient_estimator="population_scalar")
        trained = train(sweep(own, steps=40 * factor, every=factor))
        ab = (trained.weights["KQ"] * trained.weights["PV"])[0].numpy()
        a, b = theory.flow(own, 1e-3 * np.arange(41))
        distances.append(abs(ab - a * b).max())
    assert distances[0] > 0.05 and 3 < distances[0] / distances[1] < 6


@pytest.mark.parametrize("law", LAWS)
def test_other_blocks_have_no_gradient_in_the_mean_over_rotations(law: str) -> None:
    """For any sequences: rotating all phases by k/8 of a circle averages the other blocks' gradients to zero."""
    own = config(law, gradient_estimator="sample_definition", dimension=3, length=7, samples=4)
    w, u = system.drawn(own)
    slopes = []
    for k in range(8):
        x = torch.from_numpy(tasks.sequences(gauged(w, 2 * np.pi * k / 8), u, own.length))
        key_query, projection_value = (
            torch.view_as_complex(part[0].double()).clone().requires_grad_() for part in system.init([own]).values()
        )
        value = definition.loss(*definition.embedded(key_query, projection_value), x)
        slopes.append(torch.autograd.grad(value, (key_query, projection_value)))
    mean_kq, mean_pv = (torch.stack(part).mean(dim=0) for part in zip(*slopes, strict=True))
    assert slopes[0][0][:3].abs().max() > 1e-6 and slopes[0][1][:, 3:].abs().max() > 1e-6
    for other in (mean_kq[:3], mean_kq[3:, 3:], mean_pv[:, 3:]):
        assert other.abs().max() < 1e-15
    assert mean_kq[3:, :3].abs().max() > 1e-4


@given(st.floats(0, 2 * np.pi), st.permutations(range(3)), st.integers(0, 1000))
def test_predictions_rotate_with_all_phases_and_permute_with_the_coordinates(
    angle: float, order: list[int], seed: int
) -> None:
    """Rotating W by a phase rotates y_t like x_{t+1}; permuting the coordinates of tokens and blocks permutes y_t."""
    own = config(dimension=3, length=6, seed=seed)
    w, u = system.drawn(own, "test", 2)
    a, b = np.random.default_rng(seed).standard_normal((2, 3, 3))
    wanted = definition.layer_of_blocks(a, b, tasks.sequences(w, u, own.length))
    turned = definition.layer_of_blocks(a, b, tasks.sequences(gauged(w, angle), u, own.length))
    np.testing.assert_allclose(turned, wanted * np.exp(1j * angle * np.arange(2, 6))[:, None], rtol=0, atol=1e-12)
    x = tasks.sequences(w[:, order], u[:, order], own.length)
    renamed = definition.layer_of_blocks(a[np.ix_(order, order)], b[np.ix_(order, order)], x)
    np.testing.assert_allclose(renamed, wanted[..., order], rtol=0, atol=1e-12)


@pytest.mark.parametrize("law", ["gaussian", "sparse"])
def test_corollary_4_1(law: str) -> None:
    """y_t is x_t moved by one step on 1/2 sum_{i<t} |x_{i+1} - Phi x_i|^2 from Phi = 0, of size ab / (t - 1)."""
    own = config(law, start="0.5 1.5", dimension=3, length=12, samples=6)
    trained = train(sweep(own, steps=100, every=100))
    a, b = readout.moving_blocks({n: w[0, -1] for n, w in trained.weights.items()}, own)
    ab = readout.products({n: w[0, -1] for n, w in trained.weights.items()}, own)
    w, u = system.drawn(own)
    x = tasks.sequences(w, u, own.length)
    full = system.init([dataclasses.replace(own, gradient_estimator="sample_definition")])
    key_query, projection_value = (torch.zeros(part.shape[1:-1], dtype=torch.complex128) for part in full.values())
    key_query[3:, :3], projection_value[:, :3] = torch.from_numpy(a), torch.from_numpy(b)
    layer = definition.predictions(*definition.embedded(key_query, projection_value), torch.from_numpy(x)).numpy()
    for t in range(2, own.length):
        # -d/dPhi at 0 of 1/2 |x_{i+1} - Phi x_i|^2 is x_{i+1} x_i*
        step = ab / (t - 1) * np.einsum("mij,mik->mjk", x[:, 1:t], x[:, : t - 1].conj())
        np.testing.assert_allclose(layer[:, t - 2], (step @ x[:, t - 1, :, None])[..., 0], rtol=0, atol=1e-14)
    np.testing.assert_allclose(oracle.last_prediction(a, b, x), layer[:, -1], rtol=0, atol=1e-14)


def test_any_blocks_precondition_one_gradient_step() -> None:
    """y_t is B times the gradient step of size 1 / (t - 1) times A x_t."""
    own = config(dimension=3, length=9, samples=5)
    a, b = np.random.default_rng(0).standard_normal((2, 3, 3))
    x = system.sequences(own)
    layer = definition.layer_of_blocks(a, b, x)
    for t in range(2, own.length):
        step = np.einsum("mij,mik->mjk", x[:, 1:t], x[:, : t - 1].conj()) / (t - 1)
        np.testing.assert_allclose(layer[:, t - 2], (b @ step @ a @ x[:, t - 1, :, None])[..., 0], rtol=0, atol=1e-13)


@pytest.mark.parametrize("dimension", [2, 5, 10])
@pytest.mark.parametrize("most", [10, 20, 30])
def test_sanders_monomials_are_counted(dimension: int, most: int) -> None:
    own = config("full-one", gradient_estimator="population_unnormalised", dimension=dimension, length=most)
    assert oracle.counted(dimension, most) == theory.unnormalised_coefficients(own)


def test_the_loss_of_six_scalars_is_that_of_the_layer_without_a_mean() -> None:
    """On a grid of phases that integrates every product of the layer exactly; the derivatives are those of the loss."""
    own = config("full-one", gradient_estimator="population_six_scalars", dimension=2, length=4, perturbation=0.5)
    weights = system.init([own])
    value, slopes = system.loss_and_gradient(weights, [own])
    assert value.item() == pytest.approx(
        oracle.loss_of_six(weights["KQ"][0].numpy(), weights["PV"][0].numpy(), 2, 4), rel=1e-12
    )
    for name, place in (("KQ", 0), ("KQ", 1), ("KQ", 2), ("PV", 1)):
        moved = {key: w.clone() for key, w in weights.items()}
        moved[name][0, place] += 1e-6
        rise = (system.loss_and_gradient(moved, [own])[0] - value).item() / 1e-6
        assert slopes[name][0, place].item() == pytest.approx(rise, abs=1e-4)
    with pytest.raises(ConstantError, match="full-one"):
        config("gaussian", gradient_estimator="population_six_scalars")


@pytest.mark.parametrize(("dimension", "most"), [(5, 10), (5, 1000), (10, 100)])
def test_proposition_2_of_sander(dimension: int, most: int) -> None:
    """Descent on the layer without a mean ends at sum T / sum (T^2 + (d - 1) T)."""
    own = config(
        "full-one",
        gradient_estimator="population_unnormalised",
        dimension=dimension,
        length=most,
        learning_rate=0.1,
        start="0.01 0.01",
    )
    trained = train(sweep(own, steps=300, every=300))
    terms = np.arange(2, most + 1)
    wanted = terms.sum() / (terms**2 + (dimension - 1) * terms).sum()
    found = (trained.weights["KQ"] * trained.weights["PV"])[0, -1].item()
    assert found == pytest.approx(wanted, rel=1e-12)
    a, b = trained.weights["KQ"][:, -1], trained.weights["PV"][:, -1]
    a, b = a + 0.01, b - 0.02
    value, slopes = gradients.of_unnormalised_scalars({"KQ": a, "PV": b}, [own])
    step = 1e-6
    numeric = (gradients.of_unnormalised_scalars({"KQ": a + step, "PV": b}, [own])[0] - value) / step
    torch.testing.assert_close(slopes["KQ"], numeric, rtol=1e-3, atol=1e-5)


# estimators


@pytest.mark.parametrize("law", LAWS)
def test_sampled_is_literal(law: str) -> None:
    """In double precision, at unstructured weights."""
    own = config(law, gradient_estimator="sample_all_blocks", dimension=3, length=9, samples=130)
    weights = weights_of(3, system.init([own]))
    found = system.loss_and_gradient(weights, [own])
    wanted = system.loss_and_gradient(weights, [dataclasses.replace(own, gradient_estimator="sample_definition")])
    torch.testing.assert_close(found[0], wanted[0], rtol=1e-13, atol=0)
    for name in weights:
        torch.testing.assert_close(found[1][name], wanted[1][name], rtol=0, atol=1e-11)


@pytest.mark.parametrize("law", ["gaussian", "full-one"])
def test_sampled_training_is_literal_training(law: str) -> None:
    """20 steps at the paper's T and d in single precision: weights of order one, some 1e-7 of rounding per step."""
    runs = [
        train(sweep(config(law, gradient_estimator=estimator, samples=10), steps=20, every=20))
        for estimator in ("sample_all_blocks", "sample_definition")
    ]
    for name in ("KQ", "PV"):
        torch.testing.assert_close(runs[0].weights[name], runs[1].weights[name], rtol=0, atol=1e-6)


def test_the_first_block_of_the_tokens_meets_only_zeros() -> None:
    """The official code trains full (3 d, 3 d) matrices; the entries that we omit have zero gradient."""
    own = config(gradient_estimator="sample_definition", dimension=3, length=6, samples=5)
    weights = weights_of(4, system.init([own]))
    parts = definition.embedded(*(torch.view_as_complex(weights[name][0]) for name in ("KQ", "PV")))
    leaves = [part.clone().requires_grad_() for part in parts]
    x = torch.from_numpy(tasks.sequences(*system.drawn(own), own.length))
    key_query, projection_value = torch.autograd.grad(definition.loss(*leaves, x), leaves)
    assert key_query[3:, 3:].abs().min() > 0 and projection_value[:3, 3:].abs().min() > 0
    for part in (key_query[:3], key_query[:, :3], projection_value[3:], projection_value[:, :3]):
        assert part.abs().max() == 0


@pytest.mark.parametrize("law", LAWS)
def test_reduced_is_sampled_in_its_blocks(law: str) -> None:
    """On the same sequences; `sampled` has further blocks, which are zero. Statistics are in single precision."""
    own = config(law, gradient_estimator="sample_all_blocks", length=12, samples=60)
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((2, 5, 5))
    full = {name: torch.zeros(w.shape, dtype=torch.float64) for name, w in system.init([own]).items()}
    full["KQ"][0, 5:, :5, 0], full["PV"][0, :, :5, 0] = torch.from_numpy(a), torch.from_numpy(b)
    values, slopes = system.loss_and_gradient(full, [own])
    few = {"KQ": torch.from_numpy(a)[None], "PV": torch.from_numpy(b)[None]}
    found, own_slopes = system.loss_and_gradient(few, [dataclasses.replace(own, gradient_estimator="sample_blocks")])
    torch.testing.assert_close(found, values, rtol=1e-6, atol=0)
    for name, part in (("KQ", slopes["KQ"][0, 5:, :5, 0]), ("PV", slopes["PV"][0, :, :5, 0])):
        scale = part.abs().max().item()
        torch.testing.assert_close(own_slopes[name][0], part, rtol=0, atol=1e-5 * scale)


@pytest.mark.parametrize("law", LAWS)
def test_samples_average_to_the_population(law: str) -> None:
    own = config(law, gradient_estimator="sample_blocks", length=8, dimension=3, samples=400)
    start = {name: w[:1] for name, w in weights_of(6, system.init([own])).items()}
    found = [system.loss_and_gradient(start, [dataclasses.replace(own, seed=seed)]) for seed in range(30)]
    value, slopes = system.loss_and_gradient(start, [dataclasses.replace(own, gradient_estimator="population")])
    for many, one in (
        (np.stack([v.numpy() for v, _ in found]), value),
        (np.stack([s["KQ"].numpy() for _, s in found]), slopes["KQ"]),
        (np.stack([s["PV"].numpy() for _, s in found]), slopes["PV"]),
    ):
        error = many.std(axis=0, ddof=1) / np.sqrt(len(many))
        assert (abs(many.mean(axis=0) - one.numpy()) < 5 * error + 1e-5).all()


@pytest.mark.parametrize(
    "estimator",
    [
        "population",
        "population_diagonal",
        "population_scalar",
        "population_unnormalised",
        "sample_blocks",
        "sample_all_blocks",
        "sample_definition",
    ],
)
def test_a_run_alone_is_the_run_in_the_sweep_and_only_samples_depend_on_the_seed(estimator: str) -> None:
    configs = [
        config(gradient_estimator=estimator, samples=20, length=8, start=start, seed=seed)
        for seed in (0, 1)
        for start in STARTS[:2]
    ]
    together = train(sweep(*configs, steps=3))
    np.random.default_rng(0).standard_normal(3)
    torch.manual_seed(1)
    for run, own in enumerate(configs):
        alone = train(sweep(own, steps=3))
        for name in ("KQ", "PV"):
            assert torch.equal(alone.weights[name][0], together.weights[name][run])
        np.testing.assert_array_equal(alone.losses[0], together.losses[run])
    assert torch.equal(together.weights["KQ"][0], together.weights["KQ"][2]) == (estimator in system.POPULATION)
    assert system.is_random(configs) and system.is_random(configs[:2]) == (estimator not in system.POPULATION)


def test_the_blocks_of_the_full_weights() -> None:
    own = config("full-one", gradient_estimator="sample_all_blocks", start="0.5 1.5")
    start = {name: w[0] for name, w in system.init([own]).items()}
    a, b = readout.moving_blocks(start, own)
    np.testing.assert_array_equal(a, 0.5 * np.eye(5))
    np.testing.assert_array_equal(b, 1.5 * np.eye(5))
    assert readout.products(start, own) == pytest.approx(0.75)
    assert start["KQ"].sum() == 2.5 and start["PV"].sum() == 7.5


# bad input


@pytest.mark.parametrize(
    "estimator", ["population", "population_scalar", "population_unnormalised", "sample_blocks", "sample_all_blocks"]
)
def test_too_large_a_step_is_named_and_affects_no_other_run(estimator: str) -> None:
    small = {"gradient_estimator": estimator, "samples": 20, "length": 8}
    good, bad = (
        config("full-one", start="0.5 1.5", **small),
        config("full-one", start="0.5 1.5", learning_rate=50.0, **small),
    )
    both, alone = train(sweep(good, bad, steps=30)), train(sweep(good, steps=30))
    for name in ("KQ", "PV"):
        assert torch.equal(both.weights[name][0], alone.weights[name][0])
    np.testing.assert_array_equal(both.losses[0], alone.losses[0])
    assert diverged(alone) == []
    (line,) = diverged(both)
    lost = int(np.flatnonzero(~np.isfinite(both.losses[1]))[0])
    assert line == f"sweep test, run 1 (seed 0, learning_rate = 50.0): not finite from step {lost} on"


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        ({"length": 2}, "constant length (T) = 2: must be at least 3"),
        ({"scale": 0.0}, "constant scale (sigma, c) = 0.0: must be above 0"),
        ({"scale": -1.0}, "constant scale (sigma, c) = -1.0: must be above 0"),
        ({"learning_rate": float("nan")}, "constant learning_rate (eta) = nan: must be finite, above 0"),
        ({"start": "0.1"}, "constant start (a_0, b_0) = '0.1': must be two finite numbers"),
        ({"start": "a b"}, "must be two finite numbers, a_0 and b_0, separated by a blank"),
        ({"start": "nan 1"}, "must be two finite numbers"),
        ({"law": "cauchy"}, "one of gaussian, sparse, full-one"),
        ({"gradient_estimator": "fast"}, "one of population, population_diagonal, population_scalar"),
        ({"length": 5000}, "at most 2000 for the estimator population; `population_scalar` takes more"),
        ({"dimension": 9}, "constant dimension (d) = 9: must be at most 8 for the estimator population"),
        ({"samples": 0}, "constant samples (m) = 0: must be at least 1"),
    ],
)
def test_bad_constants_are_named(constants: dict[str, object], message: str) -> None:
    with pytest.raises(ConstantError) as caught:
        Config(**constants)  # type: ignore[arg-type]
    assert message in str(caught.value)
