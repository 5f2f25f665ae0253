"""Planted violations of the mesa layer's claims, in constructions that are learnt within a few
snapshots.

Linear-SA does one step of gradient descent, and Mesa a ridge regression on the pairs of
neighbouring states.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.papers.oswald2023mesa.one_layer import Config
from icl.papers.oswald2023mesa.oswald_mesa import REV_ALG, gradient_descent
from tests.papers.violations import at_laptop, changed
from tests.planted import UNTRAINED, Planted, Trained, each

SEQUENCES = {"oswald_mesa_loss": 96, "oswald_mesa_length": 512}
# With equal runs the sign test decides, which needs six.
SEEDS = 6


def linear_layer() -> dict[str, torch.Tensor]:
    """One head, for tokens (x_t, x_{t-1})."""
    maps = gradient_descent(Config(), 0.032)
    unit = torch.eye(20)[None]
    return {"key": unit, "query": maps.key_query, "value": unit, "output": maps.value}


def mesa_layer() -> dict[str, torch.Tensor]:
    """Keys x_{s-1}, values x_s and queries x_t in one head."""
    unit = torch.eye(10)[None]
    zero = torch.zeros(1, 10, 10)
    now = torch.cat([unit, zero], dim=-1)
    last = torch.cat([zero, unit], dim=-1)
    ridge = torch.full((1,), 30.0)
    return {"key": last, "query": now, "value": now, "output": unit, "inverse ridge": ridge}


def sound(figure: str) -> Trained:
    return at_laptop(figure, partial(made, figure))


def made(figure: str, sweep: Sweep) -> Runs:
    """Layers that are learnt after four snapshots; Mesa has only the first and the last."""
    is_mesa = sweep.configs[0].layer == "mesa"
    snapshots = sweep.snapshots[:: len(sweep.snapshots) - 1] if is_mesa else sweep.snapshots
    test = replace(sweep.test, sequences=SEQUENCES[figure])
    sweep = replace(sweep, configs=sweep.configs[:SEEDS], snapshots=snapshots, test=test)
    layer = mesa_layer() if is_mesa else linear_layer()
    weights = {name: w.expand(SEEDS, len(snapshots), *w.shape) for name, w in layer.items()}
    runs = Runs(sweep, weights, np.zeros((SEEDS, snapshots[-1])))
    return scaled(lambda point: min(point if is_mesa else point / 4, 1.0))(runs)


def scaled(factor: Callable[[int], float]) -> Callable[[Runs], Runs]:
    """Queries and outputs times a factor that depends on the snapshot; its square multiplies the
    step size.
    """

    def change(runs: Runs) -> Runs:
        factors = torch.tensor([float(factor(point)) for point in range(len(runs.sweep.snapshots))])
        return changed(lambda w: factors[:, None, None, None] * w, "query", "output")(runs)

    return change


PLANTED = {
    "U3": {
        "loss of RevAlg-1 over linear-SA": Planted(
            "RevAlg-1 is taken from weights 0", each(scaled(lambda point: point != REV_ALG))
        ),
    },
    "U4": {
        "largest |Interpolation - linear-SA| from step 1500": Planted(
            "the layer forgets late in training",
            each(scaled(lambda point: point <= 10 or point == REV_ALG)),
        ),
    },
    "U6": {"largest |linear-SA - GD|, t < 40": UNTRAINED},
    "U12": {
        "largest |linear-SA - GD|, t >= 40": Planted(
            "0.9 of the step size", each(scaled(lambda point: 0.9**0.5))
        ),
    },
    "U7": {
        "largest |Mesa - least squares|, t <= 9": UNTRAINED,
        "MSE of Mesa at t = 10": UNTRAINED,
        "largest MSE of Mesa, t >= 15": UNTRAINED,
    },
    "U10": {"largest MSE of Mesa beyond the training length": UNTRAINED},
    "U11": {
        "MSE of linear-SA at twice the training length": Planted(
            "half the step size", each(scaled(lambda point: 0.7))
        ),
    },
}

UNTRAINED_HOLD = {
    "U3": "RevAlg-1 of an untrained layer has the loss of the prediction 0, as that layer",
    "U4": "an untrained layer and RevAlg-1 both predict nearly 0, and so does their mean",
}
