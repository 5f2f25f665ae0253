"""Layers with which trained layers are compared, and errors by position."""

import numpy as np

from icl.core.lazy import Tensor, torch
from icl.papers.oswald2023mesa.layers import Linear, Maps, Mesa, tokens
from icl.papers.oswald2023mesa.one_layer import TOGETHER, Config


def gradient_descent(config: Config, step_size: float) -> Maps:
    """Return one step of gradient descent from W = 0 as a linear head, y_t = step_size sum_{s <= t} x_s (x_{s-1} .
    x_t).
    """
    d = config.dimension
    maps = Maps(torch.zeros(1, 2 * d, 2 * d), torch.zeros(1, d, 2 * d))
    maps.key_query[0, d:, :d] = torch.eye(d)
    maps.value[0, :, :d] = step_size * torch.eye(d)
    return maps


def rev_alg(maps: Maps) -> Maps:
    """Return RevAlg-1: every d x d block of the maps is replaced by its mean diagonal, 12 numbers for two heads."""
    return Maps(*(_mean_diagonals(each, maps.value.shape[-2]) for each in maps))


def _mean_diagonals(matrix: "Tensor", size: int) -> "Tensor":
    rows, columns = matrix.shape[-2] // size, matrix.shape[-1] // size
    split = matrix.reshape(*matrix.shape[:-2], rows, size, columns, size)
    means = split.diagonal(dim1=-3, dim2=-1).mean(dim=-1)
    unit = torch.eye(size, dtype=matrix.dtype, device=matrix.device)
    return (means[..., :, None, :, None] * unit[:, None, :]).flatten(-2).flatten(-3, -2)


def interpolated(one: Maps, other: Maps) -> Maps:
    """Return the mean of two layers, map by map."""
    return Maps(*((a + b) / 2 for a, b in zip(one, other, strict=True)))


def errors(layer: "Linear | Mesa", x: "Tensor", config: Config) -> "Tensor":
    """Return 1/2 |x_{t+1} - y_t|^2 per position, averaged over batches of the size in training, (batches, T)."""
    means = []
    for part in torch.split(x, config.batch):
        y = torch.cat([layer.forward(tokens(few)) for few in torch.split(part, TOGETHER)])
        error = y.clamp(-config.output_clip, config.output_clip) - part[:, 1:]
        means.append(error.square().sum(dim=-1).mean(dim=0) / 2)
    return torch.stack(means)


def best_step_size(x: "Tensor", config: Config) -> tuple[float, float]:
    """Return the step size of one-step gradient descent with the least loss on sequences x, and that loss.

    y is linear in the step size, so the loss is a parabola in it.
    """
    layer = Linear({}, gradient_descent(config, 1.0))
    y = torch.cat([layer.forward(tokens(few)) for few in torch.split(x, TOGETHER)])
    target, count = x[:, 1:], x.shape[0] * config.length
    along, square = float((y * target).sum(dtype=torch.float64)), float(y.square().sum(dtype=torch.float64))
    return along / square, (float(target.square().sum(dtype=torch.float64)) - along**2 / square) / (2 * count)


def least_squares_loss(config: Config) -> np.ndarray:
    """Return d/6 (1 - t/d) for t < d and then 0, the loss of least squares after t noiseless pairs, (T,).

    Least squares is exact on the span of the t states seen. The direction of the next state is random, so the fraction
    1 - t/d of its mean square lies outside; E |x|^2 / 2 = d/6 for x ~ U(-1, 1)^d.
    """
    seen = np.arange(config.length)
    return config.dimension / 6 * np.maximum(1 - seen / config.dimension, 0)
