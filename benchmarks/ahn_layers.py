"""Loss and gradient of linear attention: the Gram form and the averaged loss against dense attention, equal batches.

Three relaxed layers, d = 5. Dense attention is the literal model over n + 1 columns; the Gram form carries one matrix
(d + 1) x (d + 1) and the query's column per prompt; the averaged loss draws only Gram matrices. Prompts are drawn
beforehand, except for complete training steps, which draw them, clip, and take Adam's step; there the literal loop is
the paper's own: fresh tokens, dense attention, torch's Adam.
CPU time of one thread, the minimum of several alternating repeats. Exponents are log-log slopes between two sizes.

    python -m benchmarks ahn_layers
"""

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import torch

from benchmarks.timing import Row, least
from icl.core import discovery
from icl.core.streams import stream
from icl.core.sweep import Sweep
from icl.core.training import loss_and_gradient
from icl.papers.ahn2023 import linear_attention as system
from icl.papers.ahn2023.linear_attention import AVERAGED, SAMPLED, SKEWED, Config
from tests.oracles import ahn2023 as oracle

PROMPTS = 4000
FORMS = {"gram": SAMPLED, "averaged": AVERAGED}
GROWTH = {"context_length": (20, 320), "dimension": (5, 20), "layers": (2, 8), "seeds": (1, 8)}


def step(form: str, seeds: int = 1, **constants: Any) -> Callable[[], None]:
    """One loss and gradient on fixed prompts, from weights of some size."""
    defaults: dict[str, Any] = {"prompts": PROMPTS, "init_std": 0.1, "gradient_estimator": FORMS.get(form, SAMPLED)}
    configs = [Config(seed=seed, **(defaults | constants)) for seed in range(seeds)]
    params = system.init(configs)
    draw = oracle.draw_tokens if form == "tokens" else system.draw
    drawn = [draw(c, stream("benchmark", c.seed, "batch"), c.prompts) for c in configs]
    batch = {name: torch.from_numpy(np.stack([arrays[name] for arrays in drawn])) for name in drawn[0]}

    def run() -> None:
        leaves = {name: w.clone().requires_grad_() for name, w in params.items()}
        if form == "tokens":
            losses = oracle.attention_loss(leaves, batch, configs[0])
        else:
            losses = system.loss(leaves, batch, configs)
        torch.autograd.grad(losses.sum(), list(leaves.values()))

    return run


def training(form: str) -> Callable[[], None]:
    """Complete steps of the published training with a skewed covariance, fresh prompts at every step, L = 3."""
    config = Config(
        prompts=PROMPTS, spectrum=SKEWED, gradient_estimator=FORMS.get(form, SAMPLED), learning_rate=1e-4, clip=0.01,
        init_std=0.1,
    )  # fmt: skip
    return literal_training(config) if form == "tokens" else package_training(config)


def package_training(config: Config) -> Callable[[], None]:
    """Steps of the package's training loop."""
    params, optimiser, step = system.init([config]), system.optimiser([config]), count()
    state = optimiser.init(params)
    sweep = Sweep("benchmark", system.SYSTEM, (config,), (0, 1), system.Test())

    def run() -> None:
        nonlocal params, state
        number = next(step)
        batch = {name: torch.from_numpy(a) for name, a in system.sample([config], number).items()}
        _, slopes = loss_and_gradient(discovery.system(system.SYSTEM), sweep, params, {}, batch)
        params, state = optimiser.update(params, slopes, state, number)

    return run


def literal_training(config: Config) -> Callable[[], None]:
    """Steps over tokens, through dense attention and torch's own optimiser."""
    leaves = {name: w.requires_grad_() for name, w in system.init([config]).items()}
    method, step = torch.optim.Adam(leaves.values(), config.learning_rate, (config.beta1, config.beta2)), count()

    def run() -> None:
        drawn = oracle.draw_tokens(config, stream("benchmark", 0, "train", next(step)), config.prompts)
        batch = {name: torch.from_numpy(array)[None] for name, array in drawn.items()}
        method.zero_grad()
        oracle.attention_loss(leaves, batch, config).sum().backward()
        for w in leaves.values():
            w.grad *= config.clip / torch.linalg.matrix_norm(w.grad, keepdim=True).clamp(min=config.clip)
        method.step()

    return run


def slope(form: str, name: str, sizes: tuple[int, int]) -> float:
    """The log-log slope of the time between two sizes."""
    sides = {str(size): (step(form, prompts=300, **{name: size}), 2) for size in sizes}
    times = least(sides, repeats=5)
    return float(np.log(times[str(sizes[1])] / times[str(sizes[0])]) / np.log(sizes[1] / sizes[0]))


def main() -> list[Row]:
    """Rows (name, value, target)."""
    rows: list[Row] = []
    for n, target in ((20, 5.0), (80, None)):
        sides = {form: (step(form, context_length=n), 1) for form in ("tokens", *FORMS)}
        times = least(sides, repeats=5)
        rows += [
            (f"dense attention / Gram form, L = 3, n = {n}: at least", times["tokens"] / times["gram"], target),
            (f"dense attention / averaged, L = 3, n = {n}", times["tokens"] / times["averaged"], None),
        ]
    times = least({form: (training(form), 1) for form in ("tokens", *FORMS)}, repeats=5)
    for form in FORMS:
        rows.append((f"training step, literal loop / {form}, L = 3, n = 20", times["tokens"] / times[form], None))
    for form in FORMS:
        for name, sizes in GROWTH.items():
            rows.append((f"exponent of {form} in {name}, {sizes[0]} to {sizes[1]}", slope(form, name, sizes), None))
    return rows
