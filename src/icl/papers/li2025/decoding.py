"""Answers of the trained layer: greedy chain of thought, and a single answer without steps (Li et
al., ICLR 2025).

Step k of the chain of thought takes the answer of step k - 1 as its query, and answers with the TSR
pattern that minimises |F - beta mu'|^2 / 2. Queries, lengths and settings are decoded together
without forming prompts.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from icl.core.lazy import Tensor, torch
from icl.core.runs import Runs
from icl.core.streams import stream
from icl.models.optimisers import Params
from icl.papers.li2025 import prompts
from icl.papers.li2025.one_layer import NAME, Config, Evaluation, column_scale

CHUNK = 50
"""Queries decoded at a time, chosen to fit into the cache."""


def draw_test(config: Config, test: Evaluation, queries: int | None = None) -> prompts.Draw:
    """Return the random draws of one run's test prompts; `queries` defaults to the number in the
    test.

    Raises ConstantError if the test's chain length differs from the training's, or if it has more
    patterns than M.
    """
    if config.chain_length != test.chain_length:
        raise test.error("chain_length", f"that of the training, {config.chain_length}")
    if config.relevant_patterns < test.specific_patterns:
        raise test.error(
            "specific_patterns",
            f"at most M = {config.relevant_patterns}, the dimension of their span",
        )
    n, length, k = queries or test.queries, test.context_length_test, config.chain_length
    m, specific = config.relevant_patterns, test.specific_patterns
    rng = stream(NAME, config.seed, "evaluate")
    noise = prompts.bounded_noise(rng, (n, length * (k + 1) + 1, m), test.noise)
    patterns = prompts.orthonormal_patterns(rng, specific, m)
    uniform, start = rng.random((n, length, k + 1)), rng.integers(specific, size=n)
    names = prompts.permutations(rng.integers(2**64, size=(n, k + 1, specific), dtype=np.uint64))
    noise *= prompts.noise_sizes(rng, noise.shape[:2])[..., None]
    contexts = noise[:, 1:].reshape(n, length, k + 1, m)
    return prompts.Draw(
        patterns, contexts, noise[:, 0] * np.float32(test.query_noise), uniform, start, names
    )


class TrainedLayer:
    """The trained layer acting on columns: scores for a query, and read-outs of each column for
    each TSR pattern.
    """

    def __init__(self, params: Params, run: int, config: Config, patterns: np.ndarray) -> None:
        w_q, w_k, w_v = (
            params[name][run, 0, 0] * column_scale([config]) for name in ("W_Q", "W_K", "W_V")
        )
        self.m, self.k = config.relevant_patterns, config.chain_length
        self.product = w_q.mT @ w_k
        self.patterns = torch.from_numpy(patterns).to(w_v.dtype)
        self.readout = self.patterns @ w_v  # (M', D)

    def pulls(self, query: Tensor, step: int) -> Tensor:
        """u = W_K^T W_Q p_query, whose products with the columns are their scores: (..., M) ->
        (..., D).
        """
        return query @ self.product[: self.m] + self.product[2 * self.m + step]

    def readouts(self, x: Tensor, y: Tensor, step: int | slice) -> Tensor:
        """mu'_j^T W_V p of columns (x; y) at a step or at several, for all j: (..., M) -> (...,
        M').
        """
        m = self.m
        return (
            x @ self.readout[:, :m].mT
            + y @ self.readout[:, m : 2 * m].mT
            + self.readout.T[2 * m :][step]
        )

    def sums(
        self, u: Tensor, vectors: Tensor, readouts: Tensor, lengths: Sequence[int]
    ) -> tuple[Tensor, Tensor]:
        """sum_i e^(score_i - top) readout_i over the first n examples for all lengths n, (pairs,
        lengths, M'), and top.

        u : (pairs, D); vectors : (pairs, l_ts, columns + 1, M); readouts : of their columns,
            (pairs, l_ts, columns, M')
        lengths : in ascending order

        The softmax divides the sum by a positive number, which does not change the closest pattern.
        """
        m, (length, number) = self.m, readouts.shape[1:3]
        # Scores of every vector as the upper and as the lower half of a column.
        halves = (vectors.flatten(1, 2) @ u[:, : 2 * m].reshape(-1, 2, m).mT).reshape(
            -1, length, number + 1, 2
        )
        scores = halves[:, :, :-1, 0] + halves[:, :, 1:, 1] + u[:, None, 2 * m : 2 * m + number]
        top = scores.amax(dim=(1, 2))
        weights = (scores - top[:, None, None]).exp()
        between = [
            torch.bmm(
                weights[:, begin:end].flatten(1)[:, None], readouts[:, begin:end].flatten(1, 2)
            )
            for begin, end in pairwise((0, *lengths))
        ]
        return torch.cat(between, dim=1).cumsum(dim=1), top


def chain_of_thought(
    layer: TrainedLayer, shown: prompts.Prompts, lengths: Sequence[int]
) -> np.ndarray:
    """Fraction of the K steps that greedy chain of thought gets wrong, mean_k 1[v_k != z_k]:
    (lengths, queries).

    The column of each answered step is appended to the prompt.
    """
    vectors, query = torch.from_numpy(shown.vectors), torch.from_numpy(shown.query)
    queries, specific = len(query), len(layer.patterns)
    readouts = layer.readouts(vectors[:, :, :-1], vectors[:, :, 1:], slice(layer.k))
    current = query.expand(len(lengths), *query.shape)  # query of this step, (lengths, queries, M)
    codes = torch.arange(queries).expand(len(lengths), -1) * specific
    answered: list[tuple[Tensor, Tensor]] = []  # the columns of the earlier answers
    wrong = torch.zeros(len(lengths), queries)
    for step in range(layer.k):
        # Most lengths agree on the last answer, so each distinct query is scored once.
        unique, pair = torch.unique(codes, return_inverse=True)
        query_of = unique // specific
        first = torch.empty_like(unique).scatter_(0, pair.flatten(), torch.arange(codes.numel()))
        u = layer.pulls(current.flatten(0, 1)[first], step)
        totals, top = layer.sums(u, vectors[query_of], readouts[query_of], lengths)
        total = totals[pair, torch.arange(len(lengths))[:, None]]
        for earlier, (x, y) in enumerate(answered):
            pulls = u[pair]
            score = (pulls[..., : layer.m] * x).sum(-1) + (
                pulls[..., layer.m : 2 * layer.m] * y
            ).sum(-1)
            weight = (score + pulls[..., 2 * layer.m + earlier] - top[pair]).exp()
            total = total + weight[..., None] * layer.readouts(x, y, earlier)
        answer = total.argmax(dim=-1)
        wrong += answer != torch.from_numpy(shown.right[:, step + 1])
        answered.append((current, layer.patterns[answer]))
        current, codes = answered[-1][1], torch.arange(queries) * specific + answer
    return (wrong / layer.k).numpy()


def single_answer(
    layer: TrainedLayer, shown: prompts.Prompts, lengths: Sequence[int]
) -> np.ndarray:
    """1 where the answer to columns (z_0; z_K) with the code of step 1 differs from f(z_query):
    (lengths, queries).
    """
    u = layer.pulls(torch.from_numpy(shown.query), 0)
    ends = torch.from_numpy(shown.vectors[:, :, [0, -1]])
    totals, _ = layer.sums(
        u, ends, layer.readouts(ends[:, :, :1], ends[:, :, 1:], slice(1)), lengths
    )
    return (totals.argmax(dim=-1).mT != torch.from_numpy(shown.right[:, -1])).double().numpy()


Answer = Callable[[TrainedLayer, prompts.Prompts, Sequence[int]], np.ndarray]


def wrong_answers(
    answer: Answer, trained: Runs, settings: Sequence[prompts.Setting], lengths: Sequence[int]
) -> np.ndarray:
    """How wrong `chain_of_thought` or `single_answer` is at the end of training, from 0 to 1:
    (settings, lengths, runs, queries).

    All lengths are prefixes of one context, so its columns are evaluated once.
    Raises ValueError for several layers or heads, and for lengths beyond l_ts.
    """
    params, configs, test = trained.last(), trained.sweep.configs, trained.sweep.test
    if configs[0].layers != 1 or configs[0].heads != 1:
        raise ValueError("decoding needs one layer with one head: layers and heads must both be 1")
    if max(lengths) > test.context_length_test:
        raise ValueError(
            f"lengths {list(lengths)}: must be at most l_ts = {test.context_length_test}"
        )
    out = np.empty((len(settings), len(lengths), len(configs), test.queries))
    for run, config in enumerate(configs):
        drawn = draw_test(config, test)
        layer = TrainedLayer(params, run, config, drawn.patterns)
        for begin in range(0, test.queries, CHUNK):
            which = slice(begin, begin + CHUNK)
            for index, setting in enumerate(settings):
                out[index, :, run, which] = answer(
                    layer, prompts.assemble(drawn, setting, which), lengths
                )
    return out
