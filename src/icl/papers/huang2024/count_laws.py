"""The law of a prompt's counts, which turns means over all prompts into sums over few cells (Huang
et al. 2024).

The output of the softmax layer depends on a prompt only through the counts of the features. For a
query v_k three counts suffice: c_k, c_1 of the dominant feature, and the sum of the others. A mean
over all prompts of length N is a sum over cells of these counts. The nodes of a Gauss rule replace
most values of c_1; the sums agree to 1e-12.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

# Cells of smaller probability are left out; in total they have less than 1e-11.
RAREST = 1e-14
# Nodes of a Gauss rule; 8 are enough for an agreement of 1e-12.
NODES = 10


class PromptLaw(NamedTuple):
    """Law of the prompts: K features, p_1 of the first, and N (None: the limit of long prompts)."""

    features: int
    dominant: float
    context_length: int | None

    @property
    def rare(self) -> float:
        """p_k of each other feature."""
        return (1 - self.dominant) / (self.features - 1)


class Cells(NamedTuple):
    """Law of the counts that matter for a query v_k, one cell per outcome.

    counts : c_k, c_1 and the sum of the others, (3, cells); squares : expected sum of squares of
    the other counts, given the cell, (cells,); weight : probability of the cell, (cells,); others :
    number of other features
    """

    counts: np.ndarray
    squares: np.ndarray
    weight: np.ndarray
    others: int


@lru_cache(maxsize=64)
def cells_of(law: PromptLaw) -> tuple[Cells, Cells]:
    """Cells for the query v_1, where c_1 is the first count and the second is zero, and for any
    other query v_k.

    In the limit of long prompts there is one cell each, and its counts are c_n / N = p_n.
    """
    n, p_1, p_k = law.context_length, law.dominant, law.rare
    if n is None:
        first, other = (
            Cells(
                np.array([[own], [dominant], [others * p_k]]),
                np.array([others * p_k**2]),
                np.ones(1),
                others,
            )
            for own, dominant, others in (
                (p_1, 0.0, law.features - 1),
                (p_k, p_1, law.features - 2),
            )
        )
        return first, other
    c_1, weight = binomial_rule(n, p_1)
    first = _cells(c_1, 0 * c_1, n, weight, law.features - 1)
    groups = []
    for c_k, chance in zip(*binomial(n, p_k), strict=True):
        c_1, weight = binomial_rule(n - int(c_k), p_1 / (1 - p_k))  # the law of c_1 given c_k
        groups.append(np.broadcast_arrays(c_k, c_1, chance * weight))
    c_k, c_1, weight = np.concatenate(groups, axis=1)
    likely = weight > RAREST
    return first, _cells(c_k[likely], c_1[likely], n, weight[likely], law.features - 2)


def _cells(own: np.ndarray, dominant: np.ndarray, n: int, weight: np.ndarray, others: int) -> Cells:
    # The other counts are multinomial with q = 1 / others each, so E sum c^2 = R (1 - q) + R^2 q
    # for their sum R.
    q, rest = 1 / others, n - own - dominant
    return Cells(np.stack([own, dominant, rest]), rest * (1 - q) + rest**2 * q, weight, others)


def binomial(n: int, p: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the likely values of a binomial variable and their probabilities, (values,) each."""
    from scipy import stats

    probability = stats.binom.pmf(np.arange(n + 1), n, p)
    values = np.flatnonzero(probability > RAREST)
    return values.astype(float), probability[values]


def binomial_rule(n: int, p: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights, (nodes,) each, that replace the values of a binomial variable c in sums
    over cells.

    A Gauss rule with m nodes is exact for polynomials in c of degree 2 m - 1. The summands are
    rational, with poles at negative c only, so values near zero are not replaced. The recurrence of
    the Krawtchouk polynomials gives a tridiagonal matrix, whose eigenvalues are the nodes; the
    squared first entries of its eigenvectors are the weights (Golub and Welsch 1969).
    """
    values, probability = binomial(n, p)
    if len(values) <= NODES or values[0] < n * p / 3:
        return values, probability
    j = np.arange(NODES)
    off_diagonal = np.sqrt(j * p * (1 - p) * (n + 1 - j))[1:]
    nodes, vectors = np.linalg.eigh(np.diag(p * (n - j) + (1 - p) * j) + np.diag(off_diagonal, -1))
    return nodes, vectors[0] ** 2
