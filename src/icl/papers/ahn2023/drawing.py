"""Maps of the trained matrices of Ahn et al. 2023."""

from collections.abc import Mapping

import numpy as np

from icl.figure import Axes, Table, house


def weight_maps(axes_of: Mapping[str, Axes], table: Table, titles: Mapping[str, str]) -> None:
    """Draw the matrices of panels with their titles and mean diagonals, each over its largest absolute entry.

    The entries are the rows of the observable `entry`.
    """
    for panel, title in titles.items():
        matrix = table.matrix(panel, "entry")
        mesh = house.signed_map(axes_of[panel], matrix / abs(matrix).max(), 1.0)
        axes_of[panel].set_title(rf"$\mathrm{{tr}}\,{title}/d={np.diag(matrix).mean():.2f}$", fontsize=house.FONT)
    house.colour_bar(mesh, [axes_of[panel] for panel in titles], "Entry / largest")
