"""What the figures of the three-layer model share: one training, error curves, attention and label embeddings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from icl import spec
from icl.experiments._li_icl import only
from icl.runs import Runs
from icl.spec import Sweep, constant, grid
from icl.systems import li_icl_gpt2
from icl.table import join, rows

SEEDS = {"paper": 20, "laptop": 10, "smoke": 2}
STEPS = {"paper": 1600, "laptop": 1600, "smoke": 20}
PROMPTS = {"paper": 1000, "laptop": 1000, "smoke": 20}


@dataclass(frozen=True)
class Schedule(spec.Constants):
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
    configs = grid(li_icl_gpt2.Config, steps=[steps], seed=range(SEEDS[scale]))
    return Sweep(
        name="li_icl_gpt2",
        system="li_icl_gpt2",
        configs=configs,
        snapshots=tuple(range(0, steps + 1, steps // SNAPSHOTS)),
        test=replace(li_icl_gpt2.Test(prompts=PROMPTS[scale]), **test),
    )


def wrong_curve(runs: Runs, prompts: li_icl_gpt2.Evaluation, lengths: Sequence[int]) -> np.ndarray:
    """Whether the trained model is wrong, for each context length: bool (lengths, runs, prompts)."""
    logits = li_icl_gpt2.logits(runs.last(), runs.sweep.configs[0], prompts, lengths)
    return np.moveaxis(li_icl_gpt2.wrong(logits, prompts), -1, 0)


def measure_attention(runs: Mapping[str, Runs], layer: int) -> pd.DataFrame:
    """Figures 21 to 23: out-of-domain attention of one layer on the query's pattern, and how much it rises."""
    trained_runs = only(runs)
    seeds, config = trained_runs.sweep.seeds, trained_runs.sweep.configs[0]
    test = replace(trained_runs.sweep.test, prompts=min(SCHEDULE.traced_prompts, trained_runs.sweep.test.prompts))
    prompts = li_icl_gpt2.out_of_domain(trained_runs.sweep.configs, test)
    snapshots = trained_runs.sweep.snapshots
    same = [li_icl_gpt2.attention_on_same(trained_runs.at(s), config, prompts)[:, layer - 1] for s in snapshots]
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
    at = {epoch: li_icl_gpt2.label_embeddings(trained_runs.at(step), config, layer) for epoch, step in steps.items()}
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
