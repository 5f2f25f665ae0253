"""Figures 14 and 15 of Li et al. 2024, and icl_large_neurons: pruning the one-layer model by
removing rows of W_O.

Figure 14: error under random and magnitude-based pruning, with the magnitudes of the neurons as
bars. Figure 15: error under magnitude-based pruning, by fraction alpha' of relevant contexts.
icl_large_neurons: loss and error against the fraction of the large neurons that is removed (theorem
3; talk page 22).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from icl.core.streams import stream
from icl.core.table import ERROR
from icl.drawing import own_style
from icl.figure import (
    Axis,
    Figure,
    Picture,
    Rows,
    Runs,
    Style,
    Table,
    Trained,
    facts,
    join,
    plotting,
    rows,
    single,
    torch,
)
from icl.papers.li2024 import evaluation, trainings
from icl.papers.li2024.evaluation import EvaluationPrompts
from icl.papers.li2024.one_layer import NAME
from icl.papers.li2024.record import Look, Record, draw, error_axis, held_out_loss, measure_errors

COUNTS = (0, 3, 6, 10, 13, 16, 19, 22, 26)
"""Numbers of pruned neurons at rates 0, 5, ..., 40 %, as on the published axis."""
RANDOM_PRUNINGS = 20
"""Random orders of the neurons per run, our choice."""
SHARES = (0.2, 0.4, 0.6)
"""Fractions R of the large neurons in the claims on theorem 3 that remove the largest first."""
HINGE = "hinge loss"


@dataclass(frozen=True)
class Pruning:
    """The trained one-layer model as a sum over its neurons, any of which can be removed.

    norms : row norms of W_O, (runs, m); parts : contribution of each neuron to F, (runs, prompts,
        m)
    """

    prompts: EvaluationPrompts
    norms: np.ndarray
    parts: Any

    def without(self, removed: np.ndarray) -> dict[str, np.ndarray]:
        """Losses without the neurons in the mask `removed`, bool (runs, m).

        ``classification error`` and ``hinge loss``, (runs,) each, and ``wrong``, bool (runs,
        prompts).
        """
        logits = (self.parts * torch.from_numpy(~removed)[:, None]).sum(dim=-1)
        wrong = evaluation.wrong(logits, self.prompts)
        return {
            "wrong": wrong,
            ERROR: wrong.mean(axis=-1),
            HINGE: evaluation.hinge(logits, self.prompts),
        }

    @property
    def large(self) -> np.ndarray:
        """The neurons above the largest ratio of neighbouring sorted row norms: bool (runs, m)."""
        ordered = np.sort(self.norms, axis=-1)
        last_small = np.argmax(ordered[:, 1:] / ordered[:, :-1], axis=-1)
        return self.norms > np.take_along_axis(ordered, last_small[:, None], axis=-1)

    def first_large(self, keys: np.ndarray, share: float) -> np.ndarray:
        """Return the given fraction of each run's large neurons, smallest keys first: bool
        (runs, m).
        """
        return first(
            np.where(self.large, keys, np.inf),
            np.round(share * self.large.sum(axis=-1, keepdims=True)),
        )

    def rise(self, removed: np.ndarray) -> np.ndarray:
        """Return the rise of the hinge loss without the neurons in the mask `removed`: (runs,)."""
        return self.without(removed)[HINGE] - self.without(np.zeros_like(removed))[HINGE]

    @property
    def margin(self) -> np.ndarray:
        """The mean of z F over the prompts, without pruning: (runs,)."""
        return (self.parts.sum(dim=-1) * self.prompts.answer).mean(dim=-1).numpy()

    def at_margin_one(self) -> "Pruning":
        """Return the same model with the read-out of each run scaled so that its margin is 1."""
        return replace(self, parts=self.parts / torch.from_numpy(self.margin)[:, None, None])

    def change_without_small(self) -> np.ndarray:
        """Return the mean over prompts of |F - F without the small neurons|: (runs,).

        The hinge loss changes by no more than that (theorem 3), but unlike it F has no floor.
        """
        small = (self.parts * torch.from_numpy(~self.large)[:, None]).sum(dim=-1)
        return small.abs().mean(dim=-1).numpy()

    def least_rise_per_share(self) -> np.ndarray:
        """Return the least over SHARES R of the rise of the hinge loss without a fraction R of the
        large neurons, largest first, over R (theorem 3): (runs,).
        """
        return np.min(
            [self.rise(self.first_large(-self.norms, share)) / share for share in SHARES], axis=0
        )


def pruning(runs: Runs, **tested: Any) -> Pruning:
    """Pruning of the trained one-layer model on out-of-domain prompts at full context length.

    runs : in the axes of the patterns; tested : other constants of their test
    """
    weights, prompts = runs.last(), evaluation.out_of_domain(runs.sweep, **tested)
    return Pruning(
        prompts, weights["W_O"].norm(dim=-1).numpy(), evaluation.contributions(weights, prompts)
    )


def first(keys: np.ndarray, count: int | np.ndarray) -> np.ndarray:
    """Return the `count` neurons of smallest keys: (runs, m) -> bool (runs, m)."""
    return np.argsort(np.argsort(keys, axis=-1), axis=-1) < count


def random_orders(seeds: Sequence[int], neurons: int) -> list[np.ndarray]:
    """RANDOM_PRUNINGS times the place of each neuron in a random order per run, (runs, m)."""
    return [
        np.stack([stream(NAME, seed, "pruning", draw).permutation(neurons) for seed in seeds])
        for draw in range(RANDOM_PRUNINGS)
    ]


def losses_without(whole: Pruning, masks: Sequence[Sequence[np.ndarray]]) -> dict[str, np.ndarray]:
    """Return the losses (see Pruning.without) for each row and column of masks: name -> (rows,
    columns, ...).
    """
    losses = [[whole.without(mask) for mask in row] for row in masks]
    return {
        name: np.array([[of_mask[name] for of_mask in row] for row in losses])
        for name in losses[0][0]
    }


# Figure 14


def measure_orders(runs: Trained, scale: str) -> Rows:
    """Errors under both orders of pruning, sorted row norms, and their gap."""
    record = Record(single(runs))
    pruned = _pruned(record.runs)
    record.error_curves(
        _wrong(pruned), lambda of_runs: _wrong(_pruned(of_runs)), COUNTS, "left axis"
    )
    whole = pruning(record.runs)
    ordered, places = np.sort(whole.norms, axis=-1), range(COUNTS[-1] + 1)
    record.curves(
        "neuron magnitude", {"magnitude of neurons": ordered.T[: len(places)]}, places, "right axis"
    )
    small, initial = ~whole.large, record.runs.at(0)["W_O"].norm(dim=-1).numpy()
    growth = np.average(whole.norms, axis=-1, weights=small) / np.average(
        initial, axis=-1, weights=small
    )
    claimed = {
        "largest ratio of neighbouring norms": (ordered[:, 1:] / ordered[:, :-1]).max(axis=-1),
        "share of small neurons": small.mean(axis=-1),
        "norm of small neurons over initial norm": growth,
    }
    from_20_percent = np.array(COUNTS) >= 0.2 * whole.norms.shape[1]
    by_norm, at_random = (
        pruned[series][ERROR].mean(axis=1)[from_20_percent] for series in ("Mag.-based", "Random")
    )
    below = np.all(by_norm < at_random, axis=0)
    claimed["magnitude-based below random at every rate"] = below.astype(float)
    return record.rows(claimed)


def _pruned(runs: Runs) -> dict[str, dict[str, np.ndarray]]:
    """Series -> losses without COUNTS of the smallest or of random neurons, (counts, draws,
    ...).
    """
    whole = pruning(runs)
    orders = {
        "Mag.-based": [whole.norms],
        "Random": random_orders(runs.sweep.seeds, whole.norms.shape[1]),
    }
    return {
        series: losses_without(whole, [[first(keys, count) for keys in every] for count in COUNTS])
        for series, every in orders.items()
    }


def _wrong(pruned: dict[str, dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """How often each answer is wrong, series -> (counts, runs, prompts); the baseline is
    unpruned.
    """
    wrong = {series: losses["wrong"].mean(axis=1) for series, losses in pruned.items()}
    return wrong | {"baseline": wrong["Mag.-based"][[0, 0]]}


ORDERS = (Style("Random", "Random", "b", "x"), Style("Mag.-based", "Mag.-based", "r", "o"))
RATES, ERRORS = (
    Axis("Pruning rate", (0, 26), (6, 13, 19, 26), ("10%", "20%", "30%", "40%")),
    error_axis(1e-3, 0.2),
)
LEGEND14, LEGEND15 = (
    (18, "upper left", (0.046, 1.008), 0.441),
    (18, "upper left", (0.045, 1.003), 0.364),
)
FIGURE14 = Look(500, (117.75, 392.22, 26.50, 416.72), RATES, ERRORS, 22, LEGEND14, baseline=True)


@plotting.under_defaults
def draw_orders(table: Table) -> Picture:
    """Figure 14 in the published style, from the drawn run; x counts pruned neurons, and the
    bars lie on top.
    """
    picture = draw(table, ERROR, ORDERS, FIGURE14, panel="left axis")
    left = picture.axes[0]
    right = plotting.bars(left, table, "right axis", "magnitude of neurons", "neuron magnitude")
    plotting.frame(
        right, FIGURE14.x, Axis("Magnitude of neurons", (0, 0.8), (0, 0.4, 0.8)), font=22
    )
    left.tick_params(labelsize=18)
    left.tick_params(axis="x", labelsize=17.5)
    left.xaxis.labelpad = 3.5
    return picture


# Figure 15

FRACTIONS = {"alpha'=0.6": 0.6, "alpha'=0.8": 0.8, "alpha'=1": 1.0}


def _by_fraction(runs: Runs) -> dict[str, np.ndarray]:
    """Return errors of answers, series -> bool (counts, runs, prompts); the baseline is alpha' =
    0.6, unpruned.
    """
    wrong = {}
    for series, fraction in FRACTIONS.items():
        whole = pruning(runs, relevant_fraction_test=fraction)
        wrong[series] = np.stack(
            [whole.without(first(whole.norms, count))["wrong"] for count in COUNTS]
        )
    return wrong | {"baseline": wrong["alpha'=0.6"][[0, 0]]}


def _above(wrong: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the share of pruning rates at which alpha' = 0.6 has the largest error."""
    least, *others = (wrong[series].mean(axis=-1) for series in FRACTIONS)
    above = least > np.max(others, axis=0)
    return {"share of rates with alpha' = 0.6 above both others": above.mean(axis=0)}


