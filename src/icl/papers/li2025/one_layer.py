"""Softmax attention trained on chains of thought (Li et al., ICLR 2025): initialisation, batches,
loss, optimiser.

    F(P) = sum_{i < len P} W_V p_i softmax_i((W_K p_i)^T W_Q p_query)   (talk, eq. 11)

Here p_i stands for p_i + c_{i mod K}. A column p = (z_{k-1}; z_k) is one step of one example, and
the last column, (v_{k-1}; 0), is the query of step k. It has D coordinates: M for each of the two
patterns, then those of the periodic positional codes c. W_Q, W_K and W_V are trained with SGD on |F
- z_k|^2 / 2. Initially W_Q and W_K are delta I and W_V copies the lower half. Rotations of the
feature space leave these weights unchanged, so the TRR patterns are beta times coordinate axes;
weights along other dimensions would never change.

Several layers or heads (`layers`, `heads`) stack the same attention with residual connections. No
column attends to the query's column, and F is the lower half of the query's column after the last
layer.
"""

from collections.abc import Sequence

import numpy as np

from icl.core.lazy import Tensor, torch
from icl.core.model import Model
from icl.core.streams import random_bits, stream
from icl.models.optimisers import Optimiser, Params, on_changed_gradients, sgd
from icl.papers.li2025 import prompts
from icl.papers.li2025.constants import Config as Config
from icl.papers.li2025.constants import Evaluation as Evaluation

NAME = "li_cot"


def init(configs: Sequence[Config], device: str = "cpu") -> Params:
    """Return initial weights, float64 (runs, layers, heads, ., D): W_Q, W_K = delta I (D rows),
    plus a Gaussian part if configured, and W_V, which copies z_k to the output (M rows) or, with
    several layers, to the lower half (D rows).
    """
    first = configs[0]
    m, d = first.relevant_patterns, first.dimension
    shape = (first.layers, first.heads, d, d)
    queries, keys, values = np.zeros((3, len(configs), *shape))
    for run, config in enumerate(configs):
        rng = stream(NAME, config.seed, "init")
        for target in (queries, keys):
            target[run] = config.attention_start * np.eye(
                d
            ) + config.start_std * rng.standard_normal(shape)
        values[run, ..., m : 2 * m, m : 2 * m] = (
            config.value_start / (first.heads * first.layers) * np.eye(m)
        )
    if first.layers == 1:
        values = values[..., m : 2 * m, :]
    weights = {"W_Q": queries, "W_K": keys, "W_V": values}
    return {
        name: torch.from_numpy(np.ascontiguousarray(w)).to(device) for name, w in weights.items()
    }


def sample(configs: Sequence[Config], step: int) -> dict[str, np.ndarray]:
    """Batch `step` of every run without repeated chains, which are equal without errors.

    ``states`` : see `prompts.training_chains`; ``shared`` : the number of examples with the query's
    chain, (runs,)
    """
    k, m, length = configs[0].chain_length, configs[0].relevant_patterns, configs[0].context_length
    shared = np.array(
        [prompts.sharing(length, config.relevant_fraction).sum() for config in configs]
    )
    shape = (configs[0].batch, length + (k + 1) * m)
    drawn = random_bits(NAME, [config.seed for config in configs], "train", step, shape)
    return {"states": prompts.training_chains(drawn, k, m, shared), "shared": shared}


def loss(params: Params, batch: Params, configs: Sequence[Config]) -> Tensor:
    """Mean |F - z_k|^2 / 2 of every run: (runs,). The query of prompt b is at step k = 1 + b mod
    K.
    """
    states = batch["states"]
    query_step = torch.arange(states.shape[1], device=states.device) % configs[0].chain_length
    query, target = (
        states[:, :, 0].gather(-1, place.expand(len(states), -1)[..., None])[..., 0]
        for place in (query_step, query_step + 1)
    )
    log_counts = _log_counts(states, batch["shared"], query_step, configs[0])
    if configs[0].layers == configs[0].heads == 1:
        output = _single_layer(params, states, query, query_step, log_counts, configs)
    else:
        pattern = torch.eye(configs[0].relevant_patterns, dtype=torch.float64, device=states.device)
        prompt = columns(pattern[states], pattern[query], query_step, configs)
        output = attend(params, prompt, configs[0], log_counts[:, :, None])[0]
    beta = torch.tensor(
        [config.pattern_norm for config in configs], dtype=output.dtype, device=output.device
    )
    # |F - beta e_z|^2 without forming e_z.
    errors = (
        output.square().sum(-1) - 2 * beta[:, None] * output.gather(-1, target[..., None])[..., 0]
    )
    return (errors.mean(dim=-1) + beta.square()) / 2


def optimiser(configs: Sequence[Config]) -> Optimiser:
    """SGD on W_Q, W_K and W_V; the learning rate of W_V is value_rate times that of the others."""
    rates = torch.tensor([config.value_rate for config in configs], dtype=torch.float64)[
        :, None, None, None, None
    ]
    return on_changed_gradients(
        sgd([config.learning_rate for config in configs]),
        lambda gradients: gradients | {"W_V": rates.to(gradients["W_V"]) * gradients["W_V"]},
    )


