"""Planted violations of the mesa layer's claims, in constructed layers that are learnt within a few snapshots.

Linear-SA has the 12 numbers of RevAlg-1 after a training on trial seed 100, and Mesa its construction.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.papers.oswald2023mesa.oswald_mesa import REV_ALG
from icl.pipeline import figures
from tests.planted import UNTRAINED, Planted, each, with_weights

SEQUENCES = {"oswald_mesa_loss": 96, "oswald_mesa_length": 512}
# With equal runs the sign test decides, which needs six.
SEEDS = 6
# Blocks (x_t, x_{t-1}) of W_K' W_Q and of P W_V, head by head.
KEY_QUERY = (((-0.0004, -0.0112), (0.1325, -0.0037)), ((-0.0090, 0.0107), (-0.1247, -0.0095)))
VALUE = (((0.1307, 0.0004),), ((-0.1288, 0.0154),))
UNIT = torch.eye(10)


def blocks(*heads: tuple[tuple[float, ...], ...]) -> torch.Tensor:
    """Multiples of the identity as blocks, head by head."""
    return torch.stack([torch.kron(torch.tensor(head), UNIT) for head in heads])


def linear_layer() -> dict[str, torch.Tensor]:
    """The factors of one run, with W_K and W_V the identity."""
    identity = torch.eye(20).expand(2, 20, 20)
    return {"key": identity, "query": blocks(*KEY_QUERY), "value": identity, "output": blocks(*VALUE)}


def mesa_layer() -> dict[str, torch.Tensor]:
    """Keys x_{s-1}, values x_s and queries x_t in one head; the other three are zero."""
    none = ((0.0, 0.0), (0.0, 0.0))
    now, last = blocks(((1.0, 0.0), (0.0, 0.0)), *[none] * 3), blocks(((0.0, 1.0), (0.0, 0.0)), *[none] * 3)
    output = blocks(((1.0, 0.0),), *[((0.0, 0.0),)] * 3)
    return {"key": last, "query": now, "value": now, "output": output, "inverse ridge": torch.full((4,), 30.0)}


def sound(figure: str) -> dict[str, Runs]:
    return {name: made(figure, sweep) for name, sweep in figures.sweeps(figure, "laptop", {}).items()}


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
    """Queries and outputs times a factor that depends on the snapshot; its square multiplies the step size."""

    def change(runs: Runs) -> Runs:
        factors = torch.tensor([float(factor(point)) for point in range(len(runs.sweep.snapshots))])
        parts = {name: factors[:, None, None, None] * runs.weights[name] for name in ("query", "output")}
        return with_weights(runs, **parts)

    return change


PLANTED = {
    "U3": {
        "loss of RevAlg-1 over linear-SA": Planted(
            "RevAlg-1 is taken from weights 0", each(scaled(lambda point: point != REV_ALG))
        ),
    },
    "U4": {
        "largest |Interpolation - linear-SA| from step 1500": Planted(
            "the layer forgets late in training", each(scaled(lambda point: point <= 10 or point == REV_ALG))
        ),
    },
    "U6": {"largest |linear-SA - GD|, t < 40": UNTRAINED},
    "U7": {
        "largest |Mesa - least squares|, t <= 9": UNTRAINED,
        "MSE of Mesa at t = 10": UNTRAINED,
        "largest MSE of Mesa, t >= 15": UNTRAINED,
    },
    "U10": {"largest MSE of Mesa beyond the training length": UNTRAINED},
    "U11": {
        "MSE of linear-SA at twice the training length": Planted("half the step size", each(scaled(lambda point: 0.7))),
    },
}

UNTRAINED_HOLD = {
    "U3": "RevAlg-1 of an untrained layer has the loss of the prediction 0, as that layer",
    "U4": "an untrained layer and RevAlg-1 both predict nearly 0, and so does their mean",
}
