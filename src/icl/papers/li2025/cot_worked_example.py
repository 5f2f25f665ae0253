"""The talk's worked example, two noisy steps over two patterns: its matrices, and the answers of
the trained layer.
"""

from functools import partial
from typing import Any

import numpy as np

from icl.drawing import own_style
from icl.figure import Figure, Picture, Rows, Table, Trained, curves, facts, join, plotting, single
from icl.papers.li2025 import trainings
from icl.papers.li2025.decoding import chain_of_thought, draw_test, single_answer, wrong_answers
from icl.papers.li2025.prompts import Setting
from icl.papers.li2025.transition_matrices import condition_1, product, with_exact_steps

STEPS = np.array([[[0.6, 0.4], [0.4, 0.6]], [[0.4, 0.6], [0.8, 0.2]]])
"""A_1 and A_2, as the talk states them (page 30)."""
LENGTHS = (1, 2, 5, 10, 20, 30, 50, 70, 100)


LAST = {
    ("CoT", 1): "CoT error from start 1 with 100 examples",
    ("CoT", 2): "CoT error from start 2 with 100 examples",
    ("ICL", 1): "ICL error from start 1 with 100 examples",
    ("ICL", 2): "ICL error from start 2 with 100 examples",
}


def measure(runs: Trained, scale: str) -> Rows:
    """A_1, A_2 and B; errors of chain of thought and of a single answer against the number of
    examples, by start.
    """
    trained = single(runs)
    test, seeds = trained.sweep.test, trained.sweep.seeds
    setting = Setting(test.relevant_fraction_test, with_exact_steps(STEPS, test.chain_length))
    lengths = [length for length in LENGTHS if length <= test.context_length_test]
    starts = np.stack([draw_test(config, test).start for config in trained.sweep.configs])
    holds = condition_1(setting.matrices)
    found = {
        "Condition 1 from start 1": float(holds[0]),
        "Condition 1 from start 2": float(holds[1]),
    }
    errors = {}
    for name, answer in (("CoT", chain_of_thought), ("ICL", single_answer)):
        (wrong,) = wrong_answers(answer, trained, [setting], lengths)
        for start in (1, 2):
            errors[f"{name}, start {start}"] = of_start = wrong.mean(
                axis=-1, where=starts == start - 1
            )
            found[LAST[name, start]] = of_start[-1]
    matrices = {"A_1": STEPS[0], "A_2": STEPS[1], "B": product(STEPS)}
    parts = [
        curves("probability", name, None, [1, 2], {"row 1": a[0], "row 2": a[1]})
        for name, a in matrices.items()
    ]
    parts.append(curves("error", "errors", seeds, np.array(lengths)[:, None], errors))
    return join([*parts, facts(seeds, found | trainings.conditions(trained))])


STYLES = own_style.styles(
    {
        "ICL, start 1": "single answer from 1",
        "ICL, start 2": "single answer from 2",
        "CoT, start 1": "chain from 1",
        "CoT, start 2": "chain from 2",
    }
)
TITLES = {"A_1": "$A_1$", "A_2": "$A_2$", "B": "$B = A_1A_2$"}


@plotting.under_defaults
def draw(table: Table) -> Picture:
    """Return the three matrices with their entries, and the errors on the right."""
    figure, panels = own_style.panels(
        [*TITLES, "errors"], 4, "The worked example: step matrices and errors", (265, 235)
    )
    for name, title in TITLES.items():
        axes, matrix = panels[name], table.matrix(name, "probability")
        own_style.share_map(axes, matrix)
        for (row, column), value in np.ndenumerate(matrix):
            look: dict[str, Any] = {
                "color": "w" if value > 0.5 else "k",
                "weight": "bold" if value == matrix[row].max() else None,
            }
            axes.text(
                column + 0.5,
                row + 0.5,
                f"{value:.2f}",
                fontsize=own_style.FONT,
                ha="center",
                va="center",
                **look,
            )
        axes.set(xticks=(0.5, 1.5), xticklabels="12", yticks=(0.5, 1.5), yticklabels="12")
        own_style.axis_labels(axes, "to", "from", title)
    plotting.curves(panels["errors"], table, STYLES, "error", band=plotting.pale, **own_style.LINE)
    panels["errors"].set(xlim=(0, 100), ylim=(0, 1))
    own_style.name_curves(panels["errors"])
    own_style.axis_labels(panels["errors"], "Context examples", "Error")
    return figure


# Any matrices for two patterns, which `measure` replaces by the example's.
EXACT: dict[str, Any] = dict.fromkeys(
    ("path_probability", "primacy", "end_probability", "end_primacy"), 1.0
)
sweeps = partial(trainings.shared_training, specific_patterns=2, **EXACT)
FIGURES = (Figure("cot_worked_example", sweeps, measure, draw),)
