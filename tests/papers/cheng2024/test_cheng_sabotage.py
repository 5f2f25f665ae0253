"""Each bound on Cheng et al.'s claims can fail: a planted error contradicts it, the control does not.

Claims over kernels and heads are judged on constructed losses that satisfy every claim, with and without one wrong
loss. The layer is judged on exact functional gradient steps and on steps of the wrong sign, the exact parts on the real
computation.
"""

import dataclasses
from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch

from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.models.optimisers import Params
from icl.papers.cheng2024 import (
    cheng_functional_gd,
    cheng_heads,
    cheng_kernels,
    evaluation,
    scalar_oracle,
    trainings,
)  # fmt: skip
from icl.papers.cheng2024 import kernel_attention as system
from icl.pipeline import figures
from tests import sabotaged
from tests.sabotaged import Patch, untouched

# Each claim is judged twice, on sound and on spoilt runs.
pytestmark = pytest.mark.slow

CHENG = ("cheng_kernels", "cheng_functional_gd", "cheng_heads")
FIGURE_OF = sabotaged.figures_of_claims(CHENG)
BAYES = -3.0

# Changes the log loss of one run.
Change = Callable[[float, system.Config], float]


# Losses over kernels that satisfy every claim


def obedient(config: system.Config) -> float:
    """A loss as claimed: matched losses fall with depth towards Bayes, others are ordered; seeds differ slightly."""
    if config.labels == "comb" or config.kernel == "linear_exp":
        return BAYES + 0.5 + (0.5 if config.kernel != "linear_exp" else 0.0) + 0.01 * (config.seed % 3)
    order = cheng_kernels.ORDERS.get(config.labels, cheng_kernels.ORDERS["half_exp"])
    loss = BAYES + 1 + 0.5 * order.index(config.kernel) + 0.01 * (config.seed % 3)
    if cheng_kernels.MATCHED.get(config.labels) == config.kernel:
        loss += 0.1 * (3 - config.layers)
    # Without a negative scale relu is worse on linear labels.
    odd = config.labels == "linear" and config.kernel == "relu" and not config.signed
    return loss + (0.5 if odd else 0.0)


def of_losses(change: Change = lambda loss, config: loss) -> Patch:
    def apply(patch: pytest.MonkeyPatch) -> None:
        def tested(runs: Runs, run: int, selecting: int) -> tuple[float, float]:
            config = runs.sweep.configs[run]
            loss = change(obedient(config), config)
            return loss, loss

        patch.setattr(scalar_oracle, "_tested", tested)
        patch.setattr(trainings, "_tested", lambda runs, run: tested(runs, run, 0)[0])
        patch.setattr(scalar_oracle, "bayes", lambda *place: (BAYES, BAYES, BAYES))

    return apply


def moved(by: float, **where: object) -> Patch:
    """Shift the losses of the configs with these constants."""

    def change(loss: float, config: system.Config) -> float:
        return loss + by * all(getattr(config, name) == value for name, value in where.items())

    return of_losses(change)


def better_wins(law: str, place: int) -> Patch:
    """Raise the loss of the kernel at this place of the order above that of the next."""
    order = cheng_kernels.ORDERS[law if law in cheng_kernels.ORDERS else "half_exp"]
    return moved(1.0, labels=law, kernel=order[place])


def gaps(law: str) -> dict[str, Patch]:
    order = cheng_kernels.ORDERS["half_exp"]
    return {cheng_kernels.gap_name(law, order[place], order[place + 1]): better_wins(law, place) for place in range(3)}


def one_head_wins(name: str) -> dict[str, Patch]:
    """One head beats two on the labels of the last comparison."""
    law, kernel = cheng_heads.GAINS[name][-1]
    return {name: moved(-2.0, labels=law, kernel=kernel)}


# A layer and its step


def trained(sweep: Sweep, sign: float) -> Runs:
    """Layers that are functional gradient steps at every snapshot, with r of this sign."""
    weights = system.init(sweep.configs)
    eye = torch.eye(5, dtype=torch.float64)
    for run, config in enumerate(sweep.configs):
        if sweep.name == "cheng_best_step":
            weights["scale"][run, 0], weights["rate"][run, 0] = STEPS[config.kernel]
        elif sweep.name.removeprefix("cheng_trained_") in cheng_functional_gd.TRAININGS:
            scale, rate = STEPS[config.kernel]
            weights["key"][run, 0], weights["query"][run, 0], weights["rate"][run, 0] = scale * eye, eye, sign * rate
    constant = {name: w[:, None].expand(-1, len(sweep.snapshots), *w.shape[1:]) for name, w in weights.items()}
    return Runs(sweep, constant, np.zeros((len(sweep.configs), sweep.snapshots[-1])))


