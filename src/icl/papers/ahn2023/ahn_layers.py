"""Deeper linear attention against as many steps of gradient descent: test loss over the number of layers.

The error of a stack with P is a polynomial in the Gram matrix, for L = 4 of degree 40. A single prompt of some ten
thousand, with a largest eigenvalue near 4, can therefore outweigh all others in the mean of a run; medians and
quartiles over the runs are drawn, and runs that end above their twin with P = 0 are counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import join, rows
from icl.drawing import plotting, quartiles
from icl.drawing.plotting import Axis, Style
from icl.papers.ahn2023 import gradient_descents, structured_stacks, trainings
from icl.papers.ahn2023.evaluation import fresh_gram_matrices, losses_on, selected_losses, with_quartiles

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEPTHS = (1, 2, 3, 4)
# Series -> depth -> log losses of the seeds.
Curves = dict[str, dict[int, np.ndarray]]


def sweeps(scale: str) -> list[Sweep]:
    """Stacks of every depth, with P = 0 and relaxed; one layer has no use for P."""
    return [
        *(trainings.sparse(scale, depth) for depth in DEPTHS),
        *(trainings.relaxed(scale, depth) for depth in DEPTHS[1:]),
    ]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Log losses on the same fresh prompts per seed, and their differences."""
    first = runs["ahn_sparse_1"].sweep
    curves = _trained(runs) | _least(first) | _descents(first)
    parts = [
        with_quartiles("log loss", first.seeds[: len(values)], values, x=depth, panel="depth", series=series)
        for series, by_depth in curves.items()
        for depth, values in by_depth.items()
    ]
    parts += [
        rows("failed", first.seeds[: len(failed)], failed, x=depth, panel="depth", series="relaxed")
        for depth, failed in _failures(curves).items()
    ]
    parts += [rows(name, first.seeds[: len(values)], values) for name, values in _comparisons(curves).items()]
    return join(parts)


def _trained(runs: Mapping[str, Runs]) -> Curves:
    """One layer has no use for P: its sparse training stands for the relaxed one too."""
    sparse = {depth: np.log(selected_losses(runs[f"ahn_sparse_{depth}"])) for depth in DEPTHS}
    relaxed = {depth: np.log(selected_losses(runs[f"ahn_free_{depth}"])) for depth in DEPTHS[1:]}
    return {"sparse": sparse, "relaxed": {1: sparse[1]} | relaxed}


def _failures(curves: Curves) -> dict[int, np.ndarray]:
    """Per seed 1 where P, which may be 0, has not helped."""
    pairs = {depth: (losses, curves["sparse"][depth]) for depth, losses in curves["relaxed"].items() if depth > 1}
    return {depth: ~(own < twin[: len(own)]) * 1.0 for depth, (own, twin) in pairs.items()}


def _least(sweep: Sweep) -> Curves:
    """The stacks of least loss, found on the spectra of the first seed and seen on every seed's test prompts."""
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
    """Both descents, with all examples and the best step size, and as published; chosen for the first seed."""
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
    """What the claims speak of, per seed."""
    sparse, oracle, pgd, gd = (curves[name] for name in ("sparse", "oracle sparse", "PGD", "GD"))
    facts = {f"|log loss - oracle|, L = {depth}": abs(sparse[depth] - oracle[depth]) for depth in DEPTHS[:3]}
    for series in ("sparse", "relaxed"):
        losses = curves[series]
        count = min(map(len, losses.values()))
        gains = [losses[depth][:count] - losses[depth + 1][:count] for depth in DEPTHS[:-1]]
        facts[f"least gain per layer, {series}"] = np.min(gains, axis=0)
    leads = {"the transformer over preconditioned GD": (pgd, sparse), "preconditioned GD over GD": (gd, pgd)}
    for name, (behind, ahead) in leads.items():
        facts[f"least lead of {name}"] = np.min([behind[depth] - ahead[depth] for depth in DEPTHS[1:]], axis=0)
    facts["|transformer - preconditioned GD|, L = 1"] = abs(sparse[1] - pgd[1])
    for depth in (2, 3):
        relaxed = curves["relaxed"][depth]
        facts[f"log loss, relaxed less sparse, L = {depth}"] = relaxed - sparse[depth][: len(relaxed)]
    return facts


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
def draw(table: pd.DataFrame) -> Figure:
    """One panel; the widths of the authors' lines."""
    figure, axes = plotting.canvas((700, 700), (110, 680, 20, 610), panel="depth")
    for place, style in enumerate((*STYLES, *AS_PUBLISHED)):
        curve = plotting.summary(table, "depth", style.series, "log loss")
        low, high = quartiles.edges(table, "depth", style.series, "log loss")
        bars = (curve["value"] - low, high - curve["value"]) if style in STYLES else None
        # Side by side, or at one layer, where all coincide, one bar would cover the others.
        shift = 0.025 * (place - 1.5) if style in STYLES else 0.0
        axes.errorbar(
            curve["x"] + shift, curve["value"], bars, color=style.colour, linestyle=style.line,
            linewidth=2 if bars is None else 3, capsize=3, label=style.label, gid=style.series,
        )  # fmt: skip
    for style in ORACLES:
        curve = plotting.summary(table, "depth", style.series, "log loss")
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


def failures(table: pd.DataFrame) -> str:
    """How many runs of the relaxed stacks ended above their twins with P = 0, in words."""
    single = table[(table["observable"] == "failed") & (table["statistic"] == "run")]
    counts = []
    for depth in DEPTHS[1:]:
        runs = single["value"][single["x"] == depth]
        counts.append(f"{int(runs.sum())}/{len(runs)} ($L={depth}$)")
    return f"runs that end above $P=0$: {', '.join(counts)}"
