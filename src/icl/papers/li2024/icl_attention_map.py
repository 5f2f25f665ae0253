"""Attention map of one prompt in each of three layers: do columns attend to their own pattern
(talk page 34)?
"""

import numpy as np

from icl.drawing import own_style
from icl.figure import (
    Axes,
    Figure,
    Picture,
    Rows,
    Table,
    Tensor,
    Trained,
    plotting,
    rows,
    single,
    torch,
)
from icl.papers.li2024 import evaluation, stack
from icl.papers.li2024.evaluation import EvaluationPrompts
from icl.papers.li2024.record import Record
from icl.papers.li2024.trainings import stack_training


def label_of_layers(attention: list[Tensor], prompts: EvaluationPrompts) -> np.ndarray:
    """Mean of the context labels, weighted by the query's attention in one layer per run: (runs,
    prompts).

    The layer is the one that attends most to the columns with the query's pattern.
    """
    contexts = torch.stack([weights[:, :, -1, :-1] for weights in attention], dim=1)
    same = (prompts.patterns[..., :-1] == prompts.patterns[..., -1:]).double()
    best = torch.einsum("rlpn,rpn->rl", contexts, same).argmax(dim=-1)
    mean_label = torch.einsum("rlpn,rpn->rlp", contexts, prompts.labels[..., :-1].double())
    return mean_label[torch.arange(len(best)), best].numpy()


def typical(attention: list[Tensor], prompts: EvaluationPrompts, run: int) -> int:
    """Return the prompt of a run on which the query's attention to its own pattern is nearest to
    the mean over prompts: the one with the least sum over layers of the squared distance.
    """
    same = (prompts.patterns[run] == prompts.patterns[run, :, -1:]).double()
    shares = torch.stack([(weights[run, :, -1] * same).sum(dim=-1) for weights in attention])
    return int(((shares - shares.mean(dim=1, keepdim=True)) ** 2).sum(dim=0).argmin())


def measure(runs: Trained, scale: str) -> Rows:
    """Return maps for the drawn run on a typical prompt; for every run, how often a layer's
    label is its answer.
    """
    trained = single(runs)
    record, configs = Record(trained), trained.sweep.configs
    prompts = evaluation.in_domain(trained.sweep)
    tokens = prompts.tokens[..., : configs[0].feature_dimension + 1]
    logits, attention = stack.forward(trained.last(), tokens, configs, last_layer_whole=True)
    run, x = record.drawn, np.arange(1, tokens.shape[2] + 1)
    shown = typical(attention, prompts, run)
    names = np.array([f"row {row:02d}" for row in x])[:, None]
    for number, weights in enumerate(attention, start=1):
        labels = {"panel": f"layer {number}", "series": names, "x": x}
        record.parts.append(
            rows("attention weight", record.seeds[run], weights[run, shown].numpy(), **labels)
        )
    for name, values in (("pattern", prompts.patterns), ("label", prompts.labels)):
        record.parts.append(
            rows(
                name,
                record.seeds[run],
                values[run, shown].numpy(),
                x=x,
                panel="prompt",
                series=name,
            )
        )
    agree = np.sign(label_of_layers(attention, prompts)) == np.sign(logits.numpy())
    return record.rows({"share of answers that one layer's label gives": agree.mean(axis=-1)})


@plotting.under_defaults
def draw(table: Table) -> Picture:
    """One map per layer, columns sorted by their patterns; frames hold columns with one pattern."""
    from matplotlib.colors import PowerNorm

    names = sorted({panel for panel in table.curves["panel"] if panel.startswith("layer")})
    title = "Attention of one run between the columns of a prompt; frames hold equal patterns"
    figure, panels = own_style.panels(names, len(names), title, (270, 270))
    for name, axes in panels.items():
        patterns = table.matrix("prompt", "pattern")[0].astype(int)
        order = np.argsort(patterns, kind="stable")
        scale = {"norm": PowerNorm(0.5, 0, 1), "vmin": None, "vmax": None}
        mesh = own_style.share_map(
            axes, table.matrix(name, "attention weight")[np.ix_(order, order)], **scale
        )
        _frames(axes, patterns)
        own_style.axis_labels(axes, "", "", name.capitalize())
    own_style.common_labels(
        figure, "Pattern of the attended column", "Pattern of the asking column"
    )
    figure.colorbar(mesh, ax=axes, label="Attention", ticks=(0, 0.05, 0.2, 0.5, 1), shrink=0.8)
    return figure


def _frames(axes: Axes, patterns: np.ndarray) -> None:
    """Frame the columns of each pattern, and name it; the query is the last column of the
    prompt.
    """
    from matplotlib.patches import Rectangle

    found, counts = np.unique(patterns, return_counts=True)
    ends = np.cumsum(counts)
    for end, count in zip(ends, counts, strict=True):
        place = (end - count, end - count)
        axes.add_patch(
            Rectangle(
                place, count, count, fill=False, edgecolor=own_style.CYCLE[1][0], gid="same pattern"
            )
        )
    names = [f"{pattern + 1}{'?' if pattern == patterns[-1] else ''}" for pattern in found]
    axes.set_xticks(ends - counts / 2, names)
    axes.set_yticks(ends - counts / 2, names)


FIGURES = (Figure("icl_attention_map", stack_training, measure, draw),)
