"""Planted violations of von Oswald et al.'s claims, in constructed weights that imitate a training.

Two of six seeds have a plateau at the saddle before they learn the best step of gradient descent.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.papers.oswald2023 import closed_forms
from icl.papers.oswald2023.linear_attention import MATRICES, Config
from tests.papers.violations import at_laptop, changed
from tests.planted import Planted, Trained, each, with_weights

SEEDS = 6
# The training of panels A and B, with enough snapshots for a plateau; at other sizes only the final
# weights matter.
SAMPLED = "oswald_sampled_10"
SNAPSHOTS = tuple(range(0, 5001, 500))
# Seeds with a plateau at the saddle, and the snapshots at which a plateau starts and ends.
WAITING = (1, 4)
WAIT = (2, 9)


def sound(figure: str) -> Trained:
    return at_laptop(figure, partial(made, figure))


def made(figure: str, sweep: Sweep) -> Runs:
    # The larger inputs of panel D are judged in another figure.
    larger = 10 if figure == "oswald_one_step" else 15000
    test = replace(sweep.test, tasks=1000, larger_tasks=larger, shared_tasks=True)
    snapshots = SNAPSHOTS if sweep.name == SAMPLED else sweep.snapshots
    configs = tuple(replace(sweep.configs[0], seed=seed) for seed in range(SEEDS))
    sweep = replace(sweep, configs=configs, test=test, snapshots=snapshots)
    weights = torch.from_numpy(np.stack([course(sweep, config) for config in sweep.configs]))
    losses = np.zeros((SEEDS, snapshots[-1]))
    by_name = {name: weights[:, :, index].clone() for index, name in enumerate(MATRICES)}
    return Runs(sweep, by_name, losses)


def course(sweep: Sweep, config: Config) -> np.ndarray:
    """One run's weights, (snapshots, 4, D, D), small at first; some wait with one direction."""
    generator = np.random.default_rng(config.seed)
    d = config.dimension
    direction = generator.standard_normal(d)
    learnt = np.stack([np.eye(d)] * len(sweep.snapshots))
    learnt[0] *= 0.01
    if sweep.name == SAMPLED:
        learnt[1 : WAIT[0]] *= 0.1
        if config.seed in WAITING:
            learnt[slice(*WAIT)] = np.outer(direction, direction) / (direction @ direction)
    # Only a layer trained on the population equals the construction.
    error = 5e-3 if config.gradient_estimator == "fresh_prompts" else 1e-6
    weights = np.zeros((len(learnt), 4, d + 1, d + 1))
    weights[:, 0, :-1, :-1] = learnt + error * generator.standard_normal(learnt.shape)
    weights[:, 1] = np.eye(d + 1)
    root = (closed_forms.best_step_size(config) / config.context_length) ** 0.5
    weights[:, 2, -1, -1], weights[:, 3, -1, -1] = -root, root
    return weights


def times(factor: float) -> Callable[[Trained], Trained]:
    return each(changed(lambda w: factor * w, "W_P"))


def turned(angle: float) -> Callable[[Trained], Trained]:
    """Rotate two coordinates slightly, which hardly changes the diagonal of B."""

    def change(w: torch.Tensor) -> torch.Tensor:
        w = w.clone()
        w[..., 0, 1] += angle
        w[..., 1, 0] -= angle
        return w

    return each(changed(change, "W_Q"))


def half_learnt(runs: Trained) -> Trained:
    sampled = runs[SAMPLED]
    w = sampled.weights["W_Q"].clone()
    w[:, slice(*WAIT)] = torch.diag((torch.arange(w.shape[-1]) < w.shape[-1] // 2).to(w))
    return {**runs, SAMPLED: with_weights(sampled, W_Q=w)}


LARGER = Planted("steps 1.2 times as large", times(1.2))
SLIGHTLY_LARGER = Planted("steps 1.01 times as large", times(1.01))
TURNED = Planted("the layer rotates two coordinates", turned(0.5))

# Near the bounds: the loss exceeds the least one by 1.5 %.
WORSE = Planted("steps 1.12 times as large", times(1.12))
EXCESS = "largest excess of the {} layer's loss, relative, N = d = {}"
PLANTED = {
    "O2": {EXCESS.format("trained", "5 and 10"): WORSE},
    "O2-large": {EXCESS.format("trained", "20, 35 and 50"): WORSE},
    "O12": {EXCESS.format("mean", "5 and 10"): Planted("steps 1.25 times as large", times(1.25))},
    "O2-exact": {
        "largest excess of the population's loss, relative": SLIGHTLY_LARGER,
        "largest error of B on the diagonal, relative": SLIGHTLY_LARGER,
        "largest error of B off the diagonal, relative": Planted(
            "the layer rotates two coordinates", turned(0.01)
        ),
    },
    "O3": {
        "share of seeds that end within 0.5 % of GD": WORSE,
    },
    "O4": {
        "share of seeds with a plateau elsewhere": Planted(
            "half of the directions are learnt on plateaus", half_learnt
        )
    },
    "O5": {
        "final cosine": TURNED,
        "final difference of the derivatives": LARGER,
        "final difference of the predictions": LARGER,
    },
    "O6": {"largest distance from GD, relative": Planted("steps 0.8 times as large", times(0.8))},
    "O8": {"largest ratio of the three losses, minus 1": LARGER},
    "O-weights": {
        "distance of the keys at the end": TURNED,
        "distance of the values at the end": LARGER,
    },
}

UNTRAINED_HOLD: dict[str, str] = {}
