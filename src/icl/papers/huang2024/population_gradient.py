"""The population gradient of the softmax layer: exact means over all prompts (Huang et al. 2024).

With Attn_n = c_n e^{q_n} / sum_m c_m e^{q_m} for column q of Q, S = sum_m Attn_m^2, and L_k the
error for query v_k,

    L_k = 1/2 E [S + 1 - 2 Attn_k],   -dL/dA_k = p_k E [Attn_k (S + 1 - 2 Attn_k)],
    -dL/dB_{k,n} = p_k E [Attn_n (S - Attn_n - Attn_k)]   (derived by us)

In the basis of the features, Q[n, k] = v_n' Q v_k. From Q = 0, with one dominant feature v_1 and K
- 1 equally likely ones, the columns for v_1 and for any other v_k keep the distinct entries (A_1,
0, B_{1,n}) and (A_k, B_{k,1}, B_{k,n}): shape (2, 3). The means are sums over cells of counts
(`count_laws`).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from icl.core.lazy import Tensor, torch
from icl.papers.huang2024.count_laws import Cells, PromptLaw, cells_of


class Column(NamedTuple):
    """Expectations over prompts with the query v_k.

    error : L_k, (); descent : -dL / d(A, B_1, B), (3,); attention : E Attn on v_k, v_1 and all
        others, (3,)
    """

    error: np.ndarray
    descent: np.ndarray
    attention: np.ndarray


def column(q: np.ndarray, cells: Cells, probability: float) -> Column:
    """Return expectations for one column of Q with the entries q = (A, B_1, B), (3,).

    Only differences of the entries matter; values stay finite while A and B_1 are within 700 of B.
    """
    e = np.exp(q - q[2])
    attention = cells.counts * e[:, None]
    total = attention.sum(axis=0)
    attention /= total
    own, dominant, rest = attention
    squares = cells.squares * (e[2] / total) ** 2  # E sum of Attn_n^2 over the others
    # As the Attn_n sum to one, the formulas need no differences of nearly equal numbers.
    elsewhere = dominant + rest
    distance = elsewhere**2 + dominant**2 + squares
    alpha = own * distance @ cells.weight
    beta_1 = dominant * (squares - own * elsewhere - dominant * (own + rest)) @ cells.weight
    # A constant added to q changes nothing, so the derivatives sum to zero.
    beta = -(alpha + beta_1) / cells.others
    descent = probability * np.array([alpha, beta_1, beta])
    return Column(distance @ cells.weight / 2, descent, attention @ cells.weight)


def columns(q: np.ndarray, law: PromptLaw) -> tuple[Column, Column]:
    """Return expectations for both columns of the symmetric weights q (2, 3): for the query v_1
    and any other v_k.
    """
    first, other = cells_of(law)
    return column(q[0], first, law.dominant), column(q[1], other, law.rare)


def loss_and_gradient(q: Tensor, laws: Sequence[PromptLaw]) -> tuple[Tensor, Tensor]:
    """Return L and its gradient for the weights q (runs, 2, 3) and the runs' laws: (runs,) and
    (runs, 2, 3).

    Each entry of the gradient is that of a single entry of Q. Runs are computed one by one, because
    their numbers of cells differ, and in numpy, whose calls cost a third of torch's at this size.
    """
    losses, gradient = np.empty(len(laws)), np.empty(q.shape)
    for run, (entries, law) in enumerate(zip(q.cpu().numpy(), laws, strict=True)):
        first, other = columns(entries, law)
        losses[run] = law.dominant * first.error + (1 - law.dominant) * other.error
        gradient[run] = -first.descent, -other.descent
    return torch.from_numpy(losses).to(q.device), torch.from_numpy(gradient).to(q.device)


def full_matrix(q: np.ndarray, features: int) -> np.ndarray:
    """Q in the basis of the features, (..., K, K), from its distinct entries, (..., 2, 3)."""
    full = np.broadcast_to(q[..., 1, 2, None, None], (*q.shape[:-2], features, features)).copy()
    full[..., :, 0] = q[..., 0, 2, None]
    full[..., 0, 1:] = q[..., 1, 1, None]
    full[..., range(features), range(features)] = q[..., 1, 0, None]
    full[..., 0, 0] = q[..., 0, 0]
    return full
