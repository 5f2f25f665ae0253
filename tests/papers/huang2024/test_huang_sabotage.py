"""Every bound of Huang et al.'s claims can fail: with a sabotage of the runs or the law it is contradicted.

The trainings are the real ones of the laptop scale. Without the sabotage (the control) the same bound is not
contradicted.
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
from icl.core.training import train
from icl.papers.huang2024 import population_gradient, weight_forms
from icl.papers.huang2024 import softmax_attention as system
from icl.pipeline import figures
from tests import sabotaged
from tests.sabotaged import Patch, same, untouched

# Every claim is judged on trainings with and without its sabotage.
pytestmark = pytest.mark.slow

HUANG = ("huang_stages", "huang_heatmap", "huang_four_phases", "huang_two_phases", "huang_empirical", "huang_rates")
FIGURE_OF = sabotaged.figures_of_claims(HUANG)


@cache
def trained(name: str) -> Runs:
    """A training of the laptop scale, with fewer fresh prompts."""
    sweep = sabotaged.trainings(HUANG)[name]
    test = dataclasses.replace(sweep.test, prompts_test=min(sweep.test.prompts_test, 5000))
    return train(dataclasses.replace(sweep, test=test))


# Sabotaged runs


def changed(runs: Runs, change: Callable[[torch.Tensor], torch.Tensor]) -> Runs:
    return dataclasses.replace(runs, weights={name: change(w.clone()) for name, w in runs.weights.items()})


def untrained(runs: Runs) -> Runs:
    """The weights stay at zero."""
    return changed(runs, torch.zeros_like)


def backwards(runs: Runs) -> Runs:
    """The snapshots in reverse order."""
    return changed(runs, lambda w: w.flip(1))


def entry(index: int, factor: Callable[[float], float]) -> Callable[[Runs], Runs]:
    """One weight of the rare features (0, 1, 2: A_k, B_{k,1}, B_{k,n}) times a factor that may depend on K."""

    def spoil(runs: Runs) -> Runs:
        factors = torch.tensor([factor(config.features) for config in runs.sweep.configs], dtype=torch.float64)

        def change(w: torch.Tensor) -> torch.Tensor:
            w[..., 1, index] *= factors[:, None]
            return w

        return changed(runs, change)

    return spoil


def repeated(runs: Runs) -> Runs:
    """The first half of the training, twice from the start."""

    def change(w: torch.Tensor) -> torch.Tensor:
        half = w.shape[1] // 2
        return w[:, [*range(half), *range(w.shape[1] - half)]]

    return changed(runs, change)


def warped(earlier: Callable[[np.ndarray, float], np.ndarray]) -> Callable[[Runs], Runs]:
    """A training at another pace: at eta t it has the weights of eta t' = earlier(eta t, K)."""

    def spoil(runs: Runs) -> Runs:
        sweep, weights = runs.sweep, {name: w.clone() for name, w in runs.weights.items()}
        for run, config in enumerate(sweep.configs):
            time = system.times(config, sweep.snapshots[-1])[list(sweep.snapshots)]
            at = np.searchsorted(time, earlier(time, config.features)).clip(max=len(time) - 1)
            for w in weights.values():
                w[run] = w[run, at.tolist()]
        return dataclasses.replace(runs, weights=weights)

    return spoil


slower_with_k = warped(lambda time, k: time / k**0.5)
faster_with_k = warped(lambda time, k: time * k**0.05)
bent_down = warped(lambda time, k: time**2)
bent_up = warped(lambda time, k: time ** (2 / 3))
# From eta t = 3 K^2 on, long after the escape.
slow_tail = warped(lambda time, k: np.minimum(time, 3 * k**2) * np.maximum(time / (3 * k**2), 1) ** (1 / 3))


def grown_before(runs: Runs) -> Runs:
    """A_k starts near log K instead of zero."""
    start = torch.tensor([0.8 * np.log(config.features) for config in runs.sweep.configs])

    def change(w: torch.Tensor) -> torch.Tensor:
        w[..., 1, 0] += start[:, None]
        return w

    return changed(runs, change)


def stopped(share: float) -> Callable[[Runs], Runs]:
    """Training stops after a fraction of its steps."""

    def change(w: torch.Tensor) -> torch.Tensor:
        last = int(share * (w.shape[1] - 1))
        w[:, last:] = w[:, last : last + 1].clone()
        return w

    return lambda runs: changed(runs, change)


# Sabotaged laws


def queries_swapped(patch: pytest.MonkeyPatch) -> None:
    """The dominant feature and the rare ones are swapped."""
    columns = population_gradient.columns
    patch.setattr(population_gradient, "columns", lambda q, law: columns(q, law)[::-1])


