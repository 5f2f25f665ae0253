"""Fraction of lucky neurons over training: active whenever the label has the sign of a_i (talk
page 50).
"""

import numpy as np

from icl.drawing import own_style
from icl.figure import Figure, Picture, Rows, Runs, Table, Trained, facts, join, plotting, rows
from icl.models.optimisers import Params
from icl.papers.li2024 import evaluation, trainings
from icl.papers.li2024.evaluation import EvaluationPrompts
from icl.papers.li2024.neuron_figures import embeddings

ALWAYS = 0.99
"""Fraction of the prompts of its label on which a lucky neuron must be active, as drawn."""
MOSTLY = 0.5
"""The same at the start of the training, where the talk defines luck."""


def lucky(params: Params, prompts: EvaluationPrompts, share: float = ALWAYS) -> np.ndarray:
    """Which neurons have w_i^T sum_j W_V p_j s_j > 0 on at least this share of the prompts with z =
    sign(a_i): bool (runs, m); w_i is row i of W_O, s_j the attention on context j.
    """
    active = evaluation.contributions(params, prompts) != 0
    of_label = prompts.labels[:, :, -1:] == params["a"].sign()[:, None]
    return ((active & of_label).sum(dim=1) >= share * of_label.sum(dim=1)).numpy()


def measure(runs: Trained, scale: str) -> Rows:
    """Fractions of lucky neurons at every epoch, on unseen tasks; the claims' observables under
    SGD.
    """
    parts = []
    for method, name in trainings.METHODS.items():
        trained = trainings.in_axes(runs[name])
        seeds, epochs = trained.sweep.seeds, trained.sweep.snapshots
        prompts = evaluation.in_domain(trained.sweep)
        is_lucky = np.stack([lucky(trained.at(epoch), prompts) for epoch in epochs])
        x = np.array(epochs)[:, None]
        parts.append(
            rows(
                "share of neurons", seeds, is_lucky.mean(axis=-1), x=x, panel="main", series=method
            )
        )
        if method == "SGD":
            parts.append(_by_activity_at_the_start(trained, prompts))
    return join(parts)


def _by_activity_at_the_start(trained: Runs, prompts: EvaluationPrompts) -> Rows:
    """Return the share of neurons lucky at epoch 0, active on most prompts of their label, what
    becomes of them, and the growth of the others.
    """
    start = lucky(trained.at(0), prompts, MOSTLY)
    norms = trained.last()["W_O"].norm(dim=-1).numpy()
    with np.errstate(divide="ignore", invalid="ignore"):
        of_lucky, of_unlucky = (
            (norms * of).sum(axis=-1) / of.sum(axis=-1) for of in (start, ~start)
        )
    rows_of = embeddings(trained.last(), trained.sweep.configs[0])
    positive = trained.last()["a"].numpy() > 0
    to_signed_q = np.where(positive, rows_of["label angle"], np.pi - rows_of["label angle"])
    out_of_domain = evaluation.out_of_domain(trained.sweep)
    still = lucky(trained.last(), out_of_domain) & start
    claimed = {
        "share of neurons that are lucky at the start": start.mean(axis=-1),
        "final norm of unlucky neurons over lucky ones": of_unlucky / of_lucky,
        "angle of lucky feature rows to the mean pattern": np.average(
            rows_of["feature angle"], axis=-1, weights=start
        ),
        "angle of lucky label rows to sign(a_i) q": np.average(to_signed_q, axis=-1, weights=start),
        "share of lucky neurons that stay active out of domain": still.sum(-1) / start.sum(-1),
    }
    return facts(trained.sweep.seeds, claimed)


@plotting.under_defaults
def draw(table: Table) -> Picture:
    """Means over runs with their bands."""
    figure, panels = own_style.panels(
        ["main"], 1, "Lucky neurons over training, with each optimiser", (400, 270)
    )
    styles = own_style.styles({"SGD": "SGD", "Adam": "Adam"})
    plotting.curves(
        panels["main"], table, styles, "share of neurons", band=plotting.pale, **own_style.LINE
    )
    panels["main"].set(xlim=(0, trainings.EPOCHS[-1]), ylim=(0, 1))
    own_style.name_curves(panels["main"])
    own_style.axis_labels(panels["main"], "Epoch", "Fraction of lucky neurons")
    return figure


FIGURES = (Figure("icl_lucky_neurons", trainings.both_trainings, measure, draw),)
