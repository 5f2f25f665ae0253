"""Sequences of a linear dynamical system, x_{t+1} = W x_t, with a new matrix W in every sequence.

There are two families. Unitary: W is diagonal with independent uniform phases and there is no noise
(Zheng et al. 2024, Sander et al. 2024, with their laws of the first token). Orthogonal: W is a
random rotation or reflection, with noise (von Oswald et al. 2023, arXiv 2309.05858).
"""

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from icl.tasks.linear_regression import rotation

Generator = np.random.Generator


def _sparse(rng: Generator, shape: tuple[int, int]) -> np.ndarray:
    place, sign = rng.integers(shape[1], size=shape[0]), 1 - 2 * rng.integers(2, size=shape[0])
    return sign[:, None] * (np.arange(shape[1]) == place[:, None])


STARTS: dict[str, Callable[[Generator, tuple[int, int]], np.ndarray]] = {
    "gaussian": lambda rng, shape: rng.standard_normal(shape),
    "sparse": _sparse,
    "full-one": lambda rng, shape: np.ones(shape),
    "signs": lambda rng, shape: 1.0 - 2 * rng.integers(2, size=shape),
    "uniform": lambda rng, shape: rng.uniform(-1, 1, shape),
}
"""Laws of the first token u = x_1 at scale one, (count, d): independent and Gaussian; one random
coordinate +-1, the others zero (Zheng et al., Example 4.1); all ones; independent signs;
independent and uniform on [-1, 1].
"""


def moment(law: str, powers: Sequence[int], dimension: int, scale: float) -> float:
    """E u_1^r_1 u_2^r_2 ... over distinct coordinates, one for each of the `powers`
    r_1, r_2, ... >= 1.

    Raises ValueError for a power below one, or more powers than coordinates.
    """
    if len(powers) > dimension or min(powers, default=1) < 1:
        raise ValueError(
            f"powers {tuple(powers)}: at least 1 each, for at most {dimension} coordinates"
        )
    size = scale ** sum(powers)
    if law == "full-one" or not powers:
        return size
    if any(power % 2 for power in powers) or (law == "sparse" and len(powers) > 1):
        return 0.0
    if law == "gaussian":
        return size * prod(odd for power in powers for odd in range(1, power, 2))
    if law == "uniform":
        return size / prod(power + 1 for power in powers)
    return size / dimension if law == "sparse" else size


def eigenvalues(rng: Generator, count: int, dimension: int) -> np.ndarray:
    """e^{i theta} of unitary W = diag(e^{i theta}), theta i.i.d. U[0, 2 pi): complex (count, d)."""
    return np.exp(1j * (2 * np.pi * rng.random((count, dimension))))


def sequences(w: np.ndarray, start: np.ndarray, length: int) -> np.ndarray:
    """x_{t,j} = w_j^(t-1) u_j, t = 1 ... T, in closed form: complex (count, T, d).

    w : eigenvalues of W, (count, d); start : u, (count, d)

    Raises ValueError unless every |w_j| is one, to 1e-6.
    """
    worst = float(abs(abs(w) - 1).max(initial=0))
    if not worst <= 1e-6:
        raise ValueError(f"W must be unitary: an eigenvalue has modulus off from 1 by {worst:.3g}")
    return np.exp(1j * np.angle(w)[:, None] * np.arange(length)[:, None]) * start[:, None]


def noisy_sequences(
    rng: Generator, count: int, dimension: int, length: int, noise: float = 0.01
) -> np.ndarray:
    """x_1 ~ U(-1, 1)^d and x_{t+1} = W x_t + noise * N(0, I) with a Haar-orthogonal W per
    sequence: (count, T, d).
    """
    w = rotation(rng, dimension, (count,))
    x = np.empty((length, count, dimension))
    x[0] = rng.uniform(-1, 1, (count, dimension))
    disturbance = noise * rng.standard_normal((length - 1, count, dimension))
    for t in range(length - 1):
        x[t + 1] = (w @ x[t, ..., None])[..., 0] + disturbance[t]
    return x.swapaxes(0, 1)
