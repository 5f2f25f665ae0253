"""A gradient of the softmax layer over discrete features: from counts and from their law, against the literal tokens.

Every side draws its own M = 300 prompts, if any, and returns the gradient; `tokens` is a reasonable implementation
(Q x_query first, then one batched product, softmax over N, automatic differentiation). `population` is the full
population gradient, both columns. CPU time of one thread, the minimum of several alternating repeats.

The growth of `population` is measured for K = 10 ... 800 at N = 20 K, and for K = 20 at N = 200 ... 12800. Its work is
proportional to the cells of a Gauss rule, ten for each c_k within some standard deviations, sqrt(N p_k) of them:
constant at N = 20 K, where the literal tokens cost M N d ~ K^2, and sqrt(N) at fixed K, where the overhead of calls
still dominates.

    python -m benchmarks huang_estimators
"""

from collections.abc import Callable

import numpy as np
import torch

from benchmarks.timing import Row, exponent, least
from icl.papers.huang2024 import population_gradient, prompts
from icl.papers.huang2024.count_laws import PromptLaw
from tests.oracles import huang2024 as oracle

SIZES = ((20, 20, 30.0, 200.0), (50, 20, 100.0, 1000.0))  # K, N/K and the two target ratios
PROMPTS = 300
Side = Callable[[], object]


def token_sides(features: int, per_feature: int) -> tuple[Side, Side]:
    """One gradient by tokens, on fresh prompts and on fixed ones; both form their tokens."""
    p, length, v = prompts.imbalanced(features, 0.5), per_feature * features, oracle.basis(features, features + 4)
    rng, q = np.random.default_rng(0), torch.zeros(features + 4, features + 4, dtype=torch.float64)
    given = prompts.prompts(rng, p, length, PROMPTS)
    return (
        lambda: oracle.token_loss_and_gradient(q, prompts.prompts(rng, p, length, PROMPTS), v),
        lambda: oracle.token_loss_and_gradient(q, given, v),
    )


def count_sides(features: int, per_feature: int) -> tuple[Side, Side]:
    """One gradient by counts, fresh and fixed."""
    p, length = prompts.imbalanced(features, 0.5), per_feature * features
    rng, q = np.random.default_rng(0), torch.zeros(features, features, dtype=torch.float64)

    def fresh() -> torch.Tensor:
        return torch.from_numpy(rng.multinomial(length, p, size=PROMPTS).astype(float))

    given = fresh()
    return (
        lambda: oracle.count_loss_and_gradient(q, fresh(), p),
        lambda: oracle.count_loss_and_gradient(q, given, p),
    )


def population_side(features: int, per_feature: int) -> Side:
    """One population gradient with precomputed cells."""
    q, law = torch.zeros(1, 2, 3, dtype=torch.float64), PromptLaw(features, 0.5, per_feature * features)
    population_gradient.loss_and_gradient(q, [law])
    return lambda: population_gradient.loss_and_gradient(q, [law])


def main() -> list[Row]:
    """Rows (name, value, target)."""
    rows: list[Row] = []
    for features, per_feature, least_counts, least_population in SIZES:
        tokens, given_tokens = token_sides(features, per_feature)
        fresh, given_counts = count_sides(features, per_feature)
        seconds = least(
            {
                "tokens": (tokens, 1),
                "counts": (fresh, 20),
                "population": (population_side(features, per_feature), 50),
                "given tokens": (given_tokens, 1),
                "given counts": (given_counts, 20),
            }
        )
        at = f"at K = {features}, N = {features * per_feature}"
        rows += [
            (
                f"tokens / counts, fresh prompts, {at}: at least",
                seconds["tokens"] / seconds["counts"],
                least_counts,
            ),
            (f"tokens / counts, given prompts, {at}", seconds["given tokens"] / seconds["given counts"], None),
            (f"tokens / population, {at}: at least", seconds["tokens"] / seconds["population"], least_population),
            (f"milliseconds of tokens, fresh prompts, {at}", 1e3 * seconds["tokens"], None),
        ]
    in_k = exponent(lambda k: population_side(k, 20), [10, 20, 50, 100, 200, 400, 800], 20)
    in_n = exponent(lambda per: population_side(20, per), [10, 20, 40, 80, 160, 320, 640], 20)
    rows += [
        ("exponent of the population's time in K at N = 20 K", in_k, None),
        ("exponent of the population's time in N at K = 20", in_n, None),
    ]
    return rows
