"""Training with captured steps, run on a CPU without graphs: batches, padded prompts, Adam, speed."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from torch.utils.flop_counter import FlopCounterMode

from icl.core.config import ConstantError, grid
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.training import train
from icl.models.optimisers import Params, adam
from icl.papers.garg2022 import captured, trainings
from icl.papers.garg2022 import gpt2 as system
from icl.pipeline.plan import Plan, check_config, check_reach
from tests.stopped import assert_goes_on_bit_for_bit

SMALL = {"dimension": 4, "points": 7, "layers": 2, "heads": 2, "width": 16, "batch": 6, "steps": 12, "every": 3,
         "first_dimension": 2, "first_points": 3, "learning_rate": 3e-3, "execution": "graph"}  # fmt: skip


def sweep(seeds: tuple[int, ...] = (100, 101, 102), **values: Any) -> Sweep:
    constants = {**SMALL, **values}
    configs = grid(system.Config, seed=seeds, **{name: [value] for name, value in constants.items()})
    return Sweep("test", system.SYSTEM, configs, (constants["steps"],), system.Test(prompts=20))


def batch(step: int, seeds: tuple[int, ...] = (100, 101, 102), **values: Any) -> Params:
    drawn = system.sample(sweep(seeds, **values).configs, step)
    return {name: torch.from_numpy(a) for name, a in drawn.items()}


def prompts(step: int, seeds: tuple[int, ...] = (100, 101, 102), size: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    arrays = batch(step, seeds)
    return captured.prompts(arrays["keys"], arrays["kept"], size, 7)


# Batches


def test_words_are_those_of_splitmix64() -> None:
    """Compared with the published algorithm in Python integers; its first output from state 0 is well known."""

    def published(state: int, count: int) -> list[int]:
        outputs = []
        for _ in range(count):
            state = (state + 0x9E3779B97F4A7C15) % 2**64
            z = state
            z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
            z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
            outputs.append(z ^ (z >> 31))
        return outputs

    assert published(0, 1) == [0xE220A8397B1DCDAF]
    keys = np.array([0, 1, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)
    ours = captured.random_words(torch.from_numpy(keys.view(np.int64)), 1000).numpy().view(np.uint64)
    assert ours.tolist() == [published(int(key), 1000) for key in keys]


def test_numbers_are_standard_normal_and_independent() -> None:
    """Moments of a million numbers are within five standard errors; x^k has the variance E x^2k - (E x^k)^2."""
    keys = torch.from_numpy(captured.addresses(system.SYSTEM, range(100, 110), 0))
    x = captured.normal(keys, 100_001).double()
    assert x.shape == (10, 100_001)
    for power, mean, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs((x**power).mean().item() - mean) < 5 * (variance / x.numel()) ** 0.5, power
    # Between seeds, between neighbours, and between the two numbers of a word.
    for a, b in ((x[:5], x[5:]), (x[:, 1:], x[:, :-1]), (x[:, :50_000], x[:, 50_001:])):
        for f in (lambda y: y, lambda y: y**2 - 1):
            product = f(a) * f(b)
            assert abs(product.mean() / product.std()).item() < 5 / product.numel() ** 0.5
    # float32 could cut the tail: 6.3e-5 of all numbers are beyond 4.
    assert (abs(x) > 4).double().mean().item() == pytest.approx(6.33e-5, abs=5 * (6.33e-5 / x.numel()) ** 0.5)


def test_a_batch_is_a_function_of_seed_and_step() -> None:
    inputs, labels = prompts(11)
    for run, seed in enumerate((100, 101, 102)):
        alone = prompts(11, (seed,))
        assert torch.equal(alone[0][0], inputs[run]) and torch.equal(alone[1][0], labels[run])
    assert torch.equal(prompts(11)[0], inputs)
    firsts = torch.cat([prompts(step)[0][..., 0, 0].flatten() for step in range(12)])
    assert len(firsts.unique()) == len(firsts)


def test_labels_are_linear_and_unused_coordinates_are_zero() -> None:
    for step, kept in ((0, 2), (3, 3), (11, 4)):
        inputs, labels = (part.double().flatten(0, 1) for part in prompts(step))
        assert (inputs[..., kept:] == 0).all() and (inputs[..., :kept] != 0).all()
        weights = torch.linalg.pinv(inputs) @ labels[..., None]
        torch.testing.assert_close((inputs @ weights)[..., 0], labels, rtol=0, atol=1e-5)
    assert prompts(11, size=3000)[1].square().mean().item() == pytest.approx(4, rel=0.05)


# Steps


def loss_and_gradients(params: Params, arrays: Params, configs: Sequence[system.Config]) -> Params:
    """`loss`, and the weights' gradients by name."""
    leaves = {n: w.detach().requires_grad_() for n, w in params.items()}
    losses = system.loss(leaves, arrays, configs)
    gradients = torch.autograd.grad(losses.sum(), list(leaves.values()))
    return {"loss": losses.detach()} | dict(zip(leaves, gradients, strict=True))


