"""Prompts of in-context regression on nonlinear functions: labels from a Gaussian process on the unit sphere.

    xi_i uniform on the unit sphere of R^d,   y ~ N(0, K),  K_ij = k(xi_i, xi_j),   and a model sees x_i = U D xi_i

(Cheng, Chen and Sra 2024, experiments). Where K is not positive semidefinite, as for relu, it is replaced by |K|, which
has the absolute eigenvalues of K; the Bayes optimum is then that of the modified process. The order of random draws
does not depend on the kernel of the labels, so kernels are compared on equal inputs.

Shapes: leading axes (prompts, ...) are free; inputs (..., n + 1, d) and labels (..., n + 1) hold the query last.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

# k(u, v) between inputs (..., n, d) and (..., m, d): (..., n, m)
Kernel = Callable[[np.ndarray, np.ndarray], np.ndarray]

# Eigenvalues of a covariance of unit scale below this count as zero.
NEGLIGIBLE = 1e-10


class Prompts(NamedTuple):
    """n examples and a query.

    inputs : xi_1 ... xi_n, xi_query, (..., n + 1, d)
    labels : (..., n + 1); the last is the query's true label, hidden from every model
    covariance : of the labels given the inputs, (..., n + 1, n + 1)
    """

    inputs: np.ndarray
    labels: np.ndarray
    covariance: np.ndarray


def sphere(generator: np.random.Generator, shape: tuple[int, ...], count: int, dimension: int) -> np.ndarray:
    """Return inputs uniform on the unit sphere, (*shape, count, dimension)."""
    normal = generator.standard_normal((*shape, count, dimension))
    return normal / np.linalg.norm(normal, axis=-1, keepdims=True)


def _products(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return u @ np.swapaxes(v, -1, -2)


def linear(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return <u, v>."""
    return _products(u, v)


def relu(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return max(0, <u, v>), which is not a covariance."""
    return np.maximum(_products(u, v), 0)


def exponential(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return exp <u, v>, as quoted in a summary of the paper."""
    return np.exp(_products(u, v))


def half_exponential(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return exp(<u, v> / 2), as in the published code."""
    return np.exp(_products(u, v) / 2)


def comb(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return exp(<u_12, v_12> / 2) + <u_34, v_34> as in the published code; further coordinates do not enter.

    Raises ValueError with fewer than four coordinates.
    """
    if u.shape[-1] < 4:
        raise ValueError(f"the kernel comb needs 4 dimensions, the inputs have {u.shape[-1]}")
    return np.exp(_products(u[..., :2], v[..., :2]) / 2) + _products(u[..., 2:4], v[..., 2:4])


KERNELS: Mapping[str, Kernel] = {
    "linear": linear,
    "relu": relu,
    "exp": exponential,
    "half_exp": half_exponential,
    "comb": comb,
}


LAWS = tuple(KERNELS)
"""Laws of the labels, by the name of their kernel."""


def kernel(name: str) -> Kernel:
    """Return the kernel of that name; raises ValueError for an unknown one."""
    if name not in KERNELS:
        raise ValueError(f"kernel {name!r}: must be one of {', '.join(KERNELS)}")
    return KERNELS[name]


def covariance_and_root(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return |K| = V |lambda| V' for a symmetric K = V lambda V', and the root of |K|, (..., n, n) each.

    The root V |lambda|^(1/2) V' is the symmetric one.
    """
    values, vectors = np.linalg.eigh(matrix)
    transposed, sizes = np.swapaxes(vectors, -1, -2), np.abs(values)[..., None, :]
    return (vectors * sizes) @ transposed, (vectors * np.sqrt(sizes)) @ transposed


def draw(
    generator: np.random.Generator, law: str, shape: tuple[int, ...], context_length: int, dimension: int
) -> Prompts:
    """Return prompts whose labels are a Gaussian process with the kernel of that name.

    Raises ValueError for an unknown kernel.
    """
    label_kernel = kernel(law)
    inputs = sphere(generator, shape, context_length + 1, dimension)
    covariance, root = covariance_and_root(label_kernel(inputs, inputs))
    normal = generator.standard_normal(inputs.shape[:-1])
    return Prompts(inputs, np.einsum("...ij,...j->...i", root, normal), covariance)


# The Bayes optimum of a Gaussian process


def bayes_weights(covariance: np.ndarray) -> np.ndarray:
    """Return S_xx^+ S_xq, the weights of the examples' labels in the best prediction, (..., n).

    The pseudo-inverse omits directions without variance (n > d labels that are linear in d weights), so it needs no
    jitter.
    """
    examples, towards, _ = _parts(covariance)
    inverse = np.linalg.pinv(examples, rcond=NEGLIGIBLE, hermitian=True)
    weights: np.ndarray = (inverse @ towards[..., None])[..., 0]
    return weights


def bayes_error(covariance: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Return the query's variance given the examples, S_qq - S_qx S_xx^+ S_xq, clipped at 0, (...).

    This is the expected squared error of the best prediction for these inputs; `weights` are `bayes_weights`, if known.
    """
    _, towards, variance = _parts(covariance)
    known = bayes_weights(covariance) if weights is None else weights
    return np.maximum(variance - np.sum(towards * known, axis=-1), 0)


def jittered_error(covariance: np.ndarray, of_data: float, of_predictor: float) -> np.ndarray:
    """Return the expected squared error of S_qx (S_xx + of_predictor I)^-1 y for labels from N(0, S + of_data I).

    The published code uses jitters of 1e-8 in the data and 1e-4 in the predictor, which put a floor under its Bayes
    line.
    """
    identity = np.eye(covariance.shape[-1])
    examples, towards, _ = _parts(covariance)
    weights = np.linalg.solve(examples + of_predictor * identity[:-1, :-1], towards[..., None])[..., 0]
    drawn, drawn_towards, drawn_variance = _parts(covariance + of_data * identity)
    spread = np.einsum("...i,...ij,...j->...", weights, drawn, weights)
    return drawn_variance - 2 * np.sum(weights * drawn_towards, axis=-1) + spread


def _parts(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """S_xx, S_xq and S_qq."""
    return covariance[..., :-1, :-1], covariance[..., :-1, -1], covariance[..., -1, -1]
