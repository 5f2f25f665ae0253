"""Linear attention with L layers against L steps of gradient descent: test loss over L.

The error of a stack with P is a polynomial in the Gram matrix, of degree 40 for L = 4. One prompt in about ten
thousand, with a largest eigenvalue near 4, can therefore outweigh all others in the mean of a run. The figure shows
medians and quartiles over the runs and counts the runs that end above the run of the same seed with P = 0.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from icl.core.lazy import Picture
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import Table, join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.figure import Figure
from icl.papers.ahn2023 import gradient_descents, structured_stacks, trainings
from icl.papers.ahn2023.evaluation import fresh_gram_matrices, losses_on, of_runs, selected_losses

DEPTHS = (1, 2, 3, 4)
# Series -> depth -> log losses of the seeds.
Curves = dict[str, dict[int, np.ndarray]]


def sweeps(scale: str) -> list[Sweep]:
    """Return the trainings of every depth, with P = 0 and relaxed; P has no effect in one layer."""
    return [
        *(trainings.sparse(scale, depth) for depth in DEPTHS),
        *(trainings.relaxed(scale, depth) for depth in DEPTHS[1:]),
    ]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Return log losses on the same fresh prompts per seed, and the differences that the claims bound."""
    first = runs["ahn_sparse_1"].sweep
    curves = _trained(runs) | _least(first) | _descents(first)
    parts = [
        of_runs("log loss", first.seeds[: len(values)], values, x=depth, panel="depth", series=series)
        for series, by_depth in curves.items()
        for depth, values in by_depth.items()
    ]
    parts += [
        rows("failed", first.seeds[: len(failed)], failed, x=depth, panel="depth", series="relaxed")
        for depth, failed in _failures(curves).items()
    ]
    failures = _failures(curves)
    any_failed = np.max(list(failures.values()), axis=0)
    judged = _comparisons(curves) | {"failed, L = 3": failures[3], "failed, any L": any_failed}
    parts += [rows(name, first.seeds[: len(values)], values) for name, values in judged.items()]
    return join(parts)


def _trained(runs: Mapping[str, Runs]) -> Curves:
    """Log losses of the trained stacks; P has no effect in one layer, so sparse and relaxed share that training."""
    sparse = {depth: np.log(selected_losses(runs[f"ahn_sparse_{depth}"])) for depth in DEPTHS}
    relaxed = {depth: np.log(selected_losses(runs[f"ahn_free_{depth}"])) for depth in DEPTHS[1:]}
    return {"sparse": sparse, "relaxed": {1: sparse[1]} | relaxed}


def _failures(curves: Curves) -> dict[int, np.ndarray]:
    """1 for each seed whose relaxed stack does not end below the one with P = 0, else 0."""
    pairs = {depth: (losses, curves["sparse"][depth]) for depth, losses in curves["relaxed"].items() if depth > 1}
    return {depth: ~(relaxed < sparse[: len(relaxed)]) * 1.0 for depth, (relaxed, sparse) in pairs.items()}


def _least(sweep: Sweep) -> Curves:
    """Log losses of the best structured stacks, fitted to spectra of the first seed, on every seed's test prompts."""
    config, test = sweep.configs[0], sweep.test
    spectra = structured_stacks.spectra(config, test.spectra)
    prompts = [fresh_gram_matrices(c, test.prompts) for c in sweep.configs]
    searches = {"sparse": structured_stacks.best_sparse, "relaxed": structured_stacks.best_relaxed}
    curves: Curves = {}
    for kind, search in searches.items():
        curves[f"oracle {kind}"] = {}
        for depth in DEPTHS:
            blocks = search(depth, spectra).blocks(config.dimension)
            losses = [losses_on(blocks, g, c) for c, g in zip(sweep.configs, prompts, strict=True)]
            curves[f"oracle {kind}"][depth] = np.log(np.array(losses))
    return curves


def _descents(sweep: Sweep) -> Curves:
    """Log losses of both descents with all examples and the best step size, and as published.

    The step sizes are chosen for the first seed.
    """
    fewer = [gradient_descents.with_fewer_examples(config) for config in sweep.configs]
    variants = [
        (suffix, configs, choose, [fresh_gram_matrices(config, sweep.test.prompts) for config in configs])
        for suffix, configs, choose in (
            ("", sweep.configs, gradient_descents.best_step_size),
            (" official", fewer, gradient_descents.published_step_size),
        )
    ]
    curves: Curves = {}
    for kind in ("PGD", "GD"):
        for suffix, configs, choose, prompts in variants:
            curves[kind + suffix] = {}
            for depth in DEPTHS:
                size = choose(kind, depth, configs[0], sweep.test.curve_prompts)
                stacks = (gradient_descents.steps(kind, size, depth, config) for config in configs)
                losses = [losses_on(*each) for each in zip(stacks, prompts, configs, strict=True)]
                curves[kind + suffix][depth] = np.log(np.array(losses))
    return curves


