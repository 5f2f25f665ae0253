"""Each bound on Ahn et al.'s claims can fail: weights or functions with a planted error contradict it.

The controls replace trained weights by weights constructed from the theory, with some noise, so these tests are about
measuring and judging. The last test checks that no bound is left out.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.models import linear_attention_theory as theory
from icl.papers.ahn2023 import gradient_descents, structured_stacks
from icl.papers.ahn2023 import linear_attention as system
from icl.pipeline import figures
from tests import sabotaged
from tests.sabotaged import Patch, same, untouched

# Each claim is judged twice, on sound and on spoilt runs.
pytestmark = pytest.mark.slow

AHN = ("ahn_minimiser", "ahn_layers", "ahn_structure", "ahn_length", "ahn_rotation")
FIGURE_OF = sabotaged.figures_of_claims(AHN)
SEEDS = 6
# Claims on trainings of the published length are judged only at the paper scale.
SCALE_OF = dict.fromkeys(("A22", "A23", "A25"), "paper")
# Scalars that the published notebook prints for three relaxed layers with Sigma = I.
ISOTROPIC = ([-0.714, -2.652, -7.128], [0.342, 0.340])
# Scalars of least loss over many spectra; those for three layers are printed in the other notebook.
RELAXED = {
    2: ([-0.517, -3.486], [0.87]),
    3: ([-0.38, -2.40, -9.56], [0.904, 0.566]),
    4: ([-0.285, -2.99, -9.222, -20.697], [0.946, 0.36, 0.326]),
}


# Runs constructed from the theory


def small(sweep: Sweep) -> Sweep:
    few = sorted(set(sweep.seeds))[:SEEDS]
    configs = tuple(config for config in sweep.configs if config.seed in few)
    test = system.Test(prompts=1000, curve_prompts=500, spectra=2000, directions=100)
    return dataclasses.replace(sweep, configs=configs, snapshots=(0, 1), test=test)


@cache
def best(layers: int) -> np.ndarray:
    return structured_stacks.best_sparse(layers, structured_stacks.spectra(system.Config(), 4000)).a


def blocks(config: system.Config) -> tuple[np.ndarray, np.ndarray]:
    """P and A of every layer, (L, d, d)."""
    inverse, d = np.linalg.inv(system.covariance(config)), config.dimension
    if config.parametrisation == "full":
        return np.zeros((1, d, d)), -theory.preconditioner(system.covariance(config), config.context_length)[None]
    if config.parametrisation == "sparse":
        return np.zeros((config.layers, d, d)), best(config.layers)[:, None, None] * inverse
    a, b = stack(config.layers, config.context_length, bool(config.spectrum))
    return np.array([*b, 0.0])[:, None, None] * np.eye(d), np.array(a)[:, None, None] * inverse


@cache
def stack(layers: int, context_length: int, skewed: bool) -> tuple[list[float], list[float]]:
    """Whitened a_l and b_l."""
    if context_length == 20:
        return RELAXED[layers] if skewed else ISOTROPIC
    config = system.Config(context_length=context_length)
    least = structured_stacks.best_relaxed(layers, structured_stacks.spectra(config, 4000))
    return list(least.a), list(least.b)


@cache
def constructed(name: str) -> Runs:
    sweep = small(sabotaged.trainings(AHN)[name])
    start = system.init(sweep.configs)
    weights = {key: torch.stack([w, w], dim=1) for key, w in start.items()}
    for run, config in enumerate(sweep.configs):
        p, a = blocks(config)
        noise = 1e-4 * np.random.default_rng(run).standard_normal(a.shape)
        d = config.dimension
        weights["V"][run, 1], weights["Q"][run, 1] = 0, 0
        weights["V"][run, 1, :, d, d] = 1
        weights["V"][run, 1, :, :d, :d] = torch.from_numpy(p)
        weights["Q"][run, 1, :, :d, :d] = torch.from_numpy(a * (1 + noise))
    return Runs(sweep, weights, np.zeros((len(sweep.configs), 1)))


# Spoilt runs


def changed(runs: Runs, change: Callable[[dict[str, torch.Tensor]], None]) -> Runs:
    last = {name: w.clone() for name, w in runs.weights.items()}
    change({name: w[:, -1] for name, w in last.items()})
    return dataclasses.replace(runs, weights=last)


def untrained(runs: Runs) -> Runs:
    """The weights before the first step."""
    return dataclasses.replace(runs, weights={n: torch.stack([w[:, 0], w[:, 0]], 1) for n, w in runs.weights.items()})


def labels_mixed(runs: Runs) -> Runs:
    """Labels' rows, zero in the theory, are as large as the rest."""

    def change(w: dict[str, torch.Tensor]) -> None:
        w["V"][..., -1, :-1] = 0.5
        w["Q"][..., -1, :-1] = 0.5

    return changed(runs, change)


def half_steps(runs: Runs) -> Runs:
    def change(w: dict[str, torch.Tensor]) -> None:
        w["Q"] *= 0.5

    return changed(runs, change)


def other_order(runs: Runs) -> Runs:
    """The layers from the last to the first."""
    return dataclasses.replace(runs, weights={name: w.flip(2) for name, w in runs.weights.items()})


# Spoilt functions


def times(owner: Any, name: str, factor: float) -> Patch:
    """Multiply the result of a function by a factor."""
    real = getattr(owner, name)
    return lambda patch: patch.setattr(owner, name, lambda *args, **kwargs: factor * real(*args, **kwargs))


