"""Figures of Garg et al.: closed forms, distribution shifts, and the published layout."""

import dataclasses
from functools import cache

import numpy as np
import pandas as pd
import pytest

from icl.core import discovery
from icl.core.runs import Runs
from icl.drawing import plotting
from icl.evidence import published_curves
from icl.models import linear_attention_theory as theory
from icl.papers.garg2022 import (
    decoder,
    error_panels,
    errors,
    garg_against_theory,
    garg_function,
    garg_scaling,
    garg_shifts,
    gpt2,
    shifts,
    trainings,
)
from icl.pipeline import figures

SEEDS, PROMPTS = 2, 2000
D = 5
SHIFTS = {"clean": shifts.clean, **garg_shifts.SHIFTS}


@cache
def runs(prompts: int = PROMPTS) -> Runs:
    """Untrained runs; only their prompts and baselines matter."""
    sweep = trainings.sweep("laptop")
    few = dataclasses.replace(
        sweep, configs=sweep.configs[:SEEDS], test=dataclasses.replace(sweep.test, prompts=prompts)
    )
    weights = {name: w[:, None] for name, w in gpt2.init(few.configs).items()}
    return Runs(few, weights, np.zeros((SEEDS, sweep.snapshots[-1])))


@cache
def shifted_prompts(panel: str) -> shifts.Questions:
    return shifts.questions(runs(), panel, SHIFTS[panel])


@cache
def table(name: str, prompts: int = 20) -> pd.DataFrame:
    return figures.measure(name, {"garg": runs(prompts)}, "laptop")


def test_the_layers_error_on_prompts_matches_its_closed_form() -> None:
    """Within 5 standard errors for every shift of garg_against_theory, at a few numbers of examples."""
    drawn = table("garg_against_theory")
    matrix = theory.preconditioner(np.eye(D), 2 * D)
    for panel in ("noisy", "match", "orthants", "skewed", "scaled"):
        shift = garg_shifts.SHIFTS.get(panel, shifts.scaled_inputs(2.0))
        shifted = shifts.questions(runs(), panel, shift)
        series = "2, theory" if panel == "scaled" else garg_against_theory.LAYER
        expected = plotting.summary(drawn, panel, series, errors.ERROR).set_index("x")["value"]
        for k in (2, 5, 10):
            moment = np.einsum("rpk,rpkd->rpd", shifted.labels[:, :, :k], shifted.inputs[:, :, :k]) / k
            answers = np.einsum("rpd,de,rpe->rp", shifted.queries[:, :, k], matrix, moment)
            squares = (answers - shifted.answers[:, :, k]) ** 2 / shifted.unit
            error = squares.std() / np.sqrt(squares.size)
            assert abs(squares.mean() - expected.loc[k / D]) < 5 * error, (panel, k)


# Prompts


@pytest.mark.parametrize("panel", SHIFTS)
def test_prompts_differ_between_seeds_and_are_reproducible(panel: str) -> None:
    first = shifted_prompts(panel)
    again = shifts.questions(runs(), panel, SHIFTS[panel])
    for array, repeated in zip(first[:4], again[:4], strict=True):
        np.testing.assert_array_equal(array, repeated)
        assert not np.array_equal(array[0], array[1])
    count = D if panel == "orthogonal" else 2 * D + 1
    assert first.answers.shape == first.labels.shape == first.queries.shape[:-1] == (SEEDS, PROMPTS, count)


@pytest.mark.parametrize("panel", SHIFTS)
def test_the_prediction_zero_has_the_error_one_under_every_shift(panel: str) -> None:
    """Within 5 standard errors of 4000 prompts."""
    shifted = shifted_prompts(panel)
    squares = (shifted.answers**2 / shifted.unit)[:, :, 1:]
    error = squares.std(axis=(0, 1)) / np.sqrt(SEEDS * PROMPTS)
    assert np.all(np.abs(squares.mean(axis=(0, 1)) - 1) < 5 * error)


