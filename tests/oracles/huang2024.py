"""Huang et al. 2024: the softmax layer in its literal form, and its gradient from counts."""

import itertools
import math

import numpy as np
import torch
from torch import Tensor

from icl.papers.huang2024.prompts import Prompts


def basis(features: int, dimension: int) -> np.ndarray:
    """Return the features: K random orthonormal rows, (K, d)."""
    return np.linalg.qr(np.random.default_rng(0).standard_normal((dimension, features)))[0].T


def tokens(batch: Prompts, v: np.ndarray) -> np.ndarray:
    """Prompts E of columns (x_i; y_i) and (x_query; 0): (M, d + 1, N + 1) for a basis v (K, d)."""
    x = v[np.concatenate([batch.features, batch.query[:, None]], axis=1)]
    y = np.einsum("mnd,md->mn", x, batch.task @ v)
    y[:, -1] = 0
    return np.concatenate([x, y[..., None]], axis=-1).swapaxes(1, 2)


def prediction(q: Tensor, prompt: Tensor) -> Tensor:
    """y_hat = sum_i y_i softmax_i(x_i' Q x_query) over the first N columns of E: (M,)."""
    x = prompt[:, :-1, :-1]
    y = prompt[:, -1, :-1]
    query = prompt[:, :-1, -1]
    scores = ((query @ q.mT)[:, None] @ x)[:, 0]
    return (torch.softmax(scores, dim=-1) * y).sum(dim=-1)


def token_loss_and_gradient(q: Tensor, batch: Prompts, v: np.ndarray) -> tuple[Tensor, Tensor]:
    """Half the mean squared error, and its gradient in Q (d, d), in the basis of the tokens."""
    leaf = q.detach().requires_grad_()
    prompt = torch.from_numpy(tokens(batch, v))
    target = torch.from_numpy(np.take_along_axis(batch.task, batch.query[:, None], axis=1)[:, 0])
    value = (prediction(leaf, prompt) - target).square().mean() / 2
    return value.detach(), torch.autograd.grad(value, leaf)[0]


def feature_loss_and_gradient(q: Tensor, batch: Prompts) -> tuple[Tensor, Tensor]:
    """Return the same for Q (K, K) in the basis of features, with tokens of K + 4 coordinates."""
    v = torch.from_numpy(basis(len(q), len(q) + 4))
    value, gradient = token_loss_and_gradient(v.mT @ q @ v, batch, v.numpy())
    return value, v @ gradient @ v.mT


def count_loss_and_gradient(q: Tensor, counts: Tensor, p: np.ndarray) -> tuple[Tensor, Tensor]:
    """L, (), and its gradient in Q (K, K) over M prompts with the given counts (M, K), with queries
    weighted by p_k.

    The mean over tasks w with E w w' = I is exact.
    """
    probability = torch.from_numpy(p)
    mean = len(counts)
    weights = (q - q.amax(dim=-2, keepdim=True)).exp()  # (n, k)
    z = (counts @ weights).reciprocal()  # (M, k)
    attended = counts * torch.diagonal(weights) * z  # Attn_k
    s = (counts.square() @ weights.square()) * z.square()
    # E Attn_n (S - Attn_k) - E Attn_n^2, plus E Attn_k on the diagonal.
    descent = weights * (counts.mT @ ((s - attended) * z)) - weights.square() * (
        counts.square().mT @ z.square()
    )
    descent = (descent + torch.diag(attended.sum(dim=0))) * probability / mean
    errors = (s + 1 - 2 * attended).mean(dim=0) / 2
    return (probability * errors).sum(), -descent


def enumerated(q: np.ndarray, p: np.ndarray, context_length: int) -> tuple[np.ndarray, np.ndarray]:
    """L_k for all k and the descent direction by definition, prompt by prompt: (K,) and (K, K)."""
    number = len(p)
    free = itertools.product(range(context_length + 1), repeat=number - 1)
    counts = np.array([[*c, context_length - sum(c)] for c in free if sum(c) <= context_length])
    ways = [
        math.factorial(context_length) // math.prod(map(math.factorial, row))
        for row in counts.tolist()
    ]
    chance = np.array(ways) * np.prod(p**counts, axis=1)
    errors = np.zeros(number)
    descent = np.zeros((number, number))
    for k in range(number):
        unnormalised = counts * np.exp(q[:, k])
        attention = unnormalised / unnormalised.sum(axis=1, keepdims=True)
        residual = attention - np.eye(number)[k]
        errors[k] = chance @ (residual**2).sum(axis=1) / 2
        # d/dq_n of |Attn - e_k|^2 / 2 with the Jacobian of softmax.
        jacobian = attention[:, :, None] * (np.eye(number) - attention[:, None, :])
        descent[:, k] = -p[k] * chance @ np.einsum("cnm,cm->cn", jacobian, residual)
    return errors, descent