def dominant_is_rare(patch: pytest.MonkeyPatch) -> None:
    """The weights of the dominant feature and of a rare one change places."""
    full = weight_forms.full_matrix

    def exchanged(q: torch.Tensor, features: int) -> torch.Tensor:
        order = [1, 0, *range(2, features)]
        return full(q, features)[..., order, :][..., order]

    patch.setattr(weight_forms, "full_matrix", exchanged)


def short_prompts(patch: pytest.MonkeyPatch) -> None:
    """Fresh prompts are ten times shorter than in training, so many lack the query's feature."""
    fresh = system.fresh_counts

    def shorter(config: Any, *address: Any) -> np.ndarray:
        return fresh(dataclasses.replace(config, contexts_per_feature=2, target=0.4), *address)

    patch.setattr(system, "fresh_counts", shorter)


# Sabotages of the bounds


@dataclass(frozen=True)
class Sabotage:
    runs: Callable[[Runs], Runs] = same
    law: Patch = untouched


UNTRAINED, BACKWARDS = Sabotage(untrained), Sabotage(backwards)
SWAPPED, REVERSED, SHORT = Sabotage(law=queries_swapped), Sabotage(law=dominant_is_rare), Sabotage(law=short_prompts)
SLOWER_WITH_K, SLOW_TAIL = Sabotage(slower_with_k), Sabotage(slow_tail)
BENT_UP, BENT_DOWN = Sabotage(bent_up), Sabotage(bent_down)

SABOTAGES: Mapping[str, Mapping[str, Sabotage]] = {
    "H1": {"T_k(0.05) / T_1(0.05)": SWAPPED},
    "H2": {"L_k / L_k(0) when L_1 = 0.02": SWAPPED},
    "H3": {"L_1 at eta t = 3000": UNTRAINED, "L_k at eta t = 3000": UNTRAINED},
    "H5": {
        "smallest diagonal score, imbalanced": UNTRAINED,
        "largest other score, imbalanced": UNTRAINED,
        "smallest diagonal score, balanced": UNTRAINED,
        "largest other score, balanced": UNTRAINED,
    },
    "H7": {
        "most changes of the leading influence": Sabotage(repeated),
        "least t_III / t_II": Sabotage(grown_before),
        "largest L_k(end) / L_k(t_III)": Sabotage(stopped(0.72)),
    },
    "H9": {
        "slope of the time of B_{k,1} = -0.49 log K against K": Sabotage(entry(1, lambda k: 1.1)),
        "slope of the switch against K, large K": Sabotage(faster_with_k),
        "t(B_{k,1} = -0.49 log K) / t_switch, largest K": Sabotage(entry(1, lambda k: 0.98)),
    },
    "H10": {"slope of |B_{k,n}| K / log K against K": Sabotage(entry(2, lambda k: k**0.3))},
    "H13": {
        "slope of the largest T_1 over its bound against 1/eps": BENT_UP,
        "slope of the largest T_1 over its bound against K": SLOWER_WITH_K,
    },
    "H14": {
        "slope of the largest T_k over its bound against 1/eps": SLOW_TAIL,
        "slope of the largest T_k over its bound against K": SLOWER_WITH_K,
    },
    "H18": {"least share of prompts below 4 eps": SHORT, "least share of prompts below 10 eps": SHORT},
    "H20": {"slope of t(A_k = log K) over K^2 log K against K": SLOWER_WITH_K},
    "H21": {
        "least T_k(0.1) / T_1(0.02), population": REVERSED,
        "share of seeds with ratio 3, population": REVERSED,
        "least T_k(0.1) / T_1(0.02), training": REVERSED,
        "share of seeds with ratio 3, training": REVERSED,
    },
    "H23": {
        "slope of the largest T_k over its bound against 1/eps": SLOW_TAIL,
        "slope of the largest T_k over its bound against K": SLOWER_WITH_K,
    },
}


@cache
def measured(name: str, change: Callable[[Runs], Runs], law: Patch) -> pd.DataFrame:
    runs = {key: change(trained(key)) for key in figures.sweeps(name, "laptop", {})}
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        law(patch)
        return figures.measure(name, runs, "laptop")


def part_of(claim: str, observable: str, sabotage: Sabotage) -> sabotaged.Outcome:
    name = FIGURE_OF[claim]
    return sabotaged.judged(name, measured(name, sabotage.runs, sabotage.law), claim, observable)


@pytest.mark.parametrize(("claim", "observable"), sabotaged.cases(SABOTAGES))
def test_a_sabotage_is_contradicted_and_its_control_is_not(claim: str, observable: str) -> None:
    sabotage = part_of(claim, observable, SABOTAGES[claim][observable])
    control = part_of(claim, observable, Sabotage())
    sabotaged.assert_only_the_spoilt_is_contradicted(sabotage, control)


def test_every_bound_has_a_sabotage() -> None:
    bounds = sabotaged.bounds_of_claims(HUANG)
    assert {claim: set(parts) for claim, parts in SABOTAGES.items()} == bounds
