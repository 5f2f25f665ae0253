"""Training of Garg et al.'s GPT-2: loss, published initialisation and curriculum, seeds, runs and resuming."""

import math
import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from icl.core.config import ConstantError, grid
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.training import train
from icl.models.optimisers import Params
from icl.papers.garg2022 import decoder, trainings
from icl.papers.garg2022 import gpt2 as system
from tests.stopped import assert_goes_on_bit_for_bit

SMALL = {"dimension": 4, "points": 7, "layers": 2, "heads": 2, "width": 16, "batch": 6, "steps": 12, "every": 3,
         "first_dimension": 2, "first_points": 3, "learning_rate": 3e-3}  # fmt: skip
HEADS = 2


def sweep(seeds: tuple[int, ...] = (100, 101, 102), **values: Any) -> Sweep:
    constants = {**SMALL, **values}
    configs = grid(system.Config, seed=seeds, **{name: [value] for name, value in constants.items()})
    return Sweep("test", system.SYSTEM, configs, (constants["steps"],), system.Test(prompts=20))


def tensors(batch: dict[str, np.ndarray]) -> Params:
    return {name: torch.from_numpy(a) for name, a in batch.items()}


@pytest.fixture(scope="module")
def trained() -> Runs:
    return train(sweep())


def test_loss_is_the_mean_squared_error_of_every_prediction() -> None:
    configs = sweep().configs
    batch, params = system.sample(configs, 50), system.init(configs)
    predictions = decoder.predict(params, batch["inputs"], batch["labels"], HEADS)
    expected = [np.mean([(p - y) ** 2 for p, y in zip(*pair, strict=True)]) for pair in zip(
        predictions, batch["labels"].astype(float), strict=True)]  # fmt: skip
    losses = system.loss(params, tensors(batch), configs)
    assert losses.shape == (3,)
    np.testing.assert_allclose(losses.numpy(), expected, rtol=1e-5)


def test_half_precision_has_nearly_the_same_loss_and_gradient() -> None:
    """bfloat16 has 8 bits, so its products have relative errors of about 1e-3."""
    single, half = sweep().configs, sweep(precision="bfloat16").configs
    batch, params = tensors(system.sample(single, 50)), system.init(single)
    leaves = {n: w.requires_grad_() for n, w in params.items()}
    losses = [system.loss(leaves, batch, configs) for configs in (single, half)]
    assert losses[1].dtype == torch.float32
    assert not torch.equal(*losses)
    assert torch.allclose(*losses, rtol=0.02)
    one, other = (torch.autograd.grad(x.sum(), list(leaves.values())) for x in losses)
    for name, a, b in zip(leaves, one, other, strict=True):
        assert (a - b).norm() <= 0.1 * a.norm() + 1e-4, name


def loss_and_gradients(config: system.Config, step: int) -> Params:
    """`loss` on the batch of a step, and the weights' gradients by name."""
    params = {name: w.requires_grad_() for name, w in system.init([config]).items()}
    loss = system.loss(params, tensors(system.sample([config], step)), [config])
    gradients = torch.autograd.grad(loss.sum(), list(params.values()))
    return {"loss": loss.detach()} | dict(zip(params, gradients, strict=True))


# Torch's tracing warns about torch's own code.
COMPILING = pytest.mark.filterwarnings("ignore")


