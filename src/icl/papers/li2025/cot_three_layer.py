"""Chain of thought with three layers of two heads: attention by pattern and step in each head, over training."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from icl.core.config import grid
from icl.core.lazy import Picture
from icl.core.runs import Runs, single
from icl.core.sweep import Sweep
from icl.core.table import Table, join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis
from icl.figure import Figure
from icl.papers.li2025 import one_layer, trainings
from icl.papers.li2025.attention_groups import GROUPS, STYLES, attention

LAYERS, HEADS, LENGTH = 3, 2, 20
SNAPSHOTS = (0, 50, 100, 150, 200, 300, 400, *range(600, 2001, 200))
SHORTEST = (0, 10)
SEEDS = {"paper": 20, "laptop": 10, "smoke": 2}
BATCH = {"paper": 120, "laptop": 40, "smoke": 10}
QUERIES = {"paper": 400, "laptop": 100, "smoke": 10}


def sweeps(scale: str) -> list[Sweep]:
    """The training of the three-layer model."""
    deep = trainings.pinned(layers=LAYERS, heads=HEADS)
    configs = grid(
        deep, chain_length=[2], relevant_fraction=[0.7], context_length=[LENGTH], pattern_norm=[1.0], code_norm=[1.0],
        attention_start=[0.25], start_std=[0.1], value_start=[1.0], learning_rate=[0.2], batch=[BATCH[scale]],
        seed=range(SEEDS[scale]),
    )  # fmt: skip
    length = configs[0].context_length
    test = one_layer.Test(
        chain_length=2, relevant_fraction_test=0.7, noise=0.0, context_length_test=length, queries=QUERIES[scale]
    )
    return [Sweep("li_cot_three_layer", one_layer.SYSTEM, configs, SHORTEST if scale == "smoke" else SNAPSHOTS, test)]


def panel(layer: int, head: int) -> str:
    """The name of a head's panel."""
    return f"layer {layer + 1}, head {head + 1}"


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Attention of every head to the four groups of columns at every snapshot, and its change per layer."""
    trained = single(runs)
    configs, test, steps = trained.sweep.configs, trained.sweep.test, trained.sweep.snapshots
    seeds = np.array(trained.sweep.seeds)
    length = min(configs[0].context_length, test.context_length_test)
    weights = np.stack(
        [attention(trained.at(s), configs, test, test.setting(), length, test.queries) for s in steps]
    )  # (snapshots, runs, layers, heads, groups)
    parts = [
        rows("attention weight", seeds, weights[:, :, layer, head, group], x=np.array(steps)[:, None],
             panel=panel(layer, head), series=series)
        for layer in range(weights.shape[2])
        for head in range(weights.shape[3])
        for group, series in enumerate(GROUPS)
    ]  # fmt: skip
    for layer in range(LAYERS):
        means = weights[:, :, layer].mean(axis=2)  # (snapshots, runs, groups)
        off = means[..., 1] + means[..., 3]
        share = means[..., 0] / (means[..., 0] + means[..., 2])
        parts += [
            rows(f"same TSR, same step at the end, layer {layer + 1}", seeds, means[-1, :, 0]),
            rows(f"fall off the step, layer {layer + 1}", seeds, off[0] - off[-1]),
            rows(f"rise of the TSR's share of the step, layer {layer + 1}", seeds, share[-1] - share[0]),
        ]
    return join(parts)


@plotting.published
def draw(table: Table) -> Picture:
    """One panel per head in the style of figure 20, one column per layer."""
    figure, first = plotting.canvas((1010, 670), _edges(0, 0), panel=panel(0, 0))
    for layer in range(LAYERS):
        for head in range(HEADS):
            name = panel(layer, head)
            axes = first if layer == head == 0 else plotting.add_panel(figure, _edges(layer, head), name)
            plotting.curves(axes, table, STYLES, "attention weight")
            x, y = Axis("Iterations", (0, SNAPSHOTS[-1]), range(0, 2001, 500)), Axis("Attention weight", (0, 1))
            plotting.frame(axes, x, y, font=14, ticks=12)
            axes.set_title(name.capitalize(), fontsize=14)
    plotting.legend(first, 10, "center right", (0.99, 0.45))
    return figure


def _edges(layer: int, head: int) -> tuple[int, int, int, int]:
    """Left, right, top and bottom edges of a head's panel in pixels: one column per layer, one row per head."""
    left, top = 70 + 330 * layer, 35 + 330 * head
    return left, left + 255, top, top + 235


FIGURES = (Figure("cot_three_layer", sweeps, measure, draw),)
