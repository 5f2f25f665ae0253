"""Dynamics of ab, ratio and error along training, Gaussian first token and Example 4.1 (Zheng et al., talk page 42)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from icl.core.lazy import Axes, Picture
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import Table, exact, join, rows
from icl.drawing import plotting, zheng_look
from icl.drawing.plotting import Axis, Style
from icl.figure import Figure
from icl.models import autoregressive as system
from icl.models import autoregressive_readout as readout
from icl.models import autoregressive_theory as theory
from icl.models import autoregressive_trainings as trainings

LAWS = ("gaussian", "sparse")
EPOCHS = trainings.EPOCHS


def sweeps(scale: str) -> list[Sweep]:
    """Return trainings of full blocks from three starts under both laws."""
    return [trainings.sweep(law, scale) for law in LAWS]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Return the curves of the panels, the limits, and the values that the claims bound."""
    parts = []
    for law in LAWS:
        trained = runs[trainings.sweep_name(law)]
        for run in range(len(trainings.STARTS)):
            parts += _curves(trained, run)
        parts += _limits(trained.sweep.configs[0])
    return exact(join([*parts, *_bounded(**{law: runs[trainings.sweep_name(law)] for law in LAWS})]))


def _curves(trained: Runs, run: int) -> list[pd.DataFrame]:
    config = trained.sweep.configs[run]
    epochs, ab = np.arange(EPOCHS), readout.products_along(trained, run)
    power, fourth = config.moment(2), config.moment(4)
    later = ab[1 : EPOCHS + 1]
    label = {"series": config.start, "x": epochs}
    if config.law == "gaussian":
        return [
            rows("ab", 0, ab[:EPOCHS], panel="a", **label),
            # E y_j / x_j = ab E u_j^2 and E <y, x> / E |x|^2 = ab E u_j^4 / E u_j^2, at every position
            rows("ratio", 0, later * power, panel="b", **label),
            rows("ratio", 0, later * fourth / power, panel="f", **label),
        ]
    errors = [readout.last_error(*readout.blocks_at(trained, run, epoch), config) for epoch in range(1, EPOCHS + 1)]
    return [
        rows("ab", 0, later, panel="c", **label),
        rows("loss", 0, trained.losses[run, 1 : EPOCHS + 1], panel="d", **label),
        rows("squared error", 0, errors, panel="e", **label),
    ]


def _limits(config: system.Config) -> list[pd.DataFrame]:
    """The lines as drawn in the talk (T -> infinity) and for this T."""
    limit, ends = theory.limit(config), {"x": [0, EPOCHS - 1]}
    if config.law == "sparse":
        lines = [("c", "as drawn", 1 / config.scale**2), ("d", "as drawn", 0.0), ("e", "as drawn", 0.0)]
    else:
        drawn, power = 1 / (5 * config.scale**2), config.scale**2
        lines = [
            (panel, series, value * factor)
            for panel, factor in (("a", 1.0), ("b", power), ("f", 3 * power))
            for series, value in (("as drawn", drawn), ("at this T", limit))
        ]
    return [rows("limit", 0, [value] * 2, panel=panel, series=series, **ends) for panel, series, value in lines]


def _bounded(gaussian: Runs, sparse: Runs) -> list[pd.DataFrame]:
    """The values that the claims bound: final distances from the limit, and the curves at epoch 200."""
    ends, at_epoch = [], {}
    for law, trained in (("gaussian", gaussian), ("sparse", sparse)):
        for run, config in enumerate(trained.sweep.configs):
            ab = readout.products_along(trained, run)
            ends.append(abs(ab[-1] / theory.limit(config) - 1))
            at_epoch[law, config.start] = ab[EPOCHS]
    drawn = 1 / (5 * gaussian.sweep.configs[0].scale ** 2)
    small, *larger = (at_epoch["gaussian", start] for start in trainings.STARTS)
    values = {
        "largest relative distance of ab from its limit": max(ends),
        "least ab over the drawn line, larger starts, gaussian": min(larger) / drawn,
        "largest ab over the drawn line, larger starts, gaussian": max(larger) / drawn,
        "ab from 0.1 0.1 over the least other one, gaussian": small / min(larger),
        "least ab at epoch 200, sparse": min(at_epoch["sparse", start] for start in trainings.STARTS),
        "largest loss drawn at epoch 200, sparse": sparse.losses[:, EPOCHS].max(),
    }
    return [rows(name, 0, value) for name, value in values.items()]


