"""A gradient of L layers of kernel attention: the reduced form on residuals against the literal token stack.

Both sides use the same B prompts and return the gradient of the mean squared error by the 2 L scalars of the layers, by
automatic differentiation. `tokens` is a reasonable implementation of the definition: (d + 1) x (n + 1) tokens, V, B and
C in every layer. `residuals` carries the n residuals and the query's answer, forms the inner products once, and needs
only one column of the last kernel matrix; it also returns the Jacobian of all prompts, which Gauss-Newton needs. CPU
time of one thread, the minimum of several alternating repeats.

`transformers` does the same for the published models with all their matrices: a gradient of several runs as in
training, against the literal loop over runs, layers and heads.

The work of the reduced form is B L n^2 and depends on d only in the inner products; that of the tokens is
B L n (n + d) d.

    python -m benchmarks cheng_layers
"""

import dataclasses
from collections.abc import Callable

import numpy as np
import torch

from benchmarks.timing import Row, least, slope
from icl.models import attention
from icl.papers.cheng2024 import gauss_newton, transformers
from icl.papers.cheng2024 import kernel_attention as system
from icl.papers.cheng2024.kernel_attention import Config
from tests.oracles import cheng2024 as oracle

PROMPTS = 200
# layers, n, d and the target ratio
SIZES = ((3, 14, 5, 2.5), (7, 14, 5, 2.0), (3, 14, 40, 6.0))
KERNELS = ("exp", "softmax")
# The number of runs, and their models.
RUNS, TRANSFORMERS = 15, (("linear", 3), ("relu", 3), ("exp", 3), ("softmax", 3), ("exp", 5), ("linear_exp", 3))
LENGTHS, DEPTHS, DIMENSIONS = (10, 20, 40, 80), (1, 2, 4, 8), (5, 20, 80, 320)


def token_stack(
    scales: torch.Tensor, rates: torch.Tensor, inputs: torch.Tensor, labels: torch.Tensor, kernel: str
) -> torch.Tensor:
    """The predictions of the stack on tokens with B = s_l I, C = I and A = 0, (prompts,)."""
    z, similarity, d = attention.tokens(inputs, labels), attention.similarity(kernel), inputs.shape[-1]
    identity = torch.eye(d, dtype=inputs.dtype)
    for scale, rate in zip(scales, rates, strict=True):
        value = torch.nn.functional.pad(-rate.reshape(1, 1), (d, 0, d, 0))
        z = attention.kernel_layer(z, value, scale * identity, identity, similarity)
    return attention.prediction(z)


def sides(kernel: str, layers: int, n: int, d: int) -> dict[str, tuple[Callable[[], object], int]]:
    """One gradient by each implementation on the same prompts."""
    config = Config(kernel=kernel, labels="half_exp", layers=layers, context_length=n, dimension=d)
    drawn = system.prompts_of(config, "benchmark", 0, PROMPTS)
    inputs, labels = torch.from_numpy(drawn.inputs), torch.from_numpy(drawn.labels)
    scalars = torch.from_numpy(np.stack(gauss_newton.start(kernel, layers, n, signed=False)))

    def residuals() -> tuple[torch.Tensor, ...]:
        answers, derivatives = gauss_newton.jacobian(scalars, inputs, labels, kernel)
        return tuple(2 * torch.einsum("p,pkl->kl", answers - labels[:, -1], derivatives) / PROMPTS)

    def tokens() -> tuple[torch.Tensor, ...]:
        s, r = (w.clone().requires_grad_() for w in scalars)
        return torch.autograd.grad(torch.mean((token_stack(s, r, inputs, labels, kernel) - labels[:, -1]) ** 2), (s, r))

    for a, b in zip(residuals(), tokens(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-8)
    return {"residuals": (residuals, 1), "tokens": (tokens, 1)}


def transformer_sides(kernel: str, layers: int) -> dict[str, tuple[Callable[[], object], int]]:
    """One gradient of all runs by each implementation, in float32 on the same prompts."""
    config = Config(
        kernel=kernel, labels="half_exp", layers=layers, parametrisation="matrices", covariates=True,
        optimiser="normalised",
    )  # fmt: skip
    drawn = [system.prompts_of(config, "benchmark", run, PROMPTS) for run in range(RUNS)]
    inputs, labels = (
        torch.from_numpy(np.stack([getattr(prompts, name) for prompts in drawn])).float()
        for name in ("inputs", "labels")
    )
    weights = {
        name: w[:, :layers].float().requires_grad_()
        for name, w in system.init([dataclasses.replace(config, seed=run) for run in range(RUNS)]).items()
    }

    def residuals() -> tuple[torch.Tensor, ...]:
        found = transformers.losses(weights, inputs, labels, kernel)
        return torch.autograd.grad(found.sum(), list(weights.values()))

    def literal() -> tuple[torch.Tensor, ...]:
        of_runs = [{n: w[run] for n, w in transformers.complete(weights).items()} for run in range(RUNS)]
        answers = [
            oracle.published_transformer(w, x, y, kernel) for w, x, y in zip(of_runs, inputs, labels, strict=True)
        ]
        found = ((torch.stack(answers) - labels[..., -1]) ** 2).mean(dim=1)
        return torch.autograd.grad(found.sum(), list(weights.values()))

    for a, b in zip(residuals(), literal(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
    return {"residuals": (residuals, 1), "literal": (literal, 1)}


def of_transformers() -> list[Row]:
    """Ratios of both times for the published models."""
    rows: list[Row] = []
    for kernel, layers in TRANSFORMERS:
        times = least(transformer_sides(kernel, layers), repeats=5)
        at = f"{RUNS} transformers, {kernel}, L = {layers}"
        rows += [
            (f"literal / residuals, {at}", times["literal"] / times["residuals"], None),
            (f"steps per second of all, {at}", 1 / times["residuals"], None),
        ]
    return rows


def exponents(name: str, values: tuple[int, ...]) -> list[Row]:
    """Log-log slopes of both times in one of the sizes, over its larger half, and their ratio at its end."""
    sizes = [{"layers": 3, "n": 14, "d": 5} | {name: value} for value in values]
    measured = [least(sides("exp", **size), repeats=3) for size in sizes]
    rows: list[Row] = [
        (f"exponent of {side} in {name}", slope(values, [times[side] for times in measured]), None)
        for side in ("residuals", "tokens")
    ]
    ratio = measured[-1]["tokens"] / measured[-1]["residuals"]
    return [*rows, (f"tokens / residuals, exp, {name} = {values[-1]}", ratio, None)]


def main() -> list[Row]:
    """Rows (name, value, target)."""
    rows: list[Row] = []
    for kernel in KERNELS:
        for layers, n, d, target in SIZES:
            times = least(sides(kernel, layers, n, d), repeats=5)
            at = f"{kernel}, L = {layers}, n = {n}, d = {d}"
            rows += [
                (f"tokens / residuals, {at}: at least", times["tokens"] / times["residuals"], target),
                (f"milliseconds of tokens, {at}", 1e3 * times["tokens"], None),
            ]
    for name, values in (("n", LENGTHS), ("layers", DEPTHS), ("d", DIMENSIONS)):
        rows += exponents(name, values)
    rows += of_transformers()
    return rows
