"""Linear attention: reduced forms and closed forms of the population against the literal tokens,
one gradient each.

ahn2023         three relaxed layers, d = 5, n = 20, 4000 prompts. The Gram form carries a (d + 1) x
                (d + 1) matrix and the query's column per prompt; the literal side is dense
                attention over n + 1 columns.
oswald2023      one layer, N = d = 10, B = 2048 fresh prompts, five seeds. The reduced form passes
                twice over the examples; the closed form is in float64; the literal side forms the
                tokens of each run.
oswald2023mesa  256 sequences of 50 positions, 4 and 2 heads, keys of size 20: the derivatives of
                the mesa layer from one Cholesky factor, and of linear attention from the 20 rows of
                a token that matter.
zhang2024       the population's gradient for the two blocks that move, from the moments of the
                covariance; the literal one for all blocks over B = 256 prompts.
zheng2024       unitary sequences, d = 5, T = 100, M = 1000; the definition forms E_t at every
                position. Statistics are computed once for 200 epochs from three starts, as on page
                42.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor

from benchmarks.timing import Call, Row, pair, sampling, step, tensors
from icl.core.streams import stream
from icl.models.autoregressive import gradients
from icl.models.autoregressive import model as zheng
from icl.models.autoregressive.config import Config as ZhengConfig
from icl.papers.ahn2023 import linear_attention as ahn
from icl.papers.oswald2023 import linear_attention as oswald
from icl.papers.oswald2023mesa import layers, one_layer
from icl.papers.zhang2024 import linear_attention as zhang
from icl.papers.zhang2024 import population_flow
from tests.oracles import ahn2023, autoregressive, oswald2023, oswald2023mesa


def ahn_literal() -> Call:
    drawn = ahn2023.draw_tokens(AHN, stream("benchmark", 0, "train"), AHN.prompts)
    batch = {name: array[None] for name, array in tensors(drawn).items()}
    params = ahn.init([AHN])

    def run() -> object:
        leaves = {name: w.clone().requires_grad_() for name, w in params.items()}
        loss = ahn2023.attention_loss(leaves, batch, AHN).sum()
        return torch.autograd.grad(loss, list(leaves.values()))

    return run


AHN = ahn.Config(gradient_estimator=ahn.SAMPLED, prompts=4000, init_std=0.1)
GRAM = partial(step, ahn, [AHN], given=True, update=False)


def oswald_configs(estimator: str) -> list[oswald.Config]:
    return [oswald.Config(gradient_estimator=estimator, seed=seed) for seed in range(5)]


def oswald_literal() -> Call:
    configs = oswald_configs("fresh_prompts")
    start = oswald.init(configs)
    draws = sampling(oswald, configs)

    def run_all() -> None:
        batch = draws()
        for run in range(len(configs)):
            leaves = {name: w[run].clone().requires_grad_() for name, w in start.items()}
            loss = oswald2023.loss(leaves, {name: values[run] for name, values in batch.items()})
            torch.autograd.grad(loss, list(leaves.values()))

    return run_all


REDUCED, POPULATION = (
    partial(step, oswald, oswald_configs(name), update=False)
    for name in ("fresh_prompts", "population")
)

# The number of sequences per chunk, on either side; more would not fit in the cache.
CHUNK = 32


def mesa(layer: Callable[..., Tensor]) -> Call:
    """Return the derivatives of a mesa layer in all its inputs."""
    source = torch.Generator().manual_seed(0)
    inputs = [torch.randn(256, 4, 50, size, generator=source) for size in (20, 20, 10)]
    weight = torch.randn(256, 4, 50, 10, generator=source)
    chunks = [x.split(CHUNK) for x in (*inputs, torch.ones(256, 4), weight)]

    def run() -> None:
        for *part, of_part in zip(*chunks, strict=True):
            leaves = [x.detach().requires_grad_() for x in part]
            torch.autograd.grad((layer(*leaves) * of_part).sum(), leaves)

    return run


def linear() -> tuple[Call, Call]:
    """Return linear attention's loss and derivatives, from literal tokens and by the package."""
    config = one_layer.Config(init_std=0.1)
    weights = one_layer.init([config])
    x = torch.from_numpy(one_layer.sample([config], 0)["x"])

    def literal() -> None:
        for part in x[0].split(CHUNK):
            leaves = {name: w[0].detach().requires_grad_() for name, w in weights.items()}
            errors = oswald2023mesa.outputs(leaves, part).clamp(-4, 4) - part[:, 1:]
            torch.autograd.grad(errors.square().sum() / 2, list(leaves.values()))

    return literal, lambda: one_layer.loss_and_gradient(weights, {"x": x}, [config])


OURS, SOLVES, LOOP = (
    partial(mesa, layer)
    for layer in (layers.mesa, oswald2023mesa.mesa_by_position, oswald2023mesa.ridge_regressions)
)


def zhang_sides(d: int, n: int) -> tuple[Call, Call]:
    """Return a gradient over given prompts, and the population's from moments that a training
    computes once.
    """
    sizes = {"dimension": d, "context_length": n, "prompts": 256}
    config = zhang.Config(gradient_estimator="prompt_batches", initial_scale=0.02, **sizes)  # type: ignore[arg-type]
    blocks = population_flow.Blocks(
        config.initial_scale * zhang.theta(config), np.array(config.initial_scale)
    )
    literal = step(zhang, [config], given=True, update=False)
    return literal, partial(population_flow.velocity, blocks, config.law())


ALL_BLOCKS, BLOCKS, MEAN = (
    ZhengConfig(gradient_estimator=name, samples=1000)
    for name in ("sample_all_blocks", "sample_blocks", "population")
)
# On sequences drawn beforehand.
PREFIX_SUMS, STATISTICS, EXACT = (
    partial(step, zheng, [config], given=True, update=False)
    for config in (ALL_BLOCKS, BLOCKS, MEAN)
)


def zheng_definition() -> Call:
    """Return the gradient in all blocks from E_t E_t* at every position."""
    weights = zheng.init([ALL_BLOCKS])
    return lambda: autoregressive.of_all_blocks(weights, [ALL_BLOCKS])


def zheng_training() -> Call:
    """Return the statistics of the sample and 600 gradients from them."""
    gradient = STATISTICS()
    return lambda: [gradients.sampled.__wrapped__(BLOCKS), *(gradient() for _ in range(600))]


ROWS = [
    pair("ahn2023: dense attention / Gram form", ahn_literal, GRAM, at_least=5),
    pair("oswald2023: literal / reduced", oswald_literal, REDUCED, at_least=5),
    pair("oswald2023: literal / population", oswald_literal, POPULATION, at_least=15),
    pair("oswald2023mesa: batched solve per position / mesa layer", SOLVES, OURS, at_least=5),
    pair("oswald2023mesa: loop over positions / mesa layer", LOOP, OURS, at_least=15),
    Row("oswald2023mesa: literal tokens / linear attention", linear, at_least=2),
    *(
        Row(
            f"zhang2024: literal / population, d = {d}, N = {n}",
            partial(zhang_sides, d, n),
            at_least=30,
        )
        for d, n in ((5, 20), (20, 40))
    ),
    pair("zheng2024: definition / prefix sums", zheng_definition, PREFIX_SUMS, at_least=15),
    pair(
        "zheng2024: definition / statistics",
        zheng_definition,
        zheng_training,
        at_least=300,
        units=(1, 600),
    ),
    pair("zheng2024: definition / population", zheng_definition, EXACT, at_least=1000),
]