def test_shifted_prompts_have_their_defining_property() -> None:
    match, orthogonal, orthants, flat = map(shifted_prompts, ("match", "orthogonal", "orthants", "subspace"))
    for k in (1, 4, 10):
        distance = np.linalg.norm(match.inputs[:, :, :k] - match.queries[:, :, k : k + 1], axis=-1)
        assert np.all(distance.min(axis=-1) == 0)
    assert np.unique(distance.argmin(axis=-1)).tolist() == list(range(10))
    for k in (1, 4):
        products = np.einsum("rpkd,rpd->rpk", orthogonal.inputs[:, :, :k], orthogonal.queries[:, :, k])
        assert np.abs(products).max() < 1e-10
    signs = np.sign(orthants.inputs[:, :, :10])
    assert np.all(signs == signs[:, :, :1])
    assert 0.45 < np.mean(np.sign(orthants.queries) == signs[:, :, :1]) < 0.55
    assert np.linalg.matrix_rank(flat.inputs[0].reshape(-1, D), tol=1e-8) == 2
    assert not match.is_plain and flat.is_plain


def test_noise_is_on_every_label_and_the_answers_are_the_labels() -> None:
    noisy, clean = shifted_prompts("noisy"), shifted_prompts("clean")
    added = noisy.labels * np.sqrt((D + 1) / D) - clean.labels
    # The standard error of a variance from 4000 draws is 0.022.
    np.testing.assert_allclose(added.var(axis=(0, 1)), 1, atol=0.12)
    np.testing.assert_array_equal(noisy.labels, noisy.answers)
    np.testing.assert_array_equal(noisy.inputs, clean.inputs)


def test_the_skewed_covariance_falls_as_one_over_i_squared() -> None:
    inputs = shifted_prompts("skewed").inputs[0].reshape(-1, D)
    values = np.sort(np.linalg.eigvalsh(inputs.T @ inputs / len(inputs)))[::-1]
    np.testing.assert_allclose(values / values[0], 1 / np.arange(1, D + 1) ** 2, rtol=0.1)


def test_scaled_prompts_are_multiples_of_the_clean_ones() -> None:
    clean = shifted_prompts("clean")
    for shift, inputs in ((shifts.scaled_inputs(3.0), 3.0), (shifts.scaled_weights(3.0), 1.0)):
        scaled = shifts.questions(runs(), "scaled", shift)
        np.testing.assert_allclose(scaled.inputs, inputs * clean.inputs)
        np.testing.assert_allclose(scaled.labels, 3 * clean.labels)
        ours, plain = (errors.baseline_errors(part, ["Least Squares"])["Least Squares"] for part in (scaled, clean))
        assert ours.mean() == pytest.approx(plain.mean())


# The function along a line


