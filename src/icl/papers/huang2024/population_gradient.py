"""The population gradient of the softmax layer: exact means over all prompts (Huang et al. 2024).

With Attn_n = c_n e^{q_n} / sum_m c_m e^{q_m} for column q of Q, S = sum_m Attn_m^2, and L_k the error for query v_k,

    L_k = 1/2 E [S + 1 - 2 Attn_k],   -dL/dA_k = p_k E [Attn_k (S + 1 - 2 Attn_k)],
    -dL/dB_{k,n} = p_k E [Attn_n (S - Attn_n - Attn_k)]                                   (derived by us)

From Q = 0, with one dominant feature and K - 1 equally likely ones, all columns except the first are equal up to a
permutation and have three distinct entries: A_k, B_{k,1} and B_{k,n}. The means are sums over cells of counts
(`count_laws`).
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import permutations
from typing import NamedTuple

import numpy as np

from icl.core.lazy import Tensor, torch
from icl.papers.huang2024 import count_laws
from icl.papers.huang2024.count_laws import PromptLaw


class Column(NamedTuple):
    """Expectations over prompts with the query v_k, with the leading axes of the weights.

    error : L_k; descent : -dL / d(A, B_1, B), (..., 3); attention : E Attn on v_k, v_1 and the rest, (..., 3);
    gap : E (1 - Attn_k)^2
    """

    error: np.ndarray
    descent: np.ndarray
    attention: np.ndarray
    gap: np.ndarray


def _cubic_forms() -> np.ndarray:
    """Coefficients of the expectations in terms of products of three scores (see `expectations`): (13, 8)."""
    one, (k, first, rest), zero = np.ones(3), np.eye(3), np.zeros(3)
    product, other = np.multiply.outer, one - k
    gap = product(other, other)  # (1 - a_k)^2
    below, squares = gap + product(first, first), product(k, k) + product(first, first)
    forms = [  # coefficients of products of three scores a, and of o a
        (product(below, one) / 2, one / 2),
        (product(k, below), k),
        (product(first, squares - product(first + k, one)), first),
        (product(rest, squares - product(k, one)), rest - one),
        *((product(a, product(one, one)), zero) for a in (k, first, rest)),
        (product(gap, one), zero),
    ]
    return np.array(
        [[*(sum(cubic[index] for index in set(permutations(t))) for t in count_laws.TRIPLES), *o] for cubic, o in forms]
    ).T


FORMS = _cubic_forms()
# Powers of e^A, e^{B_1} and e^B in each product: (3, 13).
POWERS = (
    np.array([[(*t,).count(i) for t in (*count_laws.TRIPLES, (0, 2, 2), (1, 2, 2), (2, 2, 2))] for i in range(3)]) * 1.0
)


def expectations(q: np.ndarray, laws: Sequence[count_laws.Cells]) -> np.ndarray:
    """Eight expectations for columns of Q: (..., columns, 8).

    They are L_k; minus its derivatives in A, B_1 and B, without the factor p_k, with that in B summed over the rest;
    E Attn on v_k, on v_1 and on the rest; and E (1 - Attn_k)^2.

    q : entries (A, B_1, B) of each column, (..., columns, 3); laws : the cells of each column's counts

    With c = (c_k, c_1, R), e = e^q and Z = c . e, the scores on v_k, on v_1 and on the rest are a_i = c_i e_i / Z, and
    o = squares e_r^2 / Z^2 is the rest's part of S = a_k^2 + a_1^2 + o. As the a_i sum to one, all expectations are
    sums of products of three scores, as in E (1 - a_k)^2 = E (a_1 + a_r)^2 (a_k + a_1 + a_r), and

        E a_i a_j a_l = e_i e_j e_l sum_cells weight c_i c_j c_l Z^-3,
        E o a_i = e_r^2 e_i sum_cells weight squares c_i Z^-3.

    Only Z^-3 depends on q, and the 13 sums are one matrix product. Only differences of the entries of q matter, so B is
    subtracted. Values stay finite while the other entries, which grow like the logarithm of time, are within 200 of it.
    """
    shifted = q - q[..., 2:]
    e, sums = np.exp(shifted), np.exp(shifted @ POWERS)
    for index, cells in enumerate(laws):
        inverse = e[..., index, :] @ cells.counts
        np.divide(1, inverse, out=inverse)
        cube = inverse * inverse
        cube *= inverse
        sums[..., index, :] *= cube @ cells.cubes
    return sums @ FORMS


def column(q: np.ndarray, cells: count_laws.Cells, probability: float) -> Column:
    """Expectations of one column of Q with entries q = (A, B_1, B), (..., 3)."""
    values = expectations(q[..., None, :], (cells,))[..., 0, :]
    descent = values[..., 1:4] * (probability * np.array([1, 1, 1 / cells.others]))
    return Column(values[..., 0], descent, values[..., 4:7], values[..., 7])


def columns(q: np.ndarray, law: PromptLaw) -> tuple[Column, Column]:
    """Expectations of both columns of the symmetric weights q, (..., 2, 3): for the query v_1 and for any other v_k."""
    first, other = count_laws.cells_of(law)
    p_k = (1 - law.dominant) / (law.features - 1)
    return column(q[..., 0, :], first, law.dominant), column(q[..., 1, :], other, p_k)


def loss_and_gradient(q: "Tensor", laws: Sequence[PromptLaw]) -> "tuple[Tensor, Tensor]":
    """Population loss L and its gradient for weights q (runs, 2, 3) and the runs' laws: (runs,), (runs, 2, 3).

    Each entry of the gradient is that of a single entry of Q. Runs are computed one by one, because their numbers of
    cells differ; runs that differ only in the seed are computed once. At this size numpy calls cost a third of torch's.
    """
    cached: dict[tuple[PromptLaw, bytes], np.ndarray] = {}
    values = []
    for entries, law in zip(q.cpu().numpy(), laws, strict=True):
        key = (law, entries.tobytes())
        if key not in cached:
            cached[key] = expectations(entries, count_laws.cells_of(law))[:, :4] * _factors(law)
        values.append(cached[key])
    by_column = np.array(values)
    losses, gradient = by_column[:, 0, 0] + by_column[:, 1, 0], by_column[:, :, 1:]
    return torch.from_numpy(losses).to(q.device), torch.from_numpy(gradient).to(q.device)


@lru_cache(maxsize=64)
def _factors(law: PromptLaw) -> np.ndarray:
    """Factors from L_k and its descent direction to the column's part of L and the gradient of one entry: (2, 4)."""
    first, other = count_laws.cells_of(law)
    p_1 = law.dominant
    p_k = (1 - p_1) / (law.features - 1)
    return np.array([[p_1, -p_1, -p_1, -p_1 / first.others], [1 - p_1, -p_k, -p_k, -p_k / other.others]])
