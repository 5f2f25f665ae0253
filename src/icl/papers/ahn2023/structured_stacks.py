"""Stacks with the structure that theory predicts, A_l = a_l Sigma^-1 and P_l = b_l I, and their
least loss.

In whitened coordinates all matrices are multiples of I, and the loss depends on 2 L - 1 scalars and
the eigenvalues of the Gram matrices (Ahn et al. 2023, theorems 3 and 4).
"""

from typing import NamedTuple

import numpy as np

from icl.core.lazy import torch
from icl.core.streams import stream
from icl.papers.ahn2023 import linear_attention as model
from icl.papers.ahn2023.gram_losses import Whitened
from icl.papers.ahn2023.linear_attention import Config


class Structured(NamedTuple):
    """A stack with whitened A_l = a_l I and P_l = b_l I: a, (L,), and b, (L - 1,)."""

    a: np.ndarray
    b: np.ndarray

    def blocks(self, dimension: int) -> Whitened:
        """Return the stack as weights, (L, d, d) each."""
        eye, b = np.eye(dimension), np.append(self.b, 0.0)
        return Whitened(
            *(torch.from_numpy(scalars[:, None, None] * eye) for scalars in (b, self.a))
        )


def spectra(config: Config, count: int) -> np.ndarray:
    """Eigenvalues of whitened Gram matrices, (count, d)."""
    g = model.draw_whitened(config, stream(model.NAME, config.seed, "oracle"), count)["gram"]
    return np.linalg.eigvalsh(np.moveaxis(g, -1, 0))


def structured_loss(stack: Structured, g: np.ndarray) -> tuple[float, Structured]:
    """E sum u^2 over eigenvalues g of the Gram matrix, and its derivatives.

    In the eigenbasis of G everything is diagonal: u <- u (1 + a g s^2), s <- s (1 + a b g s^2),
    from u = s = 1.
    """
    u, s, states = np.ones_like(g), np.ones_like(g), []
    b = np.append(stack.b, 0.0)
    for a_l, b_l in zip(stack.a, b, strict=True):
        t = g * s * s
        states.append((u, s, t))
        u, s = u * (1 + a_l * t), s * (1 + a_l * b_l * t)
    du, ds = 2 * u / len(g), np.zeros_like(g)
    da, db = np.zeros_like(stack.a), np.zeros_like(b)
    for layer in reversed(range(len(b))):
        (u_l, s_l, t), a_l, b_l = states[layer], stack.a[layer], b[layer]
        to_u, to_s = (du * u_l * t).sum(), (ds * s_l * t).sum()
        da[layer], db[layer] = to_u + b_l * to_s, a_l * to_s
        dt = du * u_l * a_l + ds * s_l * a_l * b_l
        du, ds = du * (1 + a_l * t), ds * (1 + a_l * b_l * t) + 2 * dt * g * s_l
    return float((u * u).sum() / len(g)), Structured(da, db[:-1])


def least_from(start: Structured, g: np.ndarray, *, moves: bool = True) -> Structured:
    """Return the structured stack of least loss over the spectra g, by L-BFGS on the log loss from
    `start`.

    Without `moves` b stays 0.
    """
    from scipy.optimize import minimize

    depth = len(start.a)

    def unpacked(x: np.ndarray) -> Structured:
        return Structured(x[:depth], x[depth:] if moves else np.zeros(depth - 1))

    def objective(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = structured_loss(unpacked(x), g)
        return np.log(value), np.concatenate(slope)[: len(x)] / value

    packed = np.concatenate(start if moves else start[:1])
    return unpacked(
        minimize(objective, packed, jac=True, method="L-BFGS-B", options={"maxiter": 500}).x
    )


# Starts of the search: the scalars of the authors' heat maps for three layers, and extrapolations
# of them.
STARTS = {
    2: [Structured(np.array([-0.5, -3.4]), np.array([0.86]))],
    3: [Structured(np.array([-0.38, -2.40, -9.56]), np.array([0.904, 0.566]))],
    4: [
        Structured(np.array([-0.38, -2.40, -9.56, -1.0]), np.array([0.904, 0.566, 0.1])),
        Structured(np.array([-0.6, -1.25, -2.5, -5.4]), np.array([0.31, 0.39, 0.44])),
    ],
}


def best_sparse(layers: int, g: np.ndarray) -> Structured:
    """Return the stack of least loss with P = 0."""
    return least_from(
        Structured(-np.geomspace(0.5, 1.5, layers), np.zeros(layers - 1)), g, moves=False
    )


def best_relaxed(layers: int, g: np.ndarray) -> Structured:
    """Return the stack of least loss with P, the best one over the starts of the search."""
    if layers == 1:
        return best_sparse(1, g)
    return min(
        (least_from(start, g) for start in STARTS[layers]),
        key=lambda stack: structured_loss(stack, g)[0],
    )
