"""Training with captured steps, run on a CPU without graphs: batches, padded prompts, Adam, speed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from torch.utils.flop_counter import FlopCounterMode

from icl.core.config import ConstantError
from icl.core.training import train
from icl.papers.garg2022 import captured
from icl.papers.garg2022 import gpt2 as system
from icl.pipeline.plan import Plan, check_config, check_reach
from tests.papers.garg2022.test_garg_gpt2 import loss_and_gradients, sweep, tensors
from tests.rounding import chained, rounding

GRAPH = sweep(execution="graph")


def prompts(step: int, seeds: tuple[int, ...] = (100, 101, 102), size: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    batch = tensors(system.sample(sweep(seeds, execution="graph").configs, step))
    return captured.prompts(batch["keys"], batch["kept"], size, 7)


def test_words_are_those_of_splitmix64() -> None:
    """Compared with the published algorithm in Python integers; its first output from state 0 is well known."""

    def published(state: int, count: int) -> list[int]:
        outputs = []
        for _ in range(count):
            z = state = (state + 0x9E3779B97F4A7C15) % 2**64
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
    keys = tensors(system.sample(sweep(tuple(range(100, 110)), execution="graph").configs, 0))["keys"]
    x = captured.normal(keys, 100_001).double()
    for power, mean, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs((x**power).mean().item() - mean) < 5 * (variance / x.numel()) ** 0.5, power
    # Between seeds, between neighbours, and between the two numbers of a word.
    for a, b in ((x[:5], x[5:]), (x[:, 1:], x[:, :-1]), (x[:, :50_000], x[:, 50_001:])):
        for product in (a * b, (a**2 - 1) * (b**2 - 1)):
            assert abs(product.mean() / product.std()).item() < 5 / product.numel() ** 0.5
    # float32 could cut the tail: 6.3e-5 of all numbers are beyond 4.
    assert (abs(x) > 4).double().mean().item() == pytest.approx(6.33e-5, abs=5 * (6.33e-5 / x.numel()) ** 0.5)


def test_a_batch_is_a_function_of_seed_and_step() -> None:
    for run, seed in enumerate((100, 101, 102)):
        assert torch.equal(prompts(11, (seed,))[0][0], prompts(11)[0][run])
    firsts = torch.cat([prompts(step)[0][..., 0, 0].flatten() for step in range(12)])
    assert len(firsts.unique()) == len(firsts)


@pytest.mark.parametrize(("step", "kept", "points"), [(0, 2, 3), (3, 3, 5), (6, 4, 7), (11, 4, 7)])
def test_labels_are_linear_and_unused_coordinates_are_zero(step: int, kept: int, points: int) -> None:
    """Of batches from the device, which always have seven points, and from the host."""
    eager = tensors(system.sample(sweep().configs, step))
    assert eager["inputs"].shape == (3, 6, points, 4)
    for inputs, labels in (prompts(step), (eager["inputs"], eager["labels"])):
        assert (inputs[..., kept:] == 0).all() and (inputs[..., :kept] != 0).all()
        x, y = inputs.double(), labels.double()
        atol = rounding(inputs.dtype, kept * points) * float(y.abs().max())
        torch.testing.assert_close((x @ (torch.linalg.pinv(x) @ y[..., None]))[..., 0], y, rtol=0, atol=atol)
    assert prompts(step, size=3000)[1].square().mean().item() == pytest.approx(kept, rel=0.05)


def test_half_precision_is_close_to_single() -> None:
    """bfloat16 has 8 bits, so its products have relative errors of about 1e-3; weights and loss stay in float32."""
    params, batch = system.init(GRAPH.configs), tensors(system.sample(GRAPH.configs, 11))
    single = loss_and_gradients(params, batch, GRAPH)
    half = loss_and_gradients(params, batch, sweep(execution="graph", precision="bfloat16"))
    assert not torch.equal(single["loss"], half["loss"])
    torch.testing.assert_close(half["loss"], single["loss"], rtol=0.02, atol=0)
    for name, value in single.items():
        assert half[name].dtype == torch.float32
        assert (half[name] - value).norm() <= 0.1 * value.norm() + 1e-3, name


@pytest.mark.parametrize("clip_norm", [0.0, 0.1])
def test_training_equals_the_eager_one_on_the_same_prompts(clip_norm: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Padded prompts against those with the curriculum's number of points, and torch's fused Adam against ours."""
    ours = train(sweep(execution="graph", clip_norm=clip_norm))

    def sample(configs: Any, step: int) -> dict[str, np.ndarray]:
        points = system.curriculum(step, configs[0])[1]
        return {n: part[:, :, :points].numpy() for n, part in zip(("inputs", "labels"), drawn[step], strict=True)}

    drawn = [prompts(step) for step in range(12)]
    monkeypatch.setattr(system, "sample", sample)
    expected = train(sweep(clip_norm=clip_norm))
    tolerance = rounding(torch.float32, len(drawn) * chained(expected.last()))
    np.testing.assert_allclose(ours.losses, expected.losses, rtol=tolerance)
    for name, w in expected.weights.items():
        # Attention does not depend on the bias of the keys: its gradient is rounding, which Adam rescales.
        # It may turn any other gradient's rounding into a share of a step too.
        atol = tolerance * (float(w.abs().max()) + len(drawn) * 3e-3)
        assert name.endswith("keys.bias") or torch.allclose(ours.weights[name], w, rtol=0, atol=atol), name