STEPS = {"linear": (1.0, 2.4), "relu": (1.0, 4.9), "exp": (2.2, 0.6), "softmax": (5.8, 14.0)}


def wrong_sign(patch: pytest.MonkeyPatch) -> None:
    """Mark layers that ascend; nothing is patched."""


def other_metric(patch: pytest.MonkeyPatch) -> None:
    """Halve r of the nearest step, so that no layer is close to it."""
    near = evaluation.nearest_scalars

    def halved(weights: Params, config: system.Config) -> Params:
        scalars = near(weights, config)
        return scalars | {"rate": scalars["rate"] / 2}

    patch.setattr(evaluation, "nearest_scalars", halved)


# Which sabotage breaks which bound

SABOTAGES: Mapping[str, Mapping[str, Patch]] = {
    # Swaps the first or the last two of the order.
    "C3-exp": {cheng_kernels.least_gap_name("half_exp"): better_wins("half_exp", 0)},
    "C3-relu": {cheng_kernels.least_gap_name("relu"): better_wins("relu", 2)},
    "C3-linear": {cheng_kernels.least_gap_name("linear"): better_wins("linear", 0)},
    "C4": {"largest rise of the matched log loss with depth": moved(0.5, labels="relu", kernel="relu", layers=5)},
    "C4-bayes": {"least matched log loss over Bayes": moved(-3.0, labels="linear", kernel="linear", layers=5)},
    "C5": {
        "fall of linear attention's log loss on half_exp labels": moved(
            0.2, labels="half_exp", kernel="linear", layers=1
        )
    },
    "C6": gaps("exp"),
    "C7": {"gain of relu attention on linear labels by a negative scale": moved(1.0, signed=True, labels="linear")},
    "C9": one_head_wins("least log loss of one head over two, mixed labels"),
    "C10": one_head_wins("least log loss of the other head over two"),
    "C8": {
        bound: patch
        for kernel in cheng_functional_gd.KERNELS
        for bound, patch in (
            (f"difference from a functional step, {kernel}", other_metric),
            (f"log loss over the best step's, {kernel}", wrong_sign),
        )
    },
}
CONTROL = {"cheng_kernels": of_losses(), "cheng_heads": of_losses(), "cheng_functional_gd": untouched}


@cache
def measured(name: str, patching: Patch) -> pd.DataFrame:
    sweeps = figures.sweeps(name, "laptop", {})
    # Few prompts suffice: the losses are constructed, and layers are compared on the same prompts.
    short = {
        key: dataclasses.replace(
            sweep, snapshots=sweep.snapshots[-1:], test=dataclasses.replace(sweep.test, prompts_test=200)
        )
        for key, sweep in sweeps.items()
    }
    with pytest.MonkeyPatch.context() as patch:
        patching(patch)
        runs = {key: trained(sweep, -1.0 if patching is wrong_sign else 1.0) for key, sweep in short.items()}
        return figures.measure(name, runs, "laptop")


def part_of(claim: str, observable: str, patching: Patch) -> sabotaged.Outcome:
    name = FIGURE_OF[claim]
    return sabotaged.judged(name, measured(name, patching), claim, observable)


@pytest.mark.parametrize(("claim", "observable"), sabotaged.cases(SABOTAGES))
def test_a_sabotage_is_contradicted_and_its_control_is_not(claim: str, observable: str) -> None:
    spoilt = part_of(claim, observable, SABOTAGES[claim][observable])
    control = part_of(claim, observable, CONTROL[FIGURE_OF[claim]])
    sabotaged.assert_only_the_spoilt_is_contradicted(spoilt, control)


def test_every_bound_has_a_sabotage() -> None:
    bounds = sabotaged.bounds_of_claims(CHENG)
    assert {claim: set(parts) for claim, parts in SABOTAGES.items()} == bounds