def no_steps(name: str) -> Patch:
    """The oracle is not minimised."""

    def nothing(layers: int, g: np.ndarray) -> structured_stacks.Structured:
        return structured_stacks.Structured(np.zeros(layers), np.zeros(layers - 1))

    return lambda patch: patch.setattr(structured_stacks, name, nothing)


def oracle_off(patch: pytest.MonkeyPatch) -> None:
    real = structured_stacks.oracle

    def off(*args: Any, **kwargs: Any) -> structured_stacks.Structured:
        least = real(*args, **kwargs)
        return structured_stacks.Structured(1.1 * least.a, 1.1 * least.b)

    patch.setattr(structured_stacks, "oracle", off)


def descents_swapped(patch: pytest.MonkeyPatch) -> None:
    real, other = gradient_descents.steps, {"GD": "PGD", "PGD": "GD"}
    patch.setattr(gradient_descents, "steps", lambda kind, *args: real(other[kind], *args))


# Which sabotage breaks which bound


@dataclass(frozen=True)
class Sabotage:
    runs: Callable[[Runs], Runs] = same
    law: Patch = untouched


UNTRAINED, MIXED, HALF = Sabotage(untrained), Sabotage(labels_mixed), Sabotage(half_steps)
STEP_OFF = Sabotage(law=times(theory, "preconditioner", 2.0))
# So far from the least loss that some of a hundred random directions lead towards it.
FAR_OFF, ORACLE_OFF = Sabotage(law=times(theory, "preconditioner", 5.0)), Sabotage(law=oracle_off)
CASES = ("isotropic", "skewed")
METHODS = ("Adam", "L-BFGS")
BLOCKS = ("B0", "B1", "A0", "A1", "A2")

SABOTAGES: Mapping[str, Mapping[str, Sabotage]] = {
    "A2": {
        f"{name}, {case}": sabotage
        for case in CASES
        for name, sabotage in (
            ("lowest loss around equation 2, less 1", FAR_OFF),
            ("trained loss over the least, less 1", STEP_OFF),
        )
    },
    "A3": {f"excess loss, {case}": UNTRAINED for case in CASES},
    "A4": {f"final weighted distance, {case}": UNTRAINED for case in CASES},
    "A5": {f"{block}, {case}": MIXED for block in ("rest of V over its corner", "Q_21 over Q_11") for case in CASES},
    "A10": {f"|log loss - oracle|, L = {depth}": HALF for depth in (1, 2, 3)},
    "A11": {f"largest distance of A_i, P = 0, L = {depth}": UNTRAINED for depth in (1, 2, 3)},
    "A12": {"least gain per layer, sparse": UNTRAINED},
    "A12-relaxed": {"least gain per layer, relaxed": UNTRAINED},
    "A13": {
        "least lead of the transformer over preconditioned GD": UNTRAINED,
        "least lead of preconditioned GD over GD": Sabotage(law=descents_swapped),
        "|transformer - preconditioned GD|, L = 1": UNTRAINED,
    },
    "A14": {"log loss, relaxed less sparse, L = 2": UNTRAINED},
    "A14-3": {"log loss, relaxed less sparse, L = 3": UNTRAINED},
    "A15": {f"final distance of {name}": UNTRAINED for name in BLOCKS},
    "A17": {"least step size over that of the layer before": Sabotage(other_order)},
    "A19": {"least lead of the transformer over preconditioned GD, n >= 4": UNTRAINED},
    "A20": {"least gain of the transformer per two examples": UNTRAINED},
    "A22": {f"final log loss, {method}": UNTRAINED for method in METHODS},
    "A22-small": {"final log loss, Adam": UNTRAINED},
    "A23": {f"final distance of {name}, Adam": UNTRAINED for name in BLOCKS},
    "A25": {f"final distance of {name}, L-BFGS": UNTRAINED for name in BLOCKS},
    "A26": {"share not below the least diagonal loss": Sabotage(law=no_steps("best_sparse"))},
    "A27": {
        "share of random starts at the least diagonal loss": HALF,
        "largest distance of A_i, random starts": UNTRAINED,
    },
    "A18": {f"{scalar} over the printed": ORACLE_OFF for scalar in ("a_0", "a_1", "a_2", "b_0", "b_1")},
}


@cache
def measured(name: str, change: Callable[[Runs], Runs], law: Patch) -> pd.DataFrame:
    runs = {key: change(constructed(key)) for key in figures.sweeps(name, "laptop", {})}
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        law(patch)
        return figures.measure(name, runs, "laptop")


def part_of(claim: str, observable: str, sabotage: Sabotage) -> sabotaged.Outcome:
    name = FIGURE_OF[claim]
    table = measured(name, sabotage.runs, sabotage.law).assign(scale=SCALE_OF.get(claim, "laptop"))
    return sabotaged.judged(name, table, claim, observable)


@pytest.mark.parametrize(("claim", "observable"), sabotaged.cases(SABOTAGES))
def test_a_sabotage_is_contradicted_and_its_control_is_not(claim: str, observable: str) -> None:
    spoilt = part_of(claim, observable, SABOTAGES[claim][observable])
    control = part_of(claim, observable, Sabotage())
    sabotaged.assert_only_the_spoilt_is_contradicted(spoilt, control)


def test_every_bound_has_a_sabotage() -> None:
    bounds = sabotaged.bounds_of_claims(AHN)
    assert {claim: set(parts) for claim, parts in SABOTAGES.items()} == bounds
