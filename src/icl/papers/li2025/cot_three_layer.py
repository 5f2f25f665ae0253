"""Chain of thought in three layers of two heads: attention by pattern and step in each head, over training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from icl.core.config import grid
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.papers.li2025 import error_curves as shared
from icl.papers.li2025 import one_layer, trainings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LAYERS, HEADS, LENGTH = 3, 2, 20
SNAPSHOTS = (0, 50, 100, 150, 200, 300, 400, *range(600, 2001, 200))
SHORTEST = (0, 10)
BATCH = {"paper": 120, "laptop": 40, "smoke": 10}
QUERIES = {"paper": 400, "laptop": 100, "smoke": 10}

SOURCE = "Li et al. 2025, proposition on the mechanism, three-layer model"
DEPTHS = range(1, LAYERS + 1)


def sweeps(scale: str) -> list[Sweep]:
    """The training of the three-layer model."""
    deep = shared.pinned(layers=LAYERS, heads=HEADS)
    configs = grid(
        deep, chain_length=[2], relevant_fraction=[0.7], context_length=[LENGTH], pattern_norm=[1.0], code_norm=[1.0],
        attention_start=[0.25], start_std=[0.1], value_start=[1.0], rate=[0.2], batch=[BATCH[scale]],
        seed=range(trainings.SEEDS[scale]),
    )  # fmt: skip
    length = configs[0].context_length
    test = one_layer.Test(
        chain_length=2, relevant_fraction_test=0.7, noise=0.0, context_length_test=length, queries=QUERIES[scale]
    )
    return [Sweep("li_cot_three_layer", "li_cot", configs, SHORTEST if scale == "smoke" else SNAPSHOTS, test)]


def panel(layer: int, head: int) -> str:
    """The name of a head's panel."""
    return f"layer {layer + 1}, head {head + 1}"


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Attention of every head on the four groups of columns at every snapshot, and how each layer begins and ends."""
    trained = trainings.only(runs)
    configs, test, steps = trained.sweep.configs, trained.sweep.test, trained.sweep.snapshots
    seeds = np.array(trained.sweep.seeds)
    length = min(configs[0].context_length, test.context_length_test)
    found = np.stack(
        [one_layer.attention(trained.at(s), configs, test, test.setting(), length, test.queries) for s in steps]
    )  # (snapshots, runs, layers, heads, groups)
    parts = [
        rows("attention weight", seeds, found[:, :, layer, head, group], x=np.array(steps)[:, None],
             panel=panel(layer, head), series=series)
        for layer in range(found.shape[2])
        for head in range(found.shape[3])
        for group, series in enumerate(one_layer.GROUPS)
    ]  # fmt: skip
    for layer in range(LAYERS):
        means = found[:, :, layer].mean(axis=2)  # (snapshots, runs, groups)
        off = means[..., 1] + means[..., 3]
        share = means[..., 0] / (means[..., 0] + means[..., 2])
        parts += [
            rows(f"same TSR, same step at the end, layer {layer + 1}", seeds, means[-1, :, 0]),
            rows(f"fall off the step, layer {layer + 1}", seeds, off[0] - off[-1]),
            rows(f"rise of the TSR's share of the step, layer {layer + 1}", seeds, share[-1] - share[0]),
        ]
    return join(parts)


STYLES = tuple(Style(name, name, f"C{index}", line=line) for index, (name, line) in enumerate(
    zip(one_layer.GROUPS, ("-", "--", "-.", ":"), strict=True)
))  # fmt: skip


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """One panel per head in the look of figure 20, one column per layer."""
    figure = None
    for layer in range(LAYERS):
        for head in range(HEADS):
            left, top = 70 + 330 * layer, 35 + 330 * head
            edges, name = (left, left + 255, top, top + 235), panel(layer, head)
            if figure is None:
                figure, axes = plotting.canvas((1010, 670), edges, panel=name)
            else:
                axes = plotting.add_panel(figure, edges, name)
            plotting.curves(axes, table, STYLES, "attention weight")
            x, y = Axis("Iterations", (0, SNAPSHOTS[-1]), range(0, 2001, 500)), Axis("Attention weight", (0, 1))
            plotting.frame(axes, x, y, font=14, ticks=12)
            axes.set_title(name.capitalize(), fontsize=14)
    assert figure is not None
    plotting.legend(figure.axes[0], 10, "center right", (0.99, 0.45))
    return figure
