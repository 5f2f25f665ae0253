"""Trainings of the published transformers, with full B, C and A in every layer and normalised steps."""

from collections.abc import Mapping

import numpy as np

from icl.core.config import grid
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.papers.cheng2024 import evaluation, scalar_oracle
from icl.papers.cheng2024 import kernel_attention as system
from icl.papers.cheng2024.kernel_attention import Config
from icl.papers.cheng2024.scalar_oracle import SEEDS, Point, log_loss, point_of

PROMPTS = {"paper": 30000, "laptop": 256, "smoke": 4}
STEPS = {"paper": 40000, "laptop": 600, "smoke": 2}
RESAMPLE = {"paper": 10, "laptop": 2, "smoke": 2}
"""Steps on the same prompts."""
Method = tuple[str, float, int]
PUBLISHED: Method = ("normalised", 0.1, 0)
"""Optimiser, learning rate and steps between its halvings; the published rate is constant."""
# Short trainings were chosen on the seeds 100 to 102: at L = 3 and n = 14 softmax then ends at most 0.06 above the
# scalar oracle on labels with an exp or relu kernel, 0.2 with normalised steps.
SHORT: Mapping[tuple[str, ...], Method] = {
    ("linear", "relu"): ("normalised", 6.0, 150),
    ("exp",): ("normalised", 6.0, 150),
    ("softmax",): ("directions", 0.1, 100),
}
SHORT_OF_HEADS: Method = ("normalised", 12.0, 150)
"""For the models with a linear and an exp head, and for single heads on mixed labels."""
LAWS = ("linear", "relu", "half_exp")
DEPTHS, LENGTHS = (1, 3, 5), (2, 6, 10, 14)


def sweep(
    name: str, kernels: tuple[str, ...], laws: tuple[str, ...], layers: tuple[int, ...], lengths: tuple[int, ...],
    scale: str,
) -> Sweep:  # fmt: skip
    """Return the training of transformers with these nonlinearities on labels with these kernels."""
    optimiser, rate, halving = PUBLISHED if scale == "paper" else SHORT.get(kernels, SHORT_OF_HEADS)
    configs = grid(
        Config, kernel=kernels, labels=laws, layers=layers, context_length=lengths, parametrisation=["matrices"],
        covariates=[True], optimiser=[optimiser], learning_rate=[rate], halving=[halving], prompts=[PROMPTS[scale]],
        resample=[RESAMPLE[scale]], seed=SEEDS[scale],
    )  # fmt: skip
    test = system.Test(prompts_test=scalar_oracle.TESTED[scale])
    return Sweep(f"cheng_trained_{name}", system.SYSTEM, configs, (0, STEPS[scale]), test)


def over_length_and_depth(kernels: tuple[str, ...], scale: str) -> list[Sweep]:
    """Return the trainings of three layers over n, and of the other depths at n = 6 and 14."""
    others = tuple(depth for depth in DEPTHS if depth != 3)
    return [
        sweep(f"by_length_{kernels[0]}", kernels, LAWS, (3,), LENGTHS, scale),
        sweep(f"by_depth_{kernels[0]}", kernels, LAWS, others, (6, 14), scale),
    ]


def losses(runs: Mapping[str, Runs]) -> dict[Point, float]:
    """Return log losses of the trained transformers on fresh prompts; NaN where a training has diverged."""
    pairs = [(trained, run) for trained in runs.values() for run in range(len(trained.sweep.configs))]
    ordered = sorted(pairs, key=lambda pair: system.place(pair[0].sweep.configs[pair[1]]))
    return {point_of(trained.sweep.configs[run]): _tested(trained, run) for trained, run in ordered}


def counted(losses: Mapping[Point, float], count: int) -> dict[Point, float]:
    """Return the log losses with diverged trainings counted as untrained, with the loss of the prediction 0."""
    return {
        point: scalar_oracle.untrained(point.labels, point.context_length, point.seed, count)
        if np.isnan(loss)
        else loss
        for point, loss in losses.items()
    }


def _tested(trained: Runs, run: int) -> float:
    config = trained.sweep.configs[run]
    weights = system.weights_of(trained.last(), run, config)
    return log_loss(evaluation.errors(weights, config, trained.sweep.test.prompts_test).mean())
