"""Theorem 3 of Li et al. 2024 with a fixed and with a trained read-out a.

The talk lists a among the trained weights (eq. 8), but its proof idea has no gradient of a. A row
of W_O counts as small here if it keeps its initial norm, which needs no gap between small and large
rows.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from icl.drawing import own_style
from icl.figure import (
    Figure,
    Picture,
    Rows,
    Sweep,
    Table,
    Trained,
    facts,
    join,
    plotting,
    rows,
)
from icl.papers.li2024 import one_layer, trainings
from icl.papers.li2024.pruning import (
    HINGE,
    REMOVED,
    SHARES,
    Pruning,
    first,
    pruning,
    random_orders,
)
from icl.papers.li2024.record import held_out_loss
from icl.papers.li2024.theorem_sweeps import pinned

KINDS = {"fixed": 0, "trained": 1}
"""What happens to the read-out -> its learning rate over that of the other weights."""
SEED_OFFSET = 3000
"""Added to the usual seeds, so that no other figure has these runs."""
KEPT = 1.2
"""Final over initial norm up to which a row has kept its norm, as in A-T3a-SGD."""


def sweeps(scale: str) -> list[Sweep]:
    """Return the training of the theorems with both kinds of read-out."""
    (shared,) = trainings.theorem_training(scale)
    planned = []
    for kind, rate in KINDS.items():
        configs = trainings.theorem_configs(scale, pinned(readout_rate=rate))
        later = tuple(replace(config, seed=SEED_OFFSET + config.seed) for config in configs)
        snapshots = (0, shared.snapshots[-1])
        name = f"li_icl_readout_{kind}"
        planned.append(Sweep(name, one_layer.MODEL, later, snapshots, shared.test))
    return planned


def measure(runs: Trained, scale: str) -> Rows:
    """Growth of the rows of W_O, and the cost of pruning those that kept their norm and others."""
    parts = list[Rows]()
    claimed = dict[str, Any]()
    for kind in KINDS:
        of_kind = runs[f"li_icl_readout_{kind}"]
        trained = trainings.in_axes(of_kind)
        seeds, whole = trained.sweep.seeds, pruning(trained)
        growth = whole.norms / trained.at(0)["W_O"].norm(dim=-1).numpy()
        kept, places = growth < KEPT, np.arange(growth.shape[1]) / growth.shape[1]
        parts.append(
            rows("growth", seeds, np.sort(growth).T, x=places[:, None], panel="norms", series=kind)
        )
        rise = rises(whole, kept, seeds)
        parts += [
            rows(HINGE, seeds, of_order, x=REMOVED[:, None], panel=order, series=kind)
            for order, of_order in rise.items()
        ]
        tested = np.isin(REMOVED, SHARES)
        least = np.min([(of[tested].T / SHARES).min(axis=1) for of in rise.values()], axis=0)
        claimed |= {
            f"share of rows that keep their norm, a {kind}": kept.mean(axis=-1),
            f"change of F without rows that keep their norm, a {kind}": change(whole, kept),
            f"least rise of the hinge loss per share of other rows, a {kind}": least,
            f"held-out loss, a {kind}": held_out_loss(of_kind),
        }
    parts.append(trainings.least_conditions(runs.values(), "read-out"))
    return join([*parts, facts(seeds, claimed)])


def change(whole: Pruning, removed: np.ndarray) -> np.ndarray:
    """Return the mean over prompts of |F - F without the neurons in the mask|: (runs,)."""
    parts = whole.parts * whole.parts.new_tensor(removed)[:, None]
    return np.asarray(parts.sum(dim=-1).abs().mean(dim=-1))


def rises(whole: Pruning, kept: np.ndarray, seeds: list[int]) -> dict[str, np.ndarray]:
    """Return how much the hinge loss rises at a margin of 1 without a fraction REMOVED of the rows
    that did not keep their norm: order -> (fractions, runs).
    """
    whole = whole.at_margin_one()
    orders = {
        "at random": random_orders(seeds, kept.shape[1]),
        "largest first": [-whole.norms],
    }
    counts = [np.round(share * (~kept).sum(axis=-1, keepdims=True)) for share in REMOVED]
    found = {}
    for order, every in orders.items():
        others = [np.where(kept, np.inf, keys) for keys in every]
        found[order] = np.array(
            [
                np.mean([whole.rise(first(keys, count)) for keys in others], axis=0)
                for count in counts
            ]
        )
    return found


@plotting.under_defaults
def draw(table: Table) -> Picture:
    """Growth of the rows on the left, and the rise of the loss in both orders."""
    names = {"norms": "growth", "at random": HINGE, "largest first": HINGE}
    title = "Rows of $W_O$ with a fixed and a trained read-out"
    figure, panels = own_style.panels(tuple(names), 3, title, (300, 250))
    for panel, axes in panels.items():
        styles = own_style.styles({kind: f"$a$ {kind}" for kind in KINDS}, panel != "norms")
        plotting.curves(
            axes, table, styles, names[panel], panel=panel, band=plotting.pale, **own_style.LINE
        )
        own_style.name_curves(axes)
    own_style.axis_labels(panels["norms"], "Rows, by growth", "Final over initial norm")
    for order in ("at random", "largest first"):
        panels[order].set(ylim=(0, None))
        own_style.axis_labels(panels[order], f"Fraction removed, {order}", "Rise of the hinge loss")
    return figure


FIGURES = (Figure("icl_readout", sweeps, measure, draw),)
