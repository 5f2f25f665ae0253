"""Prompts of in-context regression on nonlinear functions: labels from a Gaussian process on the
unit sphere.

    xi_i uniform on the unit sphere of R^d,   y ~ N(0, K),   K_ij = k(xi_i, xi_j),

and a model sees x_i = U D xi_i (Cheng, Chen and Sra 2024, experiments). Where K is not positive
semidefinite, as for relu, it is replaced by |K|, which has the absolute eigenvalues of K; the Bayes
optimum is then that of the modified process. The order of random draws does not depend on the
kernel of the labels, so kernels are compared on equal inputs.

Shapes: leading axes (prompts, ...) are free; inputs (..., n + 1, d) and labels (..., n + 1) hold
the query last.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

import numpy as np

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


def _products(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return u @ np.swapaxes(v, -1, -2)


def _comb(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.exp(_products(u[..., :2], v[..., :2]) / 2) + _products(u[..., 2:4], v[..., 2:4])


KERNELS: Mapping[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "linear": _products,
    "relu": lambda u, v: np.maximum(_products(u, v), 0),
    "exp": lambda u, v: np.exp(_products(u, v)),
    "half_exp": lambda u, v: np.exp(_products(u, v) / 2),
    "comb": _comb,
}
"""The kernels k(u, v) of the labels, between inputs (..., n, d) and (..., m, d): (..., n, m).

linear : <u, v>
relu : max(0, <u, v>), which is not a covariance
exp : exp <u, v>, as quoted in a summary of the paper
half_exp : exp(<u, v> / 2), as in the published code
comb : exp(<u_12, v_12> / 2) + <u_34, v_34>, as in the published code; further coordinates do not
    enter
"""


def draw(
    generator: np.random.Generator, law: str, count: int, context_length: int, dimension: int
) -> Prompts:
    """`count` prompts whose labels are a Gaussian process with the kernel of that name."""
    normal = generator.standard_normal((count, context_length + 1, dimension))
    inputs = normal / np.linalg.norm(normal, axis=-1, keepdims=True)
    matrix = KERNELS[law](inputs, inputs)
    noise = generator.standard_normal((count, max(context_length + 1, dimension), 1))
    if law == "linear":
        return Prompts(inputs, (inputs @ noise[:, :dimension])[..., 0], matrix)
    covariance, labels = _gaussian(matrix, noise[:, : context_length + 1], is_definite="exp" in law)
    return Prompts(inputs, labels[..., 0], covariance)


def _gaussian(
    matrix: np.ndarray, noise: np.ndarray, *, is_definite: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return |K| and R noise with R R' = |K|: from Cholesky's factor of a definite K, else from
    eigenvectors.
    """
    if is_definite:
        # In few dimensions rounding makes K singular.
        with suppress(np.linalg.LinAlgError):
            return matrix, np.linalg.cholesky(matrix) @ noise
    values, vectors = np.linalg.eigh(matrix)
    transposed, sizes = np.swapaxes(vectors, -1, -2), np.abs(values)[..., None]
    return vectors @ (sizes * transposed), vectors @ (np.sqrt(sizes) * (transposed @ noise))


def bayes_error(covariance: np.ndarray) -> np.ndarray:
    """Return the query's variance given the examples, S_qq - S_qx S_xx^+ S_xq, clipped at 0, (...).

    This is the expected squared error of the best prediction for these inputs. The pseudo-inverse
    omits directions without variance (n > d labels that are linear in d weights), so it needs no
    jitter.
    """
    towards = covariance[..., :-1, -1:]
    weights = np.linalg.pinv(covariance[..., :-1, :-1], rcond=NEGLIGIBLE, hermitian=True) @ towards
    return np.maximum(covariance[..., -1, -1] - np.sum(towards * weights, axis=(-2, -1)), 0)


def jittered_error(covariance: np.ndarray, of_data: float, of_predictor: float) -> np.ndarray:
    """Return expected squared errors of S_qx (S_xx + of_predictor I)^-1 y for labels ~ N(0, S +
    of_data I), (...).
    """
    identity = np.eye(covariance.shape[-1])
    drawn, assumed = covariance + of_data * identity, covariance + of_predictor * identity
    weights = np.linalg.solve(assumed[..., :-1, :-1], assumed[..., :-1, -1:])[..., 0]
    spread = np.einsum("...i,...ij,...j->...", weights, drawn[..., :-1, :-1], weights)
    return drawn[..., -1, -1] - 2 * np.sum(weights * drawn[..., :-1, -1], axis=-1) + spread
