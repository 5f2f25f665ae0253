"""Figure 8: magnitude of W_Q p_query, W_K p_i and of their projections on the query's pattern, over training."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from icl.core.lazy import Picture
from icl.core.runs import Runs, single
from icl.core.sweep import Sweep
from icl.core.table import Table
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.figure import Figure
from icl.papers.li2024 import one_layer_evaluation, one_layer_figures, one_training, runs_picture


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the one-layer model."""
    return [one_layer_figures.shared_training(scale)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Magnitudes on out-of-domain prompts at every drawn epoch, and the claims' ratios at the end."""
    trained = one_layer_figures.trained(runs)
    pick, configs = one_training.choice(single(runs)), trained.sweep.configs
    prompts = one_layer_evaluation.out_of_domain(configs, trained.sweep.test)
    drawn = [
        one_layer_evaluation.projections(trained.at(epoch), prompts, configs[0].feature_dimension)
        for epoch in one_layer_figures.EPOCHS
    ]
    parts: list[pd.DataFrame] = []
    for series in drawn[0]:
        values = [now[series] for now in drawn]
        parts += pick.lines("magnitude", values, panel="main", series=series, x=one_layer_figures.EPOCHS)
    start, end = drawn[0], drawn[-1]
    share = (end["xdr W_Q p_query"] + end["xdr W_K p_i"]) / (end["W_Q p_query"] + end["W_K p_i"])
    growth = (end["xdr W_Q p_query"] + end["xdr W_K p_i"]) / (start["xdr W_Q p_query"] + start["xdr W_K p_i"])
    parts += [pick.claim("share along the pattern", share), pick.claim("growth along the pattern", growth)]
    return one_training.table(pick, parts)


STYLES = (
    Style("W_Q p_query", "$W_Qp_{query}$", "C0", "d"),
    Style("W_K p_i", "$W_Kp_i$", "C1", "o"),
    Style("xdr W_Q p_query", "$xdrW_Qp_{query}$", "C2", "<"),
    Style("xdr W_K p_i", "$xdrW_Kp_i$", "C3", "x"),
)


@plotting.published
def draw(table: Table) -> Picture:
    """The figure in the published style, from the drawn run; xdr is the IDR or ODR pattern of the query."""
    figure, axes = plotting.canvas((400, 400), (96.65, 365.90, 15.00, 329.72))
    plotting.curves(axes, table, STYLES, "magnitude")
    x = Axis("Epoches", (0, 401), range(0, 401, 80))
    plotting.frame(axes, x, Axis("Magnitude", (0.3285, 1.8305), widens=True), font=15)
    plotting.legend(axes, 15, "lower left", (0.258, 0.013), spacing=0.717)
    return figure


FIGURES = (Figure("figure8", sweeps, measure, draw, runs_picture.of(draw, STYLES)),)
