"""Layers with which trained layers are compared, and errors by position."""

import numpy as np

from icl.core.lazy import Tensor, torch
from icl.papers.oswald2023mesa.layers import Layer, Maps, tokens
from icl.papers.oswald2023mesa.one_layer import TOGETHER, Config


def gradient_descent(config: Config, step_size: float) -> Maps:
    """One step of gradient descent from W = 0, y_t = step_size sum_{s <= t} x_s (x_{s-1} . x_t), as one linear head."""
    d = config.dimension
    maps = Maps(torch.zeros(1, 2 * d, 2 * d), torch.zeros(1, d, 2 * d))
    maps.key_query[0, d:, :d] = torch.eye(d)
    maps.value[0, :, :d] = step_size * torch.eye(d)
    return maps


def rev_alg(maps: Maps) -> Maps:
    """RevAlg-1: every d x d block of the maps is replaced by its mean diagonal, 12 numbers for two heads."""
    return Maps(*(_mean_diagonals(each, maps.value.shape[-2]) for each in maps))


def _mean_diagonals(matrix: Tensor, size: int) -> Tensor:
    rows, columns = matrix.shape[-2] // size, matrix.shape[-1] // size
    blocks = matrix.reshape(*matrix.shape[:-2], rows, size, columns, size)
    means = blocks.diagonal(dim1=-3, dim2=-1).mean(dim=-1)
    unit = torch.eye(size, dtype=matrix.dtype, device=matrix.device)
    return (means[..., :, None, :, None] * unit[:, None, :]).flatten(-2).flatten(-3, -2)


def interpolated(one: Maps, other: Maps) -> Maps:
    """The mean of two layers, map by map."""
    return Maps(*((a + b) / 2 for a, b in zip(one, other, strict=True)))


def errors(layer: Layer, x: Tensor, config: Config) -> Tensor:
    """1/2 |x_{t+1} - y_t|^2 by position, averaged over batches of the size in training, (batches, T)."""
    means = []
    for batch in torch.split(x, config.batch):
        y = torch.cat([layer(tokens(part)) for part in torch.split(batch, TOGETHER)])
        error = y.clamp(-config.output_clip, config.output_clip) - batch[:, 1:]
        means.append(error.square().sum(dim=-1).mean(dim=0) / 2)
    return torch.stack(means)


def mean_loss(layer: Layer, x: Tensor, config: Config) -> float:
    """The mean of `errors` over batches and positions."""
    return float(errors(layer, x, config).mean())


def least_squares_loss(config: Config) -> np.ndarray:
    """d/6 (1 - t/d) for t < d and then 0, the loss of least squares after t noiseless pairs, (T,).

    Least squares is exact on the span of the t states seen. The direction of the next state is random, so the fraction
    1 - t/d of its mean square lies outside; E |x|^2 / 2 = d/6 for x ~ U(-1, 1)^d.
    """
    seen = np.arange(config.length)
    return config.dimension / 6 * np.maximum(1 - seen / config.dimension, 0)
