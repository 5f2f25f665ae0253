"""Every check of Zheng et al.'s and Sander et al.'s claims can fail: on spoilt runs or laws each bound is contradicted.

The exact trainings are those of the laptop scale; runs on samples are put together from the exact ones and noise, as a
sample of the claimed size would give them. Without the sabotage (the control) no bound is contradicted.
"""

import dataclasses
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import torch

from icl.core.runs import Runs
from icl.core.training import train
from icl.evidence import ledger
from icl.evidence.judging import CONTRADICTED
from icl.models import autoregressive as system
from icl.models import autoregressive_theory as theory
from icl.papers.sander2024 import sander_coefficients
from icl.papers.zheng2024 import zheng_ab_dynamics
from icl.pipeline import figures
from tests import sabotaged
from tests.sabotaged import Patch, same, untouched

# A claim is judged on trainings of its own, sound and spoilt.
pytestmark = pytest.mark.slow

FIGURES = (
    "zheng_a_and_b",
    "zheng_ab_dynamics",
    "zheng_heatmap",
    "zheng_ratio_estimators",
    "zheng_sampled",
    "sander_coefficients",
)
FIGURE_OF = sabotaged.figures_of_claims(FIGURES)
TRAININGS = sabotaged.trainings(FIGURES)

Trained = Mapping[str, Runs]


@cache
def trained(name: str) -> Runs:
    """Of the laptop scale, with fewer fresh sequences; put together where the laptop trains on samples."""
    sweep = TRAININGS[name]
    if sweep.configs[0].gradient_estimator in ("sample_blocks", *system.ALL_BLOCKS):
        return put_together(name)
    # Epoch 200 counts, and in 300 the lengths that are judged have converged.
    snapshots = (0, 200, 300) if name == "zheng_ratio" else (0, 300) if name == "zheng_ratio_draws" else sweep.snapshots
    test = system.Test(sequences=20000 if name == "sander_draws" else 2000)
    return train(dataclasses.replace(sweep, test=test, snapshots=snapshots))


def put_together(name: str) -> Runs:
    """The exact weights with the noise of a sample: 0.1 / sqrt(m) in every entry, real and imaginary."""
    sweep = TRAININGS[name]
    config, rng = sweep.configs[0], np.random.default_rng(len(sweep.configs))
    weights = {key: [] for key in ("KQ", "PV")}  # type: dict[str, list[torch.Tensor]]
    start = system.init(sweep.configs)
    noise = {key: 0.1 / np.sqrt(config.samples) * rng.standard_normal(tuple(w.shape)) for key, w in start.items()}
    for run, own in enumerate(sweep.configs):
        exact = trained(f"zheng_{own.law.replace('-', '_')}")
        (place,) = [i for i, other in enumerate(exact.sweep.configs) if other.start == own.start]
        for key in weights:
            blocks = exact.weights[key][place, list(sweep.snapshots)]
            if own.gradient_estimator in system.ALL_BLOCKS:
                whole = torch.zeros(len(blocks), *start[key].shape[1:], dtype=torch.float64)
                rows = slice(5, None) if key == "KQ" else slice(None)
                whole[:, rows, :5, 0] = blocks
                # One law for both trainings that are compared: what they are compared by is their difference.
                blocks = whole if name.endswith("oracle") else whole + torch.from_numpy(noise[key][run])
            else:
                blocks = blocks + torch.from_numpy(noise[key][run])
            weights[key].append(blocks)
    return Runs(sweep, {key: torch.stack(parts) for key, parts in weights.items()}, np.zeros((len(sweep.configs), 1)))


# Spoilt runs


def changed(
    which: str, change: Callable[[torch.Tensor], torch.Tensor], loss: float = 0.0
) -> Callable[[Trained], Trained]:
    """The runs whose sweep is named so (all with an empty name) have other weights, and a larger loss."""

    def spoilt(runs: Trained) -> Trained:
        return {
            name: Runs(own.sweep, {key: change(w.clone()) for key, w in own.weights.items()}, own.losses + loss)
            if which in name
            else own
            for name, own in runs.items()
        }

    return spoilt


def uneven(w: torch.Tensor) -> torch.Tensor:
    """Half as large, and different in every entry."""
    if w.dim() < 3:
        return w
    return 0.5 * w + 0.01 * torch.arange(1, w[0, 0].numel() + 1, dtype=w.dtype).reshape(w.shape[2:])


def by_law(runs: Trained) -> Trained:
    """Only the whole blocks are spoilt, not the recursion in a and b or the masked ones."""
    exact = {name: own for name, own in runs.items() if own.sweep.configs[0].gradient_estimator == "population"}
    return {**runs, **changed("", uneven, loss=1.0)(exact)}


def masked_grown(runs: Trained) -> Trained:
    """The masked blocks are too large as well."""
    return changed("masked", lambda w: 1.1 * w)(by_law(runs))


def falling(runs: Trained) -> Trained:
    """Steps that are four times too large for the shortest sequences, and right for the longest."""
    count = len(sander_coefficients.LENGTHS)
    return changed("descent", lambda w: w * torch.linspace(2, 1 + 1e-4, count, dtype=w.dtype).repeat(2)[:, None])(runs)


