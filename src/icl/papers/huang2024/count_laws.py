"""The law of a prompt's counts, by which means over all prompts become sums over a few cells (Huang et al. 2024).

The softmax layer needs of a prompt only how often each feature occurs. For a query on v_k it is enough to know three
counts: c_k, c_1 of the dominant feature, and R, the sum of the others. Their law is binomial or trinomial, so that a
mean over all prompts of length N is a sum over cells of counts. A Gauss rule then replaces most of the cells; sums over
the fewer cells agree with those over all to 1e-14.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np

# Cells of counts that are rarer are left out; together they weigh less than 1e-10.
RAREST = 1e-14
# The products of three counts out of c_k, c_1 and R (the sum of the others), each once: 10 triples of 0, 1 and 2.
TRIPLES = tuple(combinations_with_replacement(range(3), 3))


class PromptLaw(NamedTuple):
    """The law of the prompts: K features, p_1 of the first of them, and N; None for the limit of long prompts."""

    features: int
    dominant: float
    context_length: int | None


@dataclass(frozen=True)
class Cells:
    """The law of what one query feature k needs to know of a prompt's counts, one cell per outcome.

    counts : c_k, c_1 and the sum of the others, (3, cells); squares : the expected sum of the others' squares given
    the cell, (cells,); weight : the cell's probability, (cells,); others : how many features are the others
    """

    counts: np.ndarray
    squares: np.ndarray
    weight: np.ndarray
    others: int

    @cached_property
    def cubes(self) -> np.ndarray:
        """Probability times the product of three counts, for every triple, and times squares * count: (cells, 13)."""
        products = [self.counts[list(triple)].prod(axis=0) for triple in TRIPLES]
        return (self.weight * np.stack([*products, *(self.squares * self.counts)])).T


def dominant_cells(features: int, dominant: float, context_length: int) -> Cells:
    """For the query v_1: c_1 is binomial, and N - c_1 is shared equally by K - 1 features. No second feature stands
    out, so that c_1 has no entry of its own.
    """
    weight = _binomial(context_length, dominant)
    kept = np.flatnonzero(weight > RAREST).astype(float)
    return _cells(np.stack([kept, 0 * kept, context_length - kept]), weight[weight > RAREST], features - 1)


def rare_cells(features: int, dominant: float, context_length: int) -> Cells:
    """For the query v_k, k > 1: (c_k, c_1) is trinomial, and the rest is shared equally by K - 2 features."""
    n, p_1, p_k = context_length, dominant, (1 - dominant) / (features - 1)
    k, one = (np.flatnonzero(_binomial(n, p) > RAREST / 100) for p in (p_k, p_1))
    k, one = (grid.reshape(-1) for grid in np.meshgrid(k, one, indexing="ij"))
    k, one = k[k + one <= n], one[k + one <= n]
    log, rest, p_rest = _log_factorials(n), n - k - one, 1 - p_1 - p_k
    weight = np.exp(
        log[n] - log[k] - log[one] - log[rest] + k * np.log(p_k) + one * np.log(p_1) + rest * np.log(p_rest)
    )
    kept = weight > RAREST
    return _cells(np.stack([k, one, rest])[:, kept] * 1.0, weight[kept], features - 2)


@lru_cache(maxsize=64)
def cells_of(law: PromptLaw) -> tuple[Cells, Cells]:
    """The cells for the query v_1 and for any other query v_k; one cell each in the limit of long prompts."""
    features, dominant, context_length = law
    if context_length is None:
        return mean_field_cells(features, dominant)
    first = condensed(dominant_cells(features, dominant, context_length))
    return first, condensed(rare_cells(features, dominant, context_length))


# Points of the rules of `condensed`: with 8 already, sums agree with those over all cells to 1e-14.
NODES = 10


def condensed(cells: Cells) -> Cells:
    """Fewer cells with the same sums: for each c_k, the values of c_1 become the points of their Gauss rule.

    A rule of m points sums polynomials in c_1 of degree 2 m - 1 without error. What is summed has Z^3 in its
    denominator, Z = c . e^q, which vanishes only where Z, linear in c_1, leaves the range of the counts. So a rule
    stands for c_1 only where c_1 is never near 0, and the count that is small, c_k, keeps all its values.
    """
    c_k, c_1 = cells.counts[:2]
    if c_1.any():
        groups = [cells.counts[:2, c_k == count] for count in np.unique(c_k)]
        weights = [cells.weight[c_k == count] for count in np.unique(c_k)]
    else:
        # The query v_1: its own count is the one to condense.
        groups, weights = [cells.counts[1::-1]], [cells.weight]
    pairs = [_condensed(group, weight) for group, weight in zip(groups, weights, strict=True)]
    kept, weight = np.concatenate([p for p, _ in pairs], axis=1), np.concatenate([w for _, w in pairs])
    kept = kept if c_1.any() else kept[::-1]
    rest = cells.counts.sum(axis=0)[0] - kept.sum(axis=0)
    return _cells(np.stack([*kept, rest]), weight, cells.others)


def _condensed(counts: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(2, cells) and (cells,) with the second row replaced by the points of its Gauss rule, where that helps."""
    varying = counts[1]
    near_zero = varying.min() < np.average(varying, weights=weight) / 3
    if len(varying) <= NODES or near_zero:
        return counts, weight
    points, weight = gauss_rule(varying, weight, NODES)
    return np.stack([np.full(NODES, counts[0, 0]), points]), weight