@pytest.mark.parametrize("step", [0, 3, 6, 11])
def test_padded_and_short_prompts_have_the_same_loss_and_gradient(step: int) -> None:
    """The eager path computes the short ones, with the curriculum's number of points at that step."""
    configs = sweep().configs
    inputs, labels = prompts(step)
    length = system.points(step, configs[0])
    short = {"inputs": inputs[:, :, :length], "labels": labels[:, :, :length]}
    params = system.init(configs)
    expected = loss_and_gradients(params, short, sweep(execution="eager").configs)
    padded = loss_and_gradients(params, batch(step), configs)
    for name, value in expected.items():
        torch.testing.assert_close(padded[name], value, rtol=1e-4, atol=1e-6, msg=name)
    if step < 6:
        assert (padded["positions"][:, 2 * length - 1 :] == 0).all()


def test_half_precision_is_close_to_single() -> None:
    params = system.init(sweep().configs)
    single, half = (
        loss_and_gradients(params, batch(11), sweep(precision=precision).configs)
        for precision in ("float32", "bfloat16")
    )
    assert half["loss"].dtype == torch.float32
    assert not torch.equal(single["loss"], half["loss"])
    torch.testing.assert_close(half["loss"], single["loss"], rtol=0.02, atol=0)
    for name, value in single.items():
        assert half[name].dtype == torch.float32
        assert (half[name] - value).norm() <= 0.1 * value.norm() + 1e-3, name


@pytest.mark.parametrize("clip_norm", [0.0, 0.1])
def test_training_equals_that_of_the_eager_form_on_the_same_prompts(
    clip_norm: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, drawn = train(sweep(clip_norm=clip_norm)), [prompts(step) for step in range(12)]

    def sample(configs: Any, step: int) -> dict[str, np.ndarray]:
        inputs, labels = drawn[step]
        length = system.points(step, configs[0])
        return {"inputs": inputs[:, :, :length].numpy(), "labels": labels[:, :, :length].numpy()}

    monkeypatch.setattr(system, "sample", sample)
    expected = train(sweep(clip_norm=clip_norm, execution="eager"))
    np.testing.assert_allclose(ours.losses, expected.losses, rtol=1e-4)


def test_the_fused_adam_equals_adam() -> None:
    generator = torch.Generator().manual_seed(1)
    params = {name: torch.randn(shape, generator=generator) for name, shape in (("a", (2, 3)), ("b", (2, 4, 5)))}
    plain, fused = adam(1e-2, lambda step: 0.9**step), captured.fused_adam(1e-2, lambda step: 0.9**step)
    expected, ours = dict(params), {name: w.clone() for name, w in params.items()}
    states = [plain.init(params), fused.init(params)]
    assert states[0].keys() == states[1].keys()
    for step in range(20):
        gradients = {name: torch.randn(w.shape, generator=generator) for name, w in params.items()}
        expected, states[0] = plain.update(expected, gradients, states[0], step)
        ours, states[1] = fused.update(ours, gradients, states[1], step)
    for name in params:
        torch.testing.assert_close(ours[name], expected[name], rtol=1e-5, atol=1e-6)


@pytest.fixture(scope="module")
def trained() -> Runs:
    return train(sweep())


@pytest.mark.parametrize("stops", [[1], [3], [2, 6, 11], list(range(1, 12))])
def test_a_stopped_training_resumes_bit_for_bit(trained: Runs, tmp_path: Path, stops: list[int]) -> None:
    assert_goes_on_bit_for_bit(trained, stops, tmp_path / "state.safetensors")


def test_a_run_alone_equals_the_run_among_others(trained: Runs) -> None:
    alone = train(sweep(seeds=(101,)))
    np.testing.assert_allclose(alone.losses[0], trained.losses[1], rtol=1e-5)


def test_device_prompts_differ_from_host_prompts(trained: Runs) -> None:
    assert not np.isclose(train(sweep(execution="eager")).losses[:, 0], trained.losses[:, 0]).any()


def test_runs_with_different_learning_rates_are_refused() -> None:
    first = sweep((100,)).configs[0]
    with pytest.raises(ConstantError, match=r"execution.*eager or compiled for runs with different learning rates"):
        system.optimiser([first, replace(first, learning_rate=1e-4)])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="a CUDA graph needs a GPU")
