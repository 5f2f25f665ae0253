"""What the two figures of the mesa layer share: the trainings of linear-SA and Mesa."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from icl.core.config import grid
from icl.core.lazy import lazy
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.drawing.plotting import Style, legend, summary
from icl.papers.oswald2023mesa.layers import Maps, Mesa, products
from icl.papers.oswald2023mesa.one_layer import SYSTEM, Config, Test

if TYPE_CHECKING:
    import torch
    from matplotlib.axes import Axes
else:
    torch = lazy("torch")

SEEDS = {"paper": 10, "laptop": 10, "smoke": 2}
# The published curves have a point every 100 steps until 3400. Mesa is flat much earlier. At the smoke scale a point is
# one step, and stands where it would be.
APART = 100
EVERY = {"paper": 100, "laptop": 100, "smoke": 1}
POINTS = {"linear": {"paper": 35, "laptop": 35, "smoke": 35}, "mesa": {"paper": 35, "laptop": 16, "smoke": 35}}
# RevAlg-1 is read off linear-SA here, after 2500 steps.
REV_ALG = 25
BATCH = {"paper": 256, "laptop": 256, "smoke": 4}


def sweeps(scale: str, sequences: int) -> list[Sweep]:
    """linear-SA and Mesa, every seed on its own sequences; tested on so many fresh ones (16 at the smoke scale)."""
    configs = {
        "linear": grid(Config, batch=[BATCH[scale]], seed=range(SEEDS[scale])),
        "mesa": grid(
            Config, layer=["mesa"], heads=[4], learning_rate=[2e-3], decay=[0.1], batch=[BATCH[scale]],
            seed=range(SEEDS[scale]),
        ),
    }  # fmt: skip
    test = Test(sequences=16 if scale == "smoke" else sequences)
    return [
        Sweep(
            f"oswald_mesa_{layer}",
            SYSTEM,
            of_layer,
            tuple(range(0, EVERY[scale] * POINTS[layer][scale], EVERY[scale])),
            test,
        )
        for layer, of_layer in configs.items()
    ]


def _weights(runs: Runs, run: int, point: int) -> dict[str, torch.Tensor]:
    return {name: w[run, point] for name, w in runs.weights.items()}


def linear_maps(runs: Runs, run: int, point: int) -> Maps:
    """The maps of one linear layer at the snapshot with index `point`."""
    return products(_weights(runs, run, point))


def mesa_layer(runs: Runs, run: int, point: int) -> Mesa:
    """One mesa layer at the snapshot with index `point`."""
    return Mesa(_weights(runs, run, point))


def bands(axes: Axes, table: pd.DataFrame, styles: Sequence[Style], observable: str) -> None:
    """One standard deviation on either side of every curve, translucent as published; the table's bands are of two."""
    for style in styles:
        rows = summary(table, str(axes.get_label()), style.series, observable)
        half = (rows["band_high"] - rows["band_low"]) / 4
        low, high = rows["value"] - half, rows["value"] + half
        axes.fill_between(rows["x"], low, high, color=style.colour, alpha=0.3, linewidth=0)


def legend_and_letter(axes: Axes, letter: str) -> None:
    """The legend, open axes and the panel's letter, as published."""
    legend(axes, 12, "upper right", (0.98, 0.97), spacing=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.text(-0.26, 1.0, letter, fontsize=18, fontweight="bold", transform=axes.transAxes)
