"""Mean squared error against sequence length for one GD step, the mesa layer and linear attention (talk, p31 C)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import pandas as pd

from icl.core.lazy import Picture
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import Table, join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.evidence.errors import mean_curve
from icl.figure import Figure
from icl.papers.oswald2023mesa import evaluation, trainings
from icl.papers.oswald2023mesa.layers import Linear, Mesa
from icl.papers.oswald2023mesa.one_layer import Config, Test, evaluation_sequences

# 100 batches: one batch of 256 sequences gives the error at the last position only to 0.1.
SEQUENCES = 25600
# Sequences of twice the training length, on which errors are either small or far above that of the prediction 0.
LONGER_SEQUENCES = 1280
# Batches per run in the band, as in the paper's code.
BATCHES = 5


def sweeps(scale: str) -> list[Sweep]:
    """Return both trainings, tested on many sequences."""
    return trainings.sweeps(scale, SEQUENCES)


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Return errors by position at the end of training, by seed and batch, and the values that the claims bound."""
    parts, curves = [], dict[str, list[np.ndarray]]()
    for run, config in enumerate(runs["oswald_mesa_linear"].sweep.configs):
        test = runs["oswald_mesa_linear"].sweep.test
        errors = _errors_by_series(runs, run, config, test)
        for name, by_batch in errors.items():
            curves.setdefault(name, []).append(by_batch)
        means = {name: by_batch.mean(axis=0) for name, by_batch in errors.items()}
        bounded = _bounded(means, evaluation.least_squares_loss(config)) | _beyond(runs, run, config, test)
        parts += [rows(name, config.seed, value) for name, value in bounded.items()]
    seeds = runs["oswald_mesa_linear"].sweep.seeds
    for name, by_run in curves.items():
        values = np.stack([by_batch.mean(axis=0) for by_batch in by_run], axis=-1)
        groups = np.concatenate([by_batch[:BATCHES] for by_batch in by_run]).T
        parts += mean_curve("MSE", seeds, values, groups, panel="main", series=name, x=np.arange(len(values)))
    return join(parts)


def _errors_by_series(runs: Mapping[str, Runs], run: int, config: Config, test: Test) -> dict[str, np.ndarray]:
    """Errors of every series on the same sequences of the length T in `config`, (batches, T)."""
    linear, mesa = runs["oswald_mesa_linear"], runs["oswald_mesa_mesa"]
    x = evaluation_sequences(config, test)
    layers: dict[str, Linear | Mesa] = {
        "GD_exact-1": Linear({}, evaluation.gradient_descent(config, test.gd_step_size)),
        "Mesa": trainings.mesa_layer(mesa, run, -1),
        "linear-SA": Linear({}, trainings.linear_maps(linear, run, -1)),
    }
    return {name: evaluation.errors(layer, x, config).numpy() for name, layer in layers.items()}


def _bounded(mse: dict[str, np.ndarray], least_squares: np.ndarray) -> dict[str, float]:
    mesa = mse["Mesa"]
    values = {
        "largest |linear-SA - GD|, t < 40": _largest(abs(mse["linear-SA"] - mse["GD_exact-1"])[:40]),
        "largest |Mesa - least squares|, t <= 9": _largest(abs(mesa - least_squares)[:10]),
        "MSE of Mesa at t = 10": _largest(mesa[10:11]),
        "largest MSE of Mesa, t >= 15": _largest(mesa[15:]),
    }
    return values


def _beyond(runs: Mapping[str, Runs], run: int, config: Config, test: Test) -> dict[str, float]:
    """Errors at positions beyond the training length, on sequences of twice that length."""
    longer = dataclasses.replace(config, length=2 * config.length)
    fewer = dataclasses.replace(test, sequences=min(test.sequences, LONGER_SEQUENCES))
    mse = {name: e.mean(axis=0)[config.length :] for name, e in _errors_by_series(runs, run, longer, fewer).items()}
    return {
        "largest MSE of Mesa beyond the training length": float(mse["Mesa"].max()),
        "MSE of linear-SA at twice the training length": float(mse["linear-SA"][-1]),
    }


def _largest(values: np.ndarray) -> float:
    """The largest value, or NaN if the configured length is too short for these positions."""
    return float(values.max()) if len(values) else float("nan")


STYLES = (
    Style("GD_exact-1", r"GD$_{exact}$-1", "#d75808"),
    Style("Mesa", "Mesa", "#be1286"),
    Style("linear-SA", "linear-SA", "#2d964d"),
)


@plotting.published
def draw(table: Table) -> Picture:
    """Draw the published panel."""
    figure, axes = plotting.canvas((440, 420), (95, 425, 25, 340))
    trainings.bands(axes, table, STYLES, "MSE")
    plotting.curves(axes, table, STYLES, "MSE")
    axes.plot([0, 49], [0, 0], color="k", linestyle=":", linewidth=plotting.LINE_WIDTH, zorder=1)
    x = Axis("Sequence length $t$", (0, 50), (0, 20, 40))
    plotting.frame(axes, x, Axis("MSE", (-0.09, 1.8), (0, 0.5, 1, 1.5)), font=16, ticks=18)
    trainings.legend_and_letter(axes, "C")
    return figure


FIGURES = (Figure("oswald_mesa_length", sweeps, measure, draw),)