def test_a_graph_gives_the_losses_of_the_plain_step(monkeypatch: pytest.MonkeyPatch) -> None:
    replayed = train(sweep(), device="cuda")
    system._repeated.cache_clear()
    monkeypatch.setattr(captured, "captured", lambda function: function)
    expected = train(sweep(), device="cuda")
    system._repeated.cache_clear()
    np.testing.assert_allclose(replayed.losses, expected.losses, rtol=1e-4)


# Commands


@pytest.mark.parametrize(
    ("name", "folder", "dimension", "runs"),
    [("one_gpu", "paper@one_gpu", 20, 10), ("desktop", "laptop@desktop", 10, 5)],
)
def test_the_config_files_plan_one_training_of_the_paper(name: str, folder: str, dimension: int, runs: int) -> None:
    files = [yaml.safe_load(Path(f"workflow/{file}.yaml").read_text()) for file in ("config", name)]
    check_config(files[0] | files[1], Path("workflow/config.schema.yaml"))
    plan = Plan.of(files[0] | files[1])
    assert (plan.folder, plan.sweep("garg").configs[0].dimension) == (folder, dimension)
    assert len(plan.shard_names("garg")) == len(plan.sweep("garg").configs) == runs
    check_reach(plan, ["garg_linear", "garg_function", "garg_shifts", "garg_scaling", "garg_against_theory"])
    with pytest.raises(ConstantError, match=r"constant garg_gpt2.* changes nothing in figure12"):
        check_reach(plan, ["figure12"])


# Speed


@pytest.mark.parametrize("values", [{}, {"layers": 1, "heads": 1}, {"layers": 3, "heads": 4, "width": 8}])
def test_operations_equal_those_that_torch_counts(values: dict[str, int]) -> None:
    """Torch also counts the LayerNorm biases folded into the next maps, one row each with both gradients."""
    configs = sweep(execution="eager", **{"first_dimension": 4, "first_points": 5, "points": 5, **values}).configs
    config, arrays = configs[0], system.sample(configs, 0)
    assert arrays["inputs"].shape[2] == config.points
    with FlopCounterMode(display=False) as counter:
        loss_and_gradients(system.init(configs), {n: torch.from_numpy(a) for n, a in arrays.items()}, configs)
    w = config.width
    folded = 3 * 2 * len(configs) * (config.layers * (3 * w * w + 4 * w * w) + w)
    assert counter.get_total_flops() - folded == captured.operations(system.products(config, len(configs)))


def test_the_operations_of_the_published_training() -> None:
    """Six operations per weight and token plus attention: 0.30 TFLOP per step, 1.5e17 in all 500,000 steps."""
    config = trainings.sweep("paper").configs[0]
    count = captured.operations(system.products(config, 1))
    maps = 6 * 64 * 81 * 12 * 12 * 256**2
    attention = 6 * 64 * 12 * 2 * 81 * 81 * 256
    # In the last layer only 41 of 81 tokens have queries.
    assert 0.94 * (maps + attention) < count < maps + attention
    assert count * config.steps == pytest.approx(1.5e17, rel=0.1)


def test_the_meter_prints_steps_per_second_and_the_share_of_a_known_peak(capsys: pytest.CaptureFixture[str]) -> None:
    meter = captured.Meter(10**11, "NVIDIA H200", seconds=0.0)
    assert meter.line(400) == "NVIDIA H200: 400.0 steps/s, 40 TFLOP/s, 4.0% of the peak"
    assert captured.Meter(10**11, "cpu").line(0.5) == "cpu: 0.5 steps/s, 0.05 TFLOP/s"
    meter()
    assert "steps/s" in capsys.readouterr().out and meter.steps == 0
    waiting = captured.Meter(1, "cpu", seconds=1e9)
    waiting()
    assert waiting.steps == 1 and capsys.readouterr().out == ""
