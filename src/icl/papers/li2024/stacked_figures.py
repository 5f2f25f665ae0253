"""Shared by figures 21 to 26 and the attention map: the training of three stacked layers and its measurements."""

import numpy as np

from icl.core.config import grid
from icl.core.lazy import Tensor
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.papers.li2024 import one_layer_evaluation, stacked_layers
from icl.papers.li2024.one_layer_evaluation import Evaluation

SEEDS = {"paper": 20, "laptop": 20, "smoke": 2}
STEPS = {"paper": 1600, "laptop": 1600, "smoke": 20}
PROMPTS = {"paper": 200, "laptop": 200, "smoke": 20}
EPOCHS = tuple(range(0, 1601, 80))
"""The epochs of figures 21 to 23, one step each, except at the smoke scale, which has fewer steps."""


def shared_training(scale: str) -> Sweep:
    """The training shared by figures 21 to 26."""
    steps = STEPS[scale]
    return Sweep(
        name="li_icl_stack",
        system="li_icl_stack",
        configs=grid(stacked_layers.Config, seed=range(SEEDS[scale])),
        snapshots=tuple(epoch * steps // EPOCHS[-1] for epoch in EPOCHS),
        test=stacked_layers.Test(prompts=PROMPTS[scale]),
    )


def sweeps(scale: str) -> list[Sweep]:
    """The shared training."""
    return [shared_training(scale)]


def step_of(runs: Runs, epoch: int) -> int:
    """The step of an epoch of the figures."""
    return epoch * runs.sweep.snapshots[-1] // EPOCHS[-1]


def attention_on_same(runs: Runs, prompts: Evaluation) -> np.ndarray:
    """Attention of the query summed over the columns with its own pattern, the query's too, in each layer, averaged
    over prompts: (epochs, runs, layers).

    runs : as trained, not in the axes of the patterns
    """
    configs = runs.sweep.configs
    tokens = prompts.tokens[..., : configs[0].feature_dimension + 1]
    same = (prompts.patterns == prompts.patterns[..., -1:]).double()
    by_epoch = []
    for step in runs.sweep.snapshots:
        attention = stacked_layers.forward(runs.at(step), tokens, configs)[1]
        by_epoch.append(np.stack([_mean_on(weights[:, :, -1], same) for weights in attention], axis=-1))
    return np.stack(by_epoch)


def _mean_on(weights: "Tensor", columns: "Tensor") -> np.ndarray:
    mean: np.ndarray = (weights * columns).sum(dim=-1).mean(dim=-1).numpy()
    return mean


def embeddings(runs: Runs, epoch: int, layer: int) -> dict[str, np.ndarray]:
    """Blocks of the rows of W_O W_V of one layer (see one_layer_evaluation.embeddings), (runs, m) each."""
    weights = stacked_layers.layer(runs.at(step_of(runs, epoch)), layer)
    return one_layer_evaluation.embeddings(weights, runs.sweep.configs[0])
