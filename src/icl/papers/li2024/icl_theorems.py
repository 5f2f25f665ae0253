"""Theorems 1 to 3 and propositions 1 and 2 of Li et al. under SGD, for which they are stated, and under Adam, which the
figures use: the same measurements on both trainings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pandas as pd

from icl.core.lazy import Picture
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import Table, join, rows
from icl.drawing import plotting
from icl.figure import Figure
from icl.papers.li2024 import (
    figure8,
    figure9,
    figure10,
    figure11,
    figure14,
    icl_generalisation,
    one_layer_evaluation,
    one_layer_figures,
)
from icl.papers.li2024.pruning import SHARES, least_rise_per_share, rise_without_small, trained_pruning

MEASUREMENTS = (figure8, figure9, figure10, figure11, figure14, icl_generalisation)
METHODS = {"SGD": "li_icl_sgd", "Adam": "li_icl"}
DRAWN = {
    "error on unseen tasks": "T1: error on unseen tasks",
    "hinge loss on unseen tasks": "T1: hinge loss on unseen tasks",
    "error at S_1=1.1": "T2: error, $S_1 = 1.1$",
    "error at S_1=1.3": "T2: error, $S_1 = 1.3$",
    "share of small neurons": "T3: share of small neurons",
    "largest ratio of neighbouring norms": "T3: largest step of row norms",
    "rise of the hinge loss without small neurons": "T3: rise without small neurons",
    "least rise of the hinge loss per share of large neurons": "T3: rise per share of large ones",
    "share along the pattern": "P1: share along the pattern",
    "attention at the end": "P1: attention at the end",
    "angle of the feature rows at the end": r"P2: angle to $\bar{\mu}$",
    "angle at the end, a_i > 0": "P2: angle to $q$, $a_i > 0$",
}
"""Observable -> the theorem or proposition about it, and its axis label."""
COMPARED = {
    *DRAWN,
    "hinge loss at S_1=1.1",
    "hinge loss at S_1=1.3",
    "hinge loss at S_1=0.5",
    "share of the tasks in training",
    "training contexts times alpha",
    "batch over M_1",
    "held-out loss",
    "growth along the pattern",
    "attention at the start",
    "largest fall of attention",
    "angle of the feature rows at the start",
    "angle at the end, a_i < 0",
    "norm of small neurons over initial norm",
}
RENAMED = {
    ("figure10", "angle at the start"): "angle of the feature rows at the start",
    ("figure10", "angle at the end"): "angle of the feature rows at the end",
}


def sweeps(scale: str) -> list[Sweep]:
    """The training behind the figures, and the training of the theorems."""
    return [one_layer_figures.shared_training(scale), one_layer_figures.theorem_training(scale)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """The claims' observables of six figures on both trainings, with ", SGD" or ", Adam" after their names."""
    parts = []
    for method, sweep in METHODS.items():
        for module in MEASUREMENTS:
            (figure,) = module.FIGURES
            (sweep_of_figure,) = figure.sweeps(scale)
            trained = runs[sweep]
            tested = replace(trained, sweep=replace(trained.sweep, test=sweep_of_figure.test))
            table = figure.measure({sweep: tested}, scale)
            claims = table[table["panel"] == ""]
            names = [RENAMED.get((figure.name, observable), observable) for observable in claims["observable"]]
            claims = claims.assign(observable=names)
            claims = claims[claims["observable"].isin(COMPARED)]
            parts.append(claims.assign(observable=claims["observable"] + f", {method}"))
        parts += _on_test_prompts(one_layer_figures.trained({sweep: runs[sweep]}), method)
    claimed = join(parts).drop_duplicates(["observable", "seed"], ignore_index=True)
    return join([claimed, *drawn(claimed)])


def _on_test_prompts(trained: Runs, method: str) -> Iterator[pd.DataFrame]:
    """Theorem 3 and the attended context on prompts without noise at alpha' = 0.8."""
    seeds, test = trained.sweep.seeds, trained.sweep.test
    pruning = trained_pruning(trained, test)
    prompts = one_layer_evaluation.in_domain(trained.sweep.configs, test)
    values = {
        "rise of the hinge loss without small neurons": rise_without_small(pruning),
        "least rise of the hinge loss per share of large neurons": least_rise_per_share(pruning, SHARES),
        **one_layer_evaluation.attended_context(trained.last(), prompts, trained.sweep.configs[0]),
    }
    yield from (rows(f"{name}, {method}", seeds, of_runs) for name, of_runs in values.items())


def drawn(claimed: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """The values of DRAWN again, each in its panel and with the optimiser as series."""
    for index, observable in enumerate(DRAWN):
        for method in METHODS:
            of_method = claimed[claimed["observable"] == f"{observable}, {method}"]
            labels = {"observable": observable, "panel": str(index), "series": method}
            yield of_method.assign(**labels)


@plotting.published
def draw(table: Table) -> Picture:
    """One panel per quantity and one dot per run, SGD beside Adam."""
    figure, first = plotting.canvas((1000, 680), (70, 235, 30, 180), panel="0")
    for index, (observable, title) in enumerate(DRAWN.items()):
        row, column = divmod(index, 4)
        edges = (70 + 242 * column, 235 + 242 * column, 30 + 220 * row, 180 + 220 * row)
        axes = first if index == 0 else plotting.add_panel(figure, edges, str(index))
        for place, method in enumerate(METHODS):
            values = table.points(str(index), method, observable)["value"]
            spread = [place + 0.3 * (order / max(len(values) - 1, 1) - 0.5) for order in range(len(values))]
            axes.plot(spread, values, "o", color=f"C{place}", markersize=5, alpha=0.8, label=f"a run by {method}")
        statement, quantity = title.split(": ")
        axes.set(xlim=(-0.5, 1.5), xticks=(0, 1), xticklabels=list(METHODS), title=statement)
        axes.set_xlabel("trained by", fontsize=9)
        axes.set_ylabel(quantity, fontsize=9)
        axes.tick_params(labelsize=9)
        axes.title.set_fontsize(10)
        axes.ticklabel_format(axis="y", scilimits=(-2, 3))
    plotting.legend(first, 9, "center", (0.5, 0.5))
    return figure


FIGURES = (Figure("icl_theorems", sweeps, measure, draw),)