LOOKS = (("r", "o"), ("b", "x"), ("g", "+"))
FRACTION_STYLES = tuple(
    Style(series, rf"$\{series}$", *look) for series, look in zip(FRACTIONS, LOOKS, strict=True)
)
SHARES_OF_ROWS = RATES._replace(names=("0.1", "0.2", "0.3", "0.4"))
FIGURE15 = Look(
    450, (130.18, 410.81, 16.35, 361.72), SHARES_OF_ROWS, ERRORS, 22, LEGEND15, baseline=True
)


def draw_fractions(table: Table) -> Picture:
    """Figure 15 in the published style, from the drawn run; x is the number of pruned neurons.

    All curves start at the unpruned error of alpha' = 0.6, as the published ones do. The table has
    that of each alpha'.
    """
    curves = table.curves.copy()
    first = curves["series"].isin(FRACTIONS) & (curves["x"] == COUNTS[0])
    columns = ["value", "band_low", "band_high"]
    curves.loc[first, columns] = curves.loc[
        first & (curves["series"] == "alpha'=0.6"), columns
    ].to_numpy()
    return draw(replace(table, curves=curves), ERROR, FRACTION_STYLES, FIGURE15)


# icl_large_neurons

REMOVED = np.arange(10) / 10
SLOPE = 0.15
"""Our bound for Omega(R) in theorem 3: a rise of 0.15 R, in every order."""


