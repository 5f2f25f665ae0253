"""Maps of the trained matrices of Ahn et al. 2023."""

from collections.abc import Mapping

import numpy as np

from icl.drawing import own_style
from icl.figure import Axes, Table


def weight_maps(axes_of: Mapping[str, Axes], table: Table, titles: Mapping[str, str]) -> None:
    """Draw the matrices of panels with their titles and mean diagonals, each over its largest
    absolute entry.

    The entries are the rows of the observable `entry`.
    """
    found = {panel: table.matrix(panel, "entry") for panel in titles}
    words = {
        p: rf"$\mathrm{{tr}}\,{titles[p]}/d={np.diag(matrix).mean():.2f}$"
        for p, matrix in found.items()
    }
    scaled = {panel: matrix / abs(matrix).max() for panel, matrix in found.items()}
    own_style.signed_maps(axes_of, scaled, words, "Entry / largest", 1.0)
