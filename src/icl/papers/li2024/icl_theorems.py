"""Theorems 1 to 3 and propositions 1 and 2 of Li et al. under SGD, for which they are stated, and under Adam, which the
figures use: the same measurements on both trainings.
"""

from dataclasses import replace

import numpy as np

from icl.figure import Axis, Figure, Picture, Rows, Runs, Table, Trained, facts, join, plotting, rows, torch
from icl.models.optimisers import Params
from icl.papers.li2024 import error_figures, evaluation, neuron_figures, pruning, training_curves, trainings
from icl.papers.li2024.evaluation import EvaluationPrompts

NAMES = ("figure8", "figure9", "figure10", "figure11", "figure14", "icl_generalisation")
MEASURED = [
    figure
    for module in (training_curves, neuron_figures, pruning, error_figures)
    for figure in module.FIGURES
    if figure.name in NAMES
]
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
LEFT_OUT = (
    "drawn run",
    "share of draws",
    "largest rise of l*",
    "largest over smallest l*",
    *(f"error at S_1={total}" for total in (0.9, 0.7, 0.5)),
    *(f"hinge loss at S_1={total}" for total in (0.9, 0.7)),
)
"""How the names of facts begin that are not compared."""
RENAMED = {
    "angle at the start": "angle of the feature rows at the start",
    "angle at the end": "angle of the feature rows at the end",
}


def measure(runs: Trained, scale: str) -> Rows:
    """Return the facts of six figures on both trainings, with ", SGD" or ", Adam" after their names, also as dots."""
    parts = []
    for method, sweep in trainings.METHODS.items():
        seeds, found = runs[sweep].sweep.seeds, _facts(runs[sweep], scale)
        parts.append(facts(seeds, {f"{name}, {method}": of_runs for name, of_runs in found.items()}))
        parts += [rows(name, seeds, found[name], panel=str(index), series=method) for index, name in enumerate(DRAWN)]
    return join(parts)


def _facts(runs: Runs, scale: str) -> dict[str, np.ndarray]:
    """Observable -> (runs,): the facts of the figures, and those on prompts without noise at alpha' = 0.8."""
    found = {}
    for figure in MEASURED:
        (sweep,) = figure.sweeps(scale)
        measured = figure.measure({sweep.name: replace(runs, sweep=replace(runs.sweep, test=sweep.test))}, scale)
        for name, of_runs in measured[measured["panel"] == ""].groupby("observable")["value"]:
            if not name.startswith(LEFT_OUT):
                found[RENAMED.get(name, name)] = of_runs.to_numpy()
    trained = trainings.in_axes(runs)
    pruned = pruning.pruning(trained)
    return found | {
        "rise of the hinge loss without small neurons": pruned.rise_without_small(),
        "least rise of the hinge loss per share of large neurons": pruned.least_rise_per_share(),
        **attended_context(trained.last(), evaluation.in_domain(trained.sweep)),
    }


def attended_context(params: Params, prompts: EvaluationPrompts) -> dict[str, np.ndarray]:
    """How close sum_s p_s softmax_s is to (mu, z q), mu the query's pattern: the mean cosine of its feature part with
    mu, and the mean of z times its label part in units of q, (runs,) each.
    """
    weights = evaluation.attention(params, prompts)
    attended = torch.einsum("rpl,rpld->rpd", weights, prompts.tokens)
    size, q = prompts.query_direction.shape[-1], torch.from_numpy(prompts.configs[0].label_direction)
    feature, label = attended[..., :size], attended[..., size:]
    cosine = (feature * prompts.query_direction).sum(dim=-1) / feature.norm(dim=-1)
    return {
        "cosine of the attended features with the pattern": cosine.mean(dim=-1).numpy(),
        "attended label times z": ((label @ q) / (q @ q) * prompts.answer).mean(dim=-1).numpy(),
    }


@plotting.under_defaults
def draw(table: Table) -> Picture:
    """One panel per quantity and one dot per run, SGD beside Adam."""
    names = [str(index) for index in range(len(DRAWN))]
    figure, panels = plotting.panels((1000, 680), plotting.grid_edges(names, (70, 235, 30, 180), (242, 220), columns=4))
    for (panel, axes), (observable, title) in zip(panels.items(), DRAWN.items(), strict=True):
        for place, method in enumerate(trainings.METHODS):
            values = table.points(panel, method, observable)["value"]
            spread = [place + 0.3 * (order / max(len(values) - 1, 1) - 0.5) for order in range(len(values))]
            axes.plot(spread, values, "o", color=f"C{place}", markersize=5, alpha=0.8, label=f"a run by {method}")
        statement, quantity = title.split(": ")
        axes.set_title(statement, fontsize=10)
        x = Axis("trained by", (-0.5, 1.5), (0, 1), tuple(trainings.METHODS))
        plotting.frame(axes, x, Axis(quantity), font=9)
        axes.ticklabel_format(axis="y", scilimits=(-2, 3))
    plotting.legend(panels["0"], 9, "center", (0.5, 0.5))
    return figure


FIGURES = (Figure("icl_theorems", trainings.both_trainings, measure, draw),)
