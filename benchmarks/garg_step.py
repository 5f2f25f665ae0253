"""A training step of Garg et al.'s GPT-2 against its own matrix products, and against the same step in transformers.

The products are a lower bound: the rest of a step (LayerNorm, softmax, GELU, copies, autograd, Adam, sampling) is our
overhead. transformers' GPT-2 trains on prompts of the same shape with torch's Adam, without sampling and clipping. The
measurements alternate, and their medians are compared. CPU time of one thread. On a GPU, also the share of its peak in
a step at the paper scale (not measured so far).

    python -m benchmarks garg_step
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch

from benchmarks.timing import Row
from icl.core import discovery
from icl.core.sweep import Sweep
from icl.core.training import loss_and_gradient
from icl.models.optimisers import Params
from icl.papers.garg2022 import captured, evaluation
from icl.papers.garg2022 import gpt2 as system

TURNS = 15


def medians(functions: Sequence[Callable[[], object]], turns: int = TURNS) -> list[float]:
    """The median CPU time of every function in milliseconds, measured alternately after two warm-up calls."""
    times: list[list[float]] = []
    for _ in range(turns + 2):
        times.append([])
        for function in functions:
            start = time.process_time()
            function()
            times[-1].append(time.process_time() - start)
    return [1e3 * float(value) for value in np.median(times[2:], axis=0)]


def products(found: Sequence[captured.Shape]) -> Callable[[], object]:
    """All C = A B with dA = dC B^T and dB = A^T dC (no dA for the first: data), each on its own data."""
    pairs = []
    for index, (batch, n, k, m) in enumerate(found):
        a, b, c = torch.randn(batch, n, k), torch.randn(batch, k, m), torch.randn(batch, n, m)
        pairs += [(a, b), (a.mT, c)] + ([(c, b.mT)] if index else [])
    return lambda: [torch.bmm(a, b) for a, b in pairs] and None


def step(sweep: Sweep, device: str = "cpu") -> Callable[[], object]:
    """A complete step of our training."""
    optimiser, params = system.optimiser(sweep.configs), system.init(sweep.configs, device)
    state = optimiser.init(params)

    def whole() -> None:
        batch: Params = {n: torch.from_numpy(a).to(device) for n, a in system.sample(sweep.configs, 0).items()}
        _, gradients = loss_and_gradient(discovery.system(system.SYSTEM), sweep, params, {}, batch)
        optimiser.update(params, gradients, state, 0)

    return whole


def theirs(config: system.Config) -> Callable[[], object]:
    """A step of transformers' GPT-2 between two linear maps, as the published code trains it."""
    # Silences a warning on special tokens, which are not used here.
    logging.getLogger("transformers").setLevel(logging.ERROR)
    from transformers import GPT2Config, GPT2Model

    count = 2 * config.points
    model = GPT2Model(
        GPT2Config(
            n_positions=count, n_embd=config.width, n_layer=config.layers, n_head=config.heads, vocab_size=1,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False,
        )
    )  # fmt: skip
    read_in, read_out = torch.nn.Linear(config.dimension, config.width), torch.nn.Linear(config.width, 1)
    adam = torch.optim.Adam([w for part in (read_in, model, read_out) for w in part.parameters()], config.learning_rate)
    tokens, labels = torch.randn(config.batch, count, config.dimension), torch.randn(config.batch, config.points)

    def whole() -> None:
        adam.zero_grad()
        out = read_out(model(inputs_embeds=read_in(tokens)).last_hidden_state)[:, ::2, 0]
        (out - labels).square().mean().backward()
        adam.step()

    return whole


def on_gpu() -> str:
    """Steps per second at the paper scale with workflow/one_gpu.yaml, and their share of the GPU's peak."""
    sweep = evaluation.sweeps("paper")[0]
    configs = tuple(replace(c, precision="bfloat16", execution="graph") for c in sweep.configs[:1])
    whole = step(replace(sweep, configs=configs), "cuda")
    seconds = []
    for _ in range(TURNS + 2):
        torch.cuda.synchronize()
        start = time.perf_counter()
        whole()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    meter = captured.Meter(captured.operations(configs[0]), torch.cuda.get_device_name())
    return meter.line(1 / float(np.median(seconds[2:])))


def main() -> list[Row]:
    """Rows (name, value, target); values should not exceed their targets unless the name says at least."""
    sweep = evaluation.sweeps("laptop")[0]
    sweep = replace(sweep, configs=sweep.configs[:1])
    ours, floor, other, sampling = medians(
        [
            step(sweep),
            products(list(captured.products(sweep.configs[0], 1))),
            theirs(sweep.configs[0]),
            lambda: system.sample(sweep.configs, 0),
        ]
    )
    rows: list[Row] = [
        ("training step / its matrix products", ours / floor, 1.5),
        ("transformers' step / ours (at least)", other / ours, 1.3),
        ("share of sampling in a training step", sampling / ours, 0.05),
        ("training step of one run, laptop scale (ms)", ours, None),
    ]
    if torch.cuda.is_available():
        print(on_gpu())
    return rows
