"""Prompts of in-context linear regression, y_i = <w, x_i>, and the papers' shifts between training
and test.

A prompt is drawn from standard normals; a covariance, a noise or a shift is then a function from
prompts to prompts. So runs of the same seed under different shifts use the same random numbers and
are compared in pairs.

Shapes: leading axes (runs, prompts, ...) are free; the query is last in inputs (..., n + 1, d) and
labels (..., n + 1).
"""

from typing import NamedTuple

import numpy as np


class Prompts(NamedTuple):
    """n examples and a query.

    inputs : x_1 ... x_n, x_query, (..., n + 1, d)
    labels : (..., n + 1); the last is the query's true label, which is hidden from models
    weights : the task w, (..., d)
    """

    inputs: np.ndarray
    labels: np.ndarray
    weights: np.ndarray


def labelled(inputs: np.ndarray, weights: np.ndarray) -> Prompts:
    """Prompts with the noise-free labels y_i = <w, x_i>."""
    return Prompts(inputs, np.einsum("...nd,...d->...n", inputs, weights), weights)


def gaussian(
    generator: np.random.Generator, shape: tuple[int, ...], context_length: int, dimension: int
) -> Prompts:
    """x_i ~ N(0, I), w ~ N(0, I): prompts of any leading shape."""
    weights = generator.standard_normal((*shape, dimension))
    return labelled(generator.standard_normal((*shape, context_length + 1, dimension)), weights)


def uniform(
    generator: np.random.Generator,
    shape: tuple[int, ...],
    context_length: int,
    dimension: int,
    half_width: float,
) -> Prompts:
    """x_i ~ U(-half_width, half_width)^d, w ~ N(0, I) (von Oswald et al. 2023: half_width 1/2)."""
    weights = generator.standard_normal((*shape, dimension))
    inputs = generator.uniform(-half_width, half_width, (*shape, context_length + 1, dimension))
    return labelled(inputs, weights)


def root(covariance: np.ndarray) -> np.ndarray:
    """Return the symmetric square root, (..., d, d); ValueError unless it is symmetric and
    positive definite.
    """
    transposed = np.swapaxes(covariance, -1, -2)
    if covariance.shape != transposed.shape or not np.allclose(
        covariance, transposed, rtol=1e-10, atol=0
    ):
        raise ValueError("the covariance must be symmetric")
    values, vectors = np.linalg.eigh(covariance)
    if not values.min() > 0:
        raise ValueError(
            f"the covariance must be positive definite; its smallest eigenvalue is "
            f"{values.min():.3g}"
        )
    return (vectors * values[..., None, :] ** 0.5) @ np.swapaxes(vectors, -1, -2)


def rotation(
    generator: np.random.Generator, dimension: int, shape: tuple[int, ...] = ()
) -> np.ndarray:
    """Rotations or reflections, uniform over the orthogonal group (Haar), (*shape, d, d)."""
    q, r = np.linalg.qr(generator.standard_normal((*shape, dimension, dimension)))
    # Q is uniform only if R has a positive diagonal, which makes the decomposition unique (Mezzadri
    # 2007).
    return q * np.sign(np.diagonal(r, axis1=-2, axis2=-1))[..., None, :]


def with_covariance(
    prompts: Prompts, input_root: np.ndarray, weight_root: np.ndarray | None = None
) -> Prompts:
    """x -> R x and w -> S w for matrices R and S of shape (..., d, d): standard normal x then has
    covariance R R'.

    Ahn et al. 2023 take R R' = Sigma and S S' = Sigma^-1 in their experiments with several layers,
    S = I with one.
    """
    weights = prompts.weights if weight_root is None else _apply(weight_root, prompts.weights)
    return labelled(np.einsum("...de,...ne->...nd", input_root, prompts.inputs), weights)


