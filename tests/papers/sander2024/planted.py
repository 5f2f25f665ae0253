"""Planted violations of Sander et al.'s claims."""

import torch

from tests.papers.violations import changed, table
from tests.papers.zheng2024.planted import sound as sound
from tests.planted import Planted, Trained


def falling(runs: Trained) -> Trained:
    # By T_max, for both d.
    factor = torch.linspace(2, 1 + 1e-4, 10, dtype=torch.float64).repeat(2)[:, None]
    return {**runs, "sander_descent": changed(lambda w: factor * w)(runs["sander_descent"])}


FALLING = Planted(
    "steps are four times too large for short sequences and right for long ones", falling
)
PLANTED = table(
    "sander2024", {"least rise of the ratio": FALLING, "largest ratio to the asymptote": FALLING}
)
UNTRAINED_HOLD: dict[str, str] = {}
