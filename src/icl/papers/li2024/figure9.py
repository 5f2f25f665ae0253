"""Figure 9: attention on the contexts with the query's ODR pattern and on the others, over training."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from icl.core.lazy import Picture
from icl.core.runs import Runs, single
from icl.core.sweep import Sweep
from icl.core.table import Table
from icl.drawing import plotting
from icl.drawing.plotting import Axis
from icl.figure import Figure
from icl.papers.li2024 import attention_figures, one_layer_evaluation, one_layer_figures, one_training, runs_picture


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the one-layer model."""
    return [one_layer_figures.shared_training(scale)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Out-of-domain attention of the query on contexts with its own pattern and on the others."""
    trained = one_layer_figures.trained(runs)
    pick = one_training.choice(single(runs))
    prompts = one_layer_evaluation.out_of_domain(trained.sweep.configs, trained.sweep.test)
    same = np.stack(
        [one_layer_evaluation.attention_on_same(trained.at(e), prompts) for e in one_layer_figures.LONG_EPOCHS]
    )
    fall = np.max(np.maximum.accumulate(same, axis=0) - same, axis=0)
    parts = [
        *attention_figures.curve_rows(pick, one_layer_figures.LONG_EPOCHS, same),
        pick.claim("attention at the start", same[0]),
        pick.claim("attention at the end", same[-1]),
        pick.claim("largest fall of attention", fall),
    ]
    return one_training.table(pick, parts)


STYLES = attention_figures.STYLES


@plotting.published
def draw(table: Table) -> Picture:
    """The figure in the published style, from the drawn run."""
    figure, axes = plotting.canvas((400, 400), (83.53, 366.67, 23.00, 329.72))
    plotting.curves(axes, table, STYLES, "attention weight")
    x = Axis("Epoches", (0, 201), range(0, 201, 40))
    plotting.frame(axes, x, Axis("Attention weight summation", (0, 1)), font=15)
    plotting.legend(axes, 15, "center right", (0.963, 0.5), spacing=0.424)
    return figure


FIGURES = (Figure("figure9", sweeps, measure, draw, runs_picture.of(draw, STYLES)),)
