"""What the figures of the three-layer model share: one training, error curves, attention and label embeddings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from icl.core.config import Constants, constant, grid
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Embedding, Style
from icl.papers.li2024 import decoder
from icl.papers.li2024.one_layer_figures import only

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEEDS = {"paper": 20, "laptop": 10, "smoke": 2}
STEPS = {"paper": 1600, "laptop": 1600, "smoke": 20}
PROMPTS = {"paper": 1000, "laptop": 1000, "smoke": 20}


@dataclass(frozen=True)
class Schedule(Constants):
    """How the published figures count time and choose what they draw."""

    epochs: int = constant(1600, "published", "the axis of figures 21 to 26 spans the whole training", at_least=1)
    drawn_neurons: int = constant(
        5, "published", "points per epoch and sign in figures 24 and 25, by fitting the pictures", at_least=1
    )
    traced_prompts: int = constant(200, "ours", "prompts per run over which attention is averaged", at_least=1)


SCHEDULE = Schedule()
SNAPSHOTS = 20
SCATTER_EPOCHS = (0, 400, 800, 1200, 1600)


def trained(scale: str, **test: Any) -> Sweep:
    """The one training that figures 12, 13 and 21 to 26 share; `test` sets constants of its evaluation."""
    steps = STEPS[scale]
    configs = grid(decoder.Config, steps=[steps], seed=range(SEEDS[scale]))
    return Sweep(
        name="li_icl_gpt2",
        system="li_icl_gpt2",
        configs=configs,
        snapshots=tuple(range(0, steps + 1, steps // SNAPSHOTS)),
        test=replace(decoder.Test(prompts=PROMPTS[scale]), **test),
    )


def wrong_curve(runs: Runs, prompts: decoder.Evaluation, lengths: Sequence[int]) -> np.ndarray:
    """Whether the trained model is wrong, for each context length: bool (lengths, runs, prompts)."""
    logits = decoder.logits(runs.last(), runs.sweep.configs[0], prompts, lengths)
    return np.moveaxis(decoder.wrong(logits, prompts), -1, 0)


def measure_attention(runs: Mapping[str, Runs], layer: int) -> pd.DataFrame:
    """Figures 21 to 23: out-of-domain attention of one layer on the query's pattern, and how much it rises."""
    trained_runs = only(runs)
    seeds, config = trained_runs.sweep.seeds, trained_runs.sweep.configs[0]
    test = replace(trained_runs.sweep.test, prompts=min(SCHEDULE.traced_prompts, trained_runs.sweep.test.prompts))
    if layer == 1:
        test = replace(test, relevant_fraction_test=test.relevant_fraction_figure21)
    prompts = decoder.out_of_domain(trained_runs.sweep.configs, test)
    snapshots = trained_runs.sweep.snapshots
    same = [
        decoder.attention_on_same(trained_runs.at(s), config, prompts, test.attention_heads)[:, layer - 1]
        for s in snapshots
    ]
    parts = []
    for step, values in zip(snapshots, same, strict=True):
        epoch = step * SCHEDULE.epochs / snapshots[-1]
        parts.append(rows("attention weight", seeds, values, panel="main", series="The same ODR", x=epoch))
        parts.append(rows("attention weight", seeds, 1 - values, panel="main", series="Other", x=epoch))
    return join([*parts, rows("rise of attention", seeds, same[-1] - same[0])])


def measure_embedding(runs: Mapping[str, Runs], layer: int) -> pd.DataFrame:
    """Figures 24 to 26: the first neurons of either sign of run 0 as points, and how the largest tenth grows."""
    trained_runs = only(runs)
    seeds, config, last = trained_runs.sweep.seeds, trained_runs.sweep.configs[0], trained_runs.sweep.snapshots[-1]
    steps = {epoch: epoch * last // SCHEDULE.epochs for epoch in SCATTER_EPOCHS}
    heads = trained_runs.sweep.test.embedding_heads
    at = {epoch: decoder.label_embeddings(trained_runs.at(step), config, layer, heads) for epoch, step in steps.items()}
    first, final = at[SCATTER_EPOCHS[0]], at[SCATTER_EPOCHS[-1]]
    parts = []
    for sign, chosen in {">": final["sign"][0] > 0, "<": final["sign"][0] < 0}.items():
        drawn = np.flatnonzero(chosen)[: SCHEDULE.drawn_neurons]
        parts += [
            rows("magnitude", seeds[0], now["magnitude"][0, drawn], panel="main", series=f"Lab. Emb. a_i{sign}0",
                 x=now["angle"][0, drawn], colour=epoch)
            for epoch, now in at.items()
        ]  # fmt: skip
    growth = _largest_tenth(final["magnitude"]) / _largest_tenth(first["magnitude"])
    return join([*parts, rows("growth of the largest tenth", seeds, growth)])


def _largest_tenth(magnitudes: np.ndarray) -> np.ndarray:
    ordered = np.sort(magnitudes, axis=-1)
    mean: np.ndarray = ordered[:, -(ordered.shape[1] // 10) :].mean(axis=-1)
    return mean


ATTENTION_STYLES = (
    Style("The same ODR", "The same ODR", "C0"),
    Style("Other", "Other", "C1"),
)
EMBEDDING_STYLES = (
    Embedding("Lab. Emb. a_i>0", "Lab. Emb. $a_i>0$", "o", "winter_r"),
    Embedding("Lab. Emb. a_i<0", "Lab. Emb. $a_i<0$", "P", "copper_r"),
)


@plotting.published
def draw_attention(table: pd.DataFrame) -> "Figure":
    """The published look of figures 21 to 23."""
    figure, axes = plotting.canvas((400, 400), (83.53, 359.40, 15.00, 329.72))
    plotting.curves(axes, table, ATTENTION_STYLES, "attention weight")
    x = Axis("Epoches", (0, 1605), range(0, 1601, 320))
    plotting.frame(axes, x, Axis("Attention weight in average"), font=15)
    plotting.legend(axes, 15, "center right", (0.959, 0.5), spacing=0.418)
    return figure


@plotting.published
def draw_embedding(table: pd.DataFrame, edges: tuple[float, float, float, float], legend: float) -> "Figure":
    """The published look of figures 24 to 26: one point per neuron and epoch, by the sign of a_i.

    The tick labels of each decide where its axes stand (edges, pixels) and its legend begins (fraction of the axes).
    """
    figure, axes = plotting.canvas((500, 400), edges, bars=2)
    plotting.scatters(axes, table, EMBEDDING_STYLES, "magnitude")
    plotting.frame(axes, plotting.angle("Angle to $q$"), Axis("Magnitude"), font=15)
    plotting.legend(axes, 15, "center left", (legend, 0.548), spacing=0.781)
    return figure
