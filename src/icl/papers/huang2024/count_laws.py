"""Distribution of a prompt's counts, which turns means over all prompts into sums over few cells (Huang et al. 2024).

The output of the softmax layer depends on a prompt only through the counts of the features. For a query v_k three
counts suffice: c_k, c_1 of the dominant feature, and R, the sum of the others. Their distribution is binomial or
trinomial, so a mean over all prompts of length N is a sum over cells of counts. A Gauss rule then replaces most of the
cells; the sums agree with those over all cells to 1e-14.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np

# Cells of smaller probability are left out; in total they have less than 1e-10.
RAREST = 1e-14
# The 10 distinct products of three counts out of c_k, c_1 and R (the sum of the others), as triples of 0, 1 and 2.
TRIPLES = tuple(combinations_with_replacement(range(3), 3))


class PromptLaw(NamedTuple):
    """Distribution of the prompts: K features, p_1 of the first, and N (None: the limit of long prompts)."""

    features: int
    dominant: float
    context_length: int | None


@dataclass(frozen=True)
class Cells:
    """Distribution of the counts that matter for a query v_k, one cell per outcome.

    counts : c_k, c_1 and the sum of the others, (3, cells); squares : expected sum of squares of the other counts,
    given the cell, (cells,); weight : probability of the cell, (cells,); others : number of other features
    """

    counts: np.ndarray
    squares: np.ndarray
    weight: np.ndarray
    others: int

    @cached_property
    def cubes(self) -> np.ndarray:
        """Probability times each product of three counts, and times squares * count: (cells, 13)."""
        products = [self.counts[list(triple)].prod(axis=0) for triple in TRIPLES]
        return (self.weight * np.stack([*products, *(self.squares * self.counts)])).T


def dominant_cells(features: int, dominant: float, context_length: int) -> Cells:
    """Cells for the query v_1: its count is binomial, and N - c_1 is spread evenly over K - 1 features. No other
    feature is dominant, so the second count is zero.
    """
    weight = _binomial(context_length, dominant)
    count = np.flatnonzero(weight > RAREST).astype(float)
    return _cells(np.stack([count, 0 * count, context_length - count]), weight[weight > RAREST], features - 1)


def rare_cells(features: int, dominant: float, context_length: int) -> Cells:
    """Cells for a query v_k, k > 1: (c_k, c_1) is trinomial, and the rest is spread evenly over K - 2 features."""
    n, p_1, p_k = context_length, dominant, (1 - dominant) / (features - 1)
    k, one = (np.flatnonzero(_binomial(n, p) > RAREST / 100) for p in (p_k, p_1))
    k, one = (grid.reshape(-1) for grid in np.meshgrid(k, one, indexing="ij"))
    k, one = k[k + one <= n], one[k + one <= n]
    log, rest, p_rest = _log_factorials(n), n - k - one, 1 - p_1 - p_k
    weight = np.exp(
        log[n] - log[k] - log[one] - log[rest] + k * np.log(p_k) + one * np.log(p_1) + rest * np.log(p_rest)
    )
    likely = weight > RAREST
    return _cells(np.stack([k, one, rest])[:, likely] * 1.0, weight[likely], features - 2)


@lru_cache(maxsize=64)
def cells_of(law: PromptLaw) -> tuple[Cells, Cells]:
    """Cells for the query v_1 and for any other query v_k; one cell each in the limit of long prompts."""
    features, dominant, context_length = law
    if context_length is None:
        return mean_field_cells(features, dominant)
    first = condensed(dominant_cells(features, dominant, context_length))
    return first, condensed(rare_cells(features, dominant, context_length))


# Nodes of the Gauss rules of `condensed`; 8 are enough for an agreement of 1e-14.
NODES = 10


def condensed(cells: Cells) -> Cells:
    """Fewer cells with the same sums: for each c_k, the nodes of a Gauss rule replace the values of c_1.

    A rule with m nodes is exact for polynomials in c_1 of degree 2 m - 1. The summands have Z^3 in the denominator,
    where Z = c . e^q is linear in c_1 and vanishes only outside the range of the counts. So the rule is used only where
    c_1 is never near 0, and the small count c_k keeps all its values.
    """
    c_k, c_1 = cells.counts[:2]
    if c_1.any():
        groups = [cells.counts[:2, c_k == count] for count in np.unique(c_k)]
        weights = [cells.weight[c_k == count] for count in np.unique(c_k)]
    else:
        # For the query v_1, its own count is condensed.
        groups, weights = [cells.counts[1::-1]], [cells.weight]
    pairs = [_condensed(group, weight) for group, weight in zip(groups, weights, strict=True)]
    counts, weight = np.concatenate([p for p, _ in pairs], axis=1), np.concatenate([w for _, w in pairs])
    counts = counts if c_1.any() else counts[::-1]
    rest = cells.counts.sum(axis=0)[0] - counts.sum(axis=0)
    return _cells(np.stack([*counts, rest]), weight, cells.others)


def _condensed(counts: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Counts (2, cells) and weights (cells,), with the nodes of a Gauss rule in the second row if it is applicable."""
    varying = counts[1]
    near_zero = varying.min() < np.average(varying, weights=weight) / 3
    if len(varying) <= NODES or near_zero:
        return counts, weight
    points, weight = gauss_rule(varying, weight, NODES)
    return np.stack([np.full(NODES, counts[0, 0]), points]), weight


