"""Literal forms of the chain-of-thought model, as in the paper, one query or prompt at a time.

params : of one run, with run axis; context : vectors of the examples, (l, K + 1, M); patterns : the
    output set (M', M)
"""

from collections.abc import Sequence

import numpy as np
import torch

from icl.models.optimisers import Params
from icl.papers.li2025.one_layer import Config, attend, column_scale, columns
from icl.papers.li2025.transition_matrices import best_chains


def layer(
    params: Params, config: Config, context: torch.Tensor, chain: torch.Tensor, step: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """F (M,) and the attention of the query's column, (layers, heads, columns).

    The query is vector `step` of its chain (K + 1, M), of which the prompt has the steps before.
    """
    rows = torch.cat([context, chain[None]])[None, None]
    prompt = columns(rows, chain[None, None, step], torch.tensor([step]), [config])
    shown = prompt[:, :, [*range(len(context) * config.chain_length + step), -1]]
    output, maps = attend(params, shown, config)
    return output[0, 0], maps[0, 0]


def loss(params: Params, batch: Params, run: int, configs: Sequence[Config]) -> torch.Tensor:
    """Return the training loss of one run with all examples written out: mean over prompts of |F
    - z_k|^2 / 2.
    """
    config = configs[run]
    losses = []
    pattern = torch.eye(config.relevant_patterns, dtype=torch.float64)
    for b, states in enumerate(batch["states"][run]):
        step = b % config.chain_length
        shared = int(batch["shared"][run])
        others = states[1 : 1 + config.context_length - shared]
        examples = torch.cat([states[:1]] * shared + [others])
        assert len(examples) == config.context_length
        one = {name: w[[run]] for name, w in params.items()}
        output, _ = layer(one, config, pattern[examples], pattern[states[0]], step)
        wanted = config.pattern_norm * pattern[states[0, step + 1]]
        losses.append((output - wanted).square().sum() / 2)
    return torch.stack(losses).mean()


def greedy_chain(
    params: Params, config: Config, patterns: np.ndarray, context: np.ndarray, query: np.ndarray
) -> np.ndarray:
    """Return the K answers argmin_j |F - beta mu'_j|^2 / 2 of greedy chain of thought, with a
    new prompt each: (K,).
    """
    chain = torch.from_numpy(query).expand(config.chain_length + 1, -1).clone()
    answers = []
    for step in range(config.chain_length):
        output, _ = layer(params, config, torch.from_numpy(context), chain, step)
        answers.append(nearest(output, patterns, config))
        chain[step + 1] = torch.from_numpy(patterns[answers[-1]])
    return np.array(answers)


def single_answer(
    params: Params, config: Config, patterns: np.ndarray, context: np.ndarray, query: np.ndarray
) -> np.ndarray:
    """Return the single answer to a prompt of columns (z_0; z_K), all with step 1's code: (1,)."""
    code = np.eye(config.dimension - 2 * config.relevant_patterns)[0]
    shown = [np.concatenate([row[0], row[-1], code]) for row in context]
    prompt = np.stack([*shown, np.concatenate([query, np.zeros_like(query), code])])
    scaled = torch.from_numpy(prompt)[None, None] * column_scale([config])
    output, _ = attend(params, scaled, config)
    return np.array([nearest(output[0, 0], patterns, config)])


def nearest(output: torch.Tensor, patterns: np.ndarray, config: Config) -> int:
    distances = config.pattern_norm * torch.from_numpy(patterns) - output
    return int(distances.square().sum(dim=-1).argmin())


def path_probability(matrices: np.ndarray) -> float:
    """tau^f, the least probability of a right chain: min_i prod_k A_k(f_{k-1} ... f_1(i), f_k
    ... f_1(i)).
    """
    chains = best_chains(matrices)
    return float(
        np.prod([a[chains[:, k], chains[:, k + 1]] for k, a in enumerate(matrices)], axis=0).min()
    )


def primacy(matrices: np.ndarray) -> float:
    """rho^f, the lead of the likeliest outcome: min over steps and rows of (first - second) /
    first.
    """
    ordered = np.sort(matrices, axis=-1)
    return float((1 - ordered[..., -2] / ordered[..., -1]).min())
