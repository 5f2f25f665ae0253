"""The trainings of pages 42 and 43 of the talk (Zheng et al.), and what papers read from them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from icl.core.config import grid
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.models.autoregressive.config import Config, Evaluation
from icl.models.autoregressive.model import MODEL

STARTS = {"0.1 0.1": (0.1, 0.1), "0.5 1.5": (0.5, 1.5), "2 2": (2.0, 2.0)}
"""a_0 and b_0 by the name of their series."""
SCALES = {"gaussian": 0.5, "sparse": 0.5, "full-one": 1.0, "signs": 0.5, "uniform": 0.5}
LEARNING_RATES = {
    "gaussian": 1e-3,
    "sparse": 3e-2,
    "full-one": 5e-4,
    "signs": 1e-2,
    "uniform": 3e-2,
}
EPOCHS = 200
CONVERGED = {"paper": 1100, "laptop": 1100, "smoke": 300}
"""The epoch at which exact descent from every start has converged to the last digit; at the smoke
scale only to about one in a thousand.
"""


def training(
    name: str, law: str, snapshots: Sequence[int], test: Evaluation | None = None, **axes: Any
) -> Sweep:
    """Trainings over all values in `axes` with the talk's constants for one law of first tokens."""
    configs = grid(
        Config, law=[law], scale=[SCALES[law]], learning_rate=[LEARNING_RATES[law]], **axes
    )
    return Sweep(name, MODEL, configs, tuple(snapshots), test or Evaluation())


def from_every_start(law: str, last: int, ending: str = "", **axes: Any) -> Sweep:
    """Trainings from all starts, with every epoch of the published figures and the `last` one."""
    snapshots = sorted({*range(EPOCHS + 1), last})
    return training(
        f"zheng_{law.replace('-', '_')}{ending}", law, snapshots, start=STARTS.values(), **axes
    )


def blocks(runs: Runs, run: int) -> tuple[np.ndarray, np.ndarray]:
    """Return W^KQ_32 and W^PV_12 of a run, (snapshots, d, d) each; a I and b I of scalars."""
    a, b = (runs.weights[name][run].numpy() for name in ("KQ", "PV"))
    one = np.eye(runs.sweep.configs[run].dimension)
    return (a, b) if a.ndim == 3 else (a[:, None, None] * one, b[:, None, None] * one)


def products(runs: Runs) -> np.ndarray:
    """ab of every run and snapshot, mean over i of W^KQ_{d+i,i} W^PV_{i,i}: (runs, snapshots)."""
    every = [blocks(runs, run) for run in range(len(runs.sweep.configs))]
    diagonals = [[np.diagonal(block, axis1=1, axis2=2) for block in pair] for pair in every]
    return np.array([(a * b).mean(axis=1) for a, b in diagonals])
