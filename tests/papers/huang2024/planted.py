"""Violations of Huang et al.'s claims; the sound runs are the trainings of the laptop scale."""

import dataclasses
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch

from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.training import train
from icl.papers.huang2024 import softmax_attention as model
from tests.papers.violations import at_laptop, changed
from tests.planted import UNTRAINED, Planted, Trained, each, with_weights


def sound(figure: str) -> Trained:
    return at_laptop(figure, trained)


@cache
def trained(sweep: Sweep) -> Runs:
    test = dataclasses.replace(sweep.test, prompts_test=min(sweep.test.prompts_test, 5000))
    return train(dataclasses.replace(sweep, test=test))


Change = Callable[[Trained], Trained]


def scaled(entry: int, factor: Callable[[int], float]) -> Change:
    """One weight of the rare features (0, 1, 2: A_k, B_{k,1}, B_{k,n}) times a factor of K."""

    def change(runs: Runs) -> Runs:
        factors = torch.ones(len(runs.sweep.configs), 1, 2, 3, dtype=torch.float64)
        of_runs = [factor(config.features) for config in runs.sweep.configs]
        factors[:, 0, 1, entry] = torch.tensor(of_runs)
        return changed(lambda q: q * factors)(runs)

    return each(change)


def warped(earlier: Callable[[np.ndarray, int], np.ndarray], columns: slice = slice(2)) -> Change:
    """Trainings whose columns (for v_1 and v_k) have at eta t the weights of earlier(eta t, K)."""

    def change(runs: Runs) -> Runs:
        weights = runs.weights["Q"].clone()
        for run, config in enumerate(runs.sweep.configs):
            time = model.times(config, runs.sweep.snapshots[-1])[list(runs.sweep.snapshots)]
            at = np.searchsorted(time, earlier(time, config.features)).clip(max=len(time) - 1)
            weights[run, :, columns] = runs.weights["Q"][run, at, columns]
        return with_weights(runs, Q=weights)

    return each(change)


def exchanged(runs: Trained) -> Trained:
    def change(q: torch.Tensor) -> torch.Tensor:
        order = [1, 0, *range(2, q.shape[-1])]
        return q[..., order, :][..., order]

    return {**runs, "huang_empirical": changed(change)(runs["huang_empirical"])}


def with_short_prompts(fresh_counts: Callable[..., Any]) -> Callable[..., Any]:
    """Fresh prompts with a tenth of the tokens, so that many lack the query's feature."""
    return lambda config, *address: fresh_counts(
        dataclasses.replace(config, contexts_per_feature=2, target=0.4), *address
    )


EXCHANGED = Planted(
    "the weights of the dominant feature and of a rare one change places", exchanged
)
LATE = Planted(
    "the dominant feature learns at a thirtieth of its pace",
    warped(lambda time, k: time / 30, slice(1)),
)
SHORT = Planted(
    "fresh prompts are ten times shorter", patches=((model, "fresh_counts", with_short_prompts),)
)
SLOW = Planted("all times are raised to the power 1.5", warped(lambda time, k: time ** (2 / 3)))
SLOWER_WITH_K = Planted(
    "all times are longer by the root of K", warped(lambda time, k: time / k**0.5)
)
FASTER_WITH_K = Planted(
    "all times are shorter by the factor K^0.05", warped(lambda time, k: time * k**0.05)
)
SLOW_TAIL = Planted(
    "from 3 K^2 on, training slows to the cube root of time",
    warped(lambda time, k: np.minimum(time, (time * 9 * k**4) ** (1 / 3))),
)
FAST_TAIL = Planted(
    "from K^2 on, training is four times as fast",
    warped(lambda time, k: time + 3 * np.maximum(time - k**2, 0)),
)
TWICE = Planted(
    "the first half of the training runs twice", warped(lambda time, k: time % (time[-1] / 2))
)
STOPPED = Planted(
    "the training stops at 0.72 of its time",
    warped(lambda time, k: np.minimum(time, 0.72 * time[-1])),
)
FURTHER = Planted("B_{k,1} is larger by a tenth", scaled(1, lambda k: 1.1))
NEARER = Planted("B_{k,1} is smaller by a fiftieth", scaled(1, lambda k: 0.98))
LARGER_WITH_K = Planted("B_{k,n} is larger by the factor K^0.3", scaled(2, lambda k: k**0.3))
OVER_1, OVER_K = (
    {
        f"slope of the largest {name} over its bound against 1/eps": late,
        f"slope of the largest {name} over its bound against K": SLOWER_WITH_K,
    }
    for name, late in (("T_1", SLOW), ("T_k", SLOW_TAIL))
)

PLANTED = {
    "H1": {"T_k(0.05) / T_1(0.05)": LATE},
    "H2": {"L_k / L_k(0) when L_1 = 0.02": LATE},
    "H3": dict.fromkeys(("L_1 at eta t = 3000", "L_k at eta t = 3000"), UNTRAINED),
    "H5": {
        f"{score}, {case}": UNTRAINED
        for score in ("smallest diagonal score", "largest other score")
        for case in ("imbalanced", "balanced")
    },
    "H7": {
        "most changes of the leading influence": TWICE,
        "least t_III / t_II": FAST_TAIL,
        "largest L_k(end) / L_k(t_III)": STOPPED,
    },
    "H9": {
        "slope of the time of B_{k,1} = -0.49 log K against K": FURTHER,
        "slope of the switch against K, large K": FASTER_WITH_K,
        "t(B_{k,1} = -0.49 log K) / t_switch, largest K": NEARER,
    },
    "H10": {"slope of |B_{k,n}| K / log K against K": LARGER_WITH_K},
    "H13": OVER_1,
    "H14": OVER_K,
    "H18": dict.fromkeys(
        ("least share of prompts below 4 eps", "least share of prompts below 10 eps"), SHORT
    ),
    "H20": {"slope of t(A_k = log K) over K^2 log K against K": SLOWER_WITH_K},
    "H21": {
        f"{observable}, {panel}": EXCHANGED
        for observable in ("least T_k(0.1) / T_1(0.02)", "share of seeds with ratio 3")
        for panel in ("population", "training")
    },
    "H23": OVER_K,
}

UNTRAINED_HOLD: dict[str, str] = {}
