"""Theorems 1 and 3 of Li et al. as the problem grows: in patterns M_1, neurons m and irrelevant patterns M_2."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from icl.core.config import grid
from icl.core.lazy import Picture
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import Table, join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.evidence.intervals import first_step_below, log_slope
from icl.figure import Figure
from icl.papers.li2024 import one_layer, one_layer_figures, one_training, pruning
from icl.papers.li2024.icl_conditions import pinned, unseen
from icl.papers.li2024.icl_lucky_neurons import large
from icl.papers.li2024.icl_rates import TARGET, WINDOW
from icl.papers.li2024.pruning import Pruning

STEPS = {"paper": 400, "laptop": 400, "smoke": 10}
THEOREM_PATTERNS, THEOREM_NEURONS, THEOREM_IRRELEVANT = 6, 64, 24
"""M_1, m and M_2 of the theorems' training; the other values follow."""
PATTERNS = {8: 3, 12: 4}
"""M_1 -> tasks over M_1, for the smallest even cover by a fraction (M_1 - 1)^(-1/2) of all tasks."""
NEURONS = (32, 128)
IRRELEVANT = (6, 60)
EPS = 128**-0.5
"""The eps that the training's batch size allows."""


def sweeps(scale: str) -> list[Sweep]:
    """The training of the theorems, and one sweep per other number of patterns or neurons, since these set shapes.

    T grows as theorem 1 says, with M_1 sqrt(log M_1), and |a_i| falls as 1 / sqrt(m).
    """
    test, seeds = one_layer.Test(prompts=one_layer_figures.PROMPTS[scale]), range(one_layer_figures.SEEDS[scale])
    result = [one_layer_figures.theorem_training(scale)]
    varied = {f"relevant_{m_1}": {"relevant_patterns": m_1, "task_shifts": shifts} for m_1, shifts in PATTERNS.items()}
    varied |= {f"neurons_{m}": {"neurons": m} for m in NEURONS} | {
        f"irrelevant_{m}": {"irrelevant_patterns": m} for m in IRRELEVANT
    }
    for name, values in varied.items():
        constants = dict(one_layer_figures.THEOREM)
        constants["readout"] *= (THEOREM_NEURONS / values.get("neurons", THEOREM_NEURONS)) ** 0.5
        configs = grid(pinned(**values), **{key: [value] for key, value in constants.items()}, seed=seeds)
        growth = growth_of_steps(values.get("relevant_patterns", THEOREM_PATTERNS)) / growth_of_steps(THEOREM_PATTERNS)
        steps = round(STEPS[scale] * growth)
        result.append(Sweep(f"li_icl_sgd_{name}", one_layer.SYSTEM, configs, (steps,), test))
    return result


def growth_of_steps(patterns: float) -> float:
    """M_1 sqrt(log M_1), the growth of the number of steps in theorem 1."""
    return float(patterns * np.sqrt(np.log(patterns)))


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Steps and errors against M_1, large neurons against m, and the cost of pruning small ones against M_2."""
    shared = runs["li_icl_sgd"]
    seeds = shared.sweep.seeds
    by_patterns = {THEOREM_PATTERNS: shared} | {m: runs[f"li_icl_sgd_relevant_{m}"] for m in PATTERNS}
    by_neurons = {m: runs[f"li_icl_sgd_neurons_{m}"] for m in NEURONS} | {THEOREM_NEURONS: shared}
    by_irrelevant = {m: runs[f"li_icl_sgd_irrelevant_{m}"] for m in IRRELEVANT} | {THEOREM_IRRELEVANT: shared}
    parts = [*_patterns(by_patterns), *_neurons(dict(sorted(by_neurons.items())))]
    parts += _irrelevant(dict(sorted(by_irrelevant.items())))
    for where, trainings in (("M_1", by_patterns), ("m", by_neurons), ("M_2", by_irrelevant)):
        parts += one_layer_figures.least_conditions(trainings.values(), where)
        losses = [one_training.held_out_loss(trained) for trained in trainings.values()]
        parts.append(rows(f"largest held-out loss, {where}", seeds, np.max(losses, axis=0)))
    return join(parts)


def _patterns(by: Mapping[int, Runs]) -> Iterator[pd.DataFrame]:
    sizes = np.array([growth_of_steps(m_1) for m_1 in by])
    steps = np.stack([first_step_below(of_size.losses, TARGET, WINDOW) for of_size in by.values()])
    seeds = by[THEOREM_PATTERNS].sweep.seeds
    line = np.exp(np.log(steps / sizes[:, None]).mean()) * sizes
    for m_1, of_size, predicted in zip(by, steps, line, strict=True):
        yield rows("steps", seeds, of_size, panel="M_1", series="one-layer model", x=m_1)
        yield rows("steps", seeds, predicted, panel="M_1", series="theorem 1", x=m_1)
    yield rows("slope of steps against M_1 sqrt(log M_1)", seeds, [log_slope(sizes, of_run) for of_run in steps.T])
    for m_1 in PATTERNS:
        yield rows(f"hinge loss on unseen tasks, M_1 = {m_1}", seeds, unseen(by[m_1])["hinge loss"])


def _neurons(by: Mapping[int, Runs]) -> Iterator[pd.DataFrame]:
    seeds = by[THEOREM_NEURONS].sweep.seeds
    shares = np.stack([large(of_size.last()).mean(axis=-1) for of_size in by.values()])
    for m, of_runs in zip(by, shares, strict=True):
        yield rows("share of large neurons", seeds, of_runs, panel="m", series="one-layer model", x=m)
    yield rows("least share of large neurons over m", seeds, shares.min(axis=0))
    slopes = [log_slope(np.array(list(by)), of_run) for of_run in shares.T]
    yield rows("slope of the share of large neurons against m", seeds, slopes)
    for m in NEURONS:
        least = pruning.least_rise_per_share(_pruning(by[m]), pruning.SHARES)
        yield rows(f"least rise of the hinge loss per share of large neurons, m = {m}", seeds, least)


def _pruning(runs: Runs) -> Pruning:
    """Pruning of the trained models on prompts without noise, alpha' = 0.8."""
    return pruning.trained_pruning(one_layer_figures.trained({runs.sweep.name: runs}), runs.sweep.test)


