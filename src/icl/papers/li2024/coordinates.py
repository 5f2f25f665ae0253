"""Coordinates in which the patterns and q of Li et al. 2024 are given.

The paper requires only that the patterns are orthonormal and that q is a unit vector. SGD is invariant to a rotation of
either space. Adam is not, since it moves each coordinate by about the sign of its gradient.

All computation is done in the pattern axes, where IDR pattern j is beta e_j, IDI pattern k is e_{M_1 + k} and q is the
first label axis. A law returns the orthogonal matrix whose columns are these axes in the trained coordinates.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from icl.core.lazy import Tensor, torch


def haar(rng: np.random.Generator, size: int) -> np.ndarray:
    """A Haar-random orthogonal matrix, (size, size)."""
    return _orthogonal(rng.standard_normal((size, size)))


def of_uniform_entries(rng: np.random.Generator, size: int) -> np.ndarray:
    """The orthogonal factor of a matrix with entries uniform on [0, 1], (size, size); its first column has one sign."""
    return _orthogonal(rng.random((size, size)))


def _orthogonal(matrix: np.ndarray) -> np.ndarray:
    q, r = np.linalg.qr(matrix)
    signed: np.ndarray = q * np.sign(np.diag(r))
    return signed


def towards(direction: np.ndarray) -> np.ndarray:
    """The Householder reflection whose first column is `direction` over its norm: (d,) -> (d, d)."""
    unit = direction / np.linalg.norm(direction)
    normal = np.eye(len(unit))[0] - unit
    length = normal @ normal
    reflection: np.ndarray = np.eye(len(unit)) - (2 / length * np.outer(normal, normal) if length > 0 else 0)
    return reflection


PATTERN_LAWS: Mapping[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "axes": lambda rng, size: np.eye(size),
    "random rotation": haar,
    "QR of uniform entries": of_uniform_entries,
}
"""Laws of the patterns, as columns, IDR patterns first."""

LABEL_LAWS: Mapping[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "axis": lambda rng, size: (np.arange(size) == 0).astype(float),
    "uniform entries": lambda rng, size: rng.uniform(-1, 1, size),
    "positive uniform entries": lambda rng, size: rng.uniform(0, 1, size),
    "Gaussian entries": lambda rng, size: rng.standard_normal(size),
    "half of the entries": lambda rng, size: rng.permutation(np.arange(size) < size // 2) * rng.uniform(-1, 1, size),
}
"""Laws of the direction of q."""


def stacked(axes: Sequence[np.ndarray], like: "Tensor") -> "Tensor":
    """The axes of each run, (d, d), reshaped to multiply `like`, (runs, ..., d, any): (runs, ..., d, d)."""
    matrices = torch.from_numpy(np.stack(axes)).to(like)
    return matrices.reshape(len(axes), *[1] * (like.dim() - 3), *matrices.shape[1:])
