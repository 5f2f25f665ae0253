"""Test loss of linear attention, RevAlg-1, their interpolation and the mesa layer over training (talk, p31 B)."""

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
from icl.papers.oswald2023mesa import evaluation, trainings
from icl.papers.oswald2023mesa.layers import Linear, Maps
from icl.papers.oswald2023mesa.one_layer import evaluation_sequences

# 30 batches: with 10, as in the paper's code, the untrained loss has an error of 0.01.
SEQUENCES = 7680
# The paper's 10 batches suffice for Mesa, whose loss varies little between sequences and is expensive.
MESA_SEQUENCES = 2560
# Index of the point from which Interpolation and linear-SA are compared.
CLOSE = 15


def sweeps(scale: str) -> list[Sweep]:
    """Return the trainings of both layers."""
    return trainings.sweeps(scale, SEQUENCES)


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Return losses at every checkpoint of every seed, and the values that the claims bound."""
    linear, mesa = runs["oswald_mesa_linear"], runs["oswald_mesa_mesa"]
    parts = []
    for run, config in enumerate(linear.sweep.configs):
        losses = _linear_losses(linear, run)
        x = evaluation_sequences(config, mesa.sweep.test)[:MESA_SEQUENCES]
        layers = [trainings.mesa_layer(mesa, run, point) for point in range(len(mesa.sweep.snapshots))]
        of_mesa = mesa.sweep.configs[run]
        losses["Mesa"] = np.array([float(evaluation.errors(layer, x, of_mesa).mean()) for layer in layers])
        for name, curve in losses.items():
            steps = trainings.APART * np.arange(len(curve))
            parts.append(rows("loss", config.seed, curve, x=steps, panel="main", series=name))
        parts += [rows(name, config.seed, value) for name, value in _bounded(losses).items()]
    return join(parts)


def _linear_losses(runs: Runs, run: int) -> dict[str, np.ndarray]:
    """Curves of linear-SA, RevAlg-1 and Interpolation."""
    config, points = runs.sweep.configs[run], len(runs.sweep.snapshots)
    x = evaluation_sequences(config, runs.sweep.test)

    def loss(maps: Maps) -> float:
        return float(evaluation.errors(Linear({}, maps), x, config).mean())

    trained = [trainings.linear_maps(runs, run, point) for point in range(points)]
    rev_alg = evaluation.rev_alg(trained[trainings.REV_ALG])
    return {
        "RevAlg-1": np.full(points, loss(rev_alg)),
        "Interpolation": np.array([loss(evaluation.interpolated(each, rev_alg)) for each in trained]),
        "linear-SA": np.array([loss(each) for each in trained]),
    }


def _bounded(losses: dict[str, np.ndarray]) -> dict[str, float]:
    rev_alg, between, linear = (losses[name] for name in ("RevAlg-1", "Interpolation", "linear-SA"))
    return {
        "loss of RevAlg-1 over linear-SA": float(rev_alg[-1] / linear[-1]),
        "largest |Interpolation - linear-SA| from step 1500": float(abs(between - linear)[CLOSE:].max()),
    }


STYLES = (
    Style("RevAlg-1", "RevAlg-1", "#7160ab"),
    Style("Interpolation", "Interpolation", "#d72422", line="--"),
    Style("Mesa", "Mesa", "#be1286"),
    Style("linear-SA", "linear-SA", "#2d964d"),
)


@plotting.published
def draw(table: Table) -> Picture:
    """Draw the published panel."""
    figure, axes = plotting.canvas((440, 420), (95, 425, 25, 340))
    trainings.bands(axes, table, STYLES, "loss")
    plotting.curves(axes, table, STYLES, "loss")
    x = Axis("Training steps", (-160, 3570), (0, 2000), ("1", "2000"))
    plotting.frame(axes, x, Axis("Test Loss", (-0.05, 1.6), (0, 0.5, 1, 1.5)), font=16, ticks=18)
    trainings.legend_and_letter(axes, "B")
    return figure


FIGURES = (Figure("oswald_mesa_loss", sweeps, measure, draw),)
