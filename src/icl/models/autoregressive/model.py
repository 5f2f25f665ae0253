"""The autoregressive layer for trainings; `gradient_estimator` chooses weights and gradient."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from icl.core.lazy import Tensor, torch
from icl.core.model import Model
from icl.core.streams import stream
from icl.models.autoregressive import gradients, prefix_sums
from icl.models.autoregressive.config import NAME, Config, Evaluation
from icl.models.optimisers import Optimiser, Params, sgd

__all__ = [
    "MODEL",
    "NAME",
    "Config",
    "Evaluation",
    "init",
    "is_random",
    "loss_and_gradient",
    "optimiser",
    "sample",
]


def is_random(configs: Sequence[Config]) -> bool:
    """Return whether sequences are sampled: in training, or in an evaluation with several seeds."""
    sampled = any(config.gradient_estimator.startswith("sample") for config in configs)
    return sampled or len({config.seed for config in configs}) > 1


# Weights at the start, W^KQ_32 = a_0 I and W^PV_12 = b_0 I with all else zero (Assumption 3.1),
# from a_0 and b_0, (runs,) each


def scalars(a: Tensor, b: Tensor, configs: Sequence[Config]) -> tuple[Tensor, Tensor]:
    """Return a and b, (runs,) each."""
    return a, b


def six_scalars(a: Tensor, b: Tensor, configs: Sequence[Config]) -> tuple[Tensor, Tensor]:
    """a_1 ... a_4, where a_3 is a, (runs, 4), and b_1, b_2, where b_1 is b, (runs, 2), all
    perturbed.
    """
    added = [
        c.perturbation * stream(NAME, c.seed, "perturbation").standard_normal(6) for c in configs
    ]
    six = torch.from_numpy(np.stack(added))
    six[:, 2] += a
    six[:, 4] += b
    return six[:, :4], six[:, 4:]


def blocks(a: Tensor, b: Tensor, configs: Sequence[Config]) -> tuple[Tensor, Tensor]:
    """Return the matrices A and B, (runs, d, d) each."""
    one = torch.eye(configs[0].dimension, dtype=torch.float64)
    return a[:, None, None] * one, b[:, None, None] * one


def all_blocks(a: Tensor, b: Tensor, configs: Sequence[Config]) -> tuple[Tensor, Tensor]:
    """Real and imaginary parts, in float32 as in the official code, of the blocks 2 and 3 of W^KQ,
    (runs, 2 d, 2 d, 2), and of the first block's rows of W^PV, (runs, d, 2 d, 2); the remaining
    entries are only multiplied by zeros.
    """
    d, runs = configs[0].dimension, len(configs)
    key_query, projection_value = torch.zeros(runs, 2 * d, 2 * d, 2), torch.zeros(runs, d, 2 * d, 2)
    key_query[:, d:, :d, 0], projection_value[:, :, :d, 0] = blocks(a, b, configs)
    return key_query, projection_value


class Estimator(NamedTuple):
    """The weights KQ and PV at the start, and the loss of every run with its gradient."""

    init: Callable[[Tensor, Tensor, Sequence[Config]], tuple[Tensor, Tensor]]
    gradient: Callable[[Params, Sequence[Config]], gradients.Gradient]


ESTIMATORS = {
    "population": Estimator(blocks, gradients.of_blocks),
    "population_diagonal": Estimator(blocks, gradients.of_diagonals),
    "population_scalar": Estimator(scalars, gradients.of_scalars),
    "population_unnormalised": Estimator(scalars, gradients.of_unnormalised_scalars),
    "population_six_scalars": Estimator(six_scalars, gradients.of_six_scalars),
    "sample_blocks": Estimator(blocks, gradients.of_sampled_blocks),
    "sample_all_blocks": Estimator(all_blocks, prefix_sums.of_all_blocks),
}


def init(configs: Sequence[Config], device: str = "cpu") -> Params:
    """Return the weights KQ and PV at the start, in the form of the estimator."""
    a, b = torch.tensor([config.start for config in configs], dtype=torch.float64).T.contiguous()
    weights = ESTIMATORS[configs[0].gradient_estimator].init(a, b, configs)
    return {name: w.to(device) for name, w in zip(("KQ", "PV"), weights, strict=True)}


def optimiser(configs: Sequence[Config]) -> Optimiser:
    """Plain gradient descent; an epoch of the paper is one step on all sequences."""
    return sgd([config.learning_rate for config in configs])


def sample(configs: Sequence[Config], step: int) -> dict[str, np.ndarray]:
    """Return an empty batch: every step uses the same sequences, whose statistics are cached."""
    return {}


def loss_and_gradient(
    weights: Params, batch: Params, configs: Sequence[Config]
) -> gradients.Gradient:
    """L of every run, (runs,), and its gradient, shaped as `init`, by the configs' estimator."""
    return ESTIMATORS[configs[0].gradient_estimator].gradient(weights, configs)


MODEL = Model(
    NAME,
    Config,
    Evaluation,
    init,
    sample,
    optimiser,
    loss_and_gradient=loss_and_gradient,
    is_random=is_random,
)
