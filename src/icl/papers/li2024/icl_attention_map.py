"""Attention map of one prompt in each of three layers: do columns attend to their own pattern (talk page 34)?"""

from typing import Any

import numpy as np

from icl.figure import Axes, Axis, Figure, Picture, Rows, Table, Tensor, Trained, plotting, rows, single, torch
from icl.papers.li2024 import evaluation, stack
from icl.papers.li2024.evaluation import EvaluationPrompts
from icl.papers.li2024.record import Record
from icl.papers.li2024.trainings import stack_training


def label_of_layers(attention: list[Tensor], prompts: EvaluationPrompts) -> np.ndarray:
    """Mean of the context labels, weighted by the query's attention in one layer per run: (runs, prompts).

    The layer is the one that attends most to the columns with the query's pattern.
    """
    contexts = torch.stack([weights[:, :, -1, :-1] for weights in attention], dim=1)
    same = (prompts.patterns[..., :-1] == prompts.patterns[..., -1:]).double()
    best = torch.einsum("rlpn,rpn->rl", contexts, same).argmax(dim=-1)
    mean_label = torch.einsum("rlpn,rpn->rlp", contexts, prompts.labels[..., :-1].double())
    return mean_label[torch.arange(len(best)), best].numpy()


def measure(runs: Trained, scale: str) -> Rows:
    """Return maps for the drawn run on the first prompt; for every run, how often a layer's label is its answer."""
    trained = single(runs)
    record, configs = Record(trained), trained.sweep.configs
    prompts = evaluation.in_domain(trained.sweep)
    tokens = prompts.tokens[..., : configs[0].feature_dimension + 1]
    logits, attention = stack.forward(trained.last(), tokens, configs, last_layer_whole=True)
    run, x = record.drawn, np.arange(1, tokens.shape[2] + 1)
    names = np.array([f"row {row:02d}" for row in x])[:, None]
    for number, weights in enumerate(attention, start=1):
        labels = {"panel": f"layer {number}", "series": names, "x": x}
        record.parts.append(rows("attention weight", record.seeds[run], weights[run, 0].numpy(), **labels))
    for name, values in (("pattern", prompts.patterns), ("label", prompts.labels)):
        record.parts.append(rows(name, record.seeds[run], values[run, 0].numpy(), x=x, panel="prompt", series=name))
    agree = np.sign(label_of_layers(attention, prompts)) == np.sign(logits.numpy())
    return record.rows({"share of answers that one layer's label gives": agree.mean(axis=-1)})


SIZE, GAP = 270, 62


@plotting.under_defaults
def draw(table: Table) -> Picture:
    """One map per layer, from left to right; red dots mark other columns with the asking column's pattern."""
    names = sorted({panel for panel in table.curves["panel"] if panel.startswith("layer")})
    edges = plotting.grid_edges(names, (70, 70 + SIZE, 30, 30 + SIZE), (SIZE + GAP, 0))
    figure, panels = plotting.panels((110 + len(names) * (SIZE + GAP), SIZE + 110), edges)
    image = [_map(axes, table) for axes in panels.values()][-1]
    right = edges[names[-1]][1] + 12
    figure.colorbar(image, cax=plotting.add_panel(figure, (right, right + 14, 30, 30 + SIZE), "<colorbar>"))
    plotting.legend(panels[names[0]], 9, "upper right", (0.99, 0.99))
    return figure


def _map(axes: Axes, table: Table) -> Any:
    patterns, labels = (table.matrix("prompt", name)[0].astype(int) for name in ("pattern", "label"))
    panel = plotting.panel_of(axes)
    image = plotting.heatmap(axes, table.matrix(panel, "attention weight"), panel, 12, vmin=0, vmax=1)
    asking, attended = np.nonzero((patterns[:, None] == patterns) & ~np.eye(len(patterns), dtype=bool))
    axes.plot(attended + 1, asking + 1, ".", color="r", markersize=3, label="same pattern", gid="same pattern")
    names = [f"{pattern + 1}{'+' if label > 0 else '-'}" for pattern, label in zip(patterns, labels, strict=True)]
    names[-1] = f"{patterns[-1] + 1}?"
    x, y = (Axis(f"{side} column", ticks=range(1, len(names) + 1), names=names) for side in ("attended", "asking"))
    plotting.frame(axes, x, y, 10, 6)
    return image


FIGURES = (Figure("icl_attention_map", stack_training, measure, draw),)
