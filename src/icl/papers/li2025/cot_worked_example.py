"""The talk's worked example, two noisy steps over two patterns: its matrices, and the answers of the trained layer."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from icl.core.lazy import Axes, Picture
from icl.core.runs import Runs, single
from icl.core.sweep import Sweep
from icl.core.table import Table, exact, join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.figure import Figure
from icl.papers.li2025 import decoding, premises, trainings
from icl.papers.li2025.prompts import Setting
from icl.papers.li2025.transition_matrices import condition_1, product

STEPS = np.array([[[0.6, 0.4], [0.4, 0.6]], [[0.4, 0.6], [0.8, 0.2]]])
"""A_1 and A_2, as the talk states them (page 30)."""

LENGTHS = (1, 2, 5, 10, 20, 30, 50, 70, 100)
STARTS = (1, 2)


def sweeps(scale: str) -> list[Sweep]:
    """The shared training, tested on two patterns; `measure` replaces the matrices of the test by the example's."""
    return [
        trainings.shared_training(
            scale, specific_patterns=2, path_probability=1.0, primacy=1.0, end_probability=1.0, end_primacy=1.0
        )
    ]


def matrices(chain_length: int) -> np.ndarray:
    """A_1 and A_2, followed by exact steps up to the length of the trained chains: (K, 2, 2)."""
    return np.concatenate([STEPS, np.broadcast_to(np.eye(2), (chain_length - len(STEPS), 2, 2))])


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """A_1, A_2 and B; errors of chain of thought and of a single answer against the number of examples, by start."""
    trained = single(runs)
    configs, test, seeds = trained.sweep.configs, trained.sweep.test, trained.sweep.seeds
    shown = {"A_1": STEPS[0], "A_2": STEPS[1], "B": product(STEPS)}
    cells = [
        rows("probability", 0, matrix, x=[1, 2], panel=name, series=np.array([["row 1"], ["row 2"]]))
        for name, matrix in shown.items()
    ]
    setting = Setting(test.relevant_fraction_test, matrices(test.chain_length), test.example_law)
    lengths = [length for length in LENGTHS if length <= test.context_length_test]
    starts_of_runs = [decoding.draw_test(config, test).start for config in configs]
    parts = [exact(join(cells))]
    for answer, decode in (("CoT", decoding.cot_wrong), ("ICL", decoding.icl_wrong)):
        (wrong,) = decode(trained.last(), configs, test, [setting], lengths)
        for start in STARTS:
            errors = np.stack(
                [
                    of_run[:, starts == start - 1].mean(axis=-1)
                    for of_run, starts in zip(wrong.swapaxes(0, 1), starts_of_runs, strict=True)
                ],
                axis=-1,
            )
            x = np.array(lengths)[:, None]
            parts.append(rows("error", seeds, errors, x=x, panel="errors", series=f"{answer}, start {start}"))
            parts.append(rows(f"{answer} error from start {start} with 100 examples", seeds, errors[-1]))
    holds = condition_1(setting.matrices)
    parts += [rows(f"Condition 1 from start {start}", seeds, float(holds[start - 1])) for start in STARTS]
    return join([*parts, *premises.of_training(trained)])


STYLES = (
    Style("ICL, start 1", "ICL from 1: Condition 1 fails", "m", "+"),
    Style("ICL, start 2", "ICL from 2: it holds", "b", "x"),
    Style("CoT, start 1", "CoT from 1", "r", "o"),
    Style("CoT, start 2", "CoT from 2", "c", "d"),
)
TITLES = {"A_1": "$A_1$", "A_2": "$A_2$", "B": "$B = A_1A_2$"}


@plotting.published
def draw(table: Table) -> Picture:
    """The three matrices with their entries, and the errors on the right."""
    figure, first = plotting.canvas((1120, 330), (50, 220, 50, 220), panel="A_1")
    panels = [first]
    for place, name in enumerate(("A_2", "B"), start=1):
        panels.append(plotting.add_panel(figure, (50 + 235 * place, 220 + 235 * place, 50, 220), name))
    for axes in panels:
        _matrix(axes, table)
    errors = plotting.add_panel(figure, (790, 1095, 20, 265), "errors")
    plotting.curves(errors, table, STYLES, "error")
    plotting.frame(
        errors,
        Axis("# of context examples", (0, 100), range(0, 101, 20)),
        Axis("Error", (0, 1.3), (0, 0.25, 0.5, 0.75, 1)),
        14,
        12,
    )
    plotting.legend(errors, 10, "upper right", (0.99, 0.99), spacing=0.2)
    return figure


def _matrix(axes: Axes, table: Table) -> None:
    name = str(axes.get_label())
    matrix = table.matrix(name, "probability")
    plotting.heatmap(axes, matrix, TITLES[name], 15, vmin=0, vmax=1)
    for (row, column), value in np.ndenumerate(matrix):
        colour, weight = "k" if value > 0.5 else "w", "bold" if value == matrix[row].max() else None
        axes.text(
            column + 1, row + 1, f"{value:.2f}", ha="center", va="center", fontsize=15, color=colour, weight=weight
        )
    plotting.frame(axes, Axis("to", ticks=(1, 2)), Axis("from", ticks=(1, 2)), 13, 12)


FIGURES = (Figure("cot_worked_example", sweeps, measure, draw),)
