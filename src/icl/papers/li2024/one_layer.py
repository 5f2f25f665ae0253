"""The one-layer model: softmax attention and a ReLU MLP for pattern classification (Li et al., ICML
2024).

    F(P) = a^T ReLU(W_O sum_i W_V p_i softmax_i((W_K p_i)^T W_Q p_query))        (talk, eq. 7)

is trained on the hinge loss max(0, 1 - z F), where z is the query's label: with Adam, as inferred
from figures 8 to 11, or with SGD, as in the theorems and as inferred from figures 14 and 27. W_Q,
W_K and W_V start at multiples of I and W_O is Gaussian, so SGD does not depend on the coordinates.
Adam does. F is computed in the pattern axes (see icl.papers.li2024.patterns).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from icl.core import folders
from icl.core.config import constant
from icl.core.lazy import Tensor, torch
from icl.core.model import Model
from icl.core.streams import random_bits, stream
from icl.models.optimisers import Optimiser, Params, adam, sgd
from icl.papers.li2024.patterns import (
    COMBINATIONS,
    FITTED,
    PatternConfig,
    PatternTest,
    axes_of,
    training_prompts,
)

NAME = "li_icl"
OPTIMISERS: dict[str, Callable[[Sequence[float]], Optimiser]] = {"sgd": sgd, "adam": adam}
QUERY_TOO = "contexts and query"


@dataclass(frozen=True)
class Config(PatternConfig):
    """Constants of the training."""

    model: ClassVar[str] = NAME

    neurons: int = constant(
        64,
        "inferred",
        "figure 14 places pruning rates 0 ... 40 % on the indices round(64 r)",
        letter="m",
        at_least=2,
        at_most=10000,
        even=True,
    )
    attention_start: float = constant(
        0.4 / 3,
        "inferred",
        "figure 8 starts at delta beta = 0.4; the talk says scaled identity",
        letter="delta",
        above=0,
    )
    value_start: float = constant(
        0.2,
        "inferred",
        "figures 10 and 11 start at delta_V std sqrt(30) = 0.022",
        letter="delta_V",
        above=0,
    )
    attended: str = constant(
        "contexts",
        "published",
        "eq. 7 of the talk sums over the contexts; its backup slides and the poster differ",
        choices=("contexts", QUERY_TOO),
    )
    output_std: float = constant(
        0.02,
        "inferred",
        "untouched rows of W_O in figure 14 have norm 0.16 = std sqrt(60)",
        letter="std W_O",
        above=0,
    )
    readout: float = constant(
        1 / 36,
        "inferred",
        "of 1/64 to 1/8, the value that fits the final magnitudes in figures 8, 10 and 11; "
        f"{FITTED}",
        letter="|a_i|",
        above=0,
    )
    readout_rate: float = constant(
        0.0,
        "inferred",
        "learning rate of a over that of the other weights; with 1 the magnitudes of figures 10 "
        f"and 11 reach only half of the published ones; {FITTED}",
        at_least=0,
    )
    optimiser: str = constant(
        "adam",
        "inferred",
        "the label rows of figure 11 end at an angle of pi/6 to q, the angle between sign(q) and a "
        "q with uniform entries: Adam follows the sign of the gradient, SGD the gradient. Figure "
        "14 asks for SGD",
        choices=tuple(OPTIMISERS),
    )
    learning_rate: float = constant(
        3e-4,
        "inferred",
        f"the magnitudes in figure 8 pass 1.1 near epoch 100, at one step per epoch; {FITTED}",
        letter="eta",
        above=0,
    )


@dataclass(frozen=True)
class Evaluation(PatternTest):
    """Constants of the evaluation."""

    combination: str = constant(
        "unit pairs",
        "inferred",
        "three orthogonal ODR patterns from six IDR patterns, of the same norm; the plotted "
        "S_1 are below sqrt(2), the largest possible value",
        letter="mu'_j",
        choices=tuple(COMBINATIONS),
    )
    drawn_seed: int = constant(
        folders.drawn_seed("li2024", "li_icl"),
        "inferred",
        "of the seeds of the verdicts, the nearest to the published figures 8 to 11: see "
        "python -m studies drawn",
        at_least=0,
    )
    strength_ratio: float = constant(
        1.0,
        "inferred",
        "bound of kappa' on test inputs over that of kappa in training: equal ones give the norms "
        "at the start of figure 8",
        letter="kappa'/kappa",
        at_least=0,
    )

    def strength(self, kappa: np.ndarray) -> np.ndarray:
        """kappa' of the test inputs, from a kappa that is uniform within its training bound."""
        return self.strength_ratio * kappa


