"""Training of Garg et al.'s GPT-2: loss, initialisation, curriculum, resuming."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from icl.core.config import ConstantError
from icl.core.sweep import Sweep
from icl.core.training import train
from icl.papers.garg2022 import decoder, evaluation
from icl.papers.garg2022 import gpt2 as model
from tests.oracles.training import batch_of, sweep_of, tensors
from tests.rounding import chained, rounding
from tests.stopped import assert_goes_on_bit_for_bit

SIZES = dict(dimension=4, points=7, layers=2, heads=2, width=16, batch=6)
CURRICULUM = dict(steps=12, every=3, first_dimension=2, first_points=3, learning_rate=3e-3)


def sweep(seeds: tuple[int, ...] = (100, 101, 102), **values: Any) -> Sweep:
    constants: dict[str, Any] = {**SIZES, **CURRICULUM, **values}
    configs = [model.Config(seed=seed, **constants) for seed in seeds]
    return sweep_of(model, configs, (constants["steps"],), prompts=20)


def test_loss_is_the_mean_squared_error_of_every_prediction() -> None:
    configs = sweep().configs
    batch = model.sample(configs, 50)
    params = model.init(configs)
    predictions = decoder.predict(params, batch["inputs"], batch["labels"], heads=2)
    losses = model.loss(params, tensors(batch), configs)
    squares = (predictions - batch["labels"]) ** 2
    tolerance = rounding(losses.dtype, chained(params) + squares[0].size)
    assert_allclose(losses, squares.mean(axis=(1, 2)), rtol=tolerance)


def test_inputs_and_tasks_are_standard_normal() -> None:
    """168,000 numbers: a standard error of 0.0024 and, for the square, 0.0035."""
    batch = model.sample(sweep(batch=2000).configs, 11)
    assert abs(batch["inputs"].mean()) < 0.0125 and abs(batch["inputs"].var() - 1) < 0.0175
    assert abs((batch["labels"] ** 2).mean() - 4) < 0.4


@pytest.mark.parametrize(("step", "kept", "points"), [(0, 2, 3), (3, 3, 5), (6, 4, 7), (11, 4, 7)])
def test_labels_are_linear_and_unused_coordinates_are_zero(
    step: int, kept: int, points: int
) -> None:
    batch = batch_of(model, sweep().configs, step)
    x = batch["inputs"].double()
    y = batch["labels"].double()
    assert x.shape == (3, 6, points, 4)
    assert (x[..., kept:] == 0).all() and (x[..., :kept] != 0).all()
    fitted = x @ (torch.linalg.pinv(x) @ y[..., None])
    torch.testing.assert_close(fitted[..., 0], y, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("scale", "every", "start", "end"),
    [("paper", 2000, 5, 20), ("workstation", 250, 5, 20), ("laptop", 300, 2, 5)],
)
def test_a_curriculum_adds_a_dimension_and_two_points_up_to_all(
    scale: str, every: int, start: int, end: int
) -> None:
    config = evaluation.sweeps(scale)[0].configs[0]
    for step in range(0, config.steps, every // 2):
        dimension = min(start + step // every, end)
        assert model.curriculum(step, config) == (dimension, 2 * dimension + 1)
    assert (dimension, 2 * dimension + 1) == (config.dimension, config.points)


@pytest.mark.parametrize(
    ("name", "later"), [("constant", [1, 1, 1]), ("cosine", [(1 + 0.5**0.5) / 2, 0.5, 0])]
)
def test_the_learning_rate_rises_over_the_warm_up_and_falls_as_a_cosine(
    name: str, later: list[float]
) -> None:
    factor = model.schedule(sweep(schedule=name, warm_up=10, steps=110).configs[0])
    assert_allclose([factor(step) for step in range(10)], np.arange(1, 11) / 10)
    assert [factor(step) for step in (35, 60, 110)] == pytest.approx(later, abs=1e-15)
    assert factor(200) == factor(110)
    assert model.schedule(sweep(schedule=name).configs[0])(0) == 1


@pytest.mark.slow
def test_loss_falls_below_that_of_the_zero_prediction() -> None:
    """That loss is 1 in one dimension; 50 batches of 256 labels give it with an error of 0.02."""
    flat = {"first_dimension": 1, "first_points": 4, "every": 1000}
    trained = train(sweep(steps=400, batch=64, learning_rate=1e-2, clip_norm=1.0, **flat))
    losses = trained.losses[:, -50:].mean(axis=1)
    assert (losses < 0.95).all() and losses.min() < 0.6


@pytest.mark.parametrize("optimiser", ["adam", "muon"])
def test_the_seed_alone_decides_and_a_stopped_training_resumes(
    optimiser: str, tmp_path: Path
) -> None:
    """Bit for bit; the prompts grow at steps 3 and 6, and stops are before, at and after these."""
    trained = train(sweep(optimiser=optimiser, clip_norm=1.0))
    assert len(np.unique(trained.losses[:, 0])) == 3
    assert_goes_on_bit_for_bit(trained, [2, 3, 4, 6, 11], tmp_path / "state.safetensors")


@pytest.mark.parametrize("start", ["gpt2", "linear"])
def test_maps_start_as_linear_layers_of_torch_or_as_gpt2(start: str) -> None:
    torch.manual_seed(0)
    wide = sweep((100,), start=start, dimension=20, width=64, heads=4, points=41)
    params = model.init(wide.configs)
    maps = [name for name in params if f"{name}.bias" in params]
    assert len(maps) == 2 + 6 * 2 and params["positions"].shape == (1, 81, 64)
    for name in maps if start == "linear" else ("read_in", "read_out"):
        theirs = torch.nn.Linear(*params[name].shape[1:]).weight
        bound = params[name].shape[1] ** -0.5
        assert max(params[name].abs().max(), params[f"{name}.bias"].abs().max()) <= bound
        assert params[f"{name}.bias"].abs().max() > 0
        # Of 64 draws, the fewest of any map, two standard errors are a fifth.
        assert params[name].std().item() == pytest.approx(theirs.std().item(), rel=0.2), name
    if start == "gpt2":
        for name, expected in {"positions": 0.02, "layer1.down": 0.01}.items():
            assert params[name].std().item() == pytest.approx(expected, rel=0.1)


def test_the_published_model_has_its_published_size() -> None:
    """22.40 million, with GPT-2's unused word embedding, 50,257 x 256, and unused positions."""
    config = evaluation.sweeps("paper")[0].configs[0]
    ours = sum(w[0].numel() for w in model.init([replace(config, layers=1)]).values())
    layer = 12 * 256**2 + 13 * 256
    unused = 50_257 * 256 + (202 - 81) * 256
    assert ours + 11 * layer + unused == pytest.approx(22.40e6, abs=5e3)


def test_runs_of_other_sizes_are_refused() -> None:
    first = sweep((100,)).configs[0]
    with pytest.raises(ConstantError, match="seed and learning rate only"):
        model.init([first, replace(first, width=32)])