@pytest.mark.skipif(not torch.cuda.is_available(), reason="a CUDA graph needs a GPU")
def test_a_graph_gives_the_losses_of_the_plain_step(monkeypatch: pytest.MonkeyPatch) -> None:
    replayed = train(GRAPH, device="cuda")
    system._captured_loss.cache_clear()
    monkeypatch.setattr(captured, "captured", lambda function: function)
    np.testing.assert_allclose(replayed.losses, train(GRAPH, device="cuda").losses, rtol=1e-4)
    system._captured_loss.cache_clear()


@pytest.mark.parametrize(
    ("name", "folder", "dimension", "runs"),
    [("one_gpu", "paper@one_gpu", 20, 10), ("desktop", "laptop@desktop", 10, 5)],
)
def test_the_config_files_plan_one_training_of_the_paper(name: str, folder: str, dimension: int, runs: int) -> None:
    files = [yaml.safe_load(Path(f"workflow/{file}.yaml").read_text()) for file in ("config", name)]
    check_config(files[0] | files[1], Path("workflow/config.schema.yaml"))
    plan = Plan.of(files[0] | files[1])
    assert (plan.folder, plan.sweep("garg").configs[0].dimension) == (folder, dimension)
    assert len(plan.shard_names(plan.sweep("garg"))) == len(plan.sweep("garg").configs) == runs
    with pytest.raises(ConstantError, match=r"constant garg_gpt2.* changes nothing in figure12"):
        check_reach(plan, ["figure12"])


@pytest.mark.parametrize("values", [{}, {"layers": 1, "heads": 1}, {"layers": 3, "heads": 4, "width": 8}])
def test_operations_equal_those_that_torch_counts(values: dict[str, Any]) -> None:
    """Torch also counts the LayerNorm biases folded into the next maps, one row each with both gradients."""
    whole = sweep(**{"first_dimension": 4, "first_points": 5, "points": 5, **values})
    config, runs, batch = whole.configs[0], len(whole.configs), tensors(system.sample(whole.configs, 0))
    with FlopCounterMode(display=False) as counter:
        loss_and_gradients(system.init(whole.configs), batch, whole)
    w = config.width
    folded = 3 * 2 * runs * (config.layers * (3 * w * w + 4 * w * w) + w)
    assert counter.get_total_flops() - folded == captured.operations(config, runs)


def test_the_meter_prints_steps_per_second_and_the_share_of_a_known_peak(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(captured.time, "monotonic", lambda: 60.0)
    meter = captured.Meter(10**11, "NVIDIA H200", since=0.0, steps=23_999)
    meter()
    assert capsys.readouterr().out == "NVIDIA H200: 400.0 steps/s, 40 TFLOP/s, 4.0% of the peak\n" and meter.steps == 0
