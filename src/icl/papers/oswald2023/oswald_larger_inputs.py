"""Trained linear attention, gradient descent and their mean on inputs larger than in training (von Oswald et al. 2023)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import join, rows
from icl.drawing import plotting
from icl.evidence.intervals import exact
from icl.papers.oswald2023 import linear_attention as system
from icl.papers.oswald2023 import trainings

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def sweeps(scale: str) -> list[Sweep]:
    """The population training at N = d = 10."""
    return [trainings.population(scale)]


def measure(runs: Mapping[str, Runs], scale: str, published: pd.DataFrame) -> pd.DataFrame:
    """Losses over alpha, their distances from the published points, and the closed form for both input ranges."""
    trained = trainings.only(runs)
    losses = join(trainings.larger_inputs(trained, "main"))
    parts = [losses]
    for seed in trained.sweep.seeds:
        own = losses[losses["seed"] == seed].set_index("x")
        cut, uncut = (own[own["series"] == f"Trained TF{kind}"]["value"] for kind in ("", ", no clip"))
        theirs = trainings.published_series(published, "main", "Trained TF")
        parts += [
            rows("largest distance from the published points, relative", seed, (cut / theirs - 1).abs().max()),
            rows("loss without clip over the published one at alpha = 2", seed, uncut[2.0] / theirs[2.0]),
        ]
    widths = {
        "GD loss for x ~ U(-1/2, 1/2)": trained.sweep.configs[0].half_width,
        "GD loss for x ~ U(-1, 1)": 1.0,
    }
    facts = [rows(name, 0, system.best_loss(system.Config(half_width=width))) for name, width in widths.items()]
    return join([*parts, exact(join(facts))])


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """Panel D by itself."""
    figure, axes = plotting.canvas((440, 330), (80, 425, 38, 262))
    trainings.draw_larger_inputs(axes, table, font=14, ticks=12)
    plotting.legend(axes, 11, "upper left", (0.02, 0.99), spacing=0.3)
    return figure