def test_the_projected_truth_is_the_projection_on_the_inputs() -> None:
    lines = garg_function.lines(runs(50))
    half = lines.inputs[:, : D // 2]
    # w - w_projected is orthogonal to the inputs, and w_projected is in their span.
    assert np.abs(np.einsum("pkd,pd->pk", half, lines.weights - lines.projected)).max() < 1e-9
    for x, w in zip(half, lines.projected, strict=True):
        assert np.linalg.matrix_rank(np.vstack([x, w]), tol=1e-8) == D // 2
    np.testing.assert_allclose(np.linalg.norm(lines.directions, axis=-1), 1)


def test_the_drawn_prompts_have_slopes_near_the_published_ones() -> None:
    drawn = table("garg_function", 1280)
    for panel, wanted in garg_function.SLOPES.items():
        for series, slope in zip((garg_function.TRUTH, garg_function.PROJECTED), wanted, strict=True):
            line = plotting.summary(drawn, panel, series, garg_function.VALUE)
            rise = line["value"].iloc[-1] / line["x"].iloc[-1]
            assert rise == pytest.approx(slope, abs=0.15)
            np.testing.assert_allclose(line["value"], rise * line["x"], atol=1e-12)


# The picture

LAYOUT = {
    "garg_linear": {"main": ((-0.1, 1.25), 7, True)},
    "garg_shifts": {name: ((-0.1, 1.5), 7, name in ("skewed", "orthogonal")) for name in garg_shifts.TITLES},
    "garg_scaling": {"x": ((-0.1, 1.1), 6, True), "w": ((-0.1, 1.1), 6, False)},
}
"""Limits of y, its number of ticks, and whether its label is shown, as published."""


@pytest.mark.parametrize("name", LAYOUT)
def test_the_layout_is_the_published_one(name: str) -> None:
    panels = {axes.get_label(): axes for axes in discovery.figure(name).draw(table(name)).axes}
    assert set(panels) == set(LAYOUT[name])
    for panel, (limits, ticks, shown) in LAYOUT[name].items():
        axes = panels[panel]
        assert axes.get_ylim() == pytest.approx(limits)
        assert len(axes.get_yticks()) == ticks
        assert axes.yaxis.label.get_visible() == shown
        # From one example before the first to slightly after the last, in units of d = 20.
        end = 0.95 if panel == "orthogonal" else 40.1 / 20
        assert axes.get_xlim() == pytest.approx((-0.05, end))


def test_the_axis_counts_examples_and_dimensions() -> None:
    names = error_panels.count_axis(5, error_panels.HALVES, 2.0).names
    assert names == ["0\n", "\n$d/2$", "5\n$d$", "\n$3d/2$", "10\n$2d$"]
    assert error_panels.count_axis(5, (0, 0.25, 0.75), 1.0).names == ["0\n", "\n$d/4$", "\n$3d/4$"]
    # As published at d = 20.
    assert error_panels.count_axis(20, error_panels.HALVES, 2.0).names == ["0", "10", "20", "30", "40"]


def test_a_quarter_of_the_dimension_halves_the_axes() -> None:
    """At d = 5 both axes of page 12 are half as long as at d = 20."""
    axes = garg_function.draw(table("garg_function")).axes
    assert [a.get_xlim() for a in axes] == [(-7.5, 7.5)] * 3
    assert [tuple(a.get_yticks()) for a in axes] == [(-10, -5, 0, 5, 10)] * 3


def test_bands_are_those_of_the_table() -> None:
    drawn = table("garg_linear")
    axes = discovery.figure("garg_linear").draw(drawn).axes[0]
    assert len(axes.collections) == 4
    band = plotting.summary(drawn, "main", "Transformer", errors.BAND)
    heights = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert set(heights) == {*band["band_low"], *band["band_high"]}
    middle = plotting.summary(drawn, "main", "Transformer", errors.ERROR)
    np.testing.assert_allclose(middle["value"], band["value"])


def test_every_published_x_is_a_number_of_examples_in_both_dimensions() -> None:
    for name in LAYOUT:
        published = published_curves.load(name)
        assert published is not None
        for d in (5, 20):
            assert np.allclose(published["x"] * d, (published["x"] * d).round())


@pytest.mark.parametrize("name", ["garg_against_theory", "garg_function", "garg_linear", "garg_scaling", "garg_shifts"])
def test_the_title_names_an_unpublished_dimension(name: str) -> None:
    small = table(name)
    large = small.assign(value=small["value"].where(small["observable"] != "dimension", 20.0))
    title = "$d = 5$ (published: $d = 20$)"
    for drawn, titles in ((small, [title]), (large, [])):
        figure = discovery.figure(name).draw(drawn)
        assert [text.get_text() for text in figure.texts if "published" in text.get_text()] == titles


def test_scaling_draws_six_curves_in_either_panel() -> None:
    for axes in garg_scaling.draw(table("garg_scaling")).axes:
        assert [line.get_gid() for line in axes.lines if line.get_gid()] == [*garg_scaling.SCALES, "Least Squares"]


def test_predictions_after_every_prefix_equal_those_of_single_queries() -> None:
    shifted, names = shifted_prompts("orthants"), ("inputs", "labels", "queries", "answers")
    few = shifted._replace(**{name: getattr(shifted, name)[:, :3] for name in names})
    together, heads = errors.transformer_answers(runs(), few), runs().sweep.configs[0].heads
    for k in (0, 4, 10):
        alone = decoder.predict_queries(
            runs().last(), few.inputs[:, :, :k], few.labels[:, :, :k], few.queries[:, :, k : k + 1], heads
        )
        # Weights and activations are float32.
        np.testing.assert_allclose(together[:, :, k], alone[..., 0], rtol=1e-4, atol=1e-5)
