"""Planted violations of the claims on training with samples."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import torch

from icl.core.runs import Runs
from icl.core.training import train
from icl.pipeline import figures
from tests.papers.violations import changed, table
from tests.papers.zheng2024.planted import trained
from tests.planted import Planted, Trained


def sound(figure: str) -> Trained:
    """Exact descent, also with noise for training of two blocks; all blocks on fewer samples."""
    return {name: made(figure, name) for name in figures.sweeps(figure, "laptop", {})}


@cache
def made(figure: str, name: str) -> Runs:
    sweep = figures.sweeps(figure, "laptop", {})[name]
    if name.startswith("zheng_sampled"):
        configs = tuple(replace(config, samples=config.samples // 20) for config in sweep.configs)
        return train(replace(sweep, configs=configs, snapshots=(0, 5)))
    if not name.endswith("_reduced"):
        return trained(figure, name)
    exact = trained(figure, name.removesuffix("_reduced"))
    noise = np.random.default_rng(0).standard_normal((len(sweep.configs), 1, 5, 5))
    noise *= 0.1 / np.sqrt(sweep.configs[0].samples)
    seeds = len(set(sweep.seeds))
    weights = {
        key: w[:, : len(sweep.snapshots)].repeat_interleave(seeds, dim=0) + torch.from_numpy(noise)
        for key, w in exact.weights.items()
    }
    return Runs(sweep, weights, np.zeros((len(sweep.configs), 1)))


def where(part: str, change: Callable[[Runs], Runs]) -> Callable[[Trained], Trained]:
    return lambda runs: {
        name: change(of_sweep) if part in name else of_sweep for name, of_sweep in runs.items()
    }


def noisier(runs: Runs) -> Runs:
    return changed(lambda w: w + 1e-4 * runs.sweep.configs[0].samples)(runs)


NOISIER = Planted("the noise grows with the sample", where("zheng_sampled", noisier))
WEAKER = Planted(
    "on samples all weights are a fifth too small", where("_reduced", changed(lambda w: 0.8 * w))
)
PLANTED = {
    "ZE6": dict.fromkeys(table("ours", {})["ZE6"], WEAKER),
    "ZE13": {"slope of the other blocks against m": NOISIER},
}
UNTRAINED_HOLD = {"ZE6": "training on samples and exact descent stay at the same start"}
