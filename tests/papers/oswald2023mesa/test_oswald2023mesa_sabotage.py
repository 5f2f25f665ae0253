"""Each bound on the mesa layer's claims can fail: layers with a planted error contradict it.

The layers are constructed: linear-SA from the 12 numbers of RevAlg-1 after a training on trial seed 100, Mesa from its
construction. A sabotage breaks one bound; the control, without it, does not contradict the same bound.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch

from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.papers.oswald2023mesa import trainings
from icl.pipeline import figures
from tests import sabotaged

# Each claim is judged twice, on sound and on spoilt layers.
pytestmark = pytest.mark.slow

NAMES = ("oswald_mesa_loss", "oswald_mesa_length")
FIGURE_OF = sabotaged.figures_of_claims(NAMES)
SEQUENCES = {"oswald_mesa_loss": 96, "oswald_mesa_length": 512}
# Blocks (x_t, x_{t-1}) of W_K' W_Q and of P W_V, head by head.
KEY_QUERY = (((-0.0004, -0.0112), (0.1325, -0.0037)), ((-0.0090, 0.0107), (-0.1247, -0.0095)))
VALUE = (((0.1307, 0.0004),), ((-0.1288, 0.0154),))
UNIT = torch.eye(10)


def linear_layer() -> dict[str, torch.Tensor]:
    """The factors of one run, with W_K and W_V the identity."""
    identity = torch.eye(20).expand(2, 20, 20)
    blocks = [torch.stack([torch.kron(torch.tensor(m), UNIT) for m in each]) for each in (KEY_QUERY, VALUE)]
    return {"key": identity, "query": blocks[0], "value": identity, "output": blocks[1]}


def mesa_layer() -> dict[str, torch.Tensor]:
    """Keys x_{s-1}, values x_s and queries x_t in one head; the other three are zero."""

    def first(matrix: torch.Tensor) -> torch.Tensor:
        return torch.cat([matrix[None], torch.zeros(3, *matrix.shape)])

    now, last = (first(torch.kron(torch.tensor([row, [0.0, 0.0]]), UNIT)) for row in ([1.0, 0.0], [0.0, 1.0]))
    output = first(torch.cat([UNIT, 0 * UNIT], dim=1))
    return {"key": last, "query": now, "value": now, "output": output, "inverse ridge": torch.full((4,), 30.0)}


def made(sweep: Sweep, amount: Callable[[int], float]) -> Runs:
    """Runs whose layers are the constructed one scaled by `amount(point)`, in queries and outputs."""
    layer = mesa_layer() if sweep.configs[0].layer == "mesa" else linear_layer()
    amounts = torch.tensor([amount(point) for point in range(len(sweep.snapshots))])
    weights = {}
    for name, w in layer.items():
        scale = amounts if name in ("query", "output") else torch.ones_like(amounts)
        scaled = scale.reshape(-1, *[1] * w.dim()) * w
        weights[name] = scaled.expand(len(sweep.configs), *scaled.shape)
    return Runs(sweep, weights, np.zeros((len(sweep.configs), sweep.snapshots[-1])))


# Scale of the constructed layers at every point: learnt within four points, or spoilt.


def learnt(point: int) -> float:
    return min(point / 4, 1.0)


def never_learnt(point: int) -> float:
    return 0.0


def lost_when_read(point: int) -> float:
    return 0.0 if point == trainings.REV_ALG else learnt(point)


def forgotten(point: int) -> float:
    return learnt(point) if point <= 10 or point == trainings.REV_ALG else 0.0


def half_the_step(point: int) -> float:
    """Scale queries and outputs, whose product is the step size."""
    return 0.7 * learnt(point)


@dataclass(frozen=True)
class Sabotage:
    amount: Callable[[int], float] = learnt


UNTRAINED = Sabotage(never_learnt)

SABOTAGES: Mapping[str, Mapping[str, Sabotage]] = {
    "U3": {"loss of RevAlg-1 over linear-SA": Sabotage(lost_when_read)},
    "U4": {
        "largest |Interpolation - linear-SA| from step 1500": Sabotage(forgotten),
    },
    "U6": {
        "largest |linear-SA - GD|, t < 40": UNTRAINED,
    },
    "U7": {
        "largest |Mesa - least squares|, t <= 9": UNTRAINED,
        "MSE of Mesa at t = 10": UNTRAINED,
        "largest MSE of Mesa, t >= 15": UNTRAINED,
    },
    "U10": {"largest MSE of Mesa beyond the training length": UNTRAINED},
    "U11": {"MSE of linear-SA at twice the training length": Sabotage(half_the_step)},
}


@cache
def measured(name: str, sabotage: Sabotage) -> pd.DataFrame:
    runs = {}
    for key, sweep in figures.sweeps(name, "laptop", {}).items():
        test = dataclasses.replace(sweep.test, sequences=SEQUENCES[name])
        # Mesa only at the start and at the end.
        snapshots = sweep.snapshots if key == "oswald_mesa_linear" else sweep.snapshots[:: len(sweep.snapshots) - 1]
        amount = sabotage.amount if len(snapshots) > 2 else lambda point: sabotage.amount(4 * point)
        # With equal runs the sign test decides, which needs six.
        configs = (*sweep.configs[:5], dataclasses.replace(sweep.configs[0], seed=5))
        runs[key] = made(dataclasses.replace(sweep, configs=configs, snapshots=snapshots, test=test), amount)
    return figures.measure(name, runs, "laptop")


def part_of(claim: str, observable: str, sabotage: Sabotage) -> sabotaged.Outcome:
    name = FIGURE_OF[claim]
    return sabotaged.judged(name, measured(name, sabotage), claim, observable)


@pytest.mark.parametrize(("claim", "observable"), sabotaged.cases(SABOTAGES))
def test_a_sabotage_is_contradicted_and_its_control_is_not(claim: str, observable: str) -> None:
    spoilt = part_of(claim, observable, SABOTAGES[claim][observable])
    control = part_of(claim, observable, Sabotage())
    sabotaged.assert_only_the_spoilt_is_contradicted(spoilt, control)


def test_every_bound_has_a_sabotage() -> None:
    bounds = sabotaged.bounds_of_claims(NAMES)
    assert {claim: set(parts) for claim, parts in SABOTAGES.items()} == bounds
