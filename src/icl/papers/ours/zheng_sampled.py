"""Distance between training on 10 000 fixed sequences, as in the official code, and exact descent (pages 42 and 43)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from icl.core.config import grid
from icl.core.lazy import Picture, torch
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import Table, exact, join, rows
from icl.drawing import plotting, zheng_look
from icl.drawing.plotting import Axis, Style
from icl.evidence.intervals import log_slope
from icl.figure import Figure
from icl.models import autoregressive as system
from icl.models import autoregressive_readout as readout
from icl.models import autoregressive_trainings as trainings

LAWS = ("gaussian", "sparse", "full-one")
SEEDS = {"paper": 10, "laptop": 10, "smoke": 2}
SAMPLES = 10000
"""Sequences in the training of two blocks, as published."""
ALL_BLOCKS = {"few": 1000, "many": 16000}
"""Sequences in the trainings of all blocks."""
FEWER = {"paper": 1, "laptop": 1, "smoke": 200}
# The noise in the other blocks is constant from epoch 20 on.
FULL_EPOCHS = {"paper": 200, "laptop": 30, "smoke": 2}


def sweeps(scale: str) -> list[Sweep]:
    """Exact descent; training of two blocks on samples of each law; training of all blocks on three sample sizes."""
    seeds, test = range(SEEDS[scale]), system.Test()
    planned = [trainings.sweep(law, scale) for law in LAWS]
    for law in LAWS:
        configs = grid(
            system.Config, gradient_estimator=["sample_blocks"], law=[law], scale=[trainings.SCALES[law]],
            learning_rate=[trainings.LEARNING_RATES[law]], samples=[SAMPLES // FEWER[scale]],
            start=trainings.STARTS, seed=seeds,
        )  # fmt: skip
        name = trainings.sweep_name(law, "sample_blocks")
        planned.append(Sweep(name, "zheng_ar", configs, tuple(range(trainings.EPOCHS + 1)), test))
    for size, count in ALL_BLOCKS.items():
        configs = grid(
            system.Config, gradient_estimator=["sample_all_blocks"], law=["full-one"], scale=[1.0],
            learning_rate=[trainings.LEARNING_RATES["full-one"]], samples=[count // FEWER[scale]], seed=seeds,
        )  # fmt: skip
        planned.append(Sweep(f"zheng_sampled_{size}", "zheng_ar", configs, (0, FULL_EPOCHS[scale]), test))
    return planned


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """ab on samples and exactly, their distances by seed, and the blocks with zero population gradient."""
    parts, settled = [], []
    for law in LAWS:
        trained, ours = runs[trainings.sweep_name(law)], runs[trainings.sweep_name(law, "sample_blocks")]
        wanted = {c.start: readout.products_along(trained, run) for run, c in enumerate(trained.sweep.configs)}
        found = {(c.start, c.seed): readout.products_along(ours, run) for run, c in enumerate(ours.sweep.configs)}
        parts += _distances(law, wanted, found)
        if law == "gaussian":
            epochs = np.arange(trainings.EPOCHS + 1)
            for start in trainings.STARTS:
                settled.append(rows("exact ab", 0, wanted[start][: len(epochs)], x=epochs, panel="ab", series=start))
            for (start, seed), ab in found.items():
                parts.append(rows("ab", seed, ab, x=epochs, panel="ab", series=start))
    return join([exact(join(settled)), *parts, *_noise(runs)])


def _distances(
    law: str, wanted: Mapping[str, np.ndarray], found: Mapping[tuple[str, int], np.ndarray]
) -> list[pd.DataFrame]:
    """Largest distance between sampled and exact ab over all epochs, by start and seed."""
    largest = {(start, seed): abs(ab - wanted[start][: len(ab)]).max() for (start, seed), ab in found.items()}
    seeds = sorted({seed for _, seed in found})
    parts = []
    for place, start in enumerate(trainings.STARTS):
        values = [largest[start, seed] for seed in seeds]
        parts.append(rows("distance", seeds, values, x=place, panel="distance", series=law))
        if law == "gaussian":
            parts.append(rows(f"largest |ab - exact|, {law}, start {start}", seeds, values))
    if law != "gaussian":
        over = [np.max([largest[start, seed] for start in trainings.STARTS]) for seed in seeds]
        parts.append(rows(f"largest |ab - exact|, {law}", seeds, over))
    return parts


def others(runs: Runs, run: int) -> np.ndarray:
    """Final moduli of the entries of the blocks with zero population gradient: KQ 22, 23 and 33, PV 13."""
    d, last = runs.sweep.configs[run].dimension, runs.last()
    key_query, value = (torch.view_as_complex(last[name][run]).abs().numpy() for name in ("KQ", "PV"))
    return np.concatenate([part.reshape(-1) for part in (key_query[:d], key_query[d:, d:], value[:, d:])])


def _noise(runs: Mapping[str, Runs]) -> list[pd.DataFrame]:
    """Root mean square of the other blocks by seed, on few and many sequences after equal training, and its slope."""
    both = [runs[f"zheng_sampled_{size}"] for size in ALL_BLOCKS]
    counts, seeds = [each.sweep.configs[0].samples for each in both], both[0].sweep.seeds
    rms = np.array([[np.sqrt((others(each, run) ** 2).mean()) for each in both] for run in range(len(seeds))])
    slopes = [log_slope(np.array(counts), own) for own in rms]
    return [
        rows("rms", np.array(seeds)[:, None], rms, x=counts, panel="noise", series="other blocks"),
        rows("slope of the other blocks against m", seeds, slopes),
    ]


SAMPLED = zheng_look.start_styles(trainings.STARTS, "bmg")
MARKS = {"gaussian": ("Gaussian", "C0", "o"), "sparse": ("Example 4.1", "C1", "s"), "full-one": ("all ones", "C2", "^")}
NOISE = Style("other blocks", "other blocks", "b", "o", line="")


@plotting.published
def draw(table: Table) -> Picture:
    """Curves, distances and noise, side by side."""
    figure, ab = plotting.canvas((1080, 370), (70, 385, 20, 305), panel="ab")
    distance = plotting.add_panel(figure, (480, 700, 20, 305), "distance")
    noise = plotting.add_panel(figure, (805, 1065, 20, 305), "noise")
    plotting.curves(ab, table, SAMPLED, "ab", band=True)
    for line in ab.lines:
        line.set_linewidth(4)
    for style in SAMPLED:
        exact = table.curve("ab", style.series, "exact ab")
        ab.plot(exact["x"], exact["value"], **plotting.GUIDE, label="exact" if style is SAMPLED[-1] else None)
    for shift, (law, (label, colour, marker)) in enumerate(MARKS.items()):
        own = table.points("distance", law, "distance")
        distance.plot(own["x"] + 0.2 * (shift - 1), own["value"], marker, color=colour, markersize=5, label=label,
                      markerfacecolor="none", gid=law)  # fmt: skip
    plotting.curves(noise, table, (NOISE,), "rms", band=True)
    mean = table.curve("noise", "other blocks", "rms")
    falling = mean["value"].iloc[0] * (mean["x"] / mean["x"].iloc[0]) ** -0.5
    noise.plot(mean["x"], falling, **plotting.GUIDE, label=r"$m^{-1/2}$")
    plotting.frame(ab, Axis("Epoch", (0, trainings.EPOCHS)), Axis("Dynamics of ab", (0, 4)), font=13, ticks=11)
    names = [f"({start.replace(' ', ', ')})" for start in trainings.STARTS]
    x = Axis("Start $(a_0, b_0)$", (-0.5, 2.5), range(3), names)
    plotting.frame(distance, x, Axis(r"Largest $|ab-ab_{\mathrm{exact}}|$", log=True), font=13, ticks=11)
    sizes = [float(count) for count in mean["x"]]
    m = Axis("Sequences $m$", (0.8 * sizes[0], 1.25 * sizes[-1]), sizes, [f"{size:.0f}" for size in sizes], log=True)
    plotting.frame(noise, m, Axis("RMS of the other blocks", log=True), font=13, ticks=11)
    noise.tick_params(axis="x", which="minor", labelbottom=False)
    distance.tick_params(axis="x", labelsize=9.5)
    for axes in (ab, distance, noise):
        axes.legend(fontsize=10, loc="upper right" if axes is ab else "lower left")
    return figure


FIGURES = (Figure("zheng_sampled", sweeps, measure, draw),)