def column_scale(configs: Sequence[Config]) -> Tensor:
    """Scale of each coordinate of a column: beta for patterns, |c| for codes, (runs, D)."""
    m = configs[0].relevant_patterns
    return torch.tensor(
        [[c.pattern_norm] * 2 * m + [c.code_norm] * (c.dimension - 2 * m) for c in configs],
        dtype=torch.float64,
    )


def columns(chains: Tensor, query: Tensor, query_step: Tensor, configs: Sequence[Config]) -> Tensor:
    """Columns of prompts from vectors in units of beta, the query's last: (runs, B, rows K + 1, D).

    chains : (runs, B, rows, K + 1, M), one row per example; query : (runs, B, M); query_step :
        (B,), from 0
    """
    codes, k = configs[0].dimension - 2 * configs[0].relevant_patterns, configs[0].chain_length
    code = torch.eye(codes).to(chains)
    places = code[:k].expand(*chains.shape[:-2], -1, -1)
    shown = torch.cat([chains[..., :-1, :], chains[..., 1:, :], places], dim=-1).flatten(-3, -2)
    last = torch.cat(
        [query, torch.zeros_like(query), code[query_step].expand(*query.shape[:-1], codes)], dim=-1
    )
    return (
        torch.cat([shown, last[..., None, :]], dim=-2)
        * column_scale(configs).to(chains.device)[:, None, None]
    )


def attend(
    params: Params, prompt: Tensor, config: Config, log_counts: Tensor | float = 0.0
) -> tuple[Tensor, Tensor]:
    """Eq. 11 as written, stacked for several layers or heads.

    prompt : (runs, B, columns, D), the query's column last
    log_counts : logarithm of the multiplicity of each column except the last, (runs, B, 1, columns
        - 1)

    Returns F (runs, B, M) and the attention of the query's column, (runs, B, layers, heads, columns
    - 1).
    """
    maps, now, added = [], prompt, prompt
    for layer in range(config.layers):
        # The last layer only outputs the query's column.
        queries, keys = now[:, :, -1:] if layer == config.layers - 1 else now, now[:, :, :-1]
        outputs, attentions = [], []
        for head in range(config.heads):
            w_q, w_k, w_v = (params[name][:, layer, head] for name in ("W_Q", "W_K", "W_V"))
            attention = torch.softmax(
                _apply(w_q, queries) @ _apply(w_k, keys).mT + log_counts, dim=-1
            )
            outputs.append(_apply(w_v, attention @ keys))
            attentions.append(attention[:, :, -1])
        added = torch.stack(outputs).sum(dim=0)
        maps.append(torch.stack(attentions, dim=2))
        if config.layers > 1:
            now = queries + added
    m = config.relevant_patterns
    output = added[:, :, -1] if config.layers == 1 else now[:, :, -1, m : 2 * m]
    return output, torch.stack(maps, dim=2)


def _apply(weights: Tensor, vectors: Tensor) -> Tensor:
    """W x for all vectors of each run: (runs, e, d) and (runs, B, n, d) -> (runs, B, n, e)."""
    return torch.bmm(vectors.flatten(1, 2), weights.mT).reshape(*vectors.shape[:3], -1)


def _log_counts(states: Tensor, shared: Tensor, query_step: Tensor, config: Config) -> Tensor:
    """Logarithm of the multiplicity of each step of each row in the prompt: (runs, B, rows K).

    It includes the query's own earlier steps, which equal those of the examples with the same
    start.
    """
    row = torch.arange(states.shape[2], device=states.device)
    present = (row <= config.context_length - shared[:, None]).to(torch.float64)
    counts = torch.where(row == 0, shared[:, None].to(torch.float64), present)[:, None, :, None]
    answered = torch.arange(config.chain_length, device=states.device) < query_step[:, None]
    return (counts + (row == 0)[:, None] * answered[:, None]).log().flatten(2)


def _single_layer(
    params: Params,
    states: Tensor,
    query: Tensor,
    query_step: Tensor,
    log_counts: Tensor,
    configs: Sequence[Config],
) -> Tensor:
    """F of the one-layer model, (runs, B, M), without forming a column.

    A column has three non-zero coordinates, so the scores are gathered from u = W_K^T W_Q p_query,
    and the attended column is a histogram over the D coordinates, on which W_V acts once.
    """
    m, k = configs[0].relevant_patterns, configs[0].chain_length
    sizes = column_scale(configs).to(states.device)[:, None]
    w_q, w_k, w_v = (params[name][:, 0, 0] * sizes for name in ("W_Q", "W_K", "W_V"))
    product = torch.bmm(w_q.mT, w_k)  # row: coordinate of the query
    u = torch.take_along_dim(product, query[..., None], dim=1) + product[:, 2 * m + query_step]
    x, y = states[..., :-1].flatten(2), states[..., 1:].flatten(2) + m
    code = torch.arange(2 * m, 2 * m + k, device=states.device).repeat(states.shape[2]).expand_as(x)
    index = torch.cat([x, y, code], dim=-1)
    scores = u.gather(-1, index).reshape(*query.shape, 3, -1).sum(dim=-2) + log_counts
    attention = torch.softmax(scores, dim=-1)
    attended = torch.zeros_like(u).scatter_add(-1, index, attention.repeat(1, 1, 3))
    return torch.bmm(attended, w_v.mT)


MODEL = Model(NAME, Config, Evaluation, init, sample, optimiser, loss=loss)
