"""Figure 20: attention over training to examples with the same or another start, at the same or another step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from icl.core.lazy import Picture
from icl.core.runs import Runs, single
from icl.core.sweep import Sweep
from icl.core.table import Table, join, rows
from icl.drawing import plotting, runs_picture
from icl.drawing.plotting import Axis
from icl.evidence import errors
from icl.figure import Figure
from icl.papers.li2025 import attention_groups, leading_pattern, premises, trainings

ITERATIONS = 1000
END_OF_STAGE = 83
LENGTH, FRACTION, QUERIES = 20, 0.4, 90
LEADING_QUERIES = 300


def sweeps(scale: str) -> list[Sweep]:
    """The shared training."""
    return [trainings.shared_training(scale)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """The four attention weights at every snapshot, and the claim's observables."""
    trained = single(runs)
    seeds, configs, steps = trained.sweep.seeds, trained.sweep.configs, trained.sweep.snapshots
    test = replace(trained.sweep.test, noise=0.0, path_probability=1.0, primacy=1.0, relevant_fraction_test=FRACTION)
    queries, setting = min(QUERIES, test.queries), test.setting()
    weights = np.stack(
        [
            attention_groups.attention(trained.at(step), configs, test, setting, LENGTH, queries)[:, 0, 0]
            for step in steps
        ]
    )  # (snapshots, runs, 4)
    drawn, iterations = trainings.drawn(trained), [step * ITERATIONS / steps[-1] for step in steps]
    parts = [
        part
        for g, group in enumerate(attention_groups.GROUPS)
        for part in errors.drawn_curve(
            seeds, drawn, "attention weight", weights[..., g], panel="main", series=group,
            x=iterations,
        )
    ]  # fmt: skip
    noisy = trained.sweep.test
    leads = leading_pattern.right_leads(
        trained.last(), configs, noisy, noisy.setting(), noisy.context_length_test, min(LEADING_QUERIES, noisy.queries)
    )
    parts.append(rows("least share of queries whose right pattern leads, over steps", seeds, leads.min(axis=1)))
    parts += [errors.drawn_run(seeds, drawn), *premises.of_training(trained)]
    return join([*parts, *(rows(name, seeds, values) for name, values in stages(weights, np.array(steps)).items())])


def stages(weights: np.ndarray, steps: np.ndarray) -> dict[str, np.ndarray]:
    """Observables of the two stages, (runs,) each, from weights (snapshots, runs, 4); NaN if a stage does not end."""
    both, off, step_only = weights[..., 0], weights[..., 1] + weights[..., 3], weights[..., 2]
    passes = both > 0.6
    # The last snapshot before the weight on both exceeds 0.6, or the first one if it already does.
    before = np.maximum(passes.argmax(axis=0) - 1, 0)
    peak = step_only.max(axis=0)
    step_found = off < 0.05
    return {
        "same TSR and step at the end": both[-1],
        "off-step weight before same TSR and step passes 0.6": np.where(
            passes.any(axis=0), np.take_along_axis(off, before[None], axis=0)[0], np.nan
        ),
        "rise of the other TSR on the step": peak - step_only[0],
        "fall of the other TSR on the step": peak - step_only[-1],
        "end of the first stage": np.where(step_found.any(axis=0), steps[step_found.argmax(axis=0)], np.nan),
    }


@plotting.published
def draw(table: Table) -> Picture:
    """The figure in the published style, from the table's summaries.

    The published picture is an enlarged screenshot, so axes and letters are 5 % larger than in its siblings.
    """
    figure, axes = plotting.canvas((400, 403), (79.33, 370.20, 18.17, 342.83))
    plotting.curves(axes, table, attention_groups.STYLES, "attention weight")
    axes.axvline(END_OF_STAGE, color="k", linestyle=":", linewidth=3)
    x = Axis("Iterations", (0, 1000), range(0, 1001, 200))
    plotting.frame(axes, x, Axis("Attention weight in average", (0, 1)), font=15.8)
    plotting.legend(axes, 12.6, "lower left", (0.146, 0.326), spacing=0.6)
    return figure


FIGURES = (Figure("figure20", sweeps, measure, draw, runs_picture.of(draw, attention_groups.STYLES)),)
