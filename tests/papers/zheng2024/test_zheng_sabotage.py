"""Each bound on Zheng et al.'s and Sander et al.'s claims can fail: planted errors contradict it.

The exact trainings are those of the laptop scale; runs on samples are constructed from the exact ones plus the noise of
a sample of the claimed size. The control, without the sabotage, contradicts no bound.
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
from icl.evidence.judging import SUPPORTED
from icl.models import autoregressive as system
from icl.papers.sander2024 import sander_coefficients
from icl.pipeline import figures
from tests import sabotaged
from tests.sabotaged import Patch, same, untouched

# Each claim is judged twice, on sound and on spoilt runs.
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
    """A training of the laptop scale with fewer fresh sequences; trainings on samples are constructed."""
    sweep = TRAININGS[name]
    if sweep.configs[0].gradient_estimator in ("sample_blocks", *system.ALL_BLOCKS):
        return put_together(name)
    # Epoch 200 is judged, and by epoch 300 the judged lengths have converged.
    snapshots = sweep.snapshots
    if name.startswith("zheng_ratio"):
        snapshots = (0, 200, 300) if name == "zheng_ratio" else (0, 300)
    return train(dataclasses.replace(sweep, test=system.Test(sequences=2000), snapshots=snapshots))


def put_together(name: str) -> Runs:
    """The exact weights with sampling noise of 0.1 / sqrt(m) in every entry, real and imaginary."""
    sweep = TRAININGS[name]
    config, rng = sweep.configs[0], np.random.default_rng(len(sweep.configs))
    weights = {key: [] for key in ("KQ", "PV")}  # type: dict[str, list[torch.Tensor]]
    start = system.init(sweep.configs)
    noise = {key: 0.1 / np.sqrt(config.samples) * rng.standard_normal(tuple(w.shape)) for key, w in start.items()}
    for run, config in enumerate(sweep.configs):
        exact = trained(f"zheng_{config.law.replace('-', '_')}")
        (place,) = [i for i, other in enumerate(exact.sweep.configs) if other.start == config.start]
        for key in weights:
            blocks = exact.weights[key][place, list(sweep.snapshots)]
            if config.gradient_estimator in system.ALL_BLOCKS:
                whole = torch.zeros(len(blocks), *start[key].shape[1:], dtype=torch.float64)
                rows = slice(5, None) if key == "KQ" else slice(None)
                whole[:, rows, :5, 0] = blocks
                blocks = whole
            weights[key].append(blocks + torch.from_numpy(noise[key][run]))
    return Runs(sweep, {key: torch.stack(parts) for key, parts in weights.items()}, np.zeros((len(sweep.configs), 1)))


# Spoilt runs


def changed(
    which: str, change: Callable[[torch.Tensor], torch.Tensor], loss: float = 0.0
) -> Callable[[Trained], Trained]:
    """Change the weights and raise the loss of the runs of one sweep (of all sweeps for an empty name)."""

    def spoilt(runs: Trained) -> Trained:
        return {
            name: Runs(part.sweep, {key: change(w.clone()) for key, w in part.weights.items()}, part.losses + loss)
            if which in name
            else part
            for name, part in runs.items()
        }

    return spoilt


def uneven(w: torch.Tensor) -> torch.Tensor:
    """Half of the weights, plus a different error in every entry."""
    if w.dim() < 3:
        return w
    return 0.5 * w + 0.01 * torch.arange(1, w[0, 0].numel() + 1, dtype=w.dtype).reshape(w.shape[2:])


def by_law(runs: Trained) -> Trained:
    """Spoil only the full blocks, not the recursion in a and b or the masked blocks."""
    exact = {name: part for name, part in runs.items() if part.sweep.configs[0].gradient_estimator == "population"}
    return {**runs, **changed("", uneven, loss=1.0)(exact)}


def masked_grown(runs: Trained) -> Trained:
    """Make the masked blocks too large as well."""
    return changed("masked", lambda w: 1.1 * w)(by_law(runs))


def all_converged(w: torch.Tensor) -> torch.Tensor:
    """Replace the weights of every epoch by the final ones."""
    return w[:, -1:].expand_as(w).clone()


def diagonal(w: torch.Tensor) -> torch.Tensor:
    """Multiples of the identity."""
    mean = torch.diagonal(w, dim1=-2, dim2=-1).mean(dim=-1)
    return mean[..., None, None] * torch.eye(w.shape[-1], dtype=w.dtype)


def stuck(w: torch.Tensor) -> torch.Tensor:
    """Replace the final weights by the initial ones."""
    return w[:, :1].expand_as(w).clone()


def falling(runs: Trained) -> Trained:
    """Use steps that are four times too large for the shortest sequences and right for the longest."""
    count = len(sander_coefficients.LENGTHS)
    return changed("descent", lambda w: w * torch.linspace(2, 1 + 1e-4, count, dtype=w.dtype).repeat(2)[:, None])(runs)


def samples_spoilt(runs: Trained) -> Trained:
    """Reduce what is learnt; where all blocks are trained, add noise that grows with the sample."""
    spoilt = {}
    for name, part in runs.items():
        config = part.sweep.configs[0]
        if config.gradient_estimator == "sample_blocks":
            spoilt |= changed("", lambda w: 0.8 * w)({name: part})
        elif config.gradient_estimator == "sample_all_blocks":
            size = 2e-6 * config.samples
            spoilt |= changed("", lambda w, size=size: w + size)({name: part})  # type: ignore[misc]
        else:
            spoilt[name] = part
    return spoilt


def noise_too_steep(runs: Trained) -> Trained:
    """Divide the noise of the largest sample by a hundred."""
    return changed("sampled_many", lambda w: torch.where(w.abs() < 0.02, 0.01 * w, w))(runs)


# Spoilt data


def one_phase(patch: pytest.MonkeyPatch) -> None:
    """Give all coordinates nearly the same phase, so that sums over the context do not average out."""
    drawn = system.drawn

    def wrong(config: system.Config, purpose: str = "train", count: int = 0) -> tuple[np.ndarray, np.ndarray]:
        w, u = drawn(config, purpose, count)
        return w[:, :1] * np.exp(1e-5j * np.arange(w.shape[1])), u

    patch.setattr(system, "drawn", wrong)


def one_size(patch: pytest.MonkeyPatch) -> None:
    """Reduce the coordinates of the first token to their signs, which the layer can recover."""
    drawn = system.drawn

    def wrong(config: system.Config, purpose: str = "train", count: int = 0) -> tuple[np.ndarray, np.ndarray]:
        w, u = drawn(config, purpose, count)
        return w, np.sign(u) * np.sqrt(config.moment(6) / config.moment(4))

    patch.setattr(system, "drawn", wrong)


class Sabotage(NamedTuple):
    runs: Callable[[Trained], Trained] = same
    law: Patch = untouched


BLOCKS, HEATMAP = Sabotage(by_law), Sabotage(masked_grown)
GROWN, CONVERGED = Sabotage(changed("", lambda w: 1.2 * w)), Sabotage(changed("", all_converged))
DIAGONAL = Sabotage(changed("full_one", diagonal))
SMALLER = Sabotage(changed("ratio", lambda w: 0.5 * w))
ONE_PHASE, ONE_SIZE = Sabotage(law=one_phase), Sabotage(law=one_size)
SAMPLES, STEEP = Sabotage(samples_spoilt), Sabotage(noise_too_steep)
FALLING, STUCK = Sabotage(falling), Sabotage(changed("perturbed", stuck))

# The sabotage for most bounds of a figure, and exceptions.
OF_FIGURE = {
    "zheng_a_and_b": BLOCKS,
    "zheng_ab_dynamics": BLOCKS,
    "zheng_heatmap": HEATMAP,
    "zheng_ratio_estimators": SMALLER,
    "zheng_sampled": SAMPLES,
    "sander_coefficients": FALLING,
}
OTHERS = {
    "largest ab over the drawn line, larger starts, gaussian": GROWN,
    "ab from 0.1 0.1 over the least other one, gaussian": CONVERGED,
    "least share of the prediction that no gradient step gives": DIAGONAL,
    "largest loss over that of the best gradient step": DIAGONAL,
    "slope of the off-diagonal part against T": ONE_PHASE,
    "off-diagonal over diagonal part, T = 1000": ONE_PHASE,
    "relative error, T = 1000, gaussian": ONE_SIZE,
    "relative error, T = 1000, uniform": ONE_SIZE,
    "slope of the relative error against T, uniform": ONE_SIZE,
    "larger of |a_1 + a_4| and |b_2|, at the end": STUCK,
    "relative distance of a_3 b_1, at the end": STUCK,
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
    """Five equal runs are too few to contradict, but they lie on the other side of the bound."""
    (bound,) = ledger.claim("Z13").bounds
    part = part_of("Z13", "slope of the other blocks against m", STEEP)[1]
    assert part.outcome != SUPPORTED and part.high < bound.at_least
