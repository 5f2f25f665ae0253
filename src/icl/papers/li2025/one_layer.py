"""Softmax attention trained on chains of thought (Li et al., ICLR 2025): initialisation, batches, loss, optimiser.

    F(P) = sum_{i < len P} W_V p_i softmax_i((W_K p_i)^T W_Q p_query),   p_i + c_{i mod K} written p_i   (talk, eq. 11)

A column p = (z_{k-1}; z_k) is one step of one example, and the last column, (v_{k-1}; 0), is the query of step k. The
positional codes c are periodic. W_Q, W_K and W_V are trained with SGD on |F - z_k|^2 / 2. Initially W_Q and W_K are
delta I and W_V copies the lower half. Rotations of the feature space leave these weights unchanged, so the TRR patterns
are beta times coordinate axes (see icl.papers.li2025.columns); weights along other dimensions would never change.

Several layers or heads (`layers`, `heads`) stack the same attention with residual connections. No column attends to the
query's column, and F is the lower half of the query's column after the last layer.
"""

from collections.abc import Sequence

import numpy as np

from icl.core.lazy import Tensor, torch
from icl.core.streams import stream, words
from icl.models.optimisers import Optimiser, Params, sgd
from icl.papers.li2025 import chains
from icl.papers.li2025.columns import attend, column_scale, training_columns
from icl.papers.li2025.constants import Config as Config
from icl.papers.li2025.constants import Test as Test

SYSTEM = "li_cot"
FROZEN = ()


def init(configs: Sequence[Config], device: str = "cpu") -> Params:
    """Initial weights, float64 (runs, layers, heads, ., D): W_Q, W_K = delta I (D rows), plus a Gaussian part if
    configured, and W_V, which copies z_k to the output (M rows) or, with several layers, to the lower half (D rows).
    """
    first = configs[0]
    m, d = first.relevant_patterns, first.dimension
    shape = (first.layers, first.heads)
    queries, keys = np.empty((2, len(configs), *shape, d, d))
    values = np.zeros((len(configs), *shape, d, d))
    for run, config in enumerate(configs):
        rng = stream(SYSTEM, config.seed, "init")
        for target in (queries, keys):
            target[run] = config.attention_start * np.eye(d) + config.start_std * rng.standard_normal((*shape, d, d))
        values[run, ..., m : 2 * m, m : 2 * m] = config.value_start / (first.heads * first.layers) * np.eye(m)
    if first.layers == 1:
        values = values[..., m : 2 * m, :]
    arrays = {"W_Q": queries, "W_K": keys, "W_V": values}
    return {name: torch.from_numpy(np.ascontiguousarray(array)).to(device) for name, array in arrays.items()}


def sample(configs: Sequence[Config], step: int) -> dict[str, np.ndarray]:
    """The distinct chains (see chains.TrainingChains) of batch `step` of every run, and their multiplicities.

    ``states`` (runs, B, rows, K + 1) has the distinct chains, the query's first, and ``shared`` (runs,) the number of
    examples with the query's chain. Runs with fewer distinct chains are padded with unused rows.
    """
    first = configs[0]
    k, m, length = first.chain_length, first.relevant_patterns, first.context_length
    blocks = words(
        SYSTEM, [c.seed for c in configs], "train", step, (first.batch, chains.words_per_prompt(k, m, length))
    )
    fractions = [c.relevant_fraction for c in configs]
    if len(set(fractions)) == 1:
        batch = chains.training_chains(blocks, k, m, length, fractions[0])
        return {"states": batch.states, "shared": np.full(len(configs), batch.shared)}
    drawn = [chains.training_chains(block, k, m, length, a) for block, a in zip(blocks, fractions, strict=True)]
    rows = max(batch.states.shape[1] for batch in drawn)
    padded = [np.pad(batch.states, ((0, 0), (0, rows - batch.states.shape[1]), (0, 0))) for batch in drawn]
    return {"states": np.stack(padded), "shared": np.array([batch.shared for batch in drawn])}


