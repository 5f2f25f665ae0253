"""Heat maps and an axis in the style of the authors' notebooks (Ahn et al. 2023)."""

import numpy as np

from icl.figure import Axes, Axis, Table, plotting


def heat_map(axes: Axes, table: Table, title: str, bar: tuple[float, float], ticks: float) -> None:
    """Draw a square matrix in grey, dark for large entries, with its entries in red and its colour bar on the right.

    The entries are the rows of the observable `entry` in the panel that the label of the axes names.

    bar : distance from the axes and width of the colour bar, in pixels; ticks : size of its tick labels, in points
    """
    import seaborn

    matrix, box, width = table.matrix(plotting.panel_of(axes), "entry"), axes.get_position(), axes.figure.bbox.width
    place = (box.x1 + bar[0] / width, box.y0, bar[1] / width, box.height)
    colours = axes.figure.add_axes(place, label="<colorbar>")
    look = {"cmap": "gray_r", "fmt": ".2f", "annot_kws": {"color": "r", "fontsize": 7}, "square": True}
    # Adding 0 turns a rounded -0 into 0.
    seaborn.heatmap(matrix, ax=axes, cbar_ax=colours, annot=np.round(matrix, 2) + 0.0, **look)
    for spine in (*axes.spines.values(), *colours.spines.values()):
        spine.set_visible(True)
    colours.tick_params(labelsize=ticks)
    axes.set_title(title, fontsize=12)
    places, names = [index + 0.5 for index in range(len(matrix))], [str(index) for index in range(len(matrix))]
    plotting.frame(axes, Axis("column", None, places, names), Axis("row", None, places, names), 9, 8)
    axes.tick_params(rotation=0)


def iterations(axes: Axes) -> Axis:
    """Return the x axis from 0 to the last iteration drawn."""
    end = axes.dataLim.x1
    return Axis("Iteration", (0, end), (0, end / 2, end))
