"""Sufficient statistics of unitary sequences for one layer of linear attention in two blocks of
weights.

With x_{t+1} = W x_t, n = t - 1 pairs in the context and u = x_1, a layer with the blocks A =
W^KQ_32 and B = W^PV_12 predicts x_{t+1} by (Zheng et al. 2024, section 3)

    y_t = (1/n) B sum_{i=2..t} x_i x_{i-1}* A x_t,   y_{t,j} = sum_klm B_jk A_lm phi_klm(n),
    phi_klm(n) = (1/n) sum_{i=2..t} x_{i,k} conj(x_{i-1,l}) x_{t,m}

Its squared error therefore follows from the sums over t of E conj(x_{t+1,j}) phi_klm and E phi_klm
conj(phi_k'l'm'), either exact (`population`) or over a sample (`empirical`). For independent
uniform phases every such mean is a moment of u times a number of integer solutions: a product of
powers of w_1 ... w_d has mean one if all exponents vanish, and zero otherwise.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from icl.tasks.linear_dynamics import moment

# The exponents of w in x_{i,k}, conj(x_{i-1,l}) and x_{t,m}, as coefficients of (s, s', n, 1): s =
# i - 1 is the place in the sum, s' the one in the conjugate factor's sum.
_FEATURE = ((1, 0, 0, 0), (-1, 0, 0, 1), (0, 0, 1, 0))
_CONJUGATE = ((0, -1, 0, 0), (0, 1, 0, -1), (0, 0, -1, 0))
_TARGET = ((0, 0, -1, -1),)


@dataclass(frozen=True)
class Statistics:
    """Sums over t = 2 ... T - 1 of means over sequences, real parts (the weights are real).

    target : E conj(x_{t+1,j}) phi_klm, (d, d^3); gram : E phi_klm conj(phi_k'l'm'), (d^3, d^3);
        power : E |x_{t+1}|^2
    """

    target: np.ndarray
    gram: np.ndarray
    power: float

    def loss(
        self, key_query: np.ndarray, projection_value: np.ndarray
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """L = 1/2 sum_t E |y_t - x_{t+1}|^2 and its derivatives in A and B, each (d, d)."""
        a, b = key_query, projection_value
        d = len(a)
        features = (b[:, :, None] * a.reshape(-1)).reshape(d, -1)  # B_jk A_lm, (j, klm)
        pushed = features @ self.gram
        value = (self.power + ((pushed - 2 * self.target) * features).sum()) / 2
        slope = (pushed - self.target).reshape(d, d, d, d)
        return value, np.einsum("jklm,jk->lm", slope, b), (slope.reshape(d, d, -1) @ a.reshape(-1))


@lru_cache(maxsize=32)
def population(law: str, dimension: int, scale: float, length: int) -> Statistics:
    """Return the exact means over all sequences whose first token has this law."""
    d = dimension
    target = _tensor(_TARGET + _FEATURE, 1, law, d, scale, length).reshape(d, d**3)
    gram = _tensor(_FEATURE + _CONJUGATE, 2, law, d, scale, length).reshape(d**3, d**3)
    return Statistics(target, gram, (length - 2) * d * moment(law, [2], d, scale))


def _tensor(
    factors: tuple[tuple[int, ...], ...],
    sums: int,
    law: str,
    dimension: int,
    scale: float,
    length: int,
) -> np.ndarray:
    """Return the mean of a product of factors, summed over n, for all coordinates: (d^factors,)."""
    number = len(factors)
    places = np.indices((dimension,) * number).reshape(number, -1).T
    # Only which factors share a coordinate matters: a factor's name is the first factor with its
    # coordinate.
    names = np.stack(
        [(places == places[:, i : i + 1]).argmax(axis=1) for i in range(number)], axis=1
    )
    _, first, index = np.unique(
        names @ number ** np.arange(number), return_index=True, return_inverse=True
    )
    values = []
    for pattern in names[first]:
        groups = [np.flatnonzero(pattern == name) for name in np.unique(pattern)]
        size = moment(law, [len(group) for group in groups], dimension, scale)
        exponents = [np.sum([factors[i] for i in group], axis=0) for group in groups]
        values.append(size * solutions(exponents, sums, length) if size else 0.0)
    return np.array(values)[index]


def solutions(exponents: Sequence[np.ndarray], sums: int, length: int) -> float:
    """sum_{n=1..T-2} n^-sums times the number of (s, s') in [1, n]^2, or s in [1, n], at which all
    exponents vanish.

    exponents : one row (p, q, r, one) per coordinate, for w_j^(p s + q s' + r n + one); |q| <= 1, 0
        without s'
    """
    n, s = np.arange(1, length - 1)[:, None], np.arange(1, length - 1)[None]
    valid, other, ways = s <= n, np.zeros_like(n + s), n ** (sums - 1)
    for p, q, r, one in exponents:
        if q:
            # One equation determines s'; all are then checked.
            other, ways = -q * (p * s + r * n + one), np.ones_like(n)
            valid = valid & (other >= 1) & (other <= n)
            break
    for p, q, r, one in exponents:
        valid = valid & (p * s + q * other + r * n + one == 0)
    count = valid.sum(axis=1, keepdims=True) * ways
    return float((count / n.astype(float) ** sums).sum())


def empirical(x: np.ndarray, chunk: int = 50) -> Statistics:
    """Return the means over sequences x, complex (count, T, d), in the precision of x."""
    parts = [_sums(x[start : start + chunk]) for start in range(0, len(x), chunk)]
    target, gram = (
        np.sum([part[i] for part in parts], axis=0, dtype=float) / len(x) for i in (0, 1)
    )
    return Statistics(target, gram, float((abs(x[:, 2:]) ** 2).sum(dtype=float) / len(x)))


def _sums(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    d = x.shape[2]
    now, before, wanted = x[:, 1:-1], x[:, :-2], x[:, 2:]
    pairs = np.cumsum(now[..., None] * before.conj()[:, :, None], axis=1, dtype=x.dtype)
    pairs /= np.arange(1, now.shape[1] + 1, dtype=x.real.dtype)[:, None, None]
    features = (pairs[..., None] * now[:, :, None, None]).reshape(-1, d**3)
    # Real and imaginary parts are stacked, so their products add up to the real part.
    phi, aim = (
        np.concatenate([part.real, part.imag]) for part in (features, wanted.reshape(-1, d))
    )
    return aim.T @ phi, phi.T @ phi
