"""Attention map of one prompt in each head: do columns attend to their own pattern (talk pages 9 and 34)?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from icl.core.lazy import lazy
from icl.core.runs import Runs, single
from icl.core.sweep import Sweep
from icl.core.table import rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis
from icl.evidence.intervals import lone
from icl.models import transformer
from icl.models.optimisers import Params
from icl.papers.li2024 import decoder, decoder_evaluation, decoder_figures, one_training
from icl.papers.li2024.decoder_evaluation import Evaluation

if TYPE_CHECKING:
    import torch
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage
    from torch import Tensor
else:
    torch = lazy("torch")


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the three-layer model."""
    return [decoder_figures.shared_training(scale)]


def attention(params: Params, tokens: Tensor, heads: int) -> Tensor:
    """Attention of the last column: tokens (runs, prompts, n, d) -> (runs, prompts, layers, heads, n)."""
    used = decoder.without_idle_read_in(params, tokens)
    with torch.no_grad():
        weights: Tensor = transformer.attention_of_last(used, tokens, heads).double()
    return weights


def attention_map(params: Params, tokens: Tensor, heads: int) -> np.ndarray:
    """Full attention maps of one prompt of one run: tokens (1, 1, n, d) -> (layers, heads, n, n), one row per column.

    Attention is causal, so the row of a column is that of the last column of a shorter prompt.
    """
    n = tokens.shape[2]
    parts = [attention(params, tokens[:, :, : end + 1], heads)[0, 0] for end in range(n)]
    padded = [torch.nn.functional.pad(part, (0, n - part.shape[-1])) for part in parts]
    result: np.ndarray = torch.stack(padded, dim=-2).numpy()
    return result


def copied_label(params: Params, prompts: Evaluation, heads: int) -> np.ndarray:
    """Mean of the context labels, weighted by the query's attention in one head per run: (runs, prompts).

    The head is the one that attends most to the columns with the query's pattern.
    """
    weights = torch.cat([attention(params, part, heads) for part in torch.split(prompts.tokens, 100, dim=1)], dim=1)
    labels = prompts.labels[..., :-1].double()
    contexts = weights[..., :-1]
    same = (prompts.patterns[..., :-1] == prompts.patterns[..., -1:]).double()
    on_same = torch.einsum("rplhn,rpn->rlh", contexts, same).flatten(1)
    mean_label = torch.einsum("rplhn,rpn->rplh", contexts, labels).flatten(2)
    best = on_same.argmax(dim=-1)
    result: np.ndarray = mean_label[torch.arange(len(best)), :, best].numpy()
    return result


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Maps of the drawn run on the first test prompt; for every run, how often one head's label is its answer."""
    trained, pick = decoder_figures.trained(runs), one_training.choice(single(runs))
    config, test = trained.sweep.configs[0], trained.sweep.test
    prompts = decoder_evaluation.in_domain(trained.sweep.configs, test)
    last, run, seed = trained.last(), pick.index, pick.seeds[pick.index]
    maps = attention_map(
        {name: w[run : run + 1] for name, w in last.items()}, prompts.tokens[run : run + 1, :1], config.heads
    )
    x = np.arange(1, maps.shape[-1] + 1)
    parts = [
        lone(rows("attention weight", seed, weights, x=x, panel=panel_name(layer, head), series=_rows(len(x))))
        for layer, of_layer in enumerate(maps, start=1)
        for head, weights in enumerate(of_layer, start=1)
    ]
    for name, values in (("pattern", prompts.patterns), ("label", prompts.labels)):
        parts.append(lone(rows(name, seed, values[run, 0].numpy(), x=x, panel="prompt", series=name)))
    answers = np.sign(decoder_evaluation.logits(last, config, prompts, [test.context_length_test])[..., 0])
    agree = np.sign(copied_label(last, prompts, config.heads)) == answers
    parts.append(pick.claim("share of answers that one head's label gives", agree.mean(axis=-1)))
    return one_training.table(pick, parts)


def panel_name(layer: int, head: int) -> str:
    """The panel of a head; layers and heads count from 1."""
    return f"layer {layer}, head {head}"


def _rows(count: int) -> np.ndarray:
    return np.array([f"row {row:02d}" for row in range(1, count + 1)])[:, None]


SIZE, GAP = 270, (62, 62)


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """One map per head, layers from left to right; red dots mark earlier columns with the asking column's pattern."""
    names = sorted({panel for panel in table["panel"] if panel.startswith("layer")})
    heads = len({name.split()[-1] for name in names})
    columns = len(names) // heads
    size = (70 + columns * (SIZE + GAP[0]) + 40, 30 + heads * (SIZE + GAP[1]) + 20)
    figure, panels = None, []
    for place, name in enumerate(names):
        column, row = divmod(place, heads)
        left, top = 70 + column * (SIZE + GAP[0]), 30 + row * (SIZE + GAP[1])
        edges = (left, left + SIZE, top, top + SIZE)
        if figure is None:
            figure, axes = plotting.canvas(size, edges, panel=name)
        else:
            axes = plotting.add_panel(figure, edges, name)
        panels.append(axes)
        image = _map(axes, table)
    assert figure is not None
    right = 70 + columns * (SIZE + GAP[0]) - GAP[0] + 12
    figure.colorbar(image, cax=plotting.add_panel(figure, (right, right + 14, 30, 30 + SIZE), "<colorbar>"))
    plotting.legend(panels[0], 9, "upper right", (0.99, 0.99))
    return figure


def _map(axes: Axes, table: pd.DataFrame) -> AxesImage:
    prompt = table[(table["panel"] == "prompt") & (table["statistic"] == "single")].sort_values("x")
    patterns, labels = (
        prompt[prompt["observable"] == name]["value"].to_numpy().astype(int) for name in ("pattern", "label")
    )
    cells = table[(table["panel"] == axes.get_label()) & (table["statistic"] == "single")]
    matrix = cells.pivot(index="series", columns="x", values="value").to_numpy()
    image = plotting.heatmap(axes, matrix, str(axes.get_label()), 12, vmin=0, vmax=1)
    asking, earlier = np.nonzero(np.tril(patterns[:, None] == patterns, k=-1))
    axes.plot(earlier + 1, asking + 1, ".", color="r", markersize=3, label="same pattern", gid="same pattern")
    names = [f"{pattern + 1}{'+' if label > 0 else '-'}" for pattern, label in zip(patterns, labels, strict=True)]
    names[-1] = f"{patterns[-1] + 1}?"
    ticks = range(1, len(names) + 1)
    plotting.frame(
        axes, Axis("attended column", ticks=ticks, names=names), Axis("asking column", ticks=ticks, names=names), 10, 6
    )
    return image
