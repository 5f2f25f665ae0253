"""The talk's worked example, two noisy steps over two patterns: its matrices, and the answers of the trained layer."""

from functools import partial
from typing import Any

import numpy as np

from icl.figure import Axis, Figure, Picture, Rows, Style, Table, Trained, curves, facts, join, plotting, single
from icl.papers.li2025 import trainings
from icl.papers.li2025.decoding import chain_of_thought, draw_test, single_answer, wrong_answers
from icl.papers.li2025.prompts import Setting
from icl.papers.li2025.transition_matrices import condition_1, product, with_exact_steps

STEPS = np.array([[[0.6, 0.4], [0.4, 0.6]], [[0.4, 0.6], [0.8, 0.2]]])
"""A_1 and A_2, as the talk states them (page 30)."""
LENGTHS = (1, 2, 5, 10, 20, 30, 50, 70, 100)


def measure(runs: Trained, scale: str) -> Rows:
    """A_1, A_2 and B; errors of chain of thought and of a single answer against the number of examples, by start."""
    trained = single(runs)
    test, seeds = trained.sweep.test, trained.sweep.seeds
    setting = Setting(test.relevant_fraction_test, with_exact_steps(STEPS, test.chain_length), test.example_law)
    lengths = [length for length in LENGTHS if length <= test.context_length_test]
    starts = np.stack([draw_test(config, test).start for config in trained.sweep.configs])
    holds = condition_1(setting.matrices)
    found = {f"Condition 1 from start {start}": float(holds[start - 1]) for start in (1, 2)}
    errors = {}
    for name, answer in (("CoT", chain_of_thought), ("ICL", single_answer)):
        (wrong,) = wrong_answers(answer, trained, [setting], lengths)
        for start in (1, 2):
            errors[f"{name}, start {start}"] = of_start = wrong.mean(axis=-1, where=starts == start - 1)
            found[f"{name} error from start {start} with 100 examples"] = of_start[-1]
    matrices = {"A_1": STEPS[0], "A_2": STEPS[1], "B": product(STEPS)}
    parts = [curves("probability", name, None, [1, 2], {"row 1": a[0], "row 2": a[1]}) for name, a in matrices.items()]
    parts.append(curves("error", "errors", seeds, np.array(lengths)[:, None], errors))
    return join([*parts, facts(seeds, found | trainings.conditions(trained))])


STYLES = (
    Style("ICL, start 1", "ICL from 1: Condition 1 fails", "m", "+"),
    Style("ICL, start 2", "ICL from 2: it holds", "b", "x"),
    Style("CoT, start 1", "CoT from 1", "r", "o"),
    Style("CoT, start 2", "CoT from 2", "c", "d"),
)
TITLES = {"A_1": "$A_1$", "A_2": "$A_2$", "B": "$B = A_1A_2$"}


@plotting.under_defaults
def draw(table: Table) -> Picture:
    """Return the three matrices with their entries, and the errors on the right."""
    edges = plotting.grid_edges(list(TITLES), (50, 220, 50, 220), (235, 0))
    figure, panels = plotting.panels((1120, 330), edges | {"errors": (790, 1095, 20, 265)})
    for name, title in TITLES.items():
        axes, matrix = panels[name], table.matrix(name, "probability")
        plotting.heatmap(axes, matrix, title, 15, vmin=0, vmax=1)
        for (row, column), value in np.ndenumerate(matrix):
            colour, weight = "k" if value > 0.5 else "w", "bold" if value == matrix[row].max() else None
            look = {"fontsize": 15, "color": colour, "weight": weight}
            axes.text(column + 1, row + 1, f"{value:.2f}", look, ha="center", va="center")
        plotting.frame(axes, Axis("to", ticks=(1, 2)), Axis("from", ticks=(1, 2)), 13, 12)
    plotting.curves(panels["errors"], table, STYLES, "error")
    x, y = Axis("# of context examples", (0, 100), range(0, 101, 20)), Axis("Error", (0, 1.3), (0, 0.25, 0.5, 0.75, 1))
    plotting.frame(panels["errors"], x, y, 14, 12)
    plotting.legend(panels["errors"], 10, "upper right", (0.99, 0.99), spacing=0.2)
    return figure


# Any matrices for two patterns, which `measure` replaces by the example's.
EXACT: dict[str, Any] = dict.fromkeys(("path_probability", "primacy", "end_probability", "end_primacy"), 1.0)
sweeps = partial(trainings.shared_training, specific_patterns=2, **EXACT)
FIGURES = (Figure("cot_worked_example", sweeps, measure, draw),)
