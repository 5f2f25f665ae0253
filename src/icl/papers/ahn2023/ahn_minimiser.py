"""One layer of linear attention learns one preconditioned step: trained weights against Ahn et al.'s equation 2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from icl.core.runs import Runs
from icl.core.streams import stream
from icl.core.sweep import Sweep
from icl.core.table import join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.evidence.intervals import exact
from icl.models import linear_attention_theory as theory
from icl.papers.ahn2023 import linear_attention as system
from icl.papers.ahn2023 import trainings
from icl.papers.ahn2023.drawing import curves_with_deviation, matrix_heatmap
from icl.papers.ahn2023.linear_attention import SKEWED, Config

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CASES = {"isotropic": "", "skewed": SKEWED}
LENGTHS = (5, 10, 20, 50)


def sweeps(scale: str) -> list[Sweep]:
    """One layer, full V and Q, both covariances."""
    return [trainings.one_layer(scale)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Distances over training, the matrices of seed 0, what the claims compare, and the closed forms."""
    (trained,) = runs.values()
    parts = []
    for case, spectrum in CASES.items():
        runs_of_case = [run for run, config in enumerate(trained.sweep.configs) if config.spectrum == spectrum]
        compared = [_against_equation_2(trained, run) for run in runs_of_case]
        seeds, steps = np.array([trained.sweep.seeds[run] for run in runs_of_case]), np.array(trained.sweep.snapshots)
        for series, key in ((case, "plain"), (f"{case} weighted", "weighted")):
            values = np.stack([run[key] for run in compared])
            parts.append(rows("distance", seeds[:, None], values, x=steps, panel="distance", series=series))
        parts += [rows(f"{name}, {case}", seeds, [run[key][-1] for run in compared]) for name, key in FINAL.items()]
        number = np.arange(compared[0]["trained"].shape[-1])
        for kind in ("trained", "equation 2"):
            names = np.array([f"row {row}" for row in number])[:, None]
            parts.append(rows("entry", seeds[0], compared[0][kind], x=number, panel=f"{case} {kind}", series=names))
    return join([*parts, exact(join(_closed_forms(trained.sweep.test.directions)))])


FINAL = {
    "excess loss": "excess",
    "final weighted distance": "weighted",
    "rest of V over its corner": "value",
    "Q_21 over Q_11": "label",
}


def _against_equation_2(trained: Runs, run: int) -> dict[str, np.ndarray]:
    """One run beside the minimiser, over its snapshots."""
    config: Config = trained.sweep.configs[run]
    d, n = config.dimension, config.context_length
    value, key_query = (trained.weights[name][run, :, 0].numpy() for name in ("V", "Q"))
    sigma, root = system.covariance(config), system.covariance_root(config)
    best, corner = theory.preconditioner(sigma, n), value[:, -1, -1, None, None]
    # The step that attention takes is by the transpose: its prediction is w'G (-v Q_11) x.
    learnt = -np.swapaxes(corner * key_query[:, :d, :d], -1, -2)
    least = theory.one_step_loss(best, sigma, np.eye(d), n)
    weighted = root @ (learnt - best) @ root
    norm = np.linalg.norm
    return {
        "trained": learnt[-1],
        "equation 2": best,
        "plain": norm(learnt - best, axis=(1, 2)) / norm(best),
        "weighted": norm(weighted, axis=(1, 2)) / norm(root @ best @ root),
        "excess": theory.one_step_loss(learnt, sigma, np.eye(d), n) / least - 1,
        "value": norm(value[:, -1, :d], axis=1) / abs(value[:, -1, -1]),
        "label": norm(key_query[:, d, :d], axis=1) / norm(key_query[:, :d, :d], axis=(1, 2)),
    }


def _closed_forms(directions: int) -> list[pd.DataFrame]:
    """What needs no training: equation 2 for several lengths and covariances, and the loss around it."""
    slack, difference = [], []
    for n in LENGTHS:
        for seed in range(3):
            sigma = system.covariance(Config(spectrum=SKEWED, seed=seed))
            best = theory.preconditioner(sigma, n)
            # E[G^2] by its moments, not by way of Gamma
            square = (n + 1) / n * sigma @ sigma + np.trace(sigma) / n * sigma
            slack.append(np.linalg.norm(best @ square - sigma) / np.linalg.norm(sigma))
            inverse = np.linalg.inv(sigma)
            step = theory.best_step(sigma, inverse, n)
            difference.append(np.linalg.norm(step - n / (n + 6) * inverse) / np.linalg.norm(step))
    sigma, eye = system.covariance(Config(spectrum=SKEWED)), np.eye(5)
    best = theory.preconditioner(sigma, 20)
    steps = stream(system.SYSTEM, 0, "directions").standard_normal((directions, 5, 5))
    steps *= 1e-2 / np.linalg.norm(steps, axis=(1, 2), keepdims=True)
    least = theory.one_step_loss(best, sigma, eye, 20)
    observables = {
        "largest |A E[G^2] - E[G]| / |E[G]|": max(slack),
        "largest |A - n/(n + d + 1) Sigma^-1| / |A|": max(difference),
        "share of directions along which the loss rises": np.mean(
            theory.one_step_loss(best + steps, sigma, eye, 20) > least
        ),
        "least loss, preconditioned": least,
        "least loss, scalar step": _least_scalar(sigma),
    }
    return [rows(name, 0, value) for name, value in observables.items()]


def _least_scalar(sigma: np.ndarray) -> float:
    """The least loss of a step eta I: a parabola in eta, known from three of its points."""
    at = [theory.one_step_loss(eta * np.eye(len(sigma)), sigma, np.eye(len(sigma)), 20) for eta in (-1.0, 0.0, 1.0)]
    bend, slope = (at[0] + at[2]) / 2 - at[1], (at[2] - at[0]) / 2
    return float(at[1] - slope**2 / (4 * bend))


STYLES = (
    Style("isotropic", r"$\Sigma=I$", "C0"),
    Style("skewed", r"$\Sigma$ skewed", "r"),
    Style("skewed weighted", r"$\Sigma$ skewed, weighted", "r", line="--"),
)
TITLES = {"trained": r"$-v\,Q_{11}$, {case}", "equation 2": r"$\Gamma^{-1}$, {case}"}


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """Two rows of heat maps, and the distances beside them."""
    figure, first = plotting.canvas((1000, 480), (45, 205, 35, 195), panel="isotropic trained")
    for row, case in enumerate(CASES):
        for column, (kind, title) in enumerate(TITLES.items()):
            left, top = 45 + 265 * column, 35 + 225 * row
            edges, panel = (left, left + 160, top, top + 160), f"{case} {kind}"
            axes = first if row == column == 0 else plotting.add_panel(figure, edges, panel)
            bar = plotting.add_panel(figure, (left + 168, left + 176, top, top + 160), "<colorbar>")
            matrix_heatmap(axes, bar, table, title.replace("{case}", case))
            bar.tick_params(labelsize=8)
    axes = plotting.add_panel(figure, (625, 980, 35, 420), "distance")
    curves_with_deviation(axes, table, STYLES, "distance", 2)
    last = float(table["x"][table["panel"] == "distance"].max())
    plotting.frame(axes, Axis("Iteration", (0, last)), Axis(r"Distance to $\Gamma^{-1}$", log=True), font=14, ticks=11)
    plotting.legend(axes, 11, "upper right", (0.99, 0.99))
    return figure
