"""Chain of thought in three layers of two heads: attention by pattern and step in each head, over training.

Not in the talk; a later version of it shows three layers with K = 2 and alpha = 0.7 but no other constants. Ours stacks
the analysed layer three times, with two heads each that start a little apart, patterns and codes of norm one and a rate
of 0.2, the largest of 0.2, 0.5 and 1 with which the loss never grew (seeds 100 and 101). Every layer finds the step
within 200 iterations, but hardly the pattern: the share of the TSR in the attention on its step rises by some 0.02 in
each layer (in the table). With alpha = 0.7, columns of the right step already say what comes next. No claim speaks of
that share, for it was looked at before a bound was named. (At rate 0.5 the first layer finds the pattern too, 0.85 of
the step on the trial seeds, while heads of the others turn back to weights near 0.5.) Weights are summed over columns
and means over seeds, queries and steps, for prompts of 20 examples over TSR patterns without noise, alpha' = 0.7, and
the query's own earlier steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from icl import plotting
from icl.claims import Bound, Claim, Verdict, judge
from icl.experiments import _li_cot
from icl.experiments import _li_cot_theory as shared
from icl.plotting import Axis, Style
from icl.runs import Runs
from icl.spec import Sweep, grid
from icl.systems import li_cot
from icl.table import join, rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LAYERS, HEADS, LENGTH = 3, 2, 20
SNAPSHOTS = (0, 50, 100, 150, 200, 300, 400, *range(600, 2001, 200))
SHORTEST = (0, 10)
BATCH = {"paper": 120, "laptop": 40, "smoke": 10}
QUERIES = {"paper": 400, "laptop": 100, "smoke": 10}

SOURCE = "Li et al. 2025, proposition on the mechanism, three-layer model"
DEPTHS = range(1, LAYERS + 1)
CLAIMS = (
    Claim(
        "B-M3",
        "Every layer of three finds the query's step: in the mean over its heads, at least half of the attention ends "
        "on columns of the query's TSR and step, and that off the step falls by 0.1 or more",
        SOURCE,
        (
            *(Bound(f"same TSR, same step at the end, layer {layer}", at_least=0.5) for layer in DEPTHS),
            *(Bound(f"fall off the step, layer {layer}", at_least=0.1) for layer in DEPTHS),
        ),
    ),
)


def sweeps(scale: str) -> list[Sweep]:
    """The training of the three-layer model."""
    deep = shared.pinned(layers=LAYERS, heads=HEADS)
    configs = grid(
        deep, chain_length=[2], relevant_fraction=[0.7], context_length=[LENGTH], pattern_norm=[1.0], code_norm=[1.0],
        attention_start=[0.25], start_std=[0.1], value_start=[1.0], rate=[0.2], batch=[BATCH[scale]],
        seed=range(_li_cot.SEEDS[scale]),
    )  # fmt: skip
    length = configs[0].context_length
    test = li_cot.Test(
        chain_length=2, relevant_fraction_test=0.7, noise=0.0, context_length_test=length, queries=QUERIES[scale]
    )
    return [Sweep("li_cot_three_layer", "li_cot", configs, SHORTEST if scale == "smoke" else SNAPSHOTS, test)]


def panel(layer: int, head: int) -> str:
    """The name of a head's panel."""
    return f"layer {layer + 1}, head {head + 1}"


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Attention of every head on the four groups of columns at every snapshot, and how each layer begins and ends."""
    trained = _li_cot.only(runs)
    configs, test, steps = trained.sweep.configs, trained.sweep.test, trained.sweep.snapshots
    seeds = np.array(trained.sweep.seeds)
    length = min(configs[0].context_length, test.context_length_test)
    found = np.stack(
        [li_cot.attention(trained.at(s), configs, test, test.setting(), length, test.queries) for s in steps]
    )  # (snapshots, runs, layers, heads, groups)
    parts = [
        rows("attention weight", seeds, found[:, :, layer, head, group], x=np.array(steps)[:, None],
             panel=panel(layer, head), series=series)
        for layer in range(found.shape[2])
        for head in range(found.shape[3])
        for group, series in enumerate(li_cot.GROUPS)
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
    zip(li_cot.GROUPS, ("-", "--", "-.", ":"), strict=True)
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


def check(table: pd.DataFrame) -> list[Verdict]:
    """The claim above."""
    return [judge(claim, table) for claim in CLAIMS]
