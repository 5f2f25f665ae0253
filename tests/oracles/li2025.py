"""Literal forms of the chain-of-thought model, one query or prompt at a time, as the paper writes them."""

from collections.abc import Sequence

import numpy as np
import torch

from icl.models.optimisers import Params
from icl.papers.li2025.columns import attend, column_scale, columns
from icl.papers.li2025.one_layer import Config


def loss(params: Params, batch: Params, run: int, configs: Sequence[Config]) -> torch.Tensor:
    """The training loss of one run with every example written out: mean over prompts of |F - z_k|^2 / 2."""
    config = configs[run]
    one, pattern = {n: w[[run]] for n, w in params.items()}, torch.eye(config.relevant_patterns, dtype=torch.float64)
    losses = []
    for b, states in enumerate(batch["states"][run]):
        step, shared = b % config.chain_length, int(batch["shared"][run])
        examples = torch.cat([states[:1]] * shared + [states[1 : 1 + config.context_length - shared]])
        assert len(examples) == config.context_length
        query, asked = pattern[states[0, step]], torch.tensor(step)
        prompt = _with_own_steps(pattern[examples], pattern[states[0]], query, asked, config)
        output, _ = attend(one, prompt[None, None], config)
        losses.append((output[0, 0] - config.pattern_norm * pattern[states[0, step + 1]]).square().sum() / 2)
    return torch.stack(losses).mean()


def greedy_chain(
    params: Params, config: Config, patterns: np.ndarray, context: np.ndarray, query: np.ndarray
) -> list[int]:
    """Greedy chain of thought for one query: the prompt is formed anew for every step.

    params : of one run, with its axis; patterns : the output set (M', M); context : (l, K + 1, M), query : (M,)
    Returns the number of the pattern that each of the K steps answers: argmin_j |F - beta mu'_j|^2 / 2.
    """
    outputs, shown = torch.from_numpy(patterns), torch.from_numpy(context)
    chain, answers = [torch.from_numpy(query)], []
    for step in range(config.chain_length):
        filled = torch.stack(chain + [chain[-1]] * (config.chain_length + 1 - len(chain)))
        prompt = _with_own_steps(shown, filled, chain[-1], torch.tensor(step), config)
        output, _ = attend(params, prompt[None, None], config)
        answers.append(_nearest(output[0, 0], outputs, config))
        chain.append(outputs[answers[-1]])
    return answers


def single_answer(params: Params, config: Config, patterns: np.ndarray, context: np.ndarray, query: np.ndarray) -> int:
    """The one answer to a prompt of columns (z_0; z_K), all with the code of step 1.

    params : of one run, with its axis; patterns : the output set (M', M); context : (l, 2, M), query : (M,)
    """
    m, length = config.relevant_patterns, len(context)
    code = torch.eye(config.dimension - 2 * m, dtype=torch.float64)[0]
    pairs = torch.cat([torch.from_numpy(context).flatten(1), code.expand(length, -1)], dim=-1)
    last = torch.cat([torch.from_numpy(query), torch.zeros(m, dtype=torch.float64), code])
    prompt = torch.cat([pairs, last[None]]) * torch.from_numpy(column_scale(config))
    output, _ = attend(params, prompt[None, None], config)
    return _nearest(output[0, 0], torch.from_numpy(patterns), config)


def leading_pattern(
    params: Params, config: Config, context: np.ndarray, chain: np.ndarray, states: np.ndarray, step: int
) -> int:
    """The TSR pattern whose columns get the most attention at a step, after the chain's steps before it.

    params : of one run, with its axis; context : (l, K + 1, M), chain : (K + 1, M)
    states : (l + 1, K + 1), the patterns of the context and of the chain
    """
    shown, own = torch.from_numpy(context), torch.from_numpy(chain)
    prompt = _with_own_steps(shown, own, own[step], torch.tensor(step), config)
    attention = attend(params, prompt[None, None], config)[1][0, 0, 0, 0]
    answers = states[:, 1:].flatten()[: len(attention)]
    return int(np.bincount(answers, attention.numpy()).argmax())


def _with_own_steps(
    context: torch.Tensor, chain: torch.Tensor, query: torch.Tensor, asked: torch.Tensor, config: Config
) -> torch.Tensor:
    """Columns of the context, of the query's own chain before the step that is asked for, and of the query."""
    full = columns(context, query, asked, config)
    own = columns(chain[None], query, asked, config)[: int(asked)]
    return torch.cat([full[:-1], own, full[-1:]])


def _nearest(output: torch.Tensor, patterns: torch.Tensor, config: Config) -> int:
    return int((config.pattern_norm * patterns - output).square().sum(dim=-1).argmin())
