"""Closed forms of losses over all tasks: one step of gradient descent, any layer, and the plateaus of training.

Prompts have N examples and a query with independent coordinates x ~ U(-half_width, half_width), a task w ~ N(0, I), and
labels y = <w, x> without noise. The loss is L = E (y_hat - y)^2 / 2 at the query.
"""

from typing import NamedTuple, Protocol

import numpy as np


class PromptLaw(Protocol):
    """The constants that determine the distribution of the prompts; every Config of the model has them."""

    @property
    def context_length(self) -> int:
        """N, the number of examples."""

    @property
    def dimension(self) -> int:
        """d, the number of coordinates of an input."""

    @property
    def half_width(self) -> float:
        """The largest size of a coordinate."""


class Moments(NamedTuple):
    """Moments of N inputs with independent coordinates of mean 0, and of S = sum_i x_i x_i'.

    variance : s = E x^2; fourth : E x^4; square : q with E (S/N)^2 = q I; traced : r with E [S tr S] = r I
    spread : tau = 2 E tr S^2 + E (tr S)^2
    """

    variance: float
    fourth: float
    square: float
    traced: float
    spread: float


def moments(law: PromptLaw) -> Moments:
    """Return the moments for x ~ U(-half_width, half_width)."""
    n, d, s, fourth = law.context_length, law.dimension, law.half_width**2 / 3, law.half_width**4 / 5
    square = (fourth + (d - 1) * s**2) / n + (1 - 1 / n) * s**2
    traced = n * (fourth + (d - 1) * s**2) + n * (n - 1) * d * s**2
    spread = 2 * d * n**2 * square + n * (d * fourth + d * (d - 1) * s**2) + n * (n - 1) * d**2 * s**2
    return Moments(s, fourth, square, traced, spread)


def zero_loss(law: PromptLaw) -> float:
    """Return the loss of the prediction 0, s d / 2."""
    return moments(law).variance * law.dimension / 2


def best_step_size(law: PromptLaw) -> float:
    """Return the best size s / q of one step of gradient descent on (1/2N) sum (<w, x_i> - y_i)^2 from 0."""
    of_inputs = moments(law)
    return of_inputs.variance / of_inputs.square


def one_step_loss(law: PromptLaw, step_size: float, scale: float = 1.0) -> float:
    """Return the loss of one step of gradient descent from 0 on inputs multiplied by `scale`.

    With a = scale^2 and the step size eta it is (s a d / 2) (1 - 2 eta s a + eta^2 q a^2).
    """
    of_inputs, a = moments(law), scale**2
    return a * zero_loss(law) * (1 - 2 * step_size * of_inputs.variance * a + step_size**2 * of_inputs.square * a**2)


def best_loss(law: PromptLaw) -> float:
    """Return the least loss of one step, and of one layer, (s d / 2)(1 - s^2 / q)."""
    return one_step_loss(law, best_step_size(law))


def saddle_loss(zero: float, best: float, dimension: int, rank: int = 1) -> float:
    """Return the loss with `rank` of the d directions learnt, each of which lowers it by the same amount."""
    return zero - rank * (zero - best) / dimension


def excess_loss(loss: float, law: PromptLaw) -> float:
    """Return the place of a loss between the least one of a step (0) and the first saddle (1)."""
    best = best_loss(law)
    return (loss - best) / (saddle_loss(zero_loss(law), best, law.dimension) - best)


def split(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Split A = (A_x | a_y) and b = (b_x, b_y) into the parts that act on inputs and on labels."""
    return a[:, :-1], a[:, -1], b[:-1], float(b[-1])


def preconditioner(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return B = b_y A_x + a_y b_x', (d, d); the part of y_hat linear in w is -x_q' B S w."""
    a_x, a_y, b_x, b_y = split(a, b)
    return b_y * a_x + np.outer(a_y, b_x)


def population_loss(a: np.ndarray, b: np.ndarray, law: PromptLaw) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the loss over all tasks of a layer with A, (d, d + 1), and b, (d + 1,), and its derivatives in A and b.

    Derived by us from the mean over w and x of |w + A G b|^2 with G = sum_i e_i e_i':

        L = (s/2) { d + 2 N s tr B + N^2 q |B|^2 + b_x' T(H) b_x + 2 b_y r a_y' A_x b_x + b_y^2 |a_y|^2 tau },

    with B of `preconditioner`, H = A_x' A_x, and T(H) = E S H S
    = N [s^2 (2 H + I tr H) + (E x^4 - 3 s^2) diag H] + N (N - 1) s^2 H.
    """
    of_inputs, n, d = moments(law), law.context_length, law.dimension
    s, r, tau = of_inputs.variance, of_inputs.traced, of_inputs.spread
    a_x, a_y, b_x, b_y = split(a, b)
    matrix, identity = preconditioner(a, b), np.eye(d)

    def sandwiched(h: np.ndarray) -> np.ndarray:
        four = s**2 * (2 * h + np.trace(h) * identity) + (of_inputs.fourth - 3 * s**2) * np.diag(np.diag(h))
        return n * four + n * (n - 1) * s**2 * h

    inner = sandwiched(a_x.T @ a_x) @ b_x
    cross = a_x @ b_x
    value = d + 2 * n * s * np.trace(matrix) + n**2 * of_inputs.square * np.sum(matrix**2)
    value += b_x @ inner + 2 * b_y * r * a_y @ cross + b_y**2 * (a_y @ a_y) * tau
    by_matrix = n * s * identity + n**2 * of_inputs.square * matrix
    by_a_x = b_y * by_matrix + a_x @ sandwiched(np.outer(b_x, b_x)) + b_y * r * np.outer(a_y, b_x)
    by_a_y = by_matrix @ b_x + b_y * r * cross + b_y**2 * tau * a_y
    by_b_x = by_matrix.T @ a_y + inner + b_y * r * a_x.T @ a_y
    by_b_y = np.sum(by_matrix * a_x) + r * a_y @ cross + b_y * (a_y @ a_y) * tau
    by_a, by_b = np.column_stack([by_a_x, by_a_y]), np.append(by_b_x, by_b_y)
    return float(s / 2 * value), s * by_a, s * by_b
