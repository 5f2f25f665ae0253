"""Gauss-Newton steps on the scalars of functional gradient steps: k_l(u, v) = h(s_l <u, v>) and rates r_l.

With two scalars per layer the loss is a nonlinear least-squares problem in 2 L unknowns. Its Jacobian costs as much as
a gradient, because every prompt has its own residual.
"""

import numpy as np

from icl.core.lazy import Tensor, torch
from icl.models import attention

# Relative damping, absolute damping in units of the loss, and the longest relative step; trial seeds converge.
DAMPING, FLOOR, LONGEST = 1e-2, 1e-3, 0.5
# Scalars near zero may still move by LONGEST times these.
LEAST_SCALE, LEAST_RATE = 0.2, 0.3


def start(kernel: str, layers: int, context_length: int, *, signed: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the initial scales s_l and rates r_l, (L,) each; `signed` starts with s_1, r_1 < 0.

    exp: small scales with a first rate of 1, which removes the mean. softmax: growing scales and falling rates of order
    n, since its scores are about 1/n. linear and relu: s_l = 1, since only r_l matters. The values were found on trial
    seeds.
    """
    n = context_length
    scales: np.ndarray
    rates: np.ndarray
    if kernel == "softmax":
        scales, rates = np.exp(np.linspace(-1.5, 1.5, layers)), n * np.linspace(3, 1, layers)
    elif kernel == "exp" and signed:
        # Small scales keep exp small for both signs; the start below ends in a worse minimum.
        scales, rates = np.linspace(0.15, 0.45, layers), 1 + 0.5 * np.arange(layers)
    elif kernel == "exp":
        scales, rates = np.full(layers, 0.3), np.full(layers, 8.0)
        scales[-1], rates[-1], rates[0] = 2.0, 1.5, 1.0
    else:
        scales, rates = np.ones(layers), 2.0 + np.arange(layers)
    if signed:
        scales[0], rates[0] = -scales[0], -rates[0]
    return scales, rates


def jacobian(
    scales: "Tensor", rates: "Tensor", inputs: "Tensor", labels: "Tensor", kernel: str
) -> "tuple[Tensor, Tensor]":
    """Return one run's predictions (prompts,) and their derivatives by s_l and r_l, (prompts, 2, L), for A = 0.

    With a_j = sum_i u_i K_ij, the stack is u <- u - (r/n) a, f <- f + (r/n) a_query. Going back from the last layer,
    lambda = df/du obeys lambda <- lambda + (r/n) K (e_query - lambda), and a layer's derivatives are

        df/dr = (1/n) a . (e_query - lambda),   df/ds = (r/n) (u' dK/ds) . (e_query - lambda).
    """
    n, layers = labels.shape[1] - 1, len(rates)
    products, similarity = inputs[:, :-1] @ inputs.mT, attention.similarity(kernel)
    residuals, answer = labels[:, :-1], torch.zeros_like(labels[:, -1])
    layer_values = []
    for layer in range(layers):
        shown = products if layer < layers - 1 else products[:, :, -1:]
        scores = similarity(scales[layer] * shown)
        sums = (residuals[:, None] @ scores)[:, 0]
        layer_values.append((shown, scores, residuals, sums))
        answer = answer + rates[layer] / n * sums[:, -1]
        if layer < layers - 1:
            residuals = residuals - rates[layer] / n * sums[:, :-1]
    derivatives = torch.empty((len(labels), 2, layers), dtype=labels.dtype)
    adjoint = torch.zeros_like(labels[:, :-1])
    query = torch.full_like(labels[:, :1], 1 / n)
    for layer in reversed(range(layers)):
        shown, scores, residuals, sums = layer_values[layer]
        weights = torch.cat([-adjoint / n, query], dim=1) if layer < layers - 1 else query
        derivatives[:, 1, layer] = (sums * weights).sum(dim=1)
        slopes = _slopes(kernel, scales[layer], shown, scores, residuals, sums)
        derivatives[:, 0, layer] = rates[layer] * (slopes * weights).sum(dim=1)
        adjoint = adjoint + rates[layer] * (scores @ weights[:, :, None])[:, :, 0]
    return answer, derivatives


def _slopes(
    kernel: str, scale: "Tensor", products: "Tensor", scores: "Tensor", residuals: "Tensor", sums: "Tensor"
) -> "Tensor":
    """u' dK/ds: (prompts, targets)."""
    if kernel in ("linear", "relu"):
        return sums / scale
    weighted = products * scores
    slopes = (residuals[:, None] @ weighted)[:, 0]
    return slopes - sums * weighted.sum(dim=1) if kernel == "softmax" else slopes


def step(scales: "Tensor", rates: "Tensor", inputs: "Tensor", labels: "Tensor", kernel: str) -> "tuple[Tensor, Tensor]":
    """Return the loss of one run and the damped Gauss-Newton step to subtract from (s, r), (2, L).

    Steps are damped in relative units. linear and relu are homogeneous, so s_l is redundant there and stays fixed.
    """
    answers, derivatives = jacobian(scales, rates, inputs, labels, kernel)
    errors, layers = answers - labels[:, -1], len(rates)
    units = torch.cat([scales.abs() + LEAST_SCALE, rates.abs() + LEAST_RATE])
    if kernel in ("linear", "relu"):
        units[:layers] = 0
    scaled = derivatives.flatten(1) * units
    value = torch.mean(errors**2)
    curvature, slope = scaled.T @ scaled / len(errors), scaled.T @ errors / len(errors)
    damped = curvature + DAMPING * curvature.diag().diag() + FLOOR * value * torch.eye(2 * layers, dtype=value.dtype)
    relative = torch.linalg.solve(damped, slope)
    shrink = LONGEST / relative.abs().max().clamp(min=LONGEST)
    return value, (shrink * relative * units).reshape(2, layers)
