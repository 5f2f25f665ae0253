"""Attention on the query's pattern over training: the curves of figure 9 and, layer by layer, figures 21 to 23."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd

from icl.core.lazy import Picture
from icl.core.runs import Runs, single
from icl.core.table import Table
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.figure import Figure
from icl.papers.li2024 import one_layer_evaluation, one_training, runs_picture, stacked_figures
from icl.papers.li2024.one_training import Choice

STYLES = (
    Style("The same ODR", "The same ODR", "C0"),
    Style("Other", "Other", "C1"),
)


def curve_rows(pick: Choice, epochs: Sequence[float], same: np.ndarray) -> Iterator[pd.DataFrame]:
    """Rows of both curves from `same`, (epochs, runs), the attention on the query's pattern; the rest is on others."""
    for style, values in zip(STYLES, (same, 1 - same), strict=True):
        yield from pick.lines("attention weight", values, panel="main", series=style.series, x=epochs)


def measure_layer(runs: Mapping[str, Runs], scale: str, layer: int) -> pd.DataFrame:
    """Table of figures 21 to 23: out-of-domain attention of one layer on the query's pattern, and its rise."""
    trained = single(runs)
    pick = one_training.choice(trained)
    prompts = one_layer_evaluation.out_of_domain(trained.sweep.configs, trained.sweep.test)
    same = stacked_figures.attention_on_same(trained, prompts)[..., layer - 1]
    parts = [*curve_rows(pick, stacked_figures.EPOCHS, same), pick.claim("rise of attention", same[-1] - same[0])]
    return one_training.table(pick, parts)


@plotting.published
def draw_layer(table: Table, weights: tuple[float, float]) -> "Picture":
    """Figures 21 to 23 in the published style; `weights` are the limits of the y axis."""
    figure, axes = plotting.canvas((400, 400), (83.53, 359.40, 15.00, 329.72))
    plotting.curves(axes, table, STYLES, "attention weight")
    # With this end the ticks of figures 21 and 22 lie on their published pixels: the last one before the right spine.
    x = Axis("Epoches", (0, 1605.4), range(0, 1601, 320))
    plotting.frame(axes, x, Axis("Attention weight in average", weights, widens=True), font=15)
    plotting.legend(axes, 15, "center right", (0.959, 0.5), spacing=0.418)
    return figure


def _figure(name: str, layer: int, weights: tuple[float, float]) -> Figure:
    draw = partial(draw_layer, weights=weights)
    return Figure(
        name, stacked_figures.sweeps, partial(measure_layer, layer=layer), draw, runs_picture.of(draw, STYLES)
    )


FIGURES = (
    _figure("figure21", 1, (0.1142, 0.8859)),
    _figure("figure22", 2, (0.1789, 0.8212)),
    _figure("figure23", 3, (0.0669, 0.9331)),
)