def measure_large(runs: Trained, scale: str) -> Rows:
    """Out-of-domain hinge loss and error without a fraction of the large neurons, removed in
    three orders.
    """
    trained = trainings.in_axes(single(runs))
    seeds, whole = trained.sweep.seeds, pruning(trained)
    orders = {
        "largest first": [-whole.norms],
        "at random": random_orders(seeds, whole.norms.shape[1]),
        "smallest first": [whole.norms],
    }
    parts: list[Rows] = [rows("share of large neurons", seeds, whole.large.mean(axis=-1))]
    hinge: dict[str, np.ndarray] = {}
    x = REMOVED[:, None]
    for series, every in orders.items():
        masks = [[whole.first_large(keys, share) for keys in every] for share in REMOVED]
        losses = {
            name: of_draws.mean(axis=1) for name, of_draws in losses_without(whole, masks).items()
        }
        parts += [
            rows(name, seeds, losses[name], x=x, panel=name, series=series)
            for name in (HINGE, ERROR)
        ]
        hinge[series] = losses[HINGE]
    at_one = whole.at_margin_one()
    masks = [[whole.first_large(keys, share) for keys in orders["at random"]] for share in REMOVED]
    hinge["margin 1"] = losses_without(at_one, masks)[HINGE].mean(axis=1)
    claimed = {
        f"least rise of the hinge loss per share of large neurons, {name}": np.min(
            (hinge[series][1:] - hinge[series][0]) / x[1:], axis=0
        )
        for name, series in (("random", "at random"), ("random at margin 1", "margin 1"))
    }
    claimed["margin without pruning"] = whole.margin
    claimed["held-out loss"] = held_out_loss(single(runs))
    # All runs have the same constants.
    claimed |= trainings.conditions(trained.sweep.configs[0])
    parts.append(facts(seeds, claimed))
    bound = hinge["largest first"][0].mean() + SLOPE * np.array([0.0, 1.0])
    return join([*parts, rows(HINGE, None, bound, x=[0.0, 1.0], panel=HINGE, series="bound")])


