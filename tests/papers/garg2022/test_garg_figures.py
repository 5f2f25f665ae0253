"""Figures of Garg et al.: closed forms, distribution shifts, the function along a line."""

import dataclasses
from functools import cache

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from icl.core.runs import Runs
from icl.core.table import Table
from icl.models import linear_attention_theory as theory
from icl.papers.garg2022 import decoder, garg_errors, garg_function, gpt2, panels, shifts
from icl.papers.garg2022.evaluation import BATCHES, ERROR, judged, means, squared_errors, sweeps
from icl.pipeline import figures
from tests.rounding import chained, rounding

SEEDS, PROMPTS, D = 2, 2000, 5
SHIFTS = {"clean": shifts.clean, **shifts.SHIFTS}


@cache
def runs(prompts: int = PROMPTS) -> Runs:
    """Untrained runs; only their prompts and baselines matter."""
    (sweep,) = sweeps("laptop")
    few = dataclasses.replace(sweep, configs=sweep.configs[:SEEDS], test=gpt2.Evaluation(prompts))
    weights = {name: w[:, None] for name, w in gpt2.init(few.configs).items()}
    return Runs(few, weights, np.zeros((SEEDS, sweep.snapshots[-1])))


@cache
def asked(panel: str) -> shifts.Questions:
    return shifts.questions(runs(), panel, SHIFTS[panel])


@cache
def table(name: str, prompts: int = 20) -> Table:
    return figures.measure(name, {"garg": runs(prompts)}, "laptop")


@pytest.mark.parametrize("panel", ["noisy", "match", "orthants", "skewed", "scaled"])
def test_the_layers_error_on_prompts_matches_its_closed_form(panel: str) -> None:
    """Within 5 standard errors, at a few numbers of examples."""
    matrix = theory.preconditioner(np.eye(D), 2 * D)
    shift = SHIFTS.get(panel, shifts.scaled_inputs(2.0))
    shifted = shifts.questions(runs(), panel, shift)
    series = "2, theory" if panel == "scaled" else garg_errors.LAYER
    expected = table("garg_against_theory").curve(panel, series, ERROR).set_index("x")["value"]
    for k in (2, 5, 10):
        moment = np.einsum("rpk,rpkd->rpd", shifted.labels[:, :, :k], shifted.inputs[:, :, :k]) / k
        answers = np.einsum("rpd,de,rpe->rp", shifted.queries[:, :, k], matrix, moment)
        squares = (answers - shifted.answers[:, :, k]) ** 2 / shifted.unit
        error = squares.std() / np.sqrt(squares.size)
        assert abs(squares.mean() - expected.loc[k / D]) < 5 * error, k


@pytest.mark.parametrize("panel", SHIFTS)
def test_the_prediction_zero_has_the_error_one_under_every_shift(panel: str) -> None:
    """Within 5 standard errors of 4000 prompts."""
    squares = (asked(panel).answers ** 2 / asked(panel).unit)[:, :, 1:]
    error = squares.std(axis=(0, 1)) / np.sqrt(SEEDS * PROMPTS)
    assert np.all(np.abs(squares.mean(axis=(0, 1)) - 1) < 5 * error)


def test_shifted_prompts_have_their_defining_property() -> None:
    match, orthogonal, flat = map(asked, ("match", "orthogonal", "subspace"))
    for k in (1, 4, 10):
        distance = np.linalg.norm(match.inputs[:, :, :k] - match.queries[:, :, k : k + 1], axis=-1)
        assert np.all(distance.min(axis=-1) == 0)
    assert np.unique(distance.argmin(axis=-1)).tolist() == list(range(10))
    for k in (1, 4):
        examples, query = orthogonal.inputs[:, :, :k], orthogonal.queries[:, :, k]
        assert np.abs(np.einsum("rpkd,rpd->rpk", examples, query)).max() < 1e-10
    assert np.linalg.matrix_rank(flat.inputs[0].reshape(-1, D), tol=1e-8) == 2
    signs = np.sign(asked("orthants").inputs[:, :, :-1])
    assert np.all(signs == signs[:, :, :1])
    assert len(np.unique(signs[:, :, 0].reshape(-1, D), axis=0)) == 2**D


def test_every_label_has_noise_of_variance_one() -> None:
    noise = asked("noisy").labels * np.sqrt((D + 1) / D) - asked("clean").labels
    # The standard error of a variance from 4000 draws is 0.022.
    assert_allclose(noise.var(axis=(0, 1)), 1, atol=0.12)


