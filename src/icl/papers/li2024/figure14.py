"""Figure 14: error under random and magnitude-based pruning of W_O, with the magnitudes of its neurons as bars."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.evidence.errors import error_rows
from icl.papers.li2024 import one_layer_figures
from icl.papers.li2024.pruning import COUNTS, Pruning, random_masks, trained_pruning

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the one-layer model, tested at alpha' = 0.6, the curve that figure 15 repeats."""
    return [one_layer_figures.shared_training(scale, one_layer_figures.PruningTest)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Errors under either order of pruning, sorted row norms, and the parts of theorem 3."""
    trained = one_layer_figures.trained(runs)
    pruning = trained_pruning(trained, trained.sweep.test)
    return join([*_curves(trained, pruning), *_bars(trained, pruning), *_theorem(trained, pruning)])


def _curves(trained: Runs, pruning: Pruning) -> Iterator[pd.DataFrame]:
    seeds, neurons = trained.sweep.seeds, pruning.norms.shape[1]
    labels = {"panel": "left axis"}
    better: dict[str, list[np.ndarray]] = {"classification error": [], "hinge loss": []}
    for count in COUNTS:
        by_norm = pruning.without(pruning.smallest(count))
        draws = [
            pruning.without(random_masks(seeds, neurons, count, draw))
            for draw in range(one_layer_figures.SCHEDULE.random_prunings)
        ]
        at_random = {name: np.stack([draw[name] for draw in draws]) for name in by_norm}
        yield error_rows(seeds, by_norm["wrong"], series="Mag.-based", x=count, **labels)
        yield error_rows(seeds, at_random["wrong"].mean(axis=0), series="Random", x=count, **labels)
        for observable, shares in better.items():
            if count >= 0.2 * neurons:
                shares.append((by_norm[observable] <= at_random[observable]).mean(axis=0))
    whole = pruning.without(pruning.smallest(0))["wrong"]
    for x in (COUNTS[0], COUNTS[-1]):
        yield error_rows(seeds, whole, series="baseline", x=x, **labels)
    for observable, shares in better.items():
        yield rows(f"share of draws, {observable}", seeds, np.mean(shares, axis=0))


def _bars(trained: Runs, pruning: Pruning) -> Iterator[pd.DataFrame]:
    ordered = np.sort(pruning.norms, axis=-1)
    for index in range(COUNTS[-1] + 1):
        yield rows("neuron magnitude", trained.sweep.seeds, ordered[:, index], panel="right axis",
                   series="magnitude of neurons", x=index)  # fmt: skip


def _theorem(trained: Runs, pruning: Pruning) -> Iterator[pd.DataFrame]:
    seeds, neurons = trained.sweep.seeds, pruning.norms.shape[1]
    ordered = np.sort(pruning.norms, axis=-1)
    ratios = ordered[:, 1:] / ordered[:, :-1]
    small = np.argmax(ratios, axis=-1) + 1
    mask = pruning.smallest(small)
    initial = trained.at(0)["W_O"].norm(dim=-1).numpy()
    whole = pruning.without(pruning.smallest(0))["hinge loss"]
    per_share = [
        (pruning.without(pruning.largest(round(share * neurons)))["hinge loss"] - whole) / share
        for share in (0.2, 0.4, 0.6)
    ]
    kept = np.average(pruning.norms, axis=-1, weights=mask) / np.average(initial, axis=-1, weights=mask)
    yield rows("largest ratio of neighbouring norms", seeds, ratios.max(axis=-1))
    yield rows("share of small neurons", seeds, small / neurons)
    yield rows("norm of small neurons over initial norm", seeds, kept)
    yield rows("rise of the hinge loss without small neurons", seeds, pruning.without(mask)["hinge loss"] - whole)
    yield rows("least rise of the hinge loss per share of large neurons", seeds, np.min(per_share, axis=0))


STYLES = (
    Style("Random", "Random", "b", "x"),
    Style("Mag.-based", "Mag.-based", "r", "o"),
)


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """The published picture from the table's summaries; x counts pruned neurons, the bars lie over everything."""
    figure, axes = plotting.canvas((500, 500), (117.75, 392.22, 26.50, 416.72), panel="left axis")
    baseline = plotting.summary(table, "left axis", "baseline", "classification error")
    axes.plot(baseline["x"], baseline["value"], label="baseline", gid="baseline", **plotting.GUIDE)
    plotting.curves(axes, table, STYLES, "classification error", band=True)
    x = Axis("Pruning rate", (0, 26), (6, 13, 19, 26), ("10%", "20%", "30%", "40%"))
    y = Axis("Classification error", (1e-3, 0.2), log=True)
    plotting.frame(axes, x, y, font=22, ticks=18)
    plotting.legend(axes, 18, "upper left", (0.046, 1.008), spacing=0.441)
    right = plotting.bars(axes, table, "right axis", "magnitude of neurons", "neuron magnitude")
    plotting.frame(right, x, Axis("Magnitude of neurons", (0, 0.8), (0, 0.4, 0.8)), font=22)
    return figure
