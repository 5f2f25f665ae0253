"""What the figures of Zheng et al. (mesa-optimisation in autoregressive training) share: trainings, curves, looks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from icl.core.config import grid
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.drawing.plotting import Style
from icl.models import autoregressive as system
from icl.models.autoregressive import Config

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STARTS = ("0.1 0.1", "0.5 1.5", "2 2")
SCALES = {"gaussian": 0.5, "sparse": 0.5, "full-one": 1.0}
RATES = {"gaussian": 1e-3, "sparse": 3e-2, "full-one": 5e-4}
EPOCHS = 200
# By then every start has converged to the last digit.
CONVERGED = {"paper": 1100, "laptop": 1100, "smoke": 300}
SEEDS = {"paper": 10, "laptop": 5, "smoke": 2}


def every_epoch(scale: str) -> tuple[int, ...]:
    """The epochs of the published figures, each, and one after convergence."""
    return (*range(EPOCHS + 1), CONVERGED[scale])


def name_of(law: str, engine: str = "population") -> str:
    """The sweep's name."""
    return f"zheng_{law.replace('-', '_')}" + ("" if engine == "population" else f"_{engine}")


def sweep(law: str, scale: str, engine: str = "population") -> Sweep:
    """All starts of the talk under one law of the first token, by a gradient without sampling."""
    configs = grid(
        Config, engine=[engine], law=[law], scale=[SCALES[law]], rate=[RATES[law]], start=STARTS
    )  # fmt: skip
    return Sweep(name_of(law, engine), "zheng_ar", configs, every_epoch(scale), system.Test())


def products(runs: Runs, run: int) -> np.ndarray:
    """ab of one run at every snapshot."""
    return system.products({name: w[run] for name, w in runs.weights.items()}, runs.sweep.configs[run])


def blocks(runs: Runs, run: int, step: int) -> tuple[np.ndarray, np.ndarray]:
    """A and B of one run after so many epochs."""
    return system.moving({name: w[run] for name, w in runs.at(step).items()}, runs.sweep.configs[run])


CURVES = tuple(
    Style(start, rf"$(a_0,b_0)=$({a:.1f}, {b:.1f})", colour)
    for start, colour in zip(STARTS, ("C0", "C1", "C2"), strict=True)
    for a, b in [(float(word) for word in start.split())]
)
SERIF = "STIXGeneral"
"""The metric twin of the published Times New Roman that comes with matplotlib."""


def serif(axes: Axes) -> None:
    """Labels, ticks and legend in the published typeface; formulas stay in matplotlib's own, as published."""
    axes.tick_params(labelfontfamily=SERIF)
    legend = axes.get_legend()
    for text in (axes.xaxis.label, axes.yaxis.label, axes.title, *(legend.get_texts() if legend else ())):
        text.set_fontfamily(SERIF)
