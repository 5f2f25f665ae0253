"""Attention map of one prompt in each of three layers: do columns attend to their own pattern (talk page 34)?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from icl.core.lazy import Axes, Picture, Tensor, torch
from icl.core.runs import Runs, single
from icl.core.table import Table, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis
from icl.figure import Figure
from icl.papers.li2024 import one_layer_evaluation, one_training, stacked_layers
from icl.papers.li2024.one_layer_evaluation import Evaluation
from icl.papers.li2024.stacked_figures import sweeps

if TYPE_CHECKING:
    from matplotlib.image import AxesImage


def label_of_layers(attention: list[Tensor], prompts: Evaluation) -> np.ndarray:
    """Mean of the context labels, weighted by the query's attention in one layer per run: (runs, prompts).

    The layer is the one that attends most to the columns with the query's pattern.
    """
    contexts = torch.stack([weights[:, :, -1, :-1] for weights in attention], dim=1)
    same = (prompts.patterns[..., :-1] == prompts.patterns[..., -1:]).double()
    best = torch.einsum("rlpn,rpn->rl", contexts, same).argmax(dim=-1)
    mean_label = torch.einsum("rlpn,rpn->rlp", contexts, prompts.labels[..., :-1].double())
    result: np.ndarray = mean_label[torch.arange(len(best)), best].numpy()
    return result


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Maps of the drawn run on the first test prompt; for every run, how often one layer's label is its answer."""
    trained = single(runs)
    pick = one_training.choice(trained)
    configs = trained.sweep.configs
    prompts = one_layer_evaluation.in_domain(configs, trained.sweep.test)
    tokens = prompts.tokens[..., : configs[0].feature_dimension + 1]
    logits, attention = stacked_layers.forward(trained.last(), tokens, configs, last_layer_whole=True)
    run, seed = pick.index, pick.seeds[pick.index]
    x = np.arange(1, tokens.shape[2] + 1)
    parts = [
        rows("attention weight", seed, weights[run, 0].numpy(), x=x, panel=f"layer {number}", series=_rows(len(x)))
        for number, weights in enumerate(attention, start=1)
    ]
    for name, values in (("pattern", prompts.patterns), ("label", prompts.labels)):
        parts.append(rows(name, seed, values[run, 0].numpy(), x=x, panel="prompt", series=name))
    agree = np.sign(label_of_layers(attention, prompts)) == np.sign(logits.numpy())
    parts.append(pick.claim("share of answers that one layer's label gives", agree.mean(axis=-1)))
    return one_training.table(pick, parts)


def _rows(count: int) -> np.ndarray:
    return np.array([f"row {row:02d}" for row in range(1, count + 1)])[:, None]


SIZE, GAP = 270, 62


@plotting.published
def draw(table: Table) -> Picture:
    """One map per layer, from left to right; red dots mark other columns with the asking column's pattern."""
    names = sorted({panel for panel in table.curves["panel"] if panel.startswith("layer")})
    width, height = 70 + len(names) * (SIZE + GAP) + 40, SIZE + 110
    edges = [
        (70 + place * (SIZE + GAP), 70 + place * (SIZE + GAP) + SIZE, 30, 30 + SIZE) for place in range(len(names))
    ]
    figure, first = plotting.canvas((width, height), edges[0], panel=names[0])
    panels = [first, *(plotting.add_panel(figure, *one) for one in zip(edges[1:], names[1:], strict=True))]
    image = [_map(axes, table) for axes in panels][-1]
    right = edges[-1][1] + 12
    figure.colorbar(image, cax=plotting.add_panel(figure, (right, right + 14, 30, 30 + SIZE), "<colorbar>"))
    plotting.legend(first, 9, "upper right", (0.99, 0.99))
    return figure


def _map(axes: Axes, table: Table) -> AxesImage:
    patterns, labels = (table.matrix("prompt", name)[0].astype(int) for name in ("pattern", "label"))
    matrix = table.matrix(plotting.panel_of(axes), "attention weight")
    image = plotting.heatmap(axes, matrix, str(axes.get_label()), 12, vmin=0, vmax=1)
    asking, attended = np.nonzero((patterns[:, None] == patterns) & ~np.eye(len(patterns), dtype=bool))
    axes.plot(attended + 1, asking + 1, ".", color="r", markersize=3, label="same pattern", gid="same pattern")
    names = [f"{pattern + 1}{'+' if label > 0 else '-'}" for pattern, label in zip(patterns, labels, strict=True)]
    names[-1] = f"{patterns[-1] + 1}?"
    ticks = range(1, len(names) + 1)
    plotting.frame(
        axes, Axis("attended column", ticks=ticks, names=names), Axis("asking column", ticks=ticks, names=names), 10, 6
    )
    return image


FIGURES = (Figure("icl_attention_map", sweeps, measure, draw),)