def samples_spoilt(runs: Trained) -> Trained:
    """Too little learnt; and where all blocks are trained, noise everywhere, which grows with the sample."""
    spoilt = {}
    for name, own in runs.items():
        config = own.sweep.configs[0]
        if config.gradient_estimator == "sample_blocks":
            spoilt |= changed("", lambda w: 0.8 * w)({name: own})
        elif config.gradient_estimator == "sample_all_blocks":
            size = 2e-6 * config.samples
            spoilt |= changed("", lambda w, size=size: w + size)({name: own})  # type: ignore[misc]
        else:
            spoilt[name] = own
    return spoilt


def noise_too_steep(runs: Trained) -> Trained:
    """The noise of the largest sample is a hundredth of what it should be."""
    return changed("sampled_many", lambda w: torch.where(w.abs() < 0.02, 0.01 * w, w))(runs)


# Spoilt laws


def other_tokens_and_leaky_flow(patch: pytest.MonkeyPatch) -> None:
    """Example 4.1 without its signs and twice as long; all ones with a random sign; b decays along the flow."""
    tokens, flow = zheng_ab_dynamics.first_tokens, theory.flow

    def wrong(dimension: int, scale: float) -> dict[str, np.ndarray]:
        known = tokens(dimension, 2 * scale)
        ones = known["all ones"]
        return {"Example 4.1": abs(known["Example 4.1"]), "all ones": np.concatenate([ones, -ones])}

    patch.setattr(zheng_ab_dynamics, "first_tokens", wrong)
    patch.setattr(theory, "flow", lambda config, times: (flow(config, times)[0], 0.999 * flow(config, times)[1]))


def limits(factor: float) -> Patch:
    """Theorem 4.1 with a wrong factor."""
    limit = theory.limit
    return lambda patch: patch.setattr(theory, "limit", lambda config: factor * limit(config))


def miscounted(patch: pytest.MonkeyPatch) -> None:
    """A monomial more in every square; and phases from a half circle only."""
    counted, drawn = sander_coefficients.counted, system.drawn

    def more(dimension: int, most: int) -> tuple[int, int]:
        linear, quadratic = counted(dimension, most)
        return linear, quadratic + 1

    def half(config: system.Config, purpose: str = "train", count: int = 0) -> tuple[np.ndarray, np.ndarray]:
        w, u = drawn(config, purpose, count)
        return np.exp(0.5j * np.angle(w)), u

    patch.setattr(sander_coefficients, "counted", more)
    patch.setattr(system, "drawn", half)


class Sabotage(NamedTuple):
    runs: Callable[[Trained], Trained] = same
    law: Patch = untouched


BLOCKS = Sabotage(by_law, other_tokens_and_leaky_flow)
HEATMAP = Sabotage(masked_grown)
SMALLER = Sabotage(changed("ratio", lambda w: 0.5 * w), limits(0.5))
LARGER = Sabotage(changed("ratio", lambda w: 2.0 * w), limits(2.0))
SAMPLES, STEEP = Sabotage(samples_spoilt), Sabotage(noise_too_steep)
SANDER = Sabotage(falling, miscounted)

# What breaks most of a figure's bounds, and what breaks the others.
OF_FIGURE = {
    "zheng_a_and_b": BLOCKS,
    "zheng_ab_dynamics": BLOCKS,
    "zheng_heatmap": HEATMAP,
    "zheng_ratio_estimators": SMALLER,
    "zheng_sampled": SAMPLES,
    "sander_coefficients": SANDER,
}
OTHERS = {
    "largest ratio at epoch 200, T = 100": LARGER,
    "largest ratio at epoch 200, T = 1000": LARGER,
}
SABOTAGES: dict[str, dict[str, Sabotage]] = {
    claim.id: {bound.observable: OTHERS.get(bound.observable, OF_FIGURE[name]) for bound in claim.bounds}
    for name in FIGURES
    for claim in ledger.claims(name)
}


@cache
def measured(name: str, sabotage: Sabotage) -> pd.DataFrame:
    sweeps = figures.sweeps(name, "laptop", {})
    runs: dict[str, Any] = {key: trained(key) for key in sweeps}
    with pytest.MonkeyPatch.context() as patch:
        sabotage.law(patch)
        return figures.measure(name, sabotage.runs(runs), "laptop")


def part_of(claim: str, observable: str, sabotage: Sabotage) -> sabotaged.Outcome:
    name = FIGURE_OF[claim]
    return sabotaged.judged(name, measured(name, sabotage), claim, observable)


@pytest.mark.parametrize(("claim", "observable"), sabotaged.cases(SABOTAGES))
def test_a_sabotage_is_contradicted_and_its_control_is_not(claim: str, observable: str) -> None:
    spoilt = part_of(claim, observable, SABOTAGES[claim][observable])
    control = part_of(claim, observable, Sabotage())
    sabotaged.assert_only_the_spoilt_is_contradicted(spoilt, control)
    part = spoilt[1]
    assert part.runs == control[1].runs
    assert part.statistic == "exact" or part.runs >= 5


def test_the_slope_of_the_noise_can_be_too_steep() -> None:
    assert part_of("Z13", "slope of the other blocks against m", STEEP)[1].outcome == CONTRADICTED