def init(configs: Sequence[Config], device: str = "cpu") -> Params:
    """Return initial weights, float64: W_Q, W_K (runs, d, d) = delta I, W_V = delta_V I, W_O (runs,
    m, d) Gaussian, and the read-out a (runs, m): half +|a|, half -|a|, in random order; d = d_X +
    d_Y.
    """
    first, parts = configs[0], []
    d, m = first.feature_dimension + first.label_dimension, first.neurons
    for config in configs:
        rng = stream(config.model, config.seed, "init")
        parts.append(
            {
                "W_Q": config.attention_start * np.eye(d),
                "W_K": config.attention_start * np.eye(d),
                "W_V": config.value_start * np.eye(d),
                "W_O": config.output_std * rng.standard_normal((m, d)),
                "a": config.readout * rng.permutation(np.repeat([1.0, -1.0], m // 2)),
            }
        )
    return {
        name: torch.from_numpy(np.stack([part[name] for part in parts])).to(device)
        for name in parts[0]
    }


def sample(configs: Sequence[Config], step: int) -> dict[str, np.ndarray]:
    """Factors (see icl.papers.li2024.prompts.Prompts) of batch `step` of every run, (runs, B, l
    + 1) each.
    """
    first = configs[0]
    shape = (first.batch, first.context_length + 2)
    blocks = random_bits(
        first.model, [c.seed for c in configs], "train", first.batch_index(step), shape
    )
    return vars(training_prompts(configs, blocks))


def loss(params: Params, batch: Params, configs: Sequence[Config]) -> Tensor:
    """Hinge loss mean max(0, 1 - z F) of every run: (runs,)."""
    margins = batch["label"][..., -1] * logits(params, batch, configs)
    return torch.relu(1 - margins).mean(dim=-1)


def logits(params: Params, batch: Params, configs: Sequence[Config]) -> Tensor:
    """F for every prompt, (runs, B), without forming a token.

    In the pattern axes a token has three non-zero coordinates: beta at its IDR pattern, kappa at
    its IDI pattern and +-1 at q. So the scores are gathered from u = W_K^T W_Q p_query, and the
    attended context sum_i s_i p_i is a histogram over the d_X + 1 coordinates in use; W_O W_V then
    acts once per prompt instead of W_V once per token.
    """
    params = in_axes(params, configs)
    d_x, like = configs[0].feature_dimension, params["W_O"]
    beta = like.new_tensor([c.pattern_norm for c in configs])[:, None, None]
    j, k, kappa = (
        batch["pattern"],
        batch["irrelevant"] + configs[0].relevant_patterns,
        batch["strength"],
    )
    label = torch.nn.functional.pad(batch["label"][..., :-1], (0, 1))
    product = torch.bmm(params["W_Q"][..., :d_x].mT, params["W_K"][..., : d_x + 1])
    u = torch.take_along_dim(product, j[..., -1:], dim=1) * beta
    u = u + torch.take_along_dim(product, k[..., -1:], dim=1) * kappa[..., -1:]
    if configs[0].attended != QUERY_TOO:
        j, k, kappa, label = (factor[..., :-1] for factor in (j, k, kappa, label))
    scores = beta * u.gather(-1, j) + kappa * u.gather(-1, k) + label * u[..., d_x, None]
    attention = torch.softmax(scores, dim=-1)
    context = torch.zeros_like(u).scatter_add(-1, j, attention * beta)
    context = context.scatter_add(-1, k, attention * kappa)
    mean_label = (attention * label).sum(-1, keepdim=True)
    rows = torch.bmm(params["W_O"], params["W_V"][..., : d_x + 1])
    hidden = torch.relu(torch.bmm(torch.cat([context[..., :d_x], mean_label], dim=-1), rows.mT))
    return read_out(hidden, params, configs)


def read_out(hidden: Tensor, params: Params, configs: Sequence[Config]) -> Tensor:
    """a^T h for hidden (runs, prompts, m): (runs, prompts). The gradient in a is multiplied by
    readout_rate.
    """
    a = params["a"]
    a = torch.lerp(a.detach(), a, a.new_tensor([c.readout_rate for c in configs])[:, None])
    # No matrix product: with one column its summation order differs between one run and several.
    return (hidden * a[:, None]).sum(dim=-1)


def in_axes(params: Params, configs: Sequence[Any]) -> Params:
    """Return the weights in the axes of the patterns and of q: a change of coordinates on both
    sides of W_Q, W_K and W_V.

    params : of the one-layer model, or of the stack (icl.papers.li2024.stack)
    """
    axes = axes_of(configs, params["W_O"])
    turned = {name: axes.mT @ params[name] @ axes for name in ("W_Q", "W_K", "W_V")}
    turned |= {name: axes.mT @ params[name] for name in ("W_2",) if name in params}
    return {**params, **turned, "W_O": params["W_O"] @ axes}


def optimiser(configs: Sequence[Config]) -> Optimiser:
    """Return the configured optimiser, with each run's learning rate."""
    return OPTIMISERS[configs[0].optimiser]([c.learning_rate for c in configs])


MODEL = Model(NAME, Config, Evaluation, init, sample, optimiser, loss=loss)
