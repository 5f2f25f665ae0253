"""Answers of the trained layer: greedy chain of thought, and a single answer without steps (Li et al., ICLR 2025).

Chain of thought asks for step k with what step k - 1 answered, and answers the TSR pattern that minimises
|F - beta mu'|^2 / 2. All queries, lengths and settings are decoded at once without forming a prompt.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from icl.core.lazy import lazy
from icl.core.streams import stream
from icl.models.optimisers import Params
from icl.papers.li2025 import prompts
from icl.papers.li2025.chains import permutations
from icl.papers.li2025.columns import column_scale
from icl.papers.li2025.one_layer import SYSTEM, Config, Test

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = lazy("torch")

CHUNK = 50
"""Queries that are decoded at a time: as many as fit into a cache."""


def draw_test(config: Config, test: Test, queries: int | None = None) -> prompts.Draw:
    """The randomness of one run's test prompts; `queries` are those of the test unless given.

    Raises ConstantError if the test has another chain length than the training, or more patterns than their span.
    """
    if config.chain_length != test.chain_length:
        raise test.error("chain_length", f"that of the training, {config.chain_length}")
    if config.relevant_patterns < test.specific_patterns:
        raise test.error("specific_patterns", f"at most M = {config.relevant_patterns}, the dimension of their span")
    n, length, k = queries or test.queries, test.context_length_test, config.chain_length
    m, specific = config.relevant_patterns, test.specific_patterns
    rng = stream(SYSTEM, config.seed, "evaluate")
    noise = prompts.bounded_noise(rng, (n, length * (k + 1) + 1, m), test.noise)
    patterns = prompts.PATTERNS[test.pattern_law](rng, specific, m)
    uniform, start = rng.random((n, length, k + 1)), rng.integers(specific, size=n)
    names = permutations(rng.integers(2**64, size=(n, k + 1, specific), dtype=np.uint64))
    # Drawn last, so that everything else is the same for all laws.
    noise *= prompts.noise_sizes(test.noise_law, rng, noise.shape[:2], m)[..., None]
    contexts = noise[:, 1:].reshape(n, length, k + 1, m)
    return prompts.Draw(patterns, contexts, noise[:, 0] * np.float32(test.query_noise), uniform, start, names)


def cot_wrong(
    params: Params, configs: Sequence[Config], test: Test, settings: Sequence[prompts.Setting], lengths: Sequence[int]
) -> np.ndarray:
    """Share of the K steps that greedy chain of thought gets wrong, mean_k 1[v_k != z_k]: (settings, lengths, runs,
    queries).

    Step k asks with what step k - 1 answered and answers the TSR pattern next to F; the column of step k then joins the
    prompt. All lengths are prefixes of one context, so that its columns are read once.
    """
    return _decoded(_cot, params, configs, test, settings, lengths)


def icl_wrong(
    params: Params, configs: Sequence[Config], test: Test, settings: Sequence[prompts.Setting], lengths: Sequence[int]
) -> np.ndarray:
    """Whether the one answer to prompts of the columns (z_0; z_K) is other than f(z_query), as 0 or 1: (settings,
    lengths, runs, queries). Every column stands at the first step.
    """
    return _decoded(_icl, params, configs, test, settings, lengths)


def _decoded(answer: "Answer", params: Params, configs: Sequence[Config], test: Test,
             settings: Sequence[prompts.Setting], lengths: Sequence[int]) -> np.ndarray:  # fmt: skip
    if configs[0].layers != 1 or configs[0].heads != 1:
        raise ValueError("decoding is written for one layer with one head: layers and heads must both be 1")
    if max(lengths) > test.context_length_test or min(lengths) < 0:
        raise ValueError(f"lengths {list(lengths)}: must lie between 0 and l_ts = {test.context_length_test}")
    out = np.empty((len(settings), len(lengths), len(configs), test.queries))
    for run, config in enumerate(configs):
        drawn = draw_test(config, test)
        layer = _TrainedLayer(params, run, config, drawn.patterns)
        for begin in range(0, test.queries, CHUNK):
            which = slice(begin, begin + CHUNK)
            for index, setting in enumerate(settings):
                out[index, :, run, which] = answer(layer, prompts.assemble(drawn, setting, which), lengths)
    return out


class _TrainedLayer:
    """The trained layer as it acts on columns: scores for a query, and what each column says for each TSR pattern."""

    def __init__(self, params: Params, run: int, config: Config, patterns: np.ndarray) -> None:
        sizes = torch.from_numpy(column_scale(config))
        w_q, w_k, w_v = (params[name][run, 0, 0] * sizes for name in ("W_Q", "W_K", "W_V"))
        self.m, self.k = config.relevant_patterns, config.chain_length
        self.product = w_q.mT @ w_k
        self.patterns = torch.from_numpy(patterns).to(w_v.dtype)
        self.said = self.patterns @ w_v  # (M', D)

    def pulls(self, query: "Tensor", step: int) -> "Tensor":
        """u = W_K^T W_Q p_query, by whose products with columns they are scored: (..., M) -> (..., D)."""
        return query @ self.product[: self.m] + self.product[2 * self.m + step]

    def readouts(self, x: "Tensor", y: "Tensor", step: "Tensor | int") -> "Tensor":
        """mu'_j^T W_V p of columns (x; y) at a step, for all j: (..., M) -> (..., M')."""
        m = self.m
        return x @ self.said[:, :m].mT + y @ self.said[:, m : 2 * m].mT + self.said.T[2 * m + step]

    def read(self, vectors: "Tensor") -> "tuple[Tensor, Tensor]":
        """All vectors of a context in one row and what its columns say: (queries, l_ts, columns + 1, M) -> (queries,
        l_ts (columns + 1), M) and (queries, l_ts, columns, M').
        """
        flat = vectors.flatten(1, 2)
        m, specific = self.m, len(self.patterns)
        both = (flat @ torch.cat([self.said[:, :m], self.said[:, m : 2 * m]]).mT).reshape(*vectors.shape[:3], -1)
        places = self.said.T[2 * m : 2 * m + vectors.shape[2] - 1]
        return flat, both[:, :, :-1, :specific] + both[:, :, 1:, specific:] + places

    def sums(self, u: "Tensor", flat: "Tensor", readouts: "Tensor", lengths: Sequence[int]) -> "tuple[Tensor, Tensor]":
        """sum_i e^(score_i - top) readout_i over the first n examples for all lengths n: (pairs, lengths, M'); and top.

        u : (pairs, D); flat and readouts as from `read`, for the query of each pair

        The softmax divides this by a positive number, which does not change what is next to F.
        """
        m, (length, number) = self.m, readouts.shape[1:3]
        ends = (flat @ u[:, : 2 * m].reshape(-1, 2, m).mT).reshape(-1, length, number + 1, 2)
        scores = ends[:, :, :-1, 0] + ends[:, :, 1:, 1] + u[:, None, 2 * m : 2 * m + number]
        top = scores.amax(dim=(1, 2))
        weights = (scores - top[:, None, None]).exp()
        totals = (weights[..., None] * readouts).sum(dim=2).cumsum(dim=1)
        before = torch.nn.functional.pad(totals, (0, 0, 1, 0))
        return before[:, list(lengths)], top


Answer = Callable[[_TrainedLayer, prompts.Prompts, Sequence[int]], np.ndarray]


def _cot(layer: _TrainedLayer, shown: prompts.Prompts, lengths: Sequence[int]) -> np.ndarray:
    vectors, query = torch.from_numpy(shown.vectors), torch.from_numpy(shown.query)
    queries, specific = len(query), len(layer.patterns)
    flat, readouts = layer.read(vectors)
    asks = query.expand(len(lengths), *query.shape)  # what each length asks with, (lengths, queries, M)
    codes = torch.arange(queries).expand(len(lengths), -1) * specific
    answered: list[tuple[Tensor, Tensor]] = []  # the columns that each length has answered itself
    wrong = torch.zeros(len(lengths), queries)
    for step in range(layer.k):
        # Most lengths agree on the last answer: each different question is scored once.
        unique, pair = torch.unique(codes, return_inverse=True)
        query_of = unique // specific
        first = torch.empty_like(unique).scatter_(0, pair.flatten(), torch.arange(codes.numel()))
        u = layer.pulls(asks.flatten(0, 1)[first], step)
        totals, top = layer.sums(u, flat[query_of], readouts[query_of], lengths)
        total = totals[pair, torch.arange(len(lengths))[:, None]]
        for place, (x, y) in enumerate(answered):
            pulls = u[pair]
            score = (pulls[..., : layer.m] * x).sum(-1) + (pulls[..., layer.m : 2 * layer.m] * y).sum(-1)
            weight = (score + pulls[..., 2 * layer.m + place] - top[pair]).exp()
            total = total + weight[..., None] * layer.readouts(x, y, place)
        answer = total.argmax(dim=-1)
        wrong += answer != torch.from_numpy(shown.right[:, step + 1])
        answered.append((asks, layer.patterns[answer]))
        asks, codes = answered[-1][1], torch.arange(queries) * specific + answer
    share: np.ndarray = (wrong / layer.k).numpy()
    return share


def _icl(layer: _TrainedLayer, shown: prompts.Prompts, lengths: Sequence[int]) -> np.ndarray:
    u = layer.pulls(torch.from_numpy(shown.query), 0)
    totals, _ = layer.sums(u, *layer.read(torch.from_numpy(shown.vectors[:, :, [0, -1]])), lengths)
    answer = totals.argmax(dim=-1).mT
    wrong: np.ndarray = (answer != torch.from_numpy(shown.right[:, -1])).double().numpy()
    return wrong
