"""Planted violations of Zheng et al.'s claims."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import torch

from icl.core.runs import Runs
from icl.core.training import train
from icl.models.autoregressive import config as layer
from icl.pipeline import figures
from tests.papers.violations import changed, table
from tests.planted import Planted, Trained, each

Drawn = Callable[..., tuple[np.ndarray, np.ndarray]]


@cache
def trained(figure: str, name: str) -> Runs:
    """A training; those over T end at epoch 300, where the judged lengths have converged."""
    sweep = figures.sweeps(figure, "laptop", {})[name]
    if figure == "zheng_ratio_estimators":
        snapshots = (*sweep.snapshots[:-1], 300)
        sweep = replace(sweep, test=layer.Evaluation(sequences=2000), snapshots=snapshots)
    return train(sweep)


def sound(figure: str) -> Trained:
    return {name: trained(figure, name) for name in figures.sweeps(figure, "laptop", {})}


def of_one_phase(drawn: Drawn) -> Drawn:
    """Coordinates with nearly the same phase, so that sums over the context do not average out."""

    def wrong(*args: object) -> tuple[np.ndarray, np.ndarray]:
        w, u = drawn(*args)
        return w[:, :1] * np.exp(1e-5j * np.arange(w.shape[1])), u

    return wrong


def signs_instead_of(law: str) -> Planted:
    what = f"a first token of signs instead of the {law} one"
    return Planted(what, lambda runs: {**runs, f"zheng_ratio_{law}": runs["zheng_ratio_signs"]})


UNEVEN = 0.01 * torch.arange(25, dtype=torch.float64).reshape(5, 5)
LOSS = each(lambda runs: replace(runs, losses=0 * runs.losses + runs.losses[:, :1]))
HALVED = Planted("all weights are half as large", each(changed(lambda w: 0.5 * w)))
LARGER_A = Planted("a is a fifth too large", each(changed(lambda w: 1.2 * w, "KQ")))
AT_ONCE = Planted(
    "training has converged before its first step", each(changed(lambda w: w[:, -1:].expand_as(w)))
)
ONE_PHASE = Planted(
    "all coordinates have nearly the same phase", patches=((layer, "drawn", of_one_phase),)
)
OTHERS = {
    "least ab over the drawn line, larger starts, gaussian": HALVED,
    "ab from 0.1 0.1 over the least other one, gaussian": AT_ONCE,
    "largest loss drawn at epoch 200, sparse": Planted("the loss stays at its start", LOSS),
    "largest spread of the diagonal or of the rest over the diagonal": Planted(
        "every entry has an error of its own", each(changed(lambda w: w + UNEVEN))
    ),
    "mean of ratios on fresh sequences, T = 1000": HALVED,
    "slope of the off-diagonal part against T": ONE_PHASE,
    "off-diagonal over diagonal part, T = 1000": ONE_PHASE,
    "relative error, T = 1000, gaussian": signs_instead_of("gaussian"),
    "relative error, T = 1000, uniform": signs_instead_of("uniform"),
    "slope of the relative error against T, uniform": signs_instead_of("uniform"),
    "largest drift of a^2 - b^2 over a_0^2 + b_0^2": LARGER_A,
}
PLANTED = table("zheng2024", OTHERS)
UNTRAINED_HOLD = {
    "ZE-P4.1-rest": "ab is a factor of both parts",
    "ZE-T4.2": "the claim is an error, which the start has as well",
}
