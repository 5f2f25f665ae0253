"""The profile of the distance against each constant of a calibration, as one picture of small panels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from icl.drawing import plotting
from studies import outcome
from studies.outcome import Row
from studies.space import Axis, Space

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 4


@plotting.published
def draw(space: Space, rows: Sequence[Row]) -> Figure:
    """Per constant: the trials of the search (grey; without those that diverged or were refused) and its lower
    envelope, the slice through the chosen point (black: all figures, coloured: each), and the chosen value (dashed).
    Distances as 1 + distance, logarithmic.
    """
    from matplotlib.figure import Figure as Canvas

    count = len(space.axes)
    lines = -(-count // COLUMNS)
    canvas = Canvas(figsize=(3.2 * COLUMNS, 2.6 * lines + 0.5), dpi=plotting.DPI, layout="constrained")
    for index, axis in enumerate(space.axes):
        _panel(canvas.add_subplot(lines, COLUMNS, index + 1, label=axis.name), space, axis, rows)
    handles, labels = canvas.axes[0].get_legend_handles_labels()
    canvas.legend(handles, labels, loc="outside lower center", ncols=6, fontsize=9)
    return canvas


def _panel(axes: Axes, space: Space, axis: Axis, rows: Sequence[Row]) -> None:
    from matplotlib.ticker import NullFormatter

    trials = [row for row in outcome.stage(rows, "search") if row["state"] == "complete"]
    name = f"constant {axis.name}"
    place = _places(axis)
    axes.plot([place(row[name]) for row in trials], [np.exp(row["joint"]) for row in trials], ".", color="0.75",
              markersize=3, label="search, all figures")  # fmt: skip
    least = outcome.envelope(axis, rows)
    axes.plot([place(value) for value, _ in least], [np.exp(joint) for _, joint in least], "-", color="0.5",
              label="its lower envelope")  # fmt: skip
    through = outcome.along(axis, rows)
    at = [place(row[name]) for row in through]
    for index, figure in enumerate(space.fitted):
        axes.plot(at, [1 + row[figure] for row in through], "-", color=f"C{index}", linewidth=0.9, label=figure)
    axes.plot(at, [np.exp(row["joint"]) for row in through], "k.-", label="slice, all figures")
    if through:
        axes.axvline(place(outcome.chosen(space, rows)[axis.name]), color="k", linestyle="--", linewidth=0.8)
    axes.set_yscale("log")
    axes.set_title(axis.name, fontsize=10)
    axes.tick_params(labelsize=8)
    if axis.choices:
        names = [str(choice) for choice in axis.choices]
        turn = 20 if len("".join(names)) > 30 else 0
        axes.set_xticks(range(len(names)), names, fontsize=8, rotation=turn, ha="right" if turn else "center")
    elif axis.log:
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter(NullFormatter())


def _places(axis: Axis) -> Any:
    """Where a value stands on the panel's axis."""
    return axis.choices.index if axis.choices else float
