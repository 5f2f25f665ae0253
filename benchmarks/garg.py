"""Garg et al.: a training step of their GPT-2, and the baselines on every prefix of all prompts at
once.

A step at d = 5 and one at d = 20 are compared with their own matrix products, and the first with
transformers' GPT-2, which trains on prompts of the same shape with torch's Adam, without sampling
and clipping. The baselines are compared, per prompt of 41 points with d = 20, with one solve per
prompt and prefix: numpy's lstsq or scikit-learn's 3 nearest neighbours.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import torch

from benchmarks.timing import Call, Row, pair, parts, step
from icl.papers.garg2022 import baselines, evaluation, gpt2


def full(scale: str) -> gpt2.Config:
    """Return the constants of a scale with prompts of full size, as at the curriculum's end."""
    (one, *_) = evaluation.sweeps(scale)[0].configs
    return replace(one, first_dimension=one.dimension, first_points=one.points)


CONFIG = full("laptop")
DIMENSION = 20
POINTS = 41
PROMPTS = 640
LOOPED = 4
Solve = Callable[[np.ndarray, np.ndarray, np.ndarray], float]
"""Examples and a query -> an answer."""


def transformers_step() -> Call:
    """Return a step of transformers' GPT-2 between linear maps, as the published code trains it."""
    # Silences a warning on special tokens, which are not used here.
    logging.getLogger("transformers").setLevel(logging.ERROR)
    from transformers import GPT2Config, GPT2Model

    count = 2 * CONFIG.points
    model = GPT2Model(
        GPT2Config(
            n_positions=count,
            n_embd=CONFIG.width,
            n_layer=CONFIG.layers,
            n_head=CONFIG.heads,
            vocab_size=1,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            use_cache=False,
        )
    )
    read_in = torch.nn.Linear(CONFIG.dimension, CONFIG.width)
    read_out = torch.nn.Linear(CONFIG.width, 1)
    adam = torch.optim.Adam(
        [w for part in (read_in, model, read_out) for w in part.parameters()], CONFIG.learning_rate
    )
    tokens = torch.randn(CONFIG.batch, count, CONFIG.dimension)
    labels = torch.randn(CONFIG.batch, CONFIG.points)

    def whole() -> None:
        adam.zero_grad()
        out = read_out(model(inputs_embeds=read_in(tokens)).last_hidden_state)[:, ::2, 0]
        (out - labels).square().mean().backward()
        adam.step()

    return whole


def lstsq(inputs: np.ndarray, labels: np.ndarray, query: np.ndarray) -> float:
    return float(query @ np.linalg.lstsq(inputs, labels, rcond=None)[0])


def neighbours(inputs: np.ndarray, labels: np.ndarray, query: np.ndarray) -> float:
    """scikit-learn's 3 nearest neighbours."""
    from sklearn.neighbors import KNeighborsRegressor

    fit = KNeighborsRegressor(min(3, len(labels)), algorithm="brute").fit(inputs, labels)
    return float(fit.predict(query[None])[0])


def on_prefixes(solve: Solve, at_once: baselines.PrefixEstimator) -> tuple[Call, Call]:
    """Return a loop over some prompts and their prefixes, and all prompts at once."""
    source = np.random.default_rng(0)
    inputs = source.standard_normal((PROMPTS, POINTS, DIMENSION))
    labels = np.einsum("pnd,pd->pn", inputs, source.standard_normal((PROMPTS, DIMENSION)))

    def loop() -> None:
        for x, y in zip(inputs[:LOOPED], labels[:LOOPED], strict=True):
            for k in range(1, POINTS):
                solve(x[:k], y[:k], x[k])

    return loop, partial(at_once, inputs, labels, inputs)


ROWS = [
    *parts("garg2022, GPT-2", gpt2, [CONFIG], share=0.05, over_products=1.5),
    *parts("garg2022, GPT-2 at d = 20", gpt2, [full("workstation")], share=0.05, over_products=1.3),
    pair(
        "garg2022, GPT-2: transformers' step / ours",
        transformers_step,
        partial(step, gpt2, [CONFIG]),
        at_least=1.3,
    ),
] + [
    Row(
        f"garg2022: one solve per prompt / all at once, {name}",
        partial(on_prefixes, solve, at_once),
        at_least=5,
        units=(LOOPED, PROMPTS),
    )
    for name, solve, at_once in (
        ("least squares", lstsq, baselines.least_squares),
        ("3 nearest neighbours", neighbours, baselines.nearest_neighbours(3)),
    )
]
