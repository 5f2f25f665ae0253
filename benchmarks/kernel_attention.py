"""Attention with a kernel or a softmax: reduced forms against the literal tokens, by automatic
differentiation.

cheng2024  a gradient of the mean squared error by the 2 L scalars of the layers, over 200 prompts.
           Tokens are (d + 1) x (n + 1) with V, B and C in every layer. The reduced form carries
           the n residuals and the query's answer, forms the inner products once, and needs one
           column of the last kernel matrix; it also returns the Jacobian of all prompts.
huang2024  a gradient over 300 prompts of N = 20 K tokens, which each side draws: from the tokens or
           the counts of features, or the population's, which is exact, from a Gauss rule over the
           counts of a feature.
"""

from functools import partial

import numpy as np
import torch
from torch import Tensor

from benchmarks.timing import Call, Row, pair
from icl.papers.cheng2024 import gauss_newton
from icl.papers.cheng2024 import kernel_attention as cheng
from icl.papers.huang2024 import population_gradient, prompts
from icl.papers.huang2024.count_laws import PromptLaw
from tests.oracles import cheng2024, huang2024

PROMPTS = 200


def token_stack(
    scales: Tensor, rates: Tensor, inputs: Tensor, labels: Tensor, kernel: str
) -> Tensor:
    """Return the predictions of the stack on tokens with B = s_l I, C = I and A = 0, (prompts,)."""
    identity = torch.eye(inputs.shape[-1], dtype=inputs.dtype).expand(len(rates), 1, -1, -1)
    weights = {
        "key": scales[:, None, None, None] * identity,
        "query": identity,
        "rate": rates[:, None],
    }
    return cheng2024.published_transformer(
        weights | {"covariate": 0 * identity}, inputs, labels, kernel
    )


def by_scalars(kernel: str, layers: int, n: int, d: int) -> tuple[Call, Call]:
    """Return the gradient from tokens and in the reduced form, on the same prompts."""
    config = cheng.Config(
        kernel=kernel, labels="half_exp", layers=layers, context_length=n, dimension=d
    )
    drawn = cheng.prompts_of(config, "benchmark", 0, PROMPTS)
    inputs = torch.from_numpy(drawn.inputs)
    labels = torch.from_numpy(drawn.labels)
    scalars = torch.from_numpy(np.stack(gauss_newton.start(kernel, layers, n, signed=False)))

    def reduced() -> tuple[Tensor, ...]:
        answers, derivatives = gauss_newton.jacobian(scalars, inputs, labels, kernel)
        return tuple(2 * torch.einsum("p,pkl->kl", answers - labels[:, -1], derivatives) / PROMPTS)

    def literal() -> tuple[Tensor, ...]:
        s, r = (w.clone().requires_grad_() for w in scalars)
        errors = token_stack(s, r, inputs, labels, kernel) - labels[:, -1]
        return torch.autograd.grad(errors.square().mean(), (s, r))

    torch.testing.assert_close(reduced(), literal(), rtol=1e-8, atol=1e-8)
    return literal, reduced


def tokens(k: int) -> Call:
    p = prompts.imbalanced(k, 0.5)
    v = huang2024.basis(k, k + 4)
    source = np.random.default_rng(0)
    q = torch.zeros(k + 4, k + 4, dtype=torch.float64)
    return lambda: huang2024.token_loss_and_gradient(q, prompts.prompts(source, p, 20 * k, 300), v)


def counts(k: int) -> Call:
    p = prompts.imbalanced(k, 0.5)
    source = np.random.default_rng(0)
    q = torch.zeros(k, k, dtype=torch.float64)
    return lambda: huang2024.count_loss_and_gradient(
        q, torch.from_numpy(source.multinomial(20 * k, p, size=300).astype(float)), p
    )


def population(k: int) -> Call:
    q = torch.zeros(1, 2, 3, dtype=torch.float64)
    law = PromptLaw(k, 0.5, 20 * k)
    return partial(population_gradient.loss_and_gradient, q, [law])


SIZES = ((3, 14, 5, 2.5), (7, 14, 5, 2), (3, 14, 40, 6))
HUANG = ((counts, 20, 10), (counts, 50, 20), (population, 20, 200), (population, 50, 1000))
ROWS = [
    *(
        Row(
            f"cheng2024: tokens / reduced, {kernel}, L = {layers}, n = {n}, d = {d}",
            partial(by_scalars, kernel, layers, n, d),
            at_least=least,
        )
        for kernel in ("exp", "softmax")
        for layers, n, d, least in SIZES
    ),
    *(
        pair(
            f"huang2024: tokens / {side.__name__}, K = {k}",
            partial(tokens, k),
            partial(side, k),
            at_least=least,
        )
        for side, k, least in HUANG
    ),
]
