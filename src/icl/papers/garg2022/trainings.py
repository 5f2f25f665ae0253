"""The training that all figures of Garg et al. share."""

from typing import Any

from icl.core.config import grid
from icl.core.sweep import Sweep
from icl.papers.garg2022 import gpt2

SEEDS = {"paper": 10, "laptop": 5, "smoke": 2}
# Reduced constants. At d = 5 the small model needs no curriculum, tolerates a larger, falling learning rate, and needs
# a different initialisation (see the sources of learning_rate and start).
CONSTANTS: dict[str, dict[str, Any]] = {
    "paper": {},
    "laptop": {
        "dimension": 5, "points": 11, "layers": 6, "heads": 4, "width": 64, "start": "linear",
        "first_dimension": 5, "first_points": 11, "learning_rate": 3e-3, "schedule": "cosine", "warm_up": 500,
        "clip_norm": 1.0, "steps": 7000,
    },
    "smoke": {
        "dimension": 5, "points": 11, "layers": 2, "heads": 2, "width": 16, "first_dimension": 2, "first_points": 5,
        "every": 5, "learning_rate": 3e-3, "steps": 20, "batch": 8,
    },
}  # fmt: skip
PROMPTS = {"paper": 1280, "laptop": 1280, "smoke": 20}


def sweep(scale: str) -> Sweep:
    """Return the training that all figures share; only its final weights are stored."""
    axes = {name: [value] for name, value in CONSTANTS[scale].items()}
    configs = grid(gpt2.Config, **axes, seed=range(SEEDS[scale]))
    return Sweep(
        name="garg",
        system="garg_gpt2",
        configs=configs,
        snapshots=(configs[0].steps,),
        test=gpt2.Test(prompts=PROMPTS[scale]),
    )
