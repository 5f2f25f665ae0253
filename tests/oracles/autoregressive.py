"""Literal predictions and losses of the autoregressive layer, for tests of the layer and of closed forms."""

import numpy as np


def last_prediction(key_query: np.ndarray, projection_value: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return y_{T-1} = B sum_{i=2..T-1} x_i x_{i-1}* A x_{T-1} / (T - 2), which predicts x_T: (m, T, d) -> (m, d)."""
    scores = (x[:, :-2].conj() @ (x[:, -2] @ key_query.T)[..., None])[..., 0] / (x.shape[1] - 2)
    return ((scores[:, None] @ x[:, 1:-1])[:, 0]) @ projection_value.T


def counted(dimension: int, most: int) -> tuple[int, int]:
    """Return both coefficients of the loss without a mean, u = 1, per coordinate, T = 2 ... T_max (Sander et al. 2024).

    They are sum T and the number of equal pairs of monomials: the prediction of coordinate 0 over x_{T+1,0} is the sum
    over r and s = 1 ... T of (w_r / w_0)^s, and the product of one monomial with the conjugate of another has mean one
    if they are equal, else zero.
    """
    linear = quadratic = 0
    for n in range(2, most + 1):
        r, s = (part.reshape(-1) for part in np.meshgrid(np.arange(dimension), np.arange(1, n + 1)))
        powers = np.zeros((len(r), dimension), dtype=int)
        powers[np.arange(len(r)), r] += s
        powers[:, 0] -= s
        _, times = np.unique(powers, axis=0, return_counts=True)
        linear += int((powers == 0).all(axis=1).sum())
        quadratic += int((times**2).sum())
    return linear, quadratic


def loss_of_six(a: np.ndarray, b: np.ndarray, dimension: int, most: int) -> float:
    """Return E |y_T - x_{T+1}|^2 / 2 without a mean, u = 1, with x_0, over T = 2 ... T_max, per coordinate and summand.

    The expectation over phases is the mean over a grid with more than twice as many points as the largest power.
    """
    phases = 2 * np.pi * np.arange(4 * most) / (4 * most)
    w = np.exp(1j * np.stack(np.meshgrid(*[phases] * dimension), axis=-1).reshape(-1, dimension))
    x = {i: w ** (i - 1) for i in range(most + 2)}
    total = 0.0
    for last in range(2, most + 1):
        y = np.zeros_like(w)
        for i in range(1, last + 1):
            now, before = x[i].conj(), x[i - 1].conj()
            score = (a[0] * now + a[2] * before) * x[last] + (a[1] * now + a[3] * before) * x[last - 1]
            y += (b[0] * x[i] + b[1] * x[i - 1]) * score.sum(axis=1, keepdims=True)
        total += float((abs(y - x[last + 1]) ** 2).sum(axis=1).mean())
    return total / 2 / dimension / sum(range(2, most + 1))