def loss(params: Params, batch: Params, configs: Sequence[Config]) -> "Tensor":
    """Mean |F - z_k|^2 / 2 of every run: (runs,). The query of prompt b is at step k = 1 + b mod K."""
    states = batch["states"]
    query_step = torch.arange(states.shape[1], device=states.device) % configs[0].chain_length
    log_counts = _log_counts(states, batch["shared"], query_step, configs[0])
    if configs[0].layers == configs[0].heads == 1:
        output = _single_layer(params, states, query_step, log_counts, configs)
    else:
        prompt = torch.cat([training_columns(run[None], query_step, c) for run, c in zip(states, configs, strict=True)])
        output = attend(params, prompt, configs[0], log_counts.flatten(2)[:, :, None])[0]
    target = states[:, :, 0].gather(-1, (query_step + 1).expand(len(states), -1)[..., None])
    beta = torch.tensor([config.pattern_norm for config in configs], dtype=output.dtype, device=output.device)
    # |F - beta e_z|^2 without forming e_z.
    errors = output.square().sum(-1) - 2 * beta[:, None] * output.gather(-1, target)[..., 0]
    return (errors.mean(dim=-1) + beta.square()) / 2


def optimiser(configs: Sequence[Config]) -> Optimiser:
    """SGD on W_Q, W_K and W_V; the learning rate of W_V is value_rate times that of the others."""
    attention = sgd([c.learning_rate for c in configs])
    value = sgd([c.learning_rate * c.value_rate for c in configs])

    def update(params: Params, gradients: Params, state: Params, step: int) -> tuple[Params, Params]:
        changed, _ = attention.update({name: params[name] for name in ("W_Q", "W_K")}, gradients, state, step)
        return changed | value.update({"W_V": params["W_V"]}, gradients, state, step)[0], state

    return Optimiser(attention.init, update)


def _log_counts(states: "Tensor", shared: "Tensor", query_step: "Tensor", config: Config) -> "Tensor":
    """Logarithm of the multiplicity of each step of each row in the prompt: (runs, B, rows, K).

    It includes the query's own earlier steps, which equal those of the examples with the same start.
    """
    rows, steps = states.shape[2], config.chain_length
    row = torch.arange(rows, device=states.device)
    present = (row <= config.context_length - shared[:, None]).to(torch.float64)
    counts = torch.where(row == 0, shared[:, None].to(torch.float64), present)[:, None, :, None]
    answered = torch.arange(steps, device=states.device) < query_step[:, None]
    return (counts + (row == 0)[:, None] * answered[:, None]).log()


def _single_layer(
    params: Params, states: "Tensor", query_step: "Tensor", log_counts: "Tensor", configs: Sequence[Config]
) -> "Tensor":
    """F of the one-layer model, (runs, B, M), without forming a column.

    A column has three non-zero coordinates, so the scores are gathered from u = W_K^T W_Q p_query, and the attended
    column is a histogram over the D coordinates, on which W_V acts once.
    """
    m, k = configs[0].relevant_patterns, configs[0].chain_length
    runs, prompts = states.shape[:2]
    sizes = torch.from_numpy(np.stack([column_scale(config) for config in configs])).to(states.device)
    w_q, w_k, w_v = (params[name][:, 0, 0] * sizes[:, None] for name in ("W_Q", "W_K", "W_V"))
    product = torch.bmm(w_q.mT, w_k)  # row: coordinate of the query
    query = states[:, :, 0].gather(-1, query_step.expand(runs, -1)[..., None])[..., 0]
    u = _rows_of_runs(product, query) + product[:, 2 * m + query_step]
    x, y = states[..., :-1].flatten(2), states[..., 1:].flatten(2) + m
    code = torch.arange(k, device=states.device).repeat(states.shape[2]).expand(runs, prompts, -1) + 2 * m
    index = torch.cat([x, y, code], dim=-1)
    scores = u.gather(-1, index).reshape(runs, prompts, 3, -1).sum(dim=-2) + log_counts.flatten(2)
    attention = torch.softmax(scores, dim=-1)
    attended = torch.zeros_like(u).scatter_add(-1, index, attention.repeat(1, 1, 3))
    return torch.bmm(attended, w_v.mT)


def _rows_of_runs(matrix: "Tensor", index: "Tensor") -> "Tensor":
    """Rows of each run's matrix by index: (runs, n, d) at (runs, B) -> (runs, B, d)."""
    runs, n, d = matrix.shape
    offset = torch.arange(runs, device=index.device)[:, None] * n
    return matrix.reshape(runs * n, d).index_select(0, (index + offset).reshape(-1)).reshape(*index.shape, d)
