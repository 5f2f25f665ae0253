"""Figure 8: magnitude of W_Q p_query, W_K p_i and of their projections on the query's pattern, over training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.papers.li2024 import one_layer_evaluation, one_layer_figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the one-layer model."""
    return [one_layer_figures.shared_training(scale)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Magnitudes over out-of-domain prompts at every drawn epoch, and how they end."""
    trained = one_layer_figures.trained(runs)
    configs, seeds = trained.sweep.configs, trained.sweep.seeds
    prompts = one_layer_evaluation.out_of_domain(configs, trained.sweep.test)
    drawn = [
        one_layer_evaluation.projections(trained.at(epoch), prompts, configs[0].feature_dimension)
        for epoch in one_layer_figures.EPOCHS
    ]
    epochs = np.array(one_layer_figures.EPOCHS)[:, None]
    parts = [
        rows("magnitude", seeds, [now[series] for now in drawn], panel="main", series=series, x=epochs)
        for series in drawn[0]
    ]
    start, end = drawn[0], drawn[-1]
    share = (end["xdr W_Q p_query"] + end["xdr W_K p_i"]) / (end["W_Q p_query"] + end["W_K p_i"])
    growth = (end["xdr W_Q p_query"] + end["xdr W_K p_i"]) / (start["xdr W_Q p_query"] + start["xdr W_K p_i"])
    parts += [rows("share along the pattern", seeds, share), rows("growth along the pattern", seeds, growth)]
    return join(parts)


STYLES = (
    Style("W_Q p_query", "$W_Qp_{query}$", "C0", "d"),
    Style("W_K p_i", "$W_Kp_i$", "C1", "o"),
    Style("xdr W_Q p_query", "$xdrW_Qp_{query}$", "C2", "<"),
    Style("xdr W_K p_i", "$xdrW_Kp_i$", "C3", "x"),
)


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """The published picture from the table's summaries; xdr is the IDR or ODR pattern of the query."""
    figure, axes = plotting.canvas((400, 400), (96.65, 365.90, 15.00, 329.72))
    plotting.curves(axes, table, STYLES, "magnitude")
    x = Axis("Epoches", (0, 401), range(0, 401, 80))
    plotting.frame(axes, x, Axis("Magnitude"), font=15)
    plotting.legend(axes, 15, "lower left", (0.258, 0.013), spacing=0.717)
    return figure