def _comparisons(curves: Curves) -> dict[str, np.ndarray]:
    """The values that the claims bound, per seed."""
    sparse, oracle, pgd, gd = (curves[name] for name in ("sparse", "oracle sparse", "PGD", "GD"))
    values = {f"|log loss - oracle|, L = {depth}": abs(sparse[depth] - oracle[depth]) for depth in DEPTHS[:3]}
    for series in ("sparse", "relaxed"):
        losses = curves[series]
        count = min(map(len, losses.values()))
        gains = [losses[depth][:count] - losses[depth + 1][:count] for depth in DEPTHS[:-1]]
        values[f"least gain per layer, {series}"] = np.min(gains, axis=0)
    leads = {"the transformer over preconditioned GD": (pgd, sparse), "preconditioned GD over GD": (gd, pgd)}
    for name, (behind, ahead) in leads.items():
        values[f"least lead of {name}"] = np.min([behind[depth] - ahead[depth] for depth in DEPTHS[1:]], axis=0)
    values["|transformer - preconditioned GD|, L = 1"] = abs(sparse[1] - pgd[1])
    for depth in (2, 3):
        relaxed = curves["relaxed"][depth]
        values[f"log loss, relaxed less sparse, L = {depth}"] = relaxed - sparse[depth][: len(relaxed)]
    return values


STYLES = (
    Style("GD", "Gradient Descent", "b"),
    Style("PGD", "Preconditioned GD", "g"),
    Style("sparse", "Linear Transformer, $P=0$", "r"),
    Style("relaxed", "Linear Transformer", "darkred"),
)
AS_PUBLISHED = (
    Style("GD official", "GD, 19 examples, coarse grid", "b", line=":"),
    Style("PGD official", "PGD, 19 examples, coarse grid", "g", line=":"),
)
ORACLES = (
    Style("oracle sparse", "least loss, $P=0$", "r", marker="x"),
    Style("oracle relaxed", "least loss", "darkred", marker="x"),
)


@plotting.published
def draw(table: Table) -> Picture:
    """Draw one panel with the line widths of the authors' code."""
    figure, axes = plotting.canvas((700, 700), (110, 680, 20, 610), panel="depth")
    for place, style in enumerate((*STYLES, *AS_PUBLISHED)):
        curve = table.curve("depth", style.series, "log loss")
        low, high = curve["value"] - curve["band_low"], curve["band_high"] - curve["value"]
        bars = (low, high) if style in STYLES else None
        # The shift keeps the bars apart; at one layer all curves coincide.
        shift = 0.025 * (place - 1.5) if style in STYLES else 0.0
        axes.errorbar(
            curve["x"] + shift, curve["value"], bars, color=style.colour, linestyle=style.line,
            linewidth=2 if bars is None else 3, capsize=3, label=style.label, gid=style.series,
        )  # fmt: skip
    for style in ORACLES:
        curve = table.curve("depth", style.series, "log loss")
        axes.plot(
            curve["x"], curve["value"], color=style.colour, marker=style.marker, linestyle="none", markersize=10,
            markeredgewidth=2, label=style.label, gid=style.series,
        )  # fmt: skip
    axes.text(0.03, 0.03, r"Least squares: $-\infty$", fontsize=14, color="purple", transform=axes.transAxes)
    axes.text(
        0.03, 0.96, failures(table), fontsize=12, verticalalignment="top", color="darkred", transform=axes.transAxes
    )
    depth, height = Axis("Number of Layers/Steps", (0.9, 4.1), DEPTHS), Axis("log(Loss)", (-14.5, 2.5))
    plotting.frame(axes, depth, height, font=20, ticks=16)
    plotting.legend(axes, 11, "lower left", (0.02, 0.08))
    return figure


def failures(table: Table) -> str:
    """Say how many runs of the relaxed stacks ended above the run of the same seed with P = 0."""
    failed = table.points("depth", "relaxed", "failed")
    counts = []
    for depth in DEPTHS[1:]:
        runs = failed["value"][failed["x"] == depth]
        counts.append(f"{int(runs.sum())}/{len(runs)} ($L={depth}$)")
    return f"runs that end above $P=0$: {', '.join(counts)}"


FIGURES = (Figure("ahn_layers", sweeps, measure, draw),)
