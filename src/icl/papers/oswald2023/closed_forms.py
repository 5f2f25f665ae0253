"""Closed forms of losses over all tasks: one step of gradient descent, any layer, and the plateaus
of training.

Prompts have N examples and a query with independent coordinates x ~ U(-half_width, half_width), a
task w ~ N(0, I), and labels y = <w, x> without noise. The loss is L = E (y_hat - y)^2 / 2 at the
query. A layer has A = (A_x | a_y), (d, d + 1), and b = (b_x, b_y), (d + 1,); arrays are of numpy or
of torch.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from icl.papers.oswald2023.linear_attention import Config


def moments(config: "Config") -> tuple[float, float, float, float, float]:
    """s = E x^2, E x^4, q, r and tau for x ~ U(-half_width, half_width).

    With S = sum_i x_i x_i' over N inputs, E (S/N)^2 = q I, E [S tr S] = r I and tau = 2 E tr S^2 +
    E (tr S)^2.
    """
    n, d, s, fourth = (
        config.context_length,
        config.dimension,
        config.half_width**2 / 3,
        config.half_width**4 / 5,
    )
    q = (fourth + (d - 1) * s**2) / n + (1 - 1 / n) * s**2
    r = n * (fourth + (d - 1) * s**2) + n * (n - 1) * d * s**2
    tau = 2 * d * n**2 * q + n * (d * fourth + d * (d - 1) * s**2) + n * (n - 1) * d**2 * s**2
    return s, fourth, q, r, tau


def zero_loss(config: "Config") -> float:
    """Return the loss of the prediction 0, s d / 2."""
    return moments(config)[0] * config.dimension / 2


def best_step_size(config: "Config") -> float:
    """Return the best size s / q of one step of gradient descent on (1/2N) sum (<w, x_i> -
    y_i)^2 from 0.
    """
    s, _, q, _, _ = moments(config)
    return s / q


def best_loss(config: "Config") -> float:
    """Return the least loss of one step of gradient descent from 0, and of one layer, (s d /
    2)(1 - s^2 / q).
    """
    return zero_loss(config) * (1 - moments(config)[0] * best_step_size(config))


def saddle_loss(config: "Config") -> float:
    """Return the loss with one of the d directions learnt, each of which lowers it by the same
    amount.
    """
    zero = zero_loss(config)
    return zero - (zero - best_loss(config)) / config.dimension


def preconditioner(a: Any, b: Any) -> Any:
    """B = b_y A_x + a_y b_x', (d, d); the part of y_hat linear in w is -x_q' B S w."""
    return b[-1] * a[:, :-1] + a[:, -1:] * b[:-1]


def population_loss(a: Any, b: Any, config: "Config") -> Any:
    """Return the loss of a layer over all tasks.

    Derived by us from the mean over w and x of |w + A G b|^2 with G = sum_i e_i e_i':

        L = (s/2) { d + 2 N s tr B + N^2 q |B|^2 + b_x' T b_x + 2 b_y r a_y' A_x b_x
                    + b_y^2 |a_y|^2 tau },

    with B of `preconditioner`, H = A_x' A_x, and

        T = E S H S = N [s^2 (2 H + I tr H) + (E x^4 - 3 s^2) diag H] + N (N - 1) s^2 H.
    """
    n, (s, fourth, q, r, tau) = config.context_length, moments(config)
    a_x, a_y, b_x, b_y = a[:, :-1], a[:, -1], b[:-1], b[-1]
    matrix, cross, squares = preconditioner(a, b), a_x @ b_x, a_x**2
    within = (
        s**2 * (2 * cross @ cross + squares.sum() * (b_x @ b_x))
        + (fourth - 3 * s**2) * (squares @ b_x**2).sum()
    )
    value = config.dimension + 2 * n * s * matrix.trace() + n**2 * q * (matrix**2).sum()
    value = value + n * within + n * (n - 1) * s**2 * (cross @ cross)
    return s / 2 * (value + 2 * b_y * r * (a_y @ cross) + b_y**2 * (a_y @ a_y) * tau)