def gauss_rule(points: np.ndarray, weight: np.ndarray, nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss rule of a discrete distribution: nodes and weights, (nodes,) each, with the same first 2 nodes - 1 moments.

    The three-term recurrence of the orthonormal polynomials gives a tridiagonal matrix. Its eigenvalues are the nodes,
    and the squared first entries of its eigenvectors give the weights (Golub and Welsch 1969).

    points : more than `nodes` distinct values
    """
    centre = np.average(points, weights=weight)
    width = np.sqrt(np.average((points - centre) ** 2, weights=weight))
    y = (points - centre) / width
    diagonal, off_diagonal = np.zeros(nodes), np.zeros(nodes)
    before, now = np.zeros_like(y), np.full_like(y, weight.sum() ** -0.5)
    for j in range(nodes):
        diagonal[j] = weight @ (y * now**2)
        # At j = 0, off_diagonal[-1] is still zero.
        after = (y - diagonal[j]) * now - off_diagonal[j - 1] * before
        off_diagonal[j] = np.sqrt(weight @ after**2)
        before, now = now, after / off_diagonal[j]
    values, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(off_diagonal[:-1], 1) + np.diag(off_diagonal[:-1], -1))
    return centre + width * values, weight.sum() * vectors[0] ** 2


def mean_field_cells(features: int, dominant: float) -> tuple[Cells, Cells]:
    """The cells of both queries for N -> infinity, where c_n / N = p_n: one cell each."""
    p_k, one = (1 - dominant) / (features - 1), np.ones(1)
    first, other = features - 1, features - 2
    return (
        Cells(np.array([[dominant], [0.0], [first * p_k]]), first * p_k**2 * one, one, first),
        Cells(np.array([[p_k], [dominant], [other * p_k]]), other * p_k**2 * one, one, other),
    )


def _cells(counts: np.ndarray, weight: np.ndarray, others: int) -> Cells:
    # Given R, the other counts are multinomial with q = 1/others each, so E sum c^2 = R (1 - q) + R^2 q.
    q, rest = 1 / others, counts[2]
    return Cells(np.ascontiguousarray(counts), rest * (1 - q) + rest**2 * q, weight, others)


def _binomial(n: int, p: float) -> np.ndarray:
    log, k = _log_factorials(n), np.arange(n + 1)
    return np.exp(log[n] - log[k] - log[n - k] + k * np.log(p) + (n - k) * np.log1p(-p))


def _log_factorials(n: int) -> np.ndarray:
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])
