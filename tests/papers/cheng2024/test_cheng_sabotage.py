"""Each bound on Cheng et al.'s claims can fail: planted weights or prompts contradict it, the control does not.

Claims over kernels and heads are judged on constructed weights whose losses satisfy every claim, with and without one
wrong loss. The layer is judged on exact functional gradient steps and on steps of the wrong sign.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch

from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.models.optimisers import Params
from icl.papers.cheng2024 import cheng_functional_gd, cheng_heads, cheng_kernels, evaluation
from icl.papers.cheng2024 import kernel_attention as system
from icl.pipeline import figures
from tests import sabotaged
from tests.sabotaged import Patch, untouched

# Each claim is judged twice, on sound and on spoilt runs.
pytestmark = pytest.mark.slow

CHENG = ("cheng_kernels", "cheng_functional_gd", "cheng_heads")
FIGURE_OF = sabotaged.figures_of_claims(CHENG)
SEEDS, PROMPTS = 6, 200

# Changes the planned log loss of one run.
Change = Callable[[float, system.Config], float]


# Weights with planned losses


def obedient(config: system.Config) -> float:
    """A log loss as claimed, relative to that of the prediction 0.

    Matched losses fall with depth, others are ordered; seeds differ slightly.
    """
    if config.labels == "comb" or config.kernel == "linear_exp":
        return 2.5 + (0.5 if config.kernel != "linear_exp" else 0.0) + 0.01 * (config.seed % 3)
    order = cheng_kernels.ORDERS.get(config.labels, cheng_kernels.ORDERS["half_exp"])
    loss = 3 + 0.5 * order.index(config.kernel) + 0.01 * (config.seed % 3)
    if cheng_kernels.MATCHED.get(config.labels) == config.kernel:
        loss += 0.1 * (3 - config.layers)
    return loss


def planned(sweep: Sweep, change: Change) -> Runs:
    """Stacks whose first layer is one functional gradient step and whose other layers do nothing.

    The step is away from the labels, so that the error over that of the prediction 0 is any number from 1 on.
    """
    weights = {name: torch.zeros_like(w) for name, w in system.init(sweep.configs).items()}
    for run, config in enumerate(sweep.configs):
        ratio = np.exp(change(obedient(config), config))
        first = step(config, rate(config, ratio))
        for name, value in first.items():
            weights[name][run, 0] = value
    constant = {name: w[:, None] for name, w in weights.items()}
    return Runs(dataclasses.replace(sweep, snapshots=(0,)), constant, np.zeros((len(sweep.configs), 1)))


def step(config: system.Config, size: float) -> Params:
    """The weights of one functional gradient step."""
    if config.parametrisation == "scalars":
        return {"scale": torch.tensor(1.0), "rate": torch.tensor(size)}
    eye = torch.eye(config.dimension, dtype=torch.float64)
    return {"key": eye, "query": eye, "rate": torch.tensor(size)}


def rate(config: system.Config, ratio: float) -> float:
    """The r <= 0 for which E (y - r g)^2 = ratio E y^2, where g is the prediction of a step with r = 1."""
    square, product, size = moments(config)
    return float((product - np.sqrt(product**2 + size * (ratio - 1) * square)) / size)


@cache
def moments(config: system.Config) -> tuple[float, float, float]:
    """E y^2, E y g and E g^2 on the test prompts."""
    weights = {name: torch.zeros_like(w[0, : config.layers]) for name, w in system.init([config]).items()}
    for name, value in step(config, 1.0).items():
        weights[name][0] = value
    prompts = system.prompts_of(config, "evaluate", 0, PROMPTS)
    y, g = prompts.labels[:, -1], evaluation.answers(weights, config, prompts)
    return float(np.mean(y**2)), float(np.mean(y * g)), float(np.mean(g**2))


@dataclass(frozen=True)
class Sabotage:
    """The log losses of the planned weights, and a change of the measurement."""

    change: Change = lambda loss, config: loss
    test: Patch = untouched


CONTROL = Sabotage()


def moved(by: float, **where: object) -> Sabotage:
    """Shift the losses of the configs with these constants."""

    def change(loss: float, config: system.Config) -> float:
        return loss + by * all(getattr(config, name) == value for name, value in where.items())

    return Sabotage(change)


def better_wins(law: str, place: int) -> Sabotage:
    """Raise the loss of the kernel at this place of the order above that of the next."""
    order = cheng_kernels.ORDERS[law if law in cheng_kernels.ORDERS else "half_exp"]
    return moved(1.0, labels=law, kernel=order[place])


def gaps(law: str) -> dict[str, Sabotage]:
    order = cheng_kernels.ORDERS["half_exp"]
    return {cheng_kernels.gap_name(law, order[place], order[place + 1]): better_wins(law, place) for place in range(3)}


def one_head_wins(name: str) -> dict[str, Sabotage]:
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

SABOTAGES: Mapping[str, Mapping[str, Sabotage]] = {
    # Swaps the first or the last two of the order.
    "C3-exp": {cheng_kernels.least_gap_name("half_exp"): better_wins("half_exp", 0)},
    "C3-relu": {cheng_kernels.least_gap_name("relu"): better_wins("relu", 2)},
    "C3-linear": {cheng_kernels.least_gap_name("linear"): better_wins("linear", 0)},
    "C4": {"largest rise of the matched log loss with depth": moved(0.5, labels="relu", kernel="relu", layers=5)},
    "C5": {
        "fall of linear attention's log loss on half_exp labels": moved(
            0.2, labels="half_exp", kernel="linear", layers=1
        )
    },
    "C6": gaps("exp"),
    "C9": one_head_wins("least log loss of one head over two, mixed labels"),
    "C10": one_head_wins("least log loss of the other head over two"),
    "C8": {
        bound: Sabotage(test=patch)
        for kernel in cheng_functional_gd.KERNELS
        for bound, patch in (
            (f"difference from a functional step, {kernel}", other_metric),
            (f"log loss over the best step's, {kernel}", wrong_sign),
        )
    },
}


@cache
def measured(name: str, sabotage: Sabotage) -> pd.DataFrame:
    runs = {}
    for key, sweep in figures.sweeps(name, "laptop", {}).items():
        few = tuple(config for config in sweep.configs if config.seed in sorted(set(sweep.seeds))[:SEEDS])
        short = dataclasses.replace(
            sweep,
            configs=few,
            snapshots=sweep.snapshots[-1:],
            test=dataclasses.replace(sweep.test, prompts_test=PROMPTS),
        )
        if name == "cheng_functional_gd":
            runs[key] = trained(short, -1.0 if sabotage.test is wrong_sign else 1.0)
        else:
            runs[key] = planned(short, sabotage.change)
    with pytest.MonkeyPatch.context() as patch:
        sabotage.test(patch)
        return figures.measure(name, runs, "laptop")


def part_of(claim: str, observable: str, sabotage: Sabotage) -> sabotaged.Outcome:
    name = FIGURE_OF[claim]
    return sabotaged.judged(name, measured(name, sabotage), claim, observable)


@pytest.mark.parametrize(("claim", "observable"), sabotaged.cases(SABOTAGES))
def test_a_sabotage_is_contradicted_and_its_control_is_not(claim: str, observable: str) -> None:
    spoilt = part_of(claim, observable, SABOTAGES[claim][observable])
    control = part_of(claim, observable, CONTROL)
    sabotaged.assert_only_the_spoilt_is_contradicted(spoilt, control)


def test_every_bound_has_a_sabotage() -> None:
    bounds = sabotaged.bounds_of_claims(CHENG)
    assert {claim: set(parts) for claim, parts in SABOTAGES.items()} == bounds
