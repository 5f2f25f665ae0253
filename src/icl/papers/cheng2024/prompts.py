"""Prompts of in-context regression on nonlinear functions: labels of a Gaussian process over the unit sphere.

    xi_i uniform on the unit sphere of R^d,   y ~ N(0, K),  K_ij = k(xi_i, xi_j),   and a model sees x_i = U D xi_i

(Cheng, Chen and Sra 2023, experiments). A kernel that is no covariance, such as relu, is replaced by |K|, which has the
absolute eigenvalues of K; what is then the Bayes optimum is that of the modified process. Random numbers are drawn in
an order that no law of the labels changes, so that laws are compared on equal inputs.

Shapes: leading axes (prompts, ...) are free; inputs (..., n + 1, d) and labels (..., n + 1) hold the query last.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

# k(u, v) between inputs (..., n, d) and (..., m, d): (..., n, m)
Kernel = Callable[[np.ndarray, np.ndarray], np.ndarray]

# Eigenvalues of a covariance of unit scale below this are rounding, and directions without variance.
NEGLIGIBLE = 1e-10
HIDDEN = 10


class Prompts(NamedTuple):
    """n examples and a query.

    inputs : xi_1 ... xi_n, xi_query, (..., n + 1, d)
    labels : (..., n + 1); the last is the query's true label, which no model sees
    covariance : of the labels given the inputs, (..., n + 1, n + 1); NaN where the law is no Gaussian process
    """

    inputs: np.ndarray
    labels: np.ndarray
    covariance: np.ndarray


def sphere(generator: np.random.Generator, shape: tuple[int, ...], count: int, dimension: int) -> np.ndarray:
    """Inputs uniform on the unit sphere: (*shape, count, dimension)."""
    normal = generator.standard_normal((*shape, count, dimension))
    return normal / np.linalg.norm(normal, axis=-1, keepdims=True)


def _products(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return u @ np.swapaxes(v, -1, -2)


def linear(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """<u, v>."""
    return _products(u, v)


def relu(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """max(0, <u, v>), which is no covariance."""
    return np.maximum(_products(u, v), 0)


def exponential(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """exp <u, v>, as a summary of the paper quotes it."""
    return np.exp(_products(u, v))


def half_exponential(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """exp(<u, v> / 2), as in the published code."""
    return np.exp(_products(u, v) / 2)


def comb(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """exp(<u_12, v_12> / 2) + <u_34, v_34>, blind to any further coordinate, as in the published code.

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


GAUSSIAN = tuple(KERNELS)
"""Laws whose labels are a Gaussian process, by the name of its kernel."""

LAWS = (*GAUSSIAN, "sign", "network")


def kernel(name: str) -> Kernel:
    """The kernel of that name; raises ValueError for an unknown one."""
    if name not in KERNELS:
        raise ValueError(f"kernel {name!r}: must be one of {', '.join(KERNELS)}")
    return KERNELS[name]


def covariance_and_root(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """|K| = V |lambda| V' of a symmetric K = V lambda V', the covariance that stands for it, and its root: (..., n, n).

    The root V |lambda|^(1/2) V' is the symmetric one.
    """
    values, vectors = np.linalg.eigh(matrix)
    transposed, sizes = np.swapaxes(vectors, -1, -2), np.abs(values)[..., None, :]
    return (vectors * sizes) @ transposed, (vectors * np.sqrt(sizes)) @ transposed


def draw(
    generator: np.random.Generator, law: str, shape: tuple[int, ...], context_length: int, dimension: int
) -> Prompts:
    """Prompts under a law of LAWS: a Gaussian process, or one of the functions `sign` and `network`.

    Raises ValueError for an unknown law.
    """
    if law not in LAWS:
        raise ValueError(f"law of the labels {law!r}: must be one of {', '.join(LAWS)}")
    inputs = sphere(generator, shape, context_length + 1, dimension)
    if law == "sign":
        return _of_function(inputs, sign(generator, inputs))
    if law == "network":
        return _of_function(inputs, network(generator, inputs))
    covariance, root = covariance_and_root(kernel(law)(inputs, inputs))
    normal = generator.standard_normal(inputs.shape[:-1])
    return Prompts(inputs, np.einsum("...ij,...j->...i", root, normal), covariance)


def _of_function(inputs: np.ndarray, labels: np.ndarray) -> Prompts:
    return Prompts(inputs, labels, np.full((*labels.shape, labels.shape[-1]), np.nan))


def sign(generator: np.random.Generator, inputs: np.ndarray) -> np.ndarray:
    """y_i = sign <w, xi_i> with one w ~ N(0, I) per prompt: (..., n + 1)."""
    weights = generator.standard_normal((*inputs.shape[:-2], inputs.shape[-1]))
    return np.sign(np.einsum("...nd,...d->...n", inputs, weights))


def network(generator: np.random.Generator, inputs: np.ndarray) -> np.ndarray:
    """y_i = sqrt(2/m) sum_j a_j max(0, <w_j, xi_i>), m = 10, with a_j, w_j ~ N(0, 1) per prompt; E y^2 = 1."""
    prompts, dimension = inputs.shape[:-2], inputs.shape[-1]
    hidden = generator.standard_normal((*prompts, HIDDEN, dimension))
    outer = generator.standard_normal((*prompts, HIDDEN))
    active = np.maximum(_products(inputs, hidden), 0)
    return np.sqrt(2 / HIDDEN) * np.einsum("...nm,...m->...n", active, outer)


def transformed(inputs: np.ndarray, rotation: np.ndarray, deviations: np.ndarray) -> np.ndarray:
    """What the model sees, x = U D xi.

    rotation : U, (d, d); deviations : the diagonal of D, (d,)
    """
    return inputs @ (rotation * deviations).T


# The Bayes optimum of a Gaussian process


def bayes_weights(covariance: np.ndarray) -> np.ndarray:
    """S_xx^+ S_xq, with which the examples' labels make the best prediction: (..., n).

    Directions without variance (n > d labels that are linear in d weights) are left out of the inverse, which needs no
    jitter.
    """
    examples, towards, _ = _parts(covariance)
    inverse = np.linalg.pinv(examples, rcond=NEGLIGIBLE, hermitian=True)
    found: np.ndarray = (inverse @ towards[..., None])[..., 0]
    return found


def bayes_error(covariance: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """The query's variance given the examples, S_qq - S_qx S_xx^+ S_xq, never below 0: (...).

    The expected squared error of the best prediction for these inputs; `weights` are `bayes_weights`, if known.
    """
    _, towards, own = _parts(covariance)
    known = bayes_weights(covariance) if weights is None else weights
    return np.maximum(own - np.sum(towards * known, axis=-1), 0)


def jittered_error(covariance: np.ndarray, of_data: float, of_predictor: float) -> np.ndarray:
    """The expected squared error of S_qx (S_xx + of_predictor I)^-1 y for labels from N(0, S + of_data I).

    Floors that the published code puts under its Bayes line: 1e-8 in the data and 1e-4 in the predictor.
    """
    identity = np.eye(covariance.shape[-1])
    examples, towards, _ = _parts(covariance)
    weights = np.linalg.solve(examples + of_predictor * identity[:-1, :-1], towards[..., None])[..., 0]
    drawn, drawn_towards, drawn_own = _parts(covariance + of_data * identity)
    spread = np.einsum("...i,...ij,...j->...", weights, drawn, weights)
    return drawn_own - 2 * np.sum(weights * drawn_towards, axis=-1) + spread


def _parts(covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return covariance[..., :-1, :-1], covariance[..., :-1, -1], covariance[..., -1, -1]