@pytest.mark.parametrize(
    ("shift", "inputs"), [(shifts.scaled_inputs(3.0), 3.0), (shifts.scaled_weights(3.0), 1.0)]
)
def test_scaled_prompts_are_multiples_of_the_clean_ones(shift: shifts.Shift, inputs: float) -> None:
    clean = asked("clean")
    scaled = shifts.questions(runs(), "scaled", shift)
    assert_allclose(scaled.inputs, inputs * clean.inputs)
    assert_allclose(scaled.labels, 3 * clean.labels)
    name = "3-Nearest Neighbors"
    ours, plain = (squared_errors(runs(), part, [name])[name] for part in (scaled, clean))
    assert_allclose(ours, plain)


def test_the_projected_truth_is_the_projection_on_the_inputs() -> None:
    prompts, directions, projected = garg_function.lines(runs(50))
    half = prompts.inputs[:, : D // 2]
    # w - w_projected is orthogonal to the inputs, and w_projected is in their span.
    assert np.abs(np.einsum("pkd,pd->pk", half, prompts.weights - projected)).max() < 1e-9
    for x, w in zip(half, projected, strict=True):
        assert np.linalg.matrix_rank(np.vstack([x, w]), tol=1e-8) == D // 2
    assert_allclose(np.linalg.norm(directions, axis=-1), 1)


def test_a_panel_shows_a_prompt_of_nearly_the_published_slopes_and_the_answers_to_it() -> None:
    measured = table("garg_function", 1280)
    trained = runs(1280)
    (inputs, labels, weights), directions, _ = garg_function.lines(trained)
    for panel, published in garg_function.SLOPES.items():
        slopes = []
        for series in (garg_function.TRUTH, garg_function.PROJECTED):
            line = measured.curve(panel, series, garg_function.VALUE)
            x = line["x"].to_numpy()
            slopes.append(line["value"].iloc[-1] / x[-1])
            assert_allclose(line["value"], slopes[-1] * x)
        assert slopes == pytest.approx(published, abs=0.15)
        prompt = [np.argmin(abs(np.sum(directions * weights, axis=-1) - slopes[0]))]
        examples = inputs[None, prompt, : 2 * D], labels[None, prompt, : 2 * D]
        queries = directions[prompt, None] * x[:, None]
        heads = trained.sweep.configs[0].heads
        answers = decoder.predict_queries(trained.last(), *examples, queries[None], heads=heads)
        expected = answers[:, 0]
        ours = measured.points(panel, garg_function.TWICE, garg_function.VALUE)["value"]
        tolerance = rounding(torch.float32, chained(trained.last())) * abs(expected).max()
        assert_allclose(ours.to_numpy().reshape(expected.shape), expected, rtol=0, atol=tolerance)


def test_the_axis_counts_examples_and_dimensions() -> None:
    names = panels.examples_axis(5, (0, 0.25, 0.5, 1, 1.5, 2), (-1, 41.1)).names
    assert names == ["0\n", "\n$d/4$", "\n$d/2$", "5\n$d$", "\n$3d/2$", "10\n$2d$"]
    assert panels.examples_axis(20, (0, 0.5, 2), (-1, 41.1)).names == ["0", "10", "40"]


def test_batches_of_one_training_judge_the_published_dimension() -> None:
    """A mean has its batches' means as pseudo-values; a maximum its estimate, less its bias."""
    few = runs(20 * BATCHES)
    first, second = few.sweep.configs
    configs = dataclasses.replace(first, dimension=20), second
    wide = dataclasses.replace(few, sweep=dataclasses.replace(few.sweep, configs=configs))
    errors = np.random.default_rng(0).exponential(size=(SEEDS, 20 * BATCHES, 3)) * [1, 2, 3]
    found = means(wide, errors)
    assert found.shape == (BATCHES + 1, 3)
    rows = judged(wide, {"last": found[:, -1], "largest": found.max(axis=1)})
    values = rows.groupby("observable")["value"].apply(np.array)
    batches = errors[0, :, -1].reshape(BATCHES, -1).mean(axis=1)
    assert_allclose(values["last"], batches)
    assert_allclose(values["largest"], batches)
    assert judged(few, {"last": np.zeros(SEEDS)})["seed"].tolist() == few.sweep.seeds
