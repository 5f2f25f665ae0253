"""Conditions of theorem 1 of Li et al., one at a time: training tasks, training contexts, batch size (page 18)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from icl.core.config import grid
from icl.core.lazy import Picture
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import Table, join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.figure import Figure
from icl.papers.li2024 import one_layer, one_layer_evaluation, one_layer_figures

PATTERNS, TASKS, FRACTION = 6, 30, 0.8
# Panel -> the constant that it varies, and its values; SHARED, the training of icl_theorems, is a point of each panel.
VARIED: Mapping[str, tuple[str, tuple[int, ...]]] = {
    "tasks": ("task_shifts", (1, 2, 3, 4)),
    "length": ("context_length", (1, 2, 5, 10, 20)),
    "batch": ("batch", (4, 16, 64, 128, 512)),
}
# What a claim is about -> the constant and the values of its trainings.
CLAIMED: Mapping[str, tuple[str, tuple[int, ...]]] = {
    "few tasks": ("task_shifts", (1, 2)),
    "l_tr": ("context_length", (5, 10)),
    "B": ("batch", (16, 64, 128, 512)),
}
SHARED = {"task_shifts": 3, "context_length": 20, "batch": 128}
STEPS = {"paper": 400, "laptop": 400, "smoke": 10}


@cache
def pinned(**values: int) -> type[one_layer.Config]:
    """A Config with fixed values, which users cannot change because they stand on the panel's axis."""

    class Pinned(one_layer.Config):
        def __post_init__(self) -> None:
            for name, value in values.items():
                object.__setattr__(self, name, value)
            super().__post_init__()

    return Pinned


def sweep_name(name: str, value: int) -> str:
    """The sweep with one constant changed; the training of the theorems where the value is unchanged."""
    return "li_icl_sgd" if SHARED[name] == value else f"li_icl_sgd_{name}_{value}"


def sweeps(scale: str) -> list[Sweep]:
    """The training of the theorems, and one sweep per other value of each constant, since these set tensor shapes."""
    theorem = {key: [value] for key, value in one_layer_figures.THEOREM.items()}
    seeds, test = range(one_layer_figures.SEEDS[scale]), one_layer.Test(prompts=one_layer_figures.PROMPTS[scale])
    result = [one_layer_figures.theorem_training(scale)]
    for name, values in VARIED.values():
        for value in values:
            if value != SHARED[name]:
                configs = grid(pinned(**{name: value}), **theorem, seed=seeds)
                result.append(Sweep(sweep_name(name, value), one_layer.SYSTEM, configs, (STEPS[scale],), test))
    return result


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Hinge loss and classification error on unseen tasks with 20 contexts at alpha' = 0.8, per value and seed."""
    losses = {name: unseen(trained) for name, trained in runs.items()}
    seeds = runs["li_icl_sgd"].sweep.seeds
    parts = []
    for panel, (name, values) in VARIED.items():
        for value in values:
            x = value * PATTERNS / TASKS if panel == "tasks" else value
            for observable, of_runs in losses[sweep_name(name, value)].items():
                parts.append(rows(observable, seeds, of_runs, x=x, panel=panel, series=observable))
    for shifts in CLAIMED["few tasks"][1]:
        where = f"{shifts * PATTERNS} of {TASKS} tasks"
        parts.append(_claim(losses, seeds, "task_shifts", shifts, "hinge loss", where))
    for length in CLAIMED["l_tr"][1]:
        parts.append(_claim(losses, seeds, "context_length", length, "hinge loss", f"l_tr = {length}"))
    parts.append(_claim(losses, seeds, "context_length", 1, "classification error", "l_tr = 1"))
    scaled = [losses[sweep_name("batch", batch)]["hinge loss"] * np.sqrt(batch) for batch in CLAIMED["B"][1]]
    parts.append(rows("growth of the hinge loss times sqrt(B), B >= M_1", seeds, scaled[-1] - scaled[0]))
    for where, (name, values) in CLAIMED.items():
        used = [runs[sweep_name(name, value)] for value in values]
        parts += one_layer_figures.least_conditions(used, where)
    return join(parts)


def unseen(runs: Runs) -> dict[str, np.ndarray]:
    """Hinge loss and error of every run on unseen tasks at full context length: (runs,) each."""
    trained = one_layer_figures.trained({runs.sweep.name: runs})
    prompts = one_layer_evaluation.in_domain(trained.sweep.configs, trained.sweep.test)
    logits = one_layer_figures.logits(trained, prompts, trained.sweep.test.context_length_test)
    return {
        "hinge loss": one_layer_evaluation.hinge(logits, prompts),
        "classification error": one_layer_evaluation.wrong(logits, prompts).mean(axis=-1),
    }


def _claim(losses: Mapping[str, Any], seeds: list[int], name: str, value: int, loss: str, where: str) -> pd.DataFrame:
    return rows(f"{loss} on unseen tasks, {where}", seeds, losses[sweep_name(name, value)][loss])


STYLES = (
    Style("hinge loss", "hinge loss", "C0", "o"),
    Style("classification error", "classification error", "C1", "d", " "),
)
LOSS = Axis("Hinge loss and error", (3e-5, 3), log=True)
AXES = {
    "tasks": Axis("Share of training tasks", (0.1, 0.9), (0.2, 0.4, 0.6, 0.8)),
    "length": Axis(r"Training contexts $l_{tr}$", (0.8, 25), (1, 2, 5, 10, 20), "1 2 5 10 20".split(), log=True),
    "batch": Axis("Batch $B$", (3, 700), (4, 16, 64, 128, 512), "4 16 64 128 512".split(), log=True),
}

LEGENDS: Mapping[str, tuple[plotting.Corner, tuple[float, float]]] = {
    "tasks": ("upper right", (0.98, 0.98)),
    "length": ("upper right", (0.98, 0.98)),
    "batch": ("center right", (0.98, 0.48)),
}


@plotting.published
def draw(table: Table) -> Picture:
    """One panel per condition: means as lines, runs as dots, the theorem's conditions as thin lines."""
    figure, first = plotting.canvas((1140, 380), (85, 375, 20, 310), panel="tasks")
    panels = [first]
    for column, name in enumerate(("length", "batch"), start=1):
        panels.append(plotting.add_panel(figure, (85 + 370 * column, 375 + 370 * column, 20, 310), name))
    conditions = {
        "tasks": ((1 / (PATTERNS - 1), r"$M_1$ tasks", ":"), ((PATTERNS - 1) ** -0.5, r"$(M_1-1)^{-1/2}$", "--")),
        "length": ((1 / FRACTION, r"$1/\alpha$", ":"),),
        "batch": ((PATTERNS, "$M_1$", ":"),),
    }
    for axes in panels:
        name = str(axes.get_label())
        for style in STYLES:
            plotting.dots(axes, table, style._replace(label="", marker="."), style.series, alpha=0.5)
            plotting.curves(axes, table, (style,), style.series)
            axes.lines[-1].set_markersize(7)
        for place, label, line in conditions[name]:
            axes.axvline(place, color="0.4", linestyle=line, linewidth=1.2, label=label)
        if name == "batch":
            batches = np.array(AXES[name].ticks)
            axes.plot(batches, 1.5 / np.sqrt(batches), **plotting.GUIDE, label=r"$1.5\,/\sqrt{B}$")
        plotting.frame(axes, AXES[name], LOSS, font=14, ticks=12)
        axes.xaxis.minorticks_off()
        plotting.legend(axes, 10, *LEGENDS[name])
    return figure


FIGURES = (Figure("icl_conditions", sweeps, measure, draw),)
