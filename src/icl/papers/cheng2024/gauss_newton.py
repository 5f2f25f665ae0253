"""Gauss-Newton steps on the scalars of functional gradient steps: k_l(u, v) = h(s_l <u, v>) and
rates r_l.

With two scalars per layer the loss is a nonlinear least-squares problem in 2 L unknowns.
"""

import numpy as np

from icl.core.lazy import Tensor, torch
from icl.papers.cheng2024.transformers import SIMILARITIES

# Relative damping, absolute damping in units of the loss, and the longest relative step; trial
# seeds converge.
DAMPING, FLOOR, LONGEST = 1e-2, 1e-3, 0.5
# Scalars near zero may still move by LONGEST times these.
LEAST_SCALE, LEAST_RATE = 0.2, 0.3


def start(
    kernel: str, layers: int, context_length: int, *, signed: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the initial scales s_l and rates r_l, (L,) each; `signed` starts with s_1, r_1 < 0.

    exp: small scales with a first rate of 1, which removes the mean. softmax: growing scales and
    falling rates of order n, since its scores are about 1/n. linear and relu: s_l = 1, since only
    r_l matters. The values were found on trial seeds.
    """
    scales, rates = np.ones(layers), 2.0 + np.arange(layers)
    if kernel == "softmax":
        scales, rates = (
            np.exp(np.linspace(-1.5, 1.5, layers)),
            context_length * np.linspace(3.0, 1.0, layers),
        )
    elif kernel == "exp" and signed:
        # Small scales keep exp small for both signs; the start below ends in a worse minimum.
        scales, rates = np.linspace(0.15, 0.45, layers), 1 + 0.5 * np.arange(layers)
    elif kernel == "exp":
        scales, rates = np.full(layers, 0.3), np.full(layers, 8.0)
        scales[-1], rates[-1], rates[0] = 2.0, 1.5, 1.0
    if signed:
        scales[0], rates[0] = -scales[0], -rates[0]
    return scales, rates


def predictions(
    scales: Tensor, rates: Tensor, inputs: Tensor, labels: Tensor, kernel: str
) -> Tensor:
    """f(x_query) after the steps f <- f + (r_l/n) sum_i (y_i - f(x_i)) k_l(x_i, .) from f = 0,
    (prompts,).

    scales, rates : those of every prompt, (prompts, L); inputs : (prompts, n + 1, d); labels :
        (prompts, n + 1)
    """
    products, similarity = inputs[:, :-1] @ inputs.mT, SIMILARITIES[kernel]
    residuals, answer = labels[:, :-1], torch.zeros_like(labels[:, -1])
    for layer in range(rates.shape[1]):
        is_last = layer == rates.shape[1] - 1
        scores = similarity(
            scales[:, layer, None, None] * (products[:, :, -1:] if is_last else products)
        )
        change = rates[:, layer, None] / residuals.shape[1] * (residuals[:, None] @ scores)[:, 0]
        answer = answer + change[:, -1]
        if not is_last:
            residuals = residuals - change[:, :-1]
    return answer


def jacobian(scalars: Tensor, inputs: Tensor, labels: Tensor, kernel: str) -> tuple[Tensor, Tensor]:
    """One run's predictions (prompts,) and their derivatives by its s_l and r_l, (prompts, 2, L);
    scalars : (2, L).

    It costs as much as a gradient, because every prompt has its own copy of the scalars.
    """
    copies = scalars.detach().expand(len(labels), 2, -1).clone().requires_grad_()
    answers = predictions(copies[:, 0], copies[:, 1], inputs, labels, kernel)
    (derivatives,) = torch.autograd.grad(answers.sum(), copies)
    return answers.detach(), derivatives


def step(scalars: Tensor, inputs: Tensor, labels: Tensor, kernel: str) -> tuple[Tensor, Tensor]:
    """One run's loss and the damped Gauss-Newton step to subtract from its scalars (s, r), (2, L).

    Steps are damped in relative units. linear and relu are homogeneous, so s_l is redundant there
    and stays fixed.
    """
    answers, derivatives = jacobian(scalars, inputs, labels, kernel)
    errors = answers - labels[:, -1]
    units = scalars.abs() + torch.tensor([[LEAST_SCALE], [LEAST_RATE]], dtype=scalars.dtype)
    if kernel in ("linear", "relu"):
        units[0] = 0
    scaled = (derivatives * units).flatten(1)
    value = torch.mean(errors**2)
    curvature, slope = scaled.T @ scaled / len(errors), scaled.T @ errors / len(errors)
    damped = (
        curvature
        + DAMPING * curvature.diag().diag()
        + FLOOR * value * torch.eye(len(slope), dtype=value.dtype)
    )
    relative = torch.linalg.solve(damped, slope)
    shrink = LONGEST / relative.abs().max().clamp(min=LONGEST)
    return value, shrink * relative.reshape_as(units) * units
