"""The trainings of linear-SA and Mesa, and drawing that both figures share."""

from __future__ import annotations

from collections.abc import Sequence

from icl.core.config import grid
from icl.core.lazy import Axes, torch
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import Table
from icl.drawing.plotting import Style, legend, panel_of
from icl.papers.oswald2023mesa.layers import Maps, Mesa, products
from icl.papers.oswald2023mesa.one_layer import SYSTEM, Config, Test

SEEDS = {"paper": 10, "laptop": 10, "smoke": 2}
# The published curves have a point every 100 steps until 3400. At the smoke scale points are one step apart but drawn
# 100 apart.
APART = 100
EVERY = {"paper": 100, "laptop": 100, "smoke": 1}
POINTS = 35
# Index of the point at which RevAlg-1 is taken from linear-SA, after 2500 steps.
REV_ALG = 25
BATCH = {"paper": 256, "laptop": 256, "smoke": 4}


def sweeps(scale: str, sequences: int) -> list[Sweep]:
    """Return linear-SA and Mesa, tested on `sequences` fresh sequences per seed (16 at the smoke scale)."""
    configs = {
        "linear": grid(Config, batch=[BATCH[scale]], seed=range(SEEDS[scale])),
        "mesa": grid(
            Config, layer=["mesa"], heads=[4], learning_rate=[2e-3], decay=[0.1], batch=[BATCH[scale]],
            seed=range(SEEDS[scale]),
        ),
    }  # fmt: skip
    test = Test(sequences=16 if scale == "smoke" else sequences)
    snapshots = tuple(range(0, EVERY[scale] * POINTS, EVERY[scale]))
    return [Sweep(f"oswald_mesa_{layer}", SYSTEM, own, snapshots, test) for layer, own in configs.items()]


def _weights(runs: Runs, run: int, point: int) -> dict[str, torch.Tensor]:
    return {name: w[run, point] for name, w in runs.weights.items()}


def linear_maps(runs: Runs, run: int, point: int) -> Maps:
    """Return the maps of one linear layer at the snapshot with index `point`."""
    return products(_weights(runs, run, point))


def mesa_layer(runs: Runs, run: int, point: int) -> Mesa:
    """Return one mesa layer at the snapshot with index `point`."""
    return Mesa(_weights(runs, run, point))


def bands(axes: Axes, table: Table, styles: Sequence[Style], observable: str) -> None:
    """Draw bands of one standard deviation around every curve, as published; the table's bands are two."""
    for style in styles:
        rows = table.curve(panel_of(axes), style.series, observable)
        half = (rows["band_high"] - rows["band_low"]) / 4
        low, high = rows["value"] - half, rows["value"] + half
        axes.fill_between(rows["x"], low, high, color=style.colour, alpha=0.3, linewidth=0)


def legend_and_letter(axes: Axes, letter: str) -> None:
    """Add the legend and the panel's letter and remove two spines, as published."""
    legend(axes, 12, "upper right", (0.98, 0.97), spacing=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.text(-0.26, 1.0, letter, fontsize=18, fontweight="bold", transform=axes.transAxes)