def _apply(matrix: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    return np.einsum("...de,...e->...d", matrix, vectors)


# Shifts of the task


def noisy(prompts: Prompts, generator: np.random.Generator, deviation: float) -> Prompts:
    """y_i + deviation * N(0, 1) for examples; the query's label stays noise-free, <w, x_query>."""
    labels = prompts.labels.copy()
    labels[..., :-1] += deviation * generator.standard_normal(labels[..., :-1].shape)
    return prompts._replace(labels=labels)


def scaled_weights(prompts: Prompts, factor: float) -> Prompts:
    """w -> factor * w."""
    return labelled(prompts.inputs, factor * prompts.weights)


# Shifts of the query


def matching_query(prompts: Prompts) -> Prompts:
    """Return the prompts with the first example as the query."""
    return _with_query(prompts, prompts.inputs[..., 0, :])


def orthogonal_query(prompts: Prompts) -> Prompts:
    """Return prompts whose query has lost its component in the span of the examples, rescaled to
    its norm.

    Raises ValueError unless there are fewer examples than dimensions.
    """
    examples, query = prompts.inputs[..., :-1, :], prompts.inputs[..., -1, :]
    count, dimension = examples.shape[-2:]
    if count >= dimension:
        raise ValueError(
            f"{count} examples in {dimension} dimensions leave no orthogonal direction for a query"
        )
    basis, _ = np.linalg.qr(np.swapaxes(examples, -1, -2))
    outside = query
    # Projecting twice removes the rounding error of the first projection.
    for _ in range(2):
        outside = outside - _apply(basis, np.einsum("...dn,...d->...n", basis, outside))
    length, of_outside = (
        np.linalg.norm(vectors, axis=-1, keepdims=True) for vectors in (query, outside)
    )
    return _with_query(prompts, outside * (length / of_outside))


def _with_query(prompts: Prompts, query: np.ndarray) -> Prompts:
    inputs, labels = prompts.inputs.copy(), prompts.labels.copy()
    inputs[..., -1, :] = query
    labels[..., -1] = np.sum(query * prompts.weights, axis=-1)
    return prompts._replace(inputs=inputs, labels=labels)


# Shifts of the covariates


def scaled_inputs(prompts: Prompts, factor: float) -> Prompts:
    """x_i -> factor * x_i, the query included."""
    return labelled(factor * prompts.inputs, prompts.weights)


def skewed_root(rotation: np.ndarray) -> np.ndarray:
    """Return the root of Garg et al.'s skewed covariance: eigenvalues ~ 1/i^2 with mean 1, basis
    `rotation`, (d, d).
    """
    deviations = 1 / np.arange(1, len(rotation) + 1)
    deviations *= np.sqrt(len(rotation) / np.sum(deviations**2))
    return (rotation * deviations) @ rotation.T


def in_subspace(prompts: Prompts, basis: np.ndarray) -> Prompts:
    """Return inputs from a subspace, still with E |x|^2 = d (Garg et al.: d/2 dimensions, variance
    2 in each).

    basis : orthonormal columns, (..., d, k)
    """
    d, k = basis.shape[-2:]
    coordinates = prompts.inputs[..., :k]
    return labelled(
        np.sqrt(d / k) * np.einsum("...dk,...nk->...nd", basis, coordinates), prompts.weights
    )


def in_orthants(prompts: Prompts, signs: np.ndarray) -> Prompts:
    """Examples from one orthant, the query from anywhere: coordinate j of every example has the
    sign signs[j].

    signs : of +-1, (..., d)
    """
    inputs = prompts.inputs.copy()
    inputs[..., :-1, :] = np.abs(inputs[..., :-1, :]) * signs[..., None, :]
    return labelled(inputs, prompts.weights)


# Sufficient statistics


def wishart(
    generator: np.random.Generator, shape: tuple[int, ...], count: int, dimension: int
) -> np.ndarray:
    """X'X of `count` inputs x ~ N(0, I), (..., d, d), from d(d+1)/2 draws instead of count * d
    (Bartlett's factors).

    X'X = L L' with L lower triangular, L_jj^2 ~ chi^2(count - j) for j = 0 ... d - 1 and N(0, 1)
    below the diagonal. With fewer inputs than dimensions the inputs themselves are drawn.
    """
    if count < dimension:
        inputs = generator.standard_normal((*shape, count, dimension))
        return np.swapaxes(inputs, -1, -2) @ inputs
    lower = np.zeros((*shape, dimension, dimension))
    rows, columns = np.tril_indices(dimension, -1)
    lower[..., rows, columns] = generator.standard_normal((*shape, len(rows)))
    diagonal = np.arange(dimension)
    lower[..., diagonal, diagonal] = np.sqrt(
        generator.chisquare(count - diagonal, (*shape, dimension))
    )
    return lower @ np.swapaxes(lower, -1, -2)
