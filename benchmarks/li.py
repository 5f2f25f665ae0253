"""The models of Li et al. against their literal forms, and against their own matrix products.

li2024  a step of SGD of the one-layer model for ten seeds against eq. 7 token by token, seed by
        seed; training steps of the stack and of the GPT-2 style model for five seeds
li2025  the answers of figure 17, four alpha' and contexts of 0, 10, ..., 100 examples: all
        settings, lengths and queries at once, with their prompts, against a loop that forms the
        full prompt again for every step
"""

import os
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.timing import Call, Row, pair, parts, step
from icl.core.config import grid
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.models.optimisers import Params
from icl.papers.li2024 import decoder, one_layer, stack
from icl.papers.li2025 import one_layer as chains
from icl.papers.li2025 import prompts
from icl.papers.li2025.decoding import chain_of_thought, draw_test, wrong_answers
from tests.oracles import li2024, li2025

SGD = grid(one_layer.Config, seed=range(10), optimiser=("sgd",))
STACKS = grid(stack.Config, seed=range(5))
DECODERS = grid(decoder.Config, seed=range(5))


def literal_step(config: one_layer.Config, params: Params) -> Params:
    """Return the weights of one run after a step by eq. 7; params without run axis."""
    batch = {name: a[0] for name, a in one_layer.sample([config], 0).items()}
    leaves = {name: w.detach().requires_grad_() for name, w in params.items()}
    labels = torch.from_numpy(batch["label"][:, -1])
    loss = li2024.one_layer_loss(leaves, li2024.one_layer_prompts(config, batch), labels)
    gradients = torch.autograd.grad(loss, list(leaves.values()))
    rates = dict.fromkeys(leaves, config.learning_rate)
    rates["a"] *= config.readout_rate  # the read-out has its own step size
    return {name: params[name] - rates[name] * g for name, g in zip(leaves, gradients, strict=True)}


def of_ten_seeds() -> tuple[Call, Call]:
    """Return a step of the one-layer model, seed by seed and as one tensor program."""
    params = one_layer.init(SGD)
    together = step(one_layer, SGD)

    def apart() -> list[Params]:
        return [
            literal_step(config, {name: w[run] for name, w in params.items()})
            for run, config in enumerate(SGD)
        ]

    ours: Any = together()
    for run, weights in enumerate(apart()):
        for name, w in weights.items():
            largest = (w - params[name][run]).abs().max()
            assert (ours[name][run] - w).abs().max() <= 1e-10 * largest, (name, run)
    return apart, together


def stack_gradients() -> Call:
    """Return the gradients of all runs of the stack, column by column."""

    def literal(config: stack.Config) -> object:
        params = {name: w[0].requires_grad_() for name, w in stack.init([config]).items()}
        drawn = one_layer.sample([config], 0)
        factors = {name: np.asarray(part[0]) for name, part in drawn.items()}
        logits = li2024.stack_logit(params, li2024.one_layer_prompts(config, factors))
        loss = torch.relu(1 - torch.from_numpy(factors["label"][:, -1]) * logits).mean()
        trained = [params[name] for name in ("W_Q", "W_K", "W_V", "W_O", "W_2")]
        return torch.autograd.grad(loss, trained)

    return lambda: [literal(config) for config in STACKS]


def chain_of_thought_sides(looped: int, queries: int) -> tuple[Call, Call]:
    """Return a greedy loop over some queries, and all of them at once."""
    config = chains.Config()
    test = chains.Evaluation(queries=queries)
    lengths = range(0, 101, 10)
    params = chains.init([config])
    # Weights as after training: attention on equal patterns at equal steps.
    params |= {name: 6.0 * params[name] for name in ("W_Q", "W_K")}
    fractions = 0.4, 0.6, 0.8, 1.0
    settings = [replace(test, relevant_fraction_test=one).setting() for one in fractions]
    drawn = draw_test(config, test)
    sweep = Sweep("li_cot", chains.MODEL, (config,), (0,), test)
    runs = Runs(sweep, {name: w[:, None] for name, w in params.items()}, np.zeros((1, 0)))
    shown = [prompts.assemble(drawn, setting, slice(looped)) for setting in settings]

    def loop() -> None:
        for of_setting in shown:
            for query, vectors in zip(of_setting.query, of_setting.vectors, strict=True):
                for length in lengths[1:]:
                    li2025.greedy_chain(params, config, drawn.patterns, vectors[:length], query)

    return loop, partial(wrong_answers, chain_of_thought, runs, settings, tuple(lengths))


ONE_LAYER = "li2024, one layer, 10 seeds: literal loop / training step"
LITERAL_STACK = stack_gradients, partial(step, stack, STACKS)
CHAINS = partial(chain_of_thought_sides, 3, 100)
ROWS = [
    Row(ONE_LAYER, of_ten_seeds, at_least=3),
    Row(f"{ONE_LAYER}, all cores", of_ten_seeds, at_least=3, threads=len(os.sched_getaffinity(0))),
    *parts("li2024, one layer, 10 seeds", one_layer, SGD, share=0.15)[1:],
    pair("li2024, stack, 5 seeds: literal gradients / training step", *LITERAL_STACK, at_least=2),
    *parts("li2024, stack, 5 seeds", stack, STACKS, share=0.15, over_products=1.5),
    *parts("li2024, GPT-2 style, 5 seeds", decoder, DECODERS, share=0.15, over_products=1.5),
    Row("li2025: greedy loop / all at once, per query", CHAINS, at_least=20, units=(3, 100)),
]
