"""Sequences of a linear dynamical system, x_{t+1} = W x_t, with a new matrix W in every sequence.

There are two families. Unitary: W is diagonal with independent uniform phases and there is no noise (Zheng et al. 2024,
Sander et al. 2024, with their laws of the first token). Orthogonal: W is a random rotation or reflection, with noise
(von Oswald et al. 2023, arXiv 2309.05858).
"""

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

# The laws of the first token, u = x_1.

Start = Callable[[np.random.Generator, int, int, float], np.ndarray]


def gaussian_start(rng: np.random.Generator, count: int, dimension: int, scale: float) -> np.ndarray:
    """u ~ N(0, scale^2 I), real: (count, d)."""
    return scale * rng.standard_normal((count, dimension))


def sparse_start(rng: np.random.Generator, count: int, dimension: int, scale: float) -> np.ndarray:
    """One random coordinate is +scale or -scale, the others are zero (Zheng et al., Example 4.1): (count, d)."""
    place, sign = rng.integers(dimension, size=count), 1 - 2 * rng.integers(2, size=count)
    return scale * sign[:, None] * (np.arange(dimension) == place[:, None])


def full_one_start(rng: np.random.Generator, count: int, dimension: int, scale: float) -> np.ndarray:
    """u = scale * (1, ..., 1), without randomness: (count, d)."""
    return np.full((count, dimension), scale)


def sign_start(rng: np.random.Generator, count: int, dimension: int, scale: float) -> np.ndarray:
    """Every coordinate is +scale or -scale, independently: (count, d)."""
    return scale * (1.0 - 2 * rng.integers(2, size=(count, dimension)))


def uniform_start(rng: np.random.Generator, count: int, dimension: int, scale: float) -> np.ndarray:
    """Independent coordinates, uniform on [-scale, scale]: (count, d)."""
    return rng.uniform(-scale, scale, (count, dimension))


STARTS: dict[str, Start] = {
    "gaussian": gaussian_start,
    "sparse": sparse_start,
    "full-one": full_one_start,
    "signs": sign_start,
    "uniform": uniform_start,
}


def moment(law: str, powers: Sequence[int], dimension: int, scale: float) -> float:
    """E u_1^r_1 u_2^r_2 ... over distinct coordinates, one for each of the `powers` r_1, r_2, ... >= 1.

    Raises ValueError for a power below one, or more powers than coordinates.
    """
    if len(powers) > dimension or min(powers, default=1) < 1:
        raise ValueError(f"powers {tuple(powers)}: at least 1 each, for at most {dimension} coordinates")
    size = scale ** sum(powers)
    if law == "full-one" or not powers:
        return size
    if any(power % 2 for power in powers):
        return 0.0
    if law == "sparse":
        return size / dimension if len(powers) == 1 else 0.0
    if law == "signs":
        return size
    if law == "uniform":
        return size / prod(power + 1 for power in powers)
    return size * prod(odd for power in powers for odd in range(1, power, 2))


def phases(rng: np.random.Generator, count: int, dimension: int) -> np.ndarray:
    """The phases theta of W = diag(e^{i theta}), independent and uniform on [0, 2 pi): (count, d)."""
    return 2 * np.pi * rng.random((count, dimension))


def check_unitary(w: np.ndarray) -> None:
    """Raise ValueError unless every |w_j| is one, to 1e-6."""
    worst = float(abs(abs(w) - 1).max(initial=0))
    if not worst <= 1e-6:
        raise ValueError(f"W must be unitary: an eigenvalue has modulus off from 1 by {worst:.3g}")


def sequences(w: np.ndarray, start: np.ndarray, length: int) -> np.ndarray:
    """x_{t,j} = w_j^(t-1) u_j, t = 1 ... T, in closed form: complex (count, T, d).

    w : eigenvalues of W, (count, d); start : u, (count, d)

    Raises ValueError if W is not unitary.
    """
    check_unitary(w)
    return np.asarray(np.exp(1j * np.angle(w)[:, None] * np.arange(length)[:, None]) * start[:, None])


# Orthogonal W with noise.


def haar_orthogonal(rng: np.random.Generator, count: int, dimension: int) -> np.ndarray:
    """Orthogonal matrices from the Haar measure: (count, d, d).

    The factor Q of a Gaussian matrix is Haar-distributed only if R has a positive diagonal, which makes the
    decomposition unique (Mezzadri 2007).
    """
    q, r = np.linalg.qr(rng.standard_normal((count, dimension, dimension)))
    return q * np.sign(np.diagonal(r, axis1=-2, axis2=-1))[:, None]


def noisy_sequences(
    rng: np.random.Generator, count: int, dimension: int, length: int, noise: float = 0.01
) -> np.ndarray:
    """x_1 ~ U(-1, 1)^d and x_{t+1} = W x_t + noise * N(0, I) with a Haar-orthogonal W per sequence: (count, T, d)."""
    w = haar_orthogonal(rng, count, dimension)
    x = np.empty((length, count, dimension))
    x[0] = rng.uniform(-1, 1, (count, dimension))
    disturbance = noise * rng.standard_normal((length - 1, count, dimension))
    for t in range(length - 1):
        x[t + 1] = (w @ x[t, ..., None])[..., 0] + disturbance[t]
    return x.swapaxes(0, 1)
