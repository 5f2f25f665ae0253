"""Theorems 1 to 3 and propositions 1 and 2 of Li et al. under SGD, for which they are stated, and under Adam, which
figures 8 to 11 use: the same measurements on both trainings.
"""

from dataclasses import replace

import numpy as np

from icl.drawing import house
from icl.figure import Figure, Picture, Rows, Runs, Table, Trained, facts, join, plotting, rows, torch
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
    "error on unseen tasks": ("Theorem 1\nunseen tasks", "Error"),
    "hinge loss on unseen tasks": ("Theorem 1\nunseen tasks", "Hinge loss"),
    "error at S_1=1.1": ("Theorem 2\n$S_1 = 1.1$", "Error"),
    "error at S_1=1.3": ("Theorem 2\n$S_1 = 1.3$", "Error"),
    "share of small neurons": ("Theorem 3\nsmall neurons", "Fraction"),
    "largest ratio of neighbouring norms": ("Theorem 3\nsorted row norms", "Largest step"),
    "rise of the hinge loss without small neurons": ("Theorem 3\nwithout small ones", "Rise of the loss"),
    "least rise of the hinge loss per share of large neurons": ("Theorem 3\nper share of large", "Rise of the loss"),
    "share along the pattern": ("Proposition 1\nalong the pattern", "Fraction"),
    "attention at the end": ("Proposition 1\nattention", "Fraction"),
    "angle of the feature rows at the end": ("Proposition 2\nfeature rows", r"Angle to $\bar{\mu}$"),
    "angle at the end, a_i > 0": ("Proposition 2\nlabel rows, $a_i > 0$", "Angle to $q$"),
}
"""Observable -> the theorem or proposition about it, and the label of its axis."""
LOGARITHMIC = ("Error", "Hinge loss")

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


METHODS = house.styles({method: method for method in trainings.METHODS}, markers=True)


@plotting.under_defaults
def draw(table: Table) -> Picture:
    """One panel per quantity and one dot per run, SGD beside Adam; losses are logarithmic, with zeros as "none"."""
    names = [str(index) for index in range(len(DRAWN))]
    title = "Quantities of the theorems at the end of training, one dot per run"
    figure, panels = house.panels(names, 4, title, (195, 185))
    none = house.below(table.runs.loc[table.runs["panel"].isin(names), "value"])
    for (panel, axes), (observable, (heading, label)) in zip(panels.items(), DRAWN.items(), strict=True):
        for place, style in enumerate(METHODS):
            points = table.points(panel, style.series, observable).assign(x=place)
            house.dots(axes, points, style, none if label in LOGARITHMIC else None)
        house.axis_labels(axes, "", label, heading)
        axes.set(xlim=(-0.5, 1.5), xticks=(0, 1), xticklabels=[style.label for style in METHODS])
        if label in LOGARITHMIC:
            axes.set(yscale="log", ylim=(none, 1))
            plotting.none_tick(axes, none)
        else:
            low, high = axes.get_ylim()
            axes.set_ylim(min(low, 0), max(high, 1.05 if label == "Fraction" else 0.1))
    house.common_labels(figure, x="Trained by")
    return figure


FIGURES = (Figure("icl_theorems", trainings.both_trainings, measure, draw),)
