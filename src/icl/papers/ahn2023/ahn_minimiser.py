"""One layer of linear attention learns one preconditioned step: trained weights against Ahn et al.'s equation 2."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from icl.core.lazy import Picture, Tensor, torch
from icl.core.runs import Runs
from icl.core.streams import stream
from icl.core.sweep import Sweep
from icl.core.table import Table, join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.figure import Figure
from icl.models import linear_attention_theory as theory
from icl.models.optimisers import Params
from icl.papers.ahn2023 import gram_recursions, trainings
from icl.papers.ahn2023 import linear_attention as system
from icl.papers.ahn2023.drawing import curves_with_deviation, matrix_heatmap
from icl.papers.ahn2023.evaluation import fresh_gram_matrices
from icl.papers.ahn2023.linear_attention import SKEWED, Config

CASES = {"isotropic": "", "skewed": SKEWED}


def sweeps(scale: str) -> list[Sweep]:
    """Return the training of one layer with full V and Q for both covariances."""
    return [trainings.one_layer(scale)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Return distances over training, the matrices of the first seed, and the values that the claims bound."""
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
        others = [_against_all_weights(trained, run) for run in runs_of_case]
        parts += [rows(f"{name}, {case}", seeds, [run[key] for run in others]) for name, key in ALL_WEIGHTS.items()]
        number = np.arange(compared[0]["trained"].shape[-1])
        for kind in ("trained", "equation 2"):
            names = np.array([f"row {row}" for row in number])[:, None]
            parts.append(rows("entry", seeds[0], compared[0][kind], x=number, panel=f"{case} {kind}", series=names))
    return join(parts)


FINAL = {
    "excess loss": "excess",
    "final weighted distance": "weighted",
    "rest of V over its corner": "value",
    "Q_21 over Q_11": "label",
}
ALL_WEIGHTS = {"trained loss over the least, less 1": "trained", "lowest loss around equation 2, less 1": "around"}


def _against_equation_2(trained: Runs, run: int) -> dict[str, np.ndarray]:
    """Distances of one run from the minimiser, over its snapshots."""
    config: Config = trained.sweep.configs[run]
    d, n = config.dimension, config.context_length
    value, key_query = (trained.weights[name][run, :, 0].numpy() for name in ("V", "Q"))
    sigma, root = system.covariance(config), system.covariance_root(config)
    best, corner = theory.preconditioner(sigma, n), value[:, -1, -1, None, None]
    # The prediction is w'G (-v Q_11) x, so attention steps with the transpose of -v Q_11.
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


# Smallest and largest distance from equation 2 at which the loss is evaluated, relative to the norm of its weights.
AROUND = (0.03, 3.0)
# Number of directions per batch.
CHUNK = 10


def _full_losses(params: Params, config: Config, g: Tensor) -> np.ndarray:
    """The loss of many V and Q of one layer, (count, 1, d + 1, d + 1) each, on the same Gram matrices: (count,)."""
    root, task_root = (
        torch.from_numpy(part(config))[None] for part in (system.covariance_root, system.whitened_task_root)
    )
    losses: np.ndarray = gram_recursions.averaged_loss_of_one_layer(params, g, root, task_root).numpy()
    return losses


def _equation_2(config: Config) -> Params:
    """V and Q of the minimiser, (1, 1, d + 1, d + 1) each; both have the same norm."""
    d = config.dimension
    best = theory.preconditioner(system.covariance(config), config.context_length)
    size = float(np.linalg.norm(best) ** 0.5)
    params = {name: torch.zeros(1, 1, d + 1, d + 1, dtype=torch.float64) for name in ("V", "Q")}
    params["V"][0, 0, d, d] = size
    params["Q"][0, 0, :d, :d] = torch.from_numpy(-best.T / size)
    return params


def _against_all_weights(trained: Runs, run: int) -> dict[str, float]:
    """Excess loss of the trained V and Q, and the least one in random directions around the minimiser.

    Losses on the same fresh Gram matrices, divided by that of equation 2, minus 1.
    """
    config, test = trained.sweep.configs[run], trained.sweep.test
    g, best = fresh_gram_matrices(config, test.curve_prompts), _equation_2(config)
    least = _full_losses(best, config, g)[0]
    normal = stream(system.SYSTEM, config.seed, "directions").standard_normal
    directions = {name: torch.from_numpy(normal((test.directions, *w.shape[1:]))) for name, w in best.items()}
    norm = torch.stack([w.square().sum(dim=(1, 2, 3)) for w in directions.values()]).sum(dim=0).sqrt()
    size = torch.stack([w.square().sum() for w in best.values()]).sum().sqrt()
    distances = torch.from_numpy(np.geomspace(*AROUND, test.directions)) * size / norm
    around = {name: best[name] + distances[:, None, None, None] * w for name, w in directions.items()}
    losses = [
        _full_losses({name: w[start : start + CHUNK] for name, w in around.items()}, config, g)
        for start in range(0, test.directions, CHUNK)
    ]
    reached = _full_losses({name: trained.weights[name][run, -1:] for name in around}, config, g)[0]
    return {"trained": reached / least - 1, "around": np.concatenate(losses).min() / least - 1}


STYLES = (
    Style("isotropic", r"$\Sigma=I$", "C0"),
    Style("skewed", r"$\Sigma$ skewed", "r"),
    Style("skewed weighted", r"$\Sigma$ skewed, weighted", "r", line="--"),
)
TITLES = {"trained": r"$-v\,Q_{11}$, {case}", "equation 2": r"$\Gamma^{-1}$, {case}"}


@plotting.published
def draw(table: Table) -> Picture:
    """Draw two rows of heat maps with the distances beside them."""
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
    last = float(table.curves["x"][table.curves["panel"] == "distance"].max())
    plotting.frame(axes, Axis("Iteration", (0, last)), Axis(r"Distance to $\Gamma^{-1}$", log=True), font=14, ticks=11)
    plotting.legend(axes, 11, "upper right", (0.99, 0.99))
    return figure


FIGURES = (Figure("ahn_minimiser", sweeps, measure, draw),)