@COMPILING
@pytest.mark.slow
def test_traced_layers_give_the_same_gradients_at_every_length_of_the_curriculum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Uses torch's tracing without a compiler: one trace for the first length and one for all others."""
    config, traced, compile_ = sweep((100,), points=11).configs[0], [], torch.compile

    def counted(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        traced.append(graph)
        return graph.forward

    monkeypatch.setattr(torch, "compile", lambda function: compile_(function, backend=counted))
    decoder._compiled.cache_clear()
    torch._dynamo.reset()
    steps = range(0, 20, 5)
    assert len({system.points(step, config) for step in steps}) == len(steps)
    counts = []
    for step in steps:
        compiled = loss_and_gradients(replace(config, execution="compiled"), step)
        counts.append(len(traced))
        for name, value in loss_and_gradients(config, step).items():
            torch.testing.assert_close(compiled[name], value, rtol=1e-5, atol=1e-6)
    assert 0 < counts[0] < counts[1] == counts[-1]
    decoder._compiled.cache_clear()
    torch._dynamo.reset()


@COMPILING
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler on a CPU")
def test_compiled_layers_give_the_same_gradients_up_to_rounding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    decoder._compiled.cache_clear()
    torch._dynamo.reset()
    config = sweep((100,)).configs[0]
    compiled = loss_and_gradients(replace(config, execution="compiled"), 0)
    for name, value in loss_and_gradients(config, 0).items():
        torch.testing.assert_close(compiled[name], value, rtol=1e-4, atol=1e-6)


def test_labels_are_linear_and_inputs_standard_normal() -> None:
    configs = sweep(batch=2000, first_dimension=4, first_points=7).configs
    batch = system.sample(configs, 0)
    inputs, labels = batch["inputs"], batch["labels"]
    assert inputs.shape == (3, 2000, 7, 4)
    assert labels.shape == (3, 2000, 7)
    # 168,000 numbers: a standard error of 0.0024 and, for the square, 0.0035.
    assert abs(inputs.mean()) < 0.0125 and abs(inputs.var() - 1) < 0.0175
    solved = np.linalg.solve(inputs[:, :, :4].astype(float), labels[:, :, :4, None].astype(float))
    residual = inputs[:, :, 4:] @ solved - labels[:, :, 4:, None]
    # Some of the systems are nearly singular.
    assert np.median(abs(residual)) < 1e-5
    assert abs((labels**2).mean() - 4) < 0.4


@pytest.mark.parametrize(
    ("step", "dimension", "length"),
    [(0, 5, 11), (1999, 5, 11), (2000, 6, 13), (29_999, 19, 39), (30_000, 20, 41), (499_999, 20, 41)],
)
def test_the_published_curriculum(step: int, dimension: int, length: int) -> None:
    config = system.Config()
    assert (system.dimensions(step, config), system.points(step, config)) == (dimension, length)


@pytest.mark.parametrize("step", [0, 2, 3, 5, 6, 11])
def test_inputs_beyond_the_current_dimension_are_zero(step: int) -> None:
    configs = sweep().configs
    batch = system.sample(configs, step)
    kept, length = 2 + step // 3, 3 + 2 * (step // 3)
    assert batch["inputs"].shape == (3, 6, min(length, 7), 4)
    assert (batch["inputs"][..., kept:] == 0).all()
    assert (batch["inputs"][..., :kept] != 0).all()
    # The labels are linear in the remaining coordinates.
    for inputs, labels in zip(batch["inputs"].reshape(18, -1, 4), batch["labels"].reshape(18, -1), strict=True):
        fit = inputs.astype(float) @ np.linalg.lstsq(inputs.astype(float), labels.astype(float))[0]
        np.testing.assert_allclose(fit, labels, atol=1e-4)


def test_without_a_curriculum_nothing_grows() -> None:
    config = sweep(first_dimension=4, first_points=7).configs[0]
    assert {(system.dimensions(s, config), system.points(s, config)) for s in range(12)} == {(4, 7)}


def test_only_a_small_clip_norm_changes_the_training() -> None:
    """Adam shows a rescaled gradient from the second step on, when its moments mix gradients of two scales."""
    free, loose, tight = (train(sweep(steps=3, clip_norm=norm)) for norm in (0.0, 1e6, 0.1))
    assert np.array_equal(free.losses, loose.losses)
    assert not np.array_equal(free.losses, tight.losses)


@pytest.mark.slow
def test_loss_falls_below_that_of_the_zero_prediction() -> None:
    """That loss is 1 in one dimension; 50 batches of 256 labels give it with an error of 0.02."""
    flat = {"first_dimension": 1, "first_points": 4, "every": 1000}
    losses = train(sweep(steps=400, batch=64, learning_rate=1e-2, clip_norm=1.0, **flat)).losses[:, -50:].mean(axis=1)
    assert (losses < 0.95).all()
    assert losses.min() < 0.6


def test_a_run_alone_equals_the_run_among_others(trained: Runs) -> None:
    alone = train(sweep(seeds=(101,)))
    for name, w in alone.last().items():
        # Attention does not depend on the bias of the keys: its gradient is rounding, which Adam rescales.
        if not name.endswith("keys.bias"):
            # Kernels may differ between one product and several.
            assert torch.allclose(w[0], trained.last()[name][1], rtol=1e-4, atol=1e-5), name
    assert np.allclose(alone.losses[0], trained.losses[1], rtol=1e-5)


def test_a_diverging_neighbour_changes_nothing(trained: Runs) -> None:
    from icl.core.training import start

    state = start(sweep())
    state.params = {name: torch.cat([w[:1] * float("nan"), w[1:]]) for name, w in state.params.items()}
    beside = train(sweep(), state)
    assert np.isnan(beside.losses[0]).all()
    assert np.array_equal(beside.losses[1:], trained.losses[1:])


def test_the_seed_decides_and_global_generators_do_not(trained: Runs) -> None:
    assert len(np.unique(trained.losses[:, 0])) == 3
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    random.seed(5)
    assert np.array_equal(train(sweep()).losses, trained.losses)


@pytest.mark.parametrize("stops", [[1], [3], [4], [2, 6, 11], list(range(1, 12))])
def test_a_stopped_training_resumes_bit_for_bit(trained: Runs, tmp_path: Path, stops: list[int]) -> None:
    """The prompts grow at steps 3 and 6; stops are before, at and after these, and finally after every step."""
    assert_goes_on_bit_for_bit(trained, stops, tmp_path / "state.safetensors")


def test_maps_in_and_out_start_as_linear_layers_of_torch_and_the_rest_as_gpt2() -> None:
    configs = sweep((100,), dimension=20, width=64, heads=4, points=41).configs
    params = system.init(configs)
    for name, bound in (("read_in", 20**-0.5), ("read_in.bias", 20**-0.5), ("read_out", 64**-0.5)):
        assert 0.9 * bound < params[name].abs().max() <= bound
        assert params[name].std().item() == pytest.approx(bound / math.sqrt(3), rel=0.15)
    assert 0 < params["read_out.bias"].abs().item() <= 64**-0.5
    assert params["positions"].shape == (1, 81, 64)
    for name in ("positions", "layer1.queries", "layer2.up"):
        assert params[name].std().item() == pytest.approx(0.02, rel=0.1)
    assert params["layer1.down"].std().item() == pytest.approx(0.02 / math.sqrt(2 * configs[0].layers), rel=0.1)


def test_all_maps_of_the_small_model_start_as_linear_layers_of_torch() -> None:
    torch.manual_seed(0)
    params = system.init(sweep((100,), start="linear", width=64, heads=4).configs)
    maps = [name for name in params if f"{name}.bias" in params]
    assert len(maps) == 2 + 6 * len([name for name in maps if name.endswith(".down")])
    for name in maps:
        theirs = torch.nn.Linear(*params[name].shape[1:]).weight
        largest = theirs.shape[1] ** -0.5
        assert params[name].abs().max() <= largest
        # 64 draws, the fewest of any map, give the standard deviation with an error of a fifth (two sigma).
        assert params[name].std().item() == pytest.approx(theirs.std().item(), rel=0.2), name
        assert 0 < params[f"{name}.bias"].abs().max() <= largest


def test_the_published_model_has_its_published_size() -> None:
    """22.40 million parameters, including GPT-2's unused word embedding, 50,257 x 256, and unused positions."""
    config = trainings.sweep("paper").configs[0]
    ours = sum(w[0].numel() for w in system.init([replace(config, layers=1)]).values())
    layer = 12 * 256**2 + 13 * 256
    unused = 50_257 * 256 + (202 - 81) * 256
    assert ours + 11 * layer + unused == pytest.approx(22.40e6, abs=5e3)


def test_runs_that_train_together_share_all_but_seed_and_learning_rate() -> None:
    first = sweep((100,)).configs[0]
    system.init([first, replace(first, seed=101, learning_rate=1e-4)])
    with pytest.raises(ConstantError, match="seed and learning rate only"):
        system.init([first, replace(first, width=32)])


def test_invalid_constants_are_refused() -> None:
    for name, value in {
        "heads": 3,
        "start": "zero",
        "execution": "fast",
        "first_dimension": 21,
        "first_points": 42,
        "precision": "half",
    }.items():
        with pytest.raises(ConstantError, match=name):
            system.Config(**{name: value})
