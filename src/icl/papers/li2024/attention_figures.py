"""Attention on the query's pattern over training: the curves of figure 9 and, layer by layer, figures 21 to 23."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.papers.li2024 import decoder_evaluation, decoder_figures
from icl.papers.li2024.decoder_figures import SCHEDULE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLES = (
    Style("The same ODR", "The same ODR", "C0"),
    Style("Other", "Other", "C1"),
)


def curve_rows(seeds: Sequence[int], epochs: Iterable[float], same: Iterable[np.ndarray]) -> Iterator[pd.DataFrame]:
    """Both curves: `same`, (runs,) per epoch, is the attention on the query's pattern, and the rest is on others."""
    for epoch, values in zip(epochs, same, strict=True):
        yield rows("attention weight", seeds, values, panel="main", series="The same ODR", x=epoch)
        yield rows("attention weight", seeds, 1 - values, panel="main", series="Other", x=epoch)


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the three-layer model."""
    return [decoder_figures.shared_training(scale)]


def measure_layer(runs: Mapping[str, Runs], layer: int) -> pd.DataFrame:
    """Figures 21 to 23: out-of-domain attention of one layer on the query's pattern, and how much it rises."""
    trained = decoder_figures.trained(runs)
    seeds, config, snapshots = trained.sweep.seeds, trained.sweep.configs[0], trained.sweep.snapshots
    test = replace(trained.sweep.test, prompts=min(SCHEDULE.traced_prompts, trained.sweep.test.prompts))
    if layer == 1:
        test = replace(test, relevant_fraction_test=test.relevant_fraction_figure21)
    prompts = decoder_evaluation.out_of_domain(trained.sweep.configs, test)
    same = [
        decoder_evaluation.attention_on_same(trained.at(s), config, prompts, test.attention_heads)[:, layer - 1]
        for s in snapshots
    ]
    epochs = [step * SCHEDULE.epochs / snapshots[-1] for step in snapshots]
    return join([*curve_rows(seeds, epochs, same), rows("rise of attention", seeds, same[-1] - same[0])])


@plotting.published
def draw(table: pd.DataFrame) -> "Figure":
    """The published look of figures 21 to 23."""
    figure, axes = plotting.canvas((400, 400), (83.53, 359.40, 15.00, 329.72))
    plotting.curves(axes, table, STYLES, "attention weight")
    x = Axis("Epoches", (0, 1605), range(0, 1601, 320))
    plotting.frame(axes, x, Axis("Attention weight in average"), font=15)
    plotting.legend(axes, 15, "center right", (0.959, 0.5), spacing=0.418)
    return figure
