"""a and b over training: the start determines how ab is split between them (talk page 38)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from icl.core.lazy import Picture
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import Table, exact, join, rows
from icl.drawing import plotting, zheng_look
from icl.drawing.plotting import Axis, Style
from icl.figure import Figure
from icl.models import autoregressive_readout as readout
from icl.models import autoregressive_theory as theory
from icl.models import autoregressive_trainings as trainings

LAWS = ("gaussian", "sparse")
EPOCHS = trainings.EPOCHS


def sweeps(scale: str) -> list[Sweep]:
    """Return trainings of full blocks from three starts under both laws of page 42."""
    return [trainings.sweep(law, scale) for law in LAWS]


def split(product: float, difference: float) -> tuple[float, float]:
    """Return the a, b > 0 with ab = product and a^2 - b^2 = difference."""
    root = np.hypot(difference, 2 * product)
    return float(np.sqrt((root + difference) / 2)), float(np.sqrt((root - difference) / 2))


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Return a and b at every epoch, their limits predicted by the start, and the drift of a^2 - b^2."""
    parts, drifts, distances = [], [], []
    for law in LAWS:
        trained = runs[trainings.sweep_name(law)]
        for run, start in enumerate(trainings.STARTS):
            config = trained.sweep.configs[run]
            blocks = readout.moving_blocks({name: w[run] for name, w in trained.weights.items()}, config)
            a, b = (np.diagonal(block, axis1=-2, axis2=-1).mean(axis=-1) for block in blocks)
            for letter, course in (("a", a), ("b", b)):
                label = {"panel": law, "series": f"{letter}, {start}"}
                parts.append(rows("weight", 0, course[: EPOCHS + 1], x=np.arange(EPOCHS + 1), **label))
            # Relative to a_0^2 + b_0^2, because a_0^2 - b_0^2 is 0 for two of the starts.
            a_0, b_0 = config.starts
            drifts.append(np.abs(a**2 - b**2 - (a_0**2 - b_0**2)).max() / (a_0**2 + b_0**2))
            ends = split(theory.limit(config), a_0**2 - b_0**2)
            distances += [abs(course[-1] / end - 1) for course, end in zip((a, b), ends, strict=True)]
            parts += [
                rows("weight", 0, [end] * 2, x=[0, EPOCHS], panel=law, series=f"end of {letter}, {start}")
                for letter, end in zip("ab", ends, strict=True)
            ]
    parts += [
        rows("largest drift of a^2 - b^2 over a_0^2 + b_0^2", 0, max(drifts)),
        rows("largest relative distance of a and b from their predicted ends", 0, max(distances)),
    ]
    return exact(join(parts))


CAPTIONS = {
    "gaussian": r"(a) Gaussian with $\sigma=0.5$",
    "sparse": "(b) Example 4.1 with $c=0.5$",
}


@plotting.published
def draw(table: Table) -> Picture:
    """Draw a panel per law: a solid and b dashed in the colour of their start, predicted limits dotted."""
    figure, first = plotting.canvas((925, 345), (75, 447, 15, 253), panel="gaussian")
    panels = (first, plotting.add_panel(figure, (535, 907, 15, 253), "sparse"))
    for axes in panels:
        name = str(axes.get_label())
        for style in zheng_look.start_styles(trainings.STARTS):
            start = style.series
            ends = [Style(f"end of {letter}, {start}", "", style.colour, line=":") for letter in "ab"]
            courses = [style._replace(series=f"a, {start}"), Style(f"b, {start}", "", style.colour, line="--")]
            plotting.curves(axes, table, [*ends, *courses], "weight")
        for curve in axes.lines:
            curve.set_linewidth(1.0 if curve.get_linestyle() == ":" else 1.6)
        for label, line in (("$a$", "-"), ("$b$", "--"), ("predicted end", ":")):
            axes.plot([], [], color="0.4", linestyle=line, linewidth=1.4, label=label)
        y = Axis("$a$ and $b$", (0, 2.6 if name == "sparse" else 2.1), [0.5 * i for i in range(6 - (name != "sparse"))])
        plotting.frame(axes, Axis("Epoch", (-10, 210), range(0, 201, 25)), y, 15, 12.5)
        axes.text(0.5, -0.31, CAPTIONS[name], fontsize=12, ha="center", transform=axes.transAxes,
                  fontfamily=zheng_look.SERIF)  # fmt: skip
    legend = panels[1].legend(fontsize=10, loc="lower right")
    legend.set_gid("starts")
    for axes in panels:
        zheng_look.serif(axes)
    return figure


FIGURES = (Figure("zheng_a_and_b", sweeps, measure, draw),)