DRAWN = Style("as drawn", "", "C3", line="--")
FINITE = Style("at this T", "", "k", line=":")


class Panel(NamedTuple):
    """One panel: observable, y label and ticks, label of the dashed line, corner of the legend, and caption."""

    observable: str
    label: str
    ticks: Sequence[float]
    dashed: str
    corner: plotting.Corner
    caption: str


HALVES = [0.5 * i for i in range(9)]
PANELS = {
    "a": Panel("ab", "Dynamics of ab", HALVES, r"$1/5\sigma^2=0.8$", "upper right",
               r"Gaussian with $\sigma=0.5$, dynamics of $ab$"),
    "b": Panel("ratio", "Ratio of pred/true at $T_{te}$", [0, 0.2, 0.4, 0.6, 0.8], "Ratio = 0.2", "upper right",
               r"Gaussian with $\sigma=0.5$, ratio of $\hat{y}_{T_{te}-1}/x_{T_{te}}$"),
    "c": Panel("ab", "Dynamics of ab", HALVES, "$1/c^2=4.0$", "lower right",
               "Example 4.1 with $c=0.5$, dynamics of $ab$"),
    "d": Panel("loss", "MSE loss at $T_{te}$", range(0, 13, 2), "Theoretical MSE = 0", "upper right",
               "Example 4.1, $c=0.5$; half the sum over all $t$"),
    "e": Panel("squared error", "Squared error at $T_{te}$", [0.05 * i for i in range(6)], "Theoretical MSE = 0",
               "upper right", r"What (d) names: $\mathrm{E}\,||\hat{y}_{T_{te}-1}-x_{T_{te}}||_2^2$"),
    "f": Panel("ratio", "Least-squares ratio at $T_{te}$", HALVES[:6], "Ratio = 0.6", "upper right",
               r"Twin of (b): $\mathrm{E}\langle\hat{y},x\rangle/\mathrm{E}|x|^2$ of the same predictions"),
}  # fmt: skip


@plotting.published
def draw(table: Table) -> Picture:
    """Draw the four published panels, and below them two panels with the quantities that their labels suggest."""
    places = {panel: (75 + 460 * (i % 2), 447 + 460 * (i % 2), 15 + 335 * (i // 2), 253 + 335 * (i // 2))
              for i, panel in enumerate(PANELS)}  # fmt: skip
    figure, first = plotting.canvas((925, 1010), places["a"], panel="a")
    for panel in PANELS:
        axes = first if panel == "a" else plotting.add_panel(figure, places[panel], panel)
        _panel(axes, table, panel)
    return figure


def _panel(axes: Axes, table: Table, panel: str) -> None:
    layout = PANELS[panel]
    plotting.curves(axes, table, zheng_look.start_styles(trainings.STARTS), layout.observable)
    lines = [DRAWN._replace(label=layout.dashed)]
    if panel in "abf":
        value = table.curve(panel, "at this T", "limit")["value"].iloc[0]
        lines.append(FINITE._replace(label=f"at $T=100$: {value:.3f}"))
    plotting.curves(axes, table, lines, "limit")
    for line in axes.lines:
        line.set_linewidth(1.4)
    plotting.frame(axes, Axis("Epoch", (-10, 210), range(0, 201, 25)), Axis(layout.label, ticks=layout.ticks), 15, 12.5)
    axes.legend(fontsize=10, loc=layout.corner)
    caption = f"({panel}) {layout.caption}"
    axes.text(0.5, -0.31, caption, fontsize=12, ha="center", transform=axes.transAxes, fontfamily=zheng_look.SERIF)
    zheng_look.serif(axes)


FIGURES = (Figure("zheng_ab_dynamics", sweeps, measure, draw),)