def _irrelevant(by: Mapping[int, Runs]) -> Iterator[pd.DataFrame]:
    seeds, multiples = by[THEOREM_IRRELEVANT].sweep.seeds, []
    for m_2, of_size in by.items():
        rise = pruning.rise_without_small(_pruning(of_size))
        multiples.append(rise / (EPS + m_2**-0.5))
        yield rows("rise of the hinge loss", seeds, rise, panel="M_2", series="one-layer model", x=m_2)
        yield rows("rise of the hinge loss", seeds, (EPS + m_2**-0.5) / 10, panel="M_2", series="theorem 3", x=m_2)
    yield rows("largest rise over eps + M_2^(-1/2)", seeds, np.max(multiples, axis=0))
    yield rows("growth of the rise over eps + M_2^(-1/2)", seeds, multiples[-1] - multiples[0])


LINES = {
    "M_1": ("steps", Style("theorem 1", r"$M_1\sqrt{\log M_1}$", "0.4", line="--")),
    "m": ("share of large neurons", None),
    "M_2": ("rise of the hinge loss", Style("theorem 3", r"$(\epsilon + M_2^{-1/2})\,/\,10$", "0.4", line="--")),
}
AXES = {
    "M_1": (
        Axis("Patterns $M_1$", (5.5, 13), (6, 8, 12), "6 8 12".split(), log=True),
        Axis(f"Steps to hinge loss {TARGET}", (50, 400), (50, 100, 200, 400), "50 100 200 400".split(), log=True),
    ),
    "m": (
        Axis("Neurons $m$", (28, 146), (32, 64, 128), "32 64 128".split(), log=True),
        Axis("Share of large neurons", (0, 1), (0, 0.25, 0.5, 0.75, 1)),
    ),
    "M_2": (
        Axis("Irrelevant patterns $M_2$", (5, 72), (6, 24, 60), "6 24 60".split(), log=True),
        Axis("Rise without small neurons", (-0.02, 0.06), (-0.02, 0, 0.02, 0.04, 0.06)),
    ),
}

LEGENDS: Mapping[str, tuple[plotting.Corner, tuple[float, float]]] = {
    "M_1": ("upper left", (0.02, 0.98)),
    "m": ("lower right", (0.98, 0.02)),
    "M_2": ("upper right", (0.98, 0.98)),
}


@plotting.published
def draw(table: Table) -> Picture:
    """One panel per size: runs as dots, the theorem as a dashed line."""
    figure, first = plotting.canvas((1140, 380), (85, 355, 20, 310), panel="M_1")
    panels = [first]
    for column, name in enumerate(("m", "M_2"), start=1):
        panels.append(plotting.add_panel(figure, (85 + 385 * column, 355 + 385 * column, 20, 310), name))
    for axes in panels:
        name = str(axes.get_label())
        observable, line = LINES[name]
        plotting.dots(axes, table, Style("one-layer model", "one run", "C0"), observable)
        if line:
            plotting.curves(axes, table, (line,), observable)
        plotting.frame(axes, *AXES[name], font=14, ticks=12)
        axes.minorticks_off()
        plotting.legend(axes, 11, *LEGENDS[name])
    return figure


FIGURES = (Figure("icl_sizes", sweeps, measure, draw),)
