"""Prompts as matrices of columns, and the attention of eq. 11 on them (Li et al., ICLR 2025).

A column has D coordinates: z_{k-1} in the first M, z_k in the next M and the positional code after that. The last
column is the query's, (v_{k-1}; 0) with the code of its step.
"""

import numpy as np

from icl.core.lazy import Tensor, torch
from icl.models.optimisers import Params
from icl.papers.li2025.constants import Config


def column_scale(config: Config) -> np.ndarray:
    """Scale of each coordinate of a column: beta for patterns, |c| for codes, (D,)."""
    m = config.relevant_patterns
    return np.repeat([config.pattern_norm, config.code_norm], [2 * m, config.dimension - 2 * m])


def training_columns(states: "Tensor", query_step: "Tensor", config: Config) -> "Tensor":
    """Columns of training prompts, the query's last, without its own earlier steps.

    states : (runs, B, rows, K + 1), the TRR pattern of every z_k; query_step : (B,), the step of the query, from 0
    Returns (runs, B, rows K + 1, D).
    """
    m = config.relevant_patterns
    pattern = torch.eye(m, dtype=torch.float64, device=states.device)
    query = states[:, :, 0].gather(-1, query_step.expand(len(states), -1)[..., None])
    return columns(pattern[states], pattern[query[..., 0]], query_step, config)


def columns(chains: "Tensor", query: "Tensor", query_step: "Tensor", config: Config) -> "Tensor":
    """Columns of prompts from vectors in units of beta: (..., rows K + 1, D), the query's column last.

    chains : (..., rows, K + 1, M), one row per example; query : (..., M); query_step : (...), from 0
    """
    codes = config.dimension - 2 * config.relevant_patterns
    code = torch.eye(codes, dtype=chains.dtype, device=chains.device)
    places = code[: config.chain_length].expand(*chains.shape[:-2], -1, -1)
    shown = torch.cat([chains[..., :-1, :], chains[..., 1:, :], places], dim=-1).flatten(-3, -2)
    last = torch.cat([query, torch.zeros_like(query), code[query_step].expand(*query.shape[:-1], codes)], dim=-1)
    return torch.cat([shown, last[..., None, :]], dim=-2) * torch.from_numpy(column_scale(config))


def attend(
    params: Params, prompt: "Tensor", config: Config, log_counts: "Tensor | float" = 0.0
) -> "tuple[Tensor, Tensor]":
    """Eq. 11 as written, stacked for several layers or heads.

    prompt : (runs, B, columns, D), the query's column last
    log_counts : logarithm of the multiplicity of each column except the last, (runs, B, 1, columns - 1)

    Returns F (runs, B, M) and the attention of the query's column, (runs, B, layers, heads, columns - 1).
    """
    maps, now, added = [], prompt, prompt
    for layer in range(config.layers):
        # The last layer only outputs the query's column.
        queries, keys = now[:, :, -1:] if layer == config.layers - 1 else now, now[:, :, :-1]
        outputs, attentions = [], []
        for head in range(config.heads):
            w_q, w_k, w_v = (params[name][:, layer, head] for name in ("W_Q", "W_K", "W_V"))
            attention = torch.softmax(_apply(w_q, queries) @ _apply(w_k, keys).mT + log_counts, dim=-1)
            outputs.append(_apply(w_v, attention @ keys))
            attentions.append(attention[:, :, -1])
        added = torch.stack(outputs).sum(dim=0)
        maps.append(torch.stack(attentions, dim=2))
        if config.layers > 1:
            now = queries + added
    m = config.relevant_patterns
    output = added[:, :, -1] if config.layers == 1 else now[:, :, -1, m : 2 * m]
    return output, torch.stack(maps, dim=2)


def _apply(weights: "Tensor", vectors: "Tensor") -> "Tensor":
    """W x for all vectors of each run: (runs, e, d) and (runs, B, n, d) -> (runs, B, n, e)."""
    return torch.bmm(vectors.flatten(1, 2), weights.mT).reshape(*vectors.shape[:3], -1)
