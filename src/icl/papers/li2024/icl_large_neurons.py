"""Cost of pruning large neurons: loss and error against the fraction of them that is removed (talk page 22)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import pandas as pd

from icl.core.lazy import Picture
from icl.core.runs import Runs, single
from icl.core.streams import stream
from icl.core.sweep import Sweep
from icl.core.table import Table, join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.figure import Figure
from icl.papers.li2024 import one_layer, one_layer_figures
from icl.papers.li2024.pruning import Pruning, first_of, large_neurons, trained_pruning

SHARES = tuple(share / 10 for share in range(10))
JUDGED = SHARES[1:]
SLOPE = 0.15
"""Our bound for Omega(R) in theorem 3: a rise of 0.15 R."""


def sweeps(scale: str) -> list[Sweep]:
    """The training of the theorems, with SGD."""
    return [one_layer_figures.theorem_training(scale)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Out-of-domain hinge loss and error without a fraction of the large neurons, removed in three orders."""
    trained = one_layer_figures.trained(runs)
    seeds, pruning = single(runs).sweep.seeds, trained_pruning(trained, trained.sweep.test)
    large, draws = large_neurons(pruning.norms), one_layer_figures.SCHEDULE.random_prunings
    orders: dict[str, list[np.ndarray]] = {
        "largest first": [-pruning.norms],
        "at random": [_random_keys(seeds, pruning.norms.shape[1], draw) for draw in range(draws)],
        "smallest first": [pruning.norms],
    }
    parts = []
    for series, keys in orders.items():
        losses = [_without(pruning, partial(first_of, large, share=share), keys) for share in SHARES]
        for name in ("hinge loss", "classification error"):
            values = np.stack([of_share[name] for of_share in losses])
            parts.append(rows(name, seeds, values, x=np.array(SHARES)[:, None], panel=name, series=series))
        if series == "at random":
            hinge = [of_share["hinge loss"] for of_share in losses]
            rises = [(hinge[SHARES.index(share)] - hinge[0]) / share for share in JUDGED]
            least = rows(
                "least rise of the hinge loss per share of large neurons, random", seeds, np.min(rises, axis=0)
            )
        if series == "largest first":
            base = losses[0]["hinge loss"].mean()
    line = [base + SLOPE * share for share in (0.0, 1.0)]
    parts.append(rows("hinge loss", None, line, x=[0.0, 1.0], panel="hinge loss", series="bound"))
    return join([*parts, least, rows("share of large neurons", seeds, large.mean(axis=-1))])


def _random_keys(seeds: list[int], neurons: int, draw: int) -> np.ndarray:
    return np.stack([stream(one_layer.SYSTEM, seed, "pruning", draw).permutation(neurons) for seed in seeds])


def _without(
    pruning: Pruning, mask: Callable[[np.ndarray], np.ndarray], keys: list[np.ndarray]
) -> dict[str, np.ndarray]:
    """Hinge loss and error of every run, averaged over the orders of the keys: (runs,) each."""
    losses = [pruning.without(mask(order)) for order in keys]
    return {name: np.mean([loss[name] for loss in losses], axis=0) for name in ("hinge loss", "classification error")}


STYLES = (
    Style("largest first", "largest first", "r", "o"),
    Style("at random", "at random", "b", "x"),
    Style("smallest first", "smallest first", "m", "+"),
)


@plotting.published
def draw(table: Table) -> Picture:
    """Hinge loss on the left, with our bound for theorem 3, and error on the right."""
    figure, left = plotting.canvas((800, 400), (85, 385, 20, 325), panel="hinge loss")
    right = plotting.add_panel(figure, (480, 780, 20, 325), "classification error")
    x = Axis("Removed share $R$", (0, 0.9), (0, 0.2, 0.4, 0.6, 0.8))
    for axes, y in ((left, Axis("Hinge loss", (0, 1))), (right, Axis("Classification error", (0, 0.5)))):
        plotting.curves(axes, table, STYLES, str(axes.get_label()), band=True)
        if axes is left:
            line = table.curve("hinge loss", "bound", "hinge loss")
            axes.plot(line["x"], line["value"], **plotting.GUIDE, label=f"unpruned $+\\ {SLOPE:g}\\,R$", gid="bound")
        plotting.frame(axes, x, y, font=15, ticks=13)
        plotting.legend(axes, 12, "upper left", (0.02, 0.98))
    return figure


FIGURES = (Figure("icl_large_neurons", sweeps, measure, draw),)
