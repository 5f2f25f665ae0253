"""Theorems 1 to 3 and propositions 1 and 2 of Li et al. under SGD, for which they are stated, and
under Adam, which figures 8 to 11 use: the same measurements on both trainings.
"""

from dataclasses import replace

import numpy as np

from icl.drawing import own_style
from icl.figure import (
    Figure,
    Picture,
    Rows,
    Runs,
    Table,
    Trained,
    facts,
    join,
    plotting,
    rows,
    torch,
)
from icl.models.optimisers import Params
from icl.papers.li2024 import (
    error_figures,
    evaluation,
    neuron_figures,
    pruning,
    training_curves,
    trainings,
)
from icl.papers.li2024.evaluation import EvaluationPrompts

NAMES = ("figure8", "figure9", "figure10", "figure11", "figure14", "icl_generalisation")
MEASURED = [
    figure
    for module in (training_curves, neuron_figures, pruning, error_figures)
    for figure in module.FIGURES
    if figure.name in NAMES
]
DRAWN = {
    "hinge loss on unseen tasks": ("Theorem 1\nunseen tasks", "Hinge loss"),
    "share of small neurons": ("Theorem 3\nsmall neurons", "Fraction"),
    "largest ratio of neighbouring norms": ("Theorem 3\nsorted row norms", "Largest step"),
    "least rise of the hinge loss per share of large neurons": (
        "Theorem 3\nper share of large",
        "Rise of the loss",
    ),
    "share along the pattern": ("Proposition 1\nalong the pattern", "Fraction"),
    "attention at the end": ("Proposition 1\nattention", "Fraction"),
    "angle of the feature rows at the end": (
        "Proposition 2\nfeature rows",
        r"Angle to $\bar{\mu}$",
    ),
    "angle at the end, a_i > 0": ("Proposition 2\nlabel rows, $a_i > 0$", "Angle to $q$"),
}
"""Observable -> the theorem or proposition about it, and the label of its axis."""
LOGARITHMIC = "Hinge loss"
IN_WORDS = {
    "error on unseen tasks": "Theorem 1, error on unseen tasks",
    "error at S_1=1.1": "Theorem 2, error at $S_1 = 1.1$",
    "error at S_1=1.3": "Theorem 2, error at $S_1 = 1.3$",
    "change of F without small neurons": "Theorem 3, change of $F$ without small neurons",
}
"""Observable -> its name: nearly all runs have zero, so the picture says in how many instead of
drawing them.
"""

LEFT_OUT = (
    "drawn run",
    "magnitude-based below random",
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
    """Return the facts of six figures on both trainings, with ", SGD" or ", Adam" after their
    names, also as dots.
    """
    parts = []
    for method, sweep in trainings.METHODS.items():
        seeds, found = runs[sweep].sweep.seeds, _facts(runs[sweep], scale)
        parts.append(
            facts(seeds, {f"{name}, {method}": of_runs for name, of_runs in found.items()})
        )
        parts += [
            rows(name, seeds, found[name], panel=name, series=method)
            for name in (*DRAWN, *IN_WORDS)
        ]
    return join(parts)


def _facts(runs: Runs, scale: str) -> dict[str, np.ndarray]:
    """Observable -> (runs,): the facts of the figures, and those on prompts without noise at
    alpha' = 0.8.
    """
    found = {}
    for figure in MEASURED:
        (sweep,) = figure.sweeps(scale)
        measured = figure.measure(
            {sweep.name: replace(runs, sweep=replace(runs.sweep, test=sweep.test))}, scale
        )
        for name, of_runs in measured[measured["panel"] == ""].groupby("observable")["value"]:
            if not name.startswith(LEFT_OUT):
                found[RENAMED.get(name, name)] = of_runs.to_numpy()
    trained = trainings.in_axes(runs)
    pruned = pruning.pruning(trained)
    return found | {
        "change of F without small neurons": pruned.change_without_small(),
        "hinge loss before pruning": pruned.without(np.zeros_like(pruned.large))[pruning.HINGE],
        "hinge loss without small neurons": pruned.without(~pruned.large)[pruning.HINGE],
        "least rise of the hinge loss per share of large neurons": pruned.least_rise_per_share(),
        **attended_context(trained.last(), evaluation.in_domain(trained.sweep)),
    }


def attended_context(params: Params, prompts: EvaluationPrompts) -> dict[str, np.ndarray]:
    """How close sum_s p_s softmax_s is to (mu, z q), mu the query's pattern: the mean cosine of its
    feature part with mu, and the mean of z times its label part in units of q, (runs,) each.
    """
    weights = evaluation.attention(params, prompts)
    attended = torch.einsum("rpl,rpld->rpd", weights, prompts.tokens)
    size, q = (
        prompts.query_direction.shape[-1],
        torch.from_numpy(prompts.configs[0].label_direction),
    )
    feature, label = attended[..., :size], attended[..., size:]
    cosine = (feature * prompts.query_direction).sum(dim=-1) / feature.norm(dim=-1)
    return {
        "cosine of the attended features with the pattern": cosine.mean(dim=-1).numpy(),
        "attended label times z": ((label @ q) / (q @ q) * prompts.answer).mean(dim=-1).numpy(),
    }


METHODS = own_style.styles({method: method for method in trainings.METHODS}, markers=True)


@plotting.under_defaults
def draw(table: Table) -> Picture:
    """One panel per quantity and one dot per run, SGD beside Adam; the loss is logarithmic, with
    zeros as "none".
    """
    title = "Quantities of the theorems at the end of training, one dot per run"
    figure, panels = own_style.panels(list(DRAWN), 4, title, (195, 205))
    for observable, axes in panels.items():
        heading, label = DRAWN[observable]
        points = [
            table.points(observable, style.series, observable).assign(x=x)
            for x, style in enumerate(METHODS)
        ]
        none = own_style.below(join(points)["value"]) if label == LOGARITHMIC else None
        for of_method, style in zip(points, METHODS, strict=True):
            own_style.dots(axes, of_method, style, none)
        own_style.axis_labels(axes, "", label, heading)
        axes.set(xlim=(-0.5, 1.5), xticks=(0, 1), xticklabels=[style.label for style in METHODS])
        if none:
            axes.set(yscale="log", ylim=(none, 1))
            plotting.none_tick(axes, none)
        else:
            low, high = axes.get_ylim()
            axes.set_ylim(min(low, 0), max(high, 1.05 if label == "Fraction" else 0.1))
    words = [f"{words}: {_zeros(table, observable)}" for observable, words in IN_WORDS.items()]
    own_style.common_labels(figure, x="\n".join(["Trained by", "", *words]))
    return figure


def _zeros(table: Table, observable: str) -> str:
    """Return in how many runs an observable is zero, and the largest value if it is not zero in
    all.
    """
    values = np.concatenate(
        [table.points(observable, style.series, observable)["value"] for style in METHODS]
    )
    largest = f", otherwise at most {values.max():.2g}" if values.any() else ""
    return f"zero in {(values == 0).sum()} of {len(values)} runs{largest}"


FIGURES = (Figure("icl_theorems", trainings.both_trainings, measure, draw),)
