"""Violations of Zhang et al.'s claims; the sound runs are trainings with eight seeds."""

import dataclasses
from functools import cache

import numpy as np
import torch

from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.training import train
from icl.tasks.linear_regression import rotation
from tests.papers.violations import at_laptop, changed, table
from tests.planted import UNTRAINED, Planted, Trained, each, with_weights


def sound(figure: str) -> Trained:
    """The figure's trainings from their start, with fewer prompts for Theorem 4.2 and a shorter
    one on prompts.
    """
    return at_laptop(figure, trained)


@cache
def trained(sweep: Sweep) -> Runs:
    configs = tuple(config for config in sweep.configs if config.seed < 8)
    test = dataclasses.replace(sweep.test, prompts_theorem=2000)
    steps = {0} | {step for step in sweep.snapshots if step <= 150 or sweep.name != "zhang_prompts"}
    snapshots = tuple(sorted(steps))
    return train(dataclasses.replace(sweep, configs=configs, test=test, snapshots=snapshots))


def exchanged(runs: Trained) -> Trained:
    """The layers of the first and of the second covariance change places."""
    long = runs["zhang_infinite"]
    weights = {name: w.roll(len(w) // 2, 0) for name, w in long.weights.items()}
    return dict(runs) | {"zhang_infinite": with_weights(long, **weights)}


LARGER = Planted("U is three times too large", each(changed(lambda u: 3 * u, "U")))
TURN = torch.from_numpy(rotation(np.random.default_rng(0), 5))
TURNED = Planted("U is turned", each(changed(lambda u: u @ TURN if u.shape[-1] == 5 else u, "U")))
EXCHANGED = Planted("the layer is trained with the covariance of the test", exchanged)
OTHERS = {
    "prediction for an orthogonal query over the truth, isotropic": TURNED,
    # Contradicted as trained; an untrained U is a multiple of I, for which the statement holds.
    "prediction for an orthogonal query over the truth, skewed": dataclasses.replace(
        TURNED, control=UNTRAINED
    ),
    "slope of the error against M, other covariance": EXCHANGED,
    "relative error at M = 1e4, other covariance": EXCHANGED,
    "distance of c U to Theorem 4.5, on prompts": UNTRAINED,
}
PLANTED = table("zhang2024", OTHERS, LARGER)
UNTRAINED_HOLD = {"ZT6": "untrained layers are multiples of I, for which the statement holds"}
