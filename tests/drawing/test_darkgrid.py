"""The look of Garg et al.'s panels equals seaborn's."""

import seaborn
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from icl.drawing import darkgrid


def test_the_colours_are_the_first_six_of_the_palette_colorblind() -> None:
    colours = (darkgrid.BLUE, darkgrid.ORANGE, darkgrid.GREEN, darkgrid.RED, darkgrid.PINK, darkgrid.TAN)
    assert list(colours) == seaborn.color_palette("colorblind").as_hex()[:6]


def test_axes_look_like_seaborns() -> None:
    ours = Figure().add_subplot()
    darkgrid.grid_look(ours)
    with seaborn.axes_style("darkgrid"):
        theirs = Figure().add_subplot()
    assert ours.get_facecolor() == theirs.get_facecolor()
    assert ours.get_axisbelow() == theirs.get_axisbelow()
    (one, other) = (axes.xaxis.get_gridlines()[0] for axes in (ours, theirs))
    assert to_hex(one.get_color()) == to_hex(other.get_color())
    assert (one.get_linestyle(), one.get_visible()) == (other.get_linestyle(), other.get_visible())
