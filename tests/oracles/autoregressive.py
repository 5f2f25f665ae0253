"""The autoregressive layer by its definition, and literal predictions and losses for tests of
closed forms.

Zheng et al. 2024, section 3: y_t is the first block of W^PV E_t E_t* W^KQ e_t / (t - 1), with E_t
E_t* at every position and gradients by automatic differentiation.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from icl.models.autoregressive.config import Config, sequences
from icl.models.autoregressive.gradients import Gradient, differentiated
from icl.models.optimisers import Params


def of_all_blocks(weights: Params, configs: Sequence[Config]) -> Gradient:
    """L of each run over its sequences and its gradient; weights as `model.all_blocks`, real and
    imaginary parts.
    """

    def losses(key_query: Tensor, projection_value: Tensor) -> Tensor:
        blocks = map(torch.view_as_complex, (key_query, projection_value))
        samples = [torch.from_numpy(sequences(config)) for config in configs]
        runs = zip(*blocks, samples, strict=True)
        return torch.stack([loss(*embedded(kq, pv), x.to(kq)) for kq, pv, x in runs]).double()

    return differentiated(losses, weights)


def embedded(key_query: Tensor, projection_value: Tensor) -> tuple[Tensor, Tensor]:
    """W^KQ and W^PV, (3 d, 3 d) each, from the parts that multiply tokens (x_t; x_{t-1}); the
    rest is zero.
    """
    d = len(projection_value)
    pad = torch.nn.functional.pad
    return pad(key_query, (d, 0, d, 0)), pad(projection_value, (d, 0, 0, 2 * d))


def loss(key_query: Tensor, projection_value: Tensor, x: Tensor) -> Tensor:
    """1/2 sum_t E |y_t - x_{t+1}|^2 for full matrices (3 d, 3 d) over sequences x (m, T, d)."""
    residual = predictions(key_query, projection_value, x) - x[:, 2:]
    return (residual.real.square() + residual.imag.square()).sum() / (2 * len(x))


def predictions(key_query: Tensor, projection_value: Tensor, x: Tensor) -> Tensor:
    """y_t, t = 2 ... T - 1, each from its own E_t E_t* / (t - 1): (m, T - 2, d)."""
    before = torch.nn.functional.pad(x[:, :-1], (0, 0, 1, 0))
    embedding = torch.cat([torch.zeros_like(x), x, before], dim=2).mT  # E, (m, 3 d, T)
    outputs = []
    for t in range(2, x.shape[1]):
        prefix = embedding[..., :t]
        moment = prefix @ prefix.mH / (t - 1)
        outputs.append(projection_value @ moment @ key_query @ prefix[..., -1:])
    return torch.cat(outputs, dim=2)[:, : x.shape[2]].mT


def with_blocks(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """W^KQ and W^PV, complex (3 d, 3 d), zero but for W^KQ_32 = A and W^PV_12 = B."""
    pad = torch.nn.functional.pad
    d = len(a)
    return embedded(pad(a + 0j, (0, d, d, 0)), pad(b + 0j, (0, d)))


def block_predictions(a: np.ndarray, b: np.ndarray, x: np.ndarray) -> np.ndarray:
    """y_t, t = 2 ... T - 1, of the literal layer with A and B: (m, T, d) -> (m, T - 2, d)."""
    full = with_blocks(torch.from_numpy(a), torch.from_numpy(b))
    return predictions(*full, torch.from_numpy(x)).numpy()


def gradient_steps(a: np.ndarray, b: np.ndarray, x: np.ndarray) -> np.ndarray:
    """B Phi_t A x_t, Phi_t one step of size 1 / (t - 1) on 1/2 sum_{i<t} |x_{i+1} - Phi x_i|^2 from
    Phi = 0.

    The slope at Phi = 0 is - sum_{i<t} x_{i+1} x_i*: (m, T, d) -> (m, T - 2, d), t = 2 ... T - 1.
    """
    steps = [
        np.einsum("mij,mik->mjk", x[:, 1:t], x[:, : t - 1].conj()) / (t - 1)
        for t in range(2, x.shape[1])
    ]
    return np.einsum("tmjk,mtk->mtj", b @ steps @ a, x[:, 1:-1])


def counted(dimension: int, most: int) -> tuple[int, int]:
    """Both coefficients of the loss without a mean, u = 1, per coordinate, T = 2 ... T_max (Sander
    et al. 2024).

    They are sum T and the number of equal pairs of monomials: the prediction of coordinate 0 over
    x_{T+1,0} is the sum over r and s = 1 ... T of (w_r / w_0)^s, and the product of one monomial
    with the conjugate of another has mean one if they are equal, else zero.
    """
    linear = quadratic = 0
    one = np.eye(dimension, dtype=int)
    for n in range(2, most + 1):
        powers = (np.arange(1, n + 1)[:, None, None] * (one - one[0])).reshape(-1, dimension)
        linear += int((powers == 0).all(axis=1).sum())
        quadratic += int((np.unique(powers, axis=0, return_counts=True)[1] ** 2).sum())
    return linear, quadratic


def loss_of_six(a: np.ndarray, b: np.ndarray, dimension: int, most: int) -> float:
    """E |y_T - x_{T+1}|^2 / 2 without a mean, u = 1, with x_0, over T = 2 ... T_max, per coordinate
    and summand.

    y_T = sum_{i=1..T} P z_i z_i* K z_T with z_i = (x_i; x_{i-1}). The expectation over phases is
    the mean over a grid with more than twice as many points as the largest power.
    """
    phases = np.meshgrid(*[2 * np.pi * np.arange(4 * most) / (4 * most)] * dimension)
    w = np.exp(1j * np.stack(phases, axis=-1).reshape(-1, dimension))
    k = np.kron(a.reshape(2, 2), np.eye(dimension))
    p = np.kron(b[None], np.eye(dimension))
    z = [np.hstack([w ** (i - 1), w ** (i - 2)]) for i in range(1, most + 1)]
    total = 0.0
    for last in range(2, most + 1):
        query = z[last - 1] @ k.T
        y = sum((z_i @ p.T) * (z_i.conj() * query).sum(1, keepdims=True) for z_i in z[:last])
        total += float((abs(y - w**last) ** 2).sum(axis=1).mean())
    return total / 2 / dimension / sum(range(2, most + 1))
