"""The stack: several layers of eq. 7 on top of each other (Li et al., ICML 2024, figures 21 to 26).

    h_j <- W_2 ReLU(W_O sum_i W_V h_i softmax_i((W_K h_i)^T W_Q h_j))
    F(P) = a^T ReLU(W_O sum_i W_V h_i softmax_i((W_K h_i)^T W_Q h_query))

for every column j, starting at h_j = p_j, with F(P) in the last layer. It is trained on the hinge
loss, without residual path and without normalisation. With one layer it is the one-layer model
(icl.papers.li2024.one_layer). The paper does not describe its three-layer model; the stack is
inferred from figures 21 and 22: before it learns, the published second layer attends uniformly, so
it sees nearly nothing.

F is computed exactly, but from products of weights: W_2 is never applied to a column, since the
next layer needs only (W_2^T W_K^T W_Q W_2) and (W_O W_V W_2), and the last layer is computed at the
query alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from icl.core import folders
from icl.core.config import constant
from icl.core.lazy import Tensor, torch
from icl.core.model import Model
from icl.core.streams import stream
from icl.models.optimisers import Params
from icl.papers.li2024 import one_layer
from icl.papers.li2024.one_layer import QUERY_TOO
from icl.papers.li2024.patterns import FITTED, axes_of
from icl.papers.li2024.prompts import Prompts, prompt_tokens

NAME = "li_icl_stack"


@dataclass(frozen=True)
class Config(one_layer.Config):
    """Constants of the training: those of one layer, with values of their own, and of the stack."""

    model: ClassVar[str] = NAME

    layers: int = constant(
        3, "published", "the talk, captions of figures 21 to 26", letter="L", at_least=2, at_most=20
    )
    attended: str = constant(
        QUERY_TOO,
        "inferred",
        "before it learns, layer 2 of figure 22 attends to the query's pattern with (0.8 / 2 * "
        "20 + 1) / 21 = 0.4286, uniform attention that counts the query's own column",
        choices=("contexts", QUERY_TOO),
    )
    attention_start: float = constant(
        0.2,
        "inferred",
        "figure 21 starts at log odds of 0.39 against uniform attention, so delta beta = 0.6",
        letter="delta",
        above=0,
    )
    output_std: float = constant(
        0.0115,
        "inferred",
        "figures 24 and 25 start at delta_V std sqrt(30) = 0.0126",
        letter="std W_O",
        above=0,
    )
    second_std: float = constant(
        5.0,
        "inferred",
        "of 0.01 to 10: below 3 the deeper layers often turn away from the pattern or learn "
        f"nothing, at 8 layer 1 ends below layer 2; {FITTED}",
        letter="std W_2",
        above=0,
    )
    readout: float = constant(
        3.0, "inferred", "of 0.03 to 40: above 5 fewer runs leave the plateau within 1,200 steps; "
        f"{FITTED}", letter="|a_i|", above=0,
    )  # fmt: skip
    relevant_fraction: float = constant(
        1.0,
        "inferred",
        "with the 0.8 of a secondary source layer 1 rises from the first steps and ends above 0.9, "
        f"where 0.85 is published; {FITTED}",
        letter="alpha",
        above=0,
        at_most=1,
    )
    batch: int = constant(
        32,
        "inferred",
        "of 8, 24, 32 and 64: with 8 no run leaves the plateau within 1,200 steps, with 64 the "
        f"attention jumps before epoch 500; {FITTED}",
        letter="B",
        at_least=1,
    )
    task_shifts: int = constant(
        5, "inferred", f"all 30 tasks; {FITTED}", letter="tasks / M_1", at_least=1
    )
    learning_rate: float = constant(
        1e-4,
        "inferred",
        f"attention jumps near epoch 700, at one step per epoch; {FITTED}",
        letter="eta",
        above=0,
    )


@dataclass(frozen=True)
class Evaluation(one_layer.Evaluation):
    """Constants of the evaluation."""

    relevant_fraction_test: float = constant(
        0.8,
        "inferred",
        "uniform attention of layer 2 before it learns, see attended",
        letter="alpha'",
        above=0,
        at_most=1,
    )
    noise: float = constant(
        1.0,
        "inferred",
        "layer 1 starts 0.0975 above layer 2 in figures 21 and 22; noise of 0.7, 0.85, 1 and 1.2 "
        "gives 0.091, 0.094, 0.098 and 0.105",
        letter="noise / beta",
        at_least=0,
    )
    prompts: int = constant(200, "ours", "prompts per run for the average attention", at_least=1)
    drawn_seed: int = constant(
        folders.drawn_seed("li2024", "li_icl_stack"),
        "inferred",
        "of the seeds of the verdicts, the nearest to the published figures 21, 22, 24 and 25: see "
        "python -m studies drawn",
        at_least=0,
    )


def init(configs: Sequence[Config], device: str = "cpu") -> Params:
    """Return initial weights, float64: W_Q, W_K (runs, layers, d, d) = delta I, W_V = delta_V I,
    Gaussian W_O (runs, layers, m, d) and W_2 (runs, layers - 1, d, m), and the read-out a (runs,
    m): half +|a|, half -|a|, in random order.
    """
    first, parts = configs[0], []
    layers, m, d = first.layers, first.neurons, first.feature_dimension + first.label_dimension
    identity = np.broadcast_to(np.eye(d), (layers, d, d))
    for config in configs:
        rng = stream(NAME, config.seed, "init")
        parts.append(
            {
                "W_Q": config.attention_start * identity,
                "W_K": config.attention_start * identity,
                "W_V": config.value_start * identity,
                "W_O": config.output_std * rng.standard_normal((layers, m, d)),
                "W_2": config.second_std * rng.standard_normal((layers - 1, d, m)),
                "a": config.readout * rng.permutation(np.repeat([1.0, -1.0], m // 2)),
            }
        )
    return {
        name: torch.from_numpy(np.stack([part[name] for part in parts])).to(device)
        for name in parts[0]
    }


def sample(configs: Sequence[one_layer.Config], step: int) -> dict[str, np.ndarray]:
    """Batch `step` of every run in the pattern axes: tokens (runs, B, l + 1, d_X + 1) and query
    labels (runs, B).
    """
    factors = one_layer.sample(configs, step)
    of_runs = [
        Prompts(**{name: part[run] for name, part in factors.items()})
        for run in range(len(configs))
    ]
    tokens = [
        prompt_tokens(of_run, *c.axis_patterns, np.ones(1))
        for of_run, c in zip(of_runs, configs, strict=True)
    ]
    return {"tokens": np.stack(tokens), "label": factors["label"][..., -1].copy()}


def loss(params: Params, batch: Params, configs: Sequence[Config]) -> Tensor:
    """Hinge loss mean max(0, 1 - z F) of every run: (runs,)."""
    margins = batch["label"] * forward(params, batch["tokens"], configs)[0]
    return torch.relu(1 - margins).mean(dim=-1)


def forward(
    params: Params,
    tokens: Tensor,
    configs: Sequence[one_layer.Config],
    *,
    last_layer_whole: bool = False,
) -> tuple[Tensor, list[Tensor]]:
    """F (runs, prompts), and the attention of every asking column in each layer, (runs, prompts,
    asking, columns).

    All columns ask, but in the last layer only the query, unless `last_layer_whole`.

    params : as trained; tokens : in the axes of the patterns, (runs, prompts, columns, d_X + 1)
    """
    states, attentions = tokens, []
    (runs, prompts, columns, used), layers = tokens.shape, params["W_V"].shape[1]
    attended = columns if configs[0].attended == QUERY_TOO else columns - 1
    # What maps the states of a layer to its inputs h: the axes in use as columns, and then W_2.
    inputs = axes_of(configs, params["a"][..., None])[..., :used]
    for number in range(1, layers + 1):
        now = layer(params, number)
        scores, rows = (
            (now["W_Q"] @ inputs).mT @ (now["W_K"] @ inputs),
            now["W_O"] @ (now["W_V"] @ inputs),
        )
        asking = columns if last_layer_whole or number < layers else 1
        keys, asked = states[:, :, :attended].flatten(0, 1), states[:, :, -asking:].flatten(1, 2)
        queries = torch.bmm(asked, scores).view(runs * prompts, asking, -1)
        attention = torch.softmax(torch.bmm(queries, keys.mT), dim=-1)
        mixed = torch.bmm(attention, keys).view(runs, prompts * asking, -1)
        states = torch.relu(torch.bmm(mixed, rows.mT)).view(runs, prompts, asking, -1)
        attentions.append(attention.view(runs, prompts, asking, attended))
        if number < layers:
            inputs = params["W_2"][:, number - 1]
    return one_layer.read_out(states[:, :, -1], params, configs), attentions


def layer(params: Params, number: int) -> Params:
    """Return the weights of layer `number`, counted from 1, as those of the one-layer model:
    name -> (runs, ...).
    """
    return {name: params[name][:, number - 1] for name in ("W_Q", "W_K", "W_V", "W_O")}


in_axes, optimiser = one_layer.in_axes, one_layer.optimiser


MODEL = Model(NAME, Config, Evaluation, init, sample, optimiser, loss=loss, shards=2)