@plotting.under_defaults
def draw_large(table: Table) -> Picture:
    """Hinge loss on the left, with our bound for theorem 3, and error on the right."""
    figure, panels = own_style.panels(
        (HINGE, ERROR), 2, "Loss and error without a fraction of the large neurons", (330, 250)
    )
    orders = ("largest first", "at random", "smallest first")
    for name, axes in panels.items():
        styles = own_style.styles({order: order for order in orders}, markers=True)
        plotting.curves(axes, table, styles, name, band=plotting.pale, **own_style.LINE)
        axes.set(xlim=(0, 0.9), ylim=(0, None))
        own_style.axis_labels(axes, "Removed fraction $R$", name.capitalize())
    bound = Style("bound", f"${SLOPE:g}\\,R$", "0.3", line="--")
    plotting.curves(panels[HINGE], table, [bound], HINGE, linewidth=1.2)
    for axes in panels.values():
        own_style.name_curves(axes)
    return figure


_training = partial(trainings.sgd_training, test=trainings.PruningTest)
_measure_fractions = partial(measure_errors, wrong_of=_by_fraction, claimed=_above, x=COUNTS)
FIGURES = (
    Figure("figure14", _training, measure_orders, draw_orders, draws_one_run=True),
    Figure("figure15", _training, _measure_fractions, draw_fractions, draws_one_run=True),
    Figure("icl_large_neurons", trainings.theorem_training, measure_large, draw_large),
)