def gauss_rule(points: np.ndarray, weight: np.ndarray, nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """The Gauss rule of a discrete law: nodes and weights, (nodes,) each, that keep its first 2 nodes - 1 moments.

    The three-term recurrence of the law's orthonormal polynomials gives a tridiagonal matrix, whose eigenvalues are
    the nodes and whose eigenvectors' first entries, squared, the weights (Golub and Welsch 1969).

    points : more than `nodes` different ones
    """
    centre = np.average(points, weights=weight)
    width = np.sqrt(np.average((points - centre) ** 2, weights=weight))
    y = (points - centre) / width
    diagonal, beside = np.zeros(nodes), np.zeros(nodes)
    before, now = np.zeros_like(y), np.full_like(y, weight.sum() ** -0.5)
    for j in range(nodes):
        diagonal[j] = weight @ (y * now**2)
        # For j = 0 the last entry is still zero.
        after = (y - diagonal[j]) * now - beside[j - 1] * before
        beside[j] = np.sqrt(weight @ after**2)
        before, now = now, after / beside[j]
    values, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(beside[:-1], 1) + np.diag(beside[:-1], -1))
    return centre + width * values, weight.sum() * vectors[0] ** 2


def mean_field_cells(features: int, dominant: float) -> tuple[Cells, Cells]:
    """The two laws above for N -> infinity, where c_n / N = p_n: one cell each."""
    p_k, one = (1 - dominant) / (features - 1), np.ones(1)
    first, other = features - 1, features - 2
    return (
        Cells(np.array([[dominant], [0.0], [first * p_k]]), first * p_k**2 * one, one, first),
        Cells(np.array([[p_k], [dominant], [other * p_k]]), other * p_k**2 * one, one, other),
    )


def _cells(counts: np.ndarray, weight: np.ndarray, others: int) -> Cells:
    # Given their sum R, the others are multinomial with probability q = 1/others each: E sum c^2 = R (1 - q) + R^2 q.
    q, rest = 1 / others, counts[2]
    return Cells(np.ascontiguousarray(counts), rest * (1 - q) + rest**2 * q, weight, others)


def _binomial(n: int, p: float) -> np.ndarray:
    log, k = _log_factorials(n), np.arange(n + 1)
    return np.exp(log[n] - log[k] - log[n - k] + k * np.log(p) + (n - k) * np.log1p(-p))


def _log_factorials(n: int) -> np.ndarray:
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])
