"""Heat maps and curves in the style of the authors' notebooks (Ahn et al. 2023)."""

from collections.abc import Sequence

import numpy as np

from icl.core.lazy import Axes
from icl.core.table import Table
from icl.drawing import plotting
from icl.evidence.intervals import BAND


def curves_with_deviation(
    axes: "Axes", table: Table, styles: Sequence[plotting.Style], observable: str, width: float
) -> None:
    """Draw curves with bands of one standard deviation over runs; the label of the axes names the panel."""
    for style in styles:
        rows = table.curve(plotting.panel_of(axes), style.series, observable)
        half = (rows["band_high"] - rows["value"]) / BAND
        # A logarithmic axis cannot show a band that reaches zero.
        low = (rows["value"] - half).clip(lower=rows["value"] / 20)
        axes.fill_between(rows["x"], low, rows["value"] + half, color=style.colour, alpha=0.2, linewidth=0)
        axes.plot(
            rows["x"], rows["value"], color=style.colour, linestyle=style.line, marker=style.marker, linewidth=width,
            label=style.label, gid=style.series,
        )  # fmt: skip


def matrix_heatmap(axes: "Axes", bar: "Axes", table: Table, title: str) -> None:
    """Draw a square matrix in grey, dark for large entries, with its entries in red and its colour bar in `bar`.

    The entries are the rows of the observable `entry` in the panel that the label of the axes names.
    """
    import seaborn

    matrix = table.matrix(plotting.panel_of(axes), "entry")
    size = len(matrix)
    # Adding 0 turns a rounded -0 into 0.
    printed = np.round(matrix, 2) + 0.0
    seaborn.heatmap(
        matrix, ax=axes, cbar_ax=bar, cmap="gray_r", annot=printed, fmt=".2f", annot_kws={"color": "r", "fontsize": 7},
        square=True,
    )  # fmt: skip
    for spine in (*axes.spines.values(), *bar.spines.values()):
        spine.set_visible(True)
    axes.set_title(title, fontsize=12)
    places, names = [column + 0.5 for column in range(size)], list(map(str, range(size)))
    plotting.frame(axes, plotting.Axis("column", None, places, names), plotting.Axis("row", None, places, names), 9, 8)
    axes.tick_params(rotation=0)
