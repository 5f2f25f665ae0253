"""Violations of Ahn et al.'s claims; the sound runs have weights of least loss, with some noise."""

import dataclasses
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.models.linear_attention_theory import preconditioner
from icl.papers.ahn2023 import ahn_minimiser, loss_figures, weight_figures
from icl.papers.ahn2023 import linear_attention as model
from icl.papers.ahn2023 import structured_stacks as stacks
from tests.papers.violations import at_laptop, changed, table
from tests.planted import Patch, Planted, Trained, each, with_weights

SEEDS = 6


@cache
def sound(figure: str) -> Trained:
    """Runs with two snapshots: untrained weights, and weights of least loss."""
    return at_laptop(figure, constructed)


def constructed(sweep: Sweep) -> Runs:
    configs = tuple(
        config for config in sweep.configs if config.seed in sorted(set(sweep.seeds))[:SEEDS]
    )
    weights = {
        name: torch.stack([w, torch.zeros_like(w)], dim=1)
        for name, w in model.init(configs).items()
    }
    for run, config in enumerate(configs):
        (p, a), d = blocks(config), config.dimension
        noise = 1e-4 * np.random.default_rng(run).standard_normal(a.shape)
        weights["V"][run, 1, :, d, d] = 1
        weights["V"][run, 1, :, :d, :d] = torch.from_numpy(p)
        weights["Q"][run, 1, :, :d, :d] = torch.from_numpy(a * (1 + noise))
    test = model.Evaluation(prompts=1000, curve_prompts=500, spectra=2000, directions=100)
    sweep = dataclasses.replace(sweep, configs=configs, snapshots=(0, 1), test=test)
    return Runs(sweep, weights, np.zeros((len(configs), 1)))


def blocks(config: model.Config) -> tuple[np.ndarray, np.ndarray]:
    """P and A of every layer, (L, d, d)."""
    sigma = model.covariance(config)
    eye = np.eye(config.dimension)
    if config.parametrisation == "full":
        return 0 * eye[None], -preconditioner(sigma, config.context_length)[None]
    best = stack(config.parametrisation, config.layers, config.context_length)
    return np.append(best.b, 0.0)[:, None, None] * eye, best.a[:, None, None] * np.linalg.inv(sigma)


@cache
def stack(kind: str, layers: int, context_length: int) -> stacks.Structured:
    search = stacks.best_sparse if kind == "sparse" else stacks.best_relaxed
    return search(layers, stacks.spectra(model.Config(context_length=context_length), 4000))


def within(user: Any, module: str, **functions: Callable[..., Any]) -> tuple[Patch, ...]:
    """Gives `user` a copy of a module with other functions; sound runs use the module itself."""
    return ((user, module, lambda original: SimpleNamespace(**vars(original) | functions)),)


def too_large(start: stacks.Structured, g: np.ndarray) -> stacks.Structured:
    return stacks.Structured(*(1.1 * scalars for scalars in stacks.least_from(start, g)))


def exchanged(steps: Callable[..., Any]) -> Callable[..., Any]:
    return lambda kind, *args: steps({"GD": "PGD", "PGD": "GD"}[kind], *args)


def inputs_in_labels(runs: Runs) -> Runs:
    value = runs.weights["V"].clone()
    value[..., -1, :-1] = 0.5
    return with_weights(runs, V=value)


LARGE_STEP = Planted(
    "five times the step of equation 2",
    # So far from the least loss that some of a hundred random directions lead towards it.
    patches=within(
        ahn_minimiser, "theory", preconditioner=lambda sigma, n: 5.0 * preconditioner(sigma, n)
    ),
)
LARGE_SCALARS = Planted(
    "the scalars of least loss are a tenth larger",
    patches=within(weight_figures, "structured_stacks", least_from=too_large),
)
WORSE_LEAST_LOSS = Planted(
    "the least loss is that of scalars a tenth larger",
    patches=within(
        weight_figures,
        "structured_stacks",
        best_sparse=lambda n, g: stacks.Structured(*(1.1 * x for x in stacks.best_sparse(n, g))),
    ),
)
# Untrained weights contradict all other bounds.
OTHERS = {
    "lowest loss around": LARGE_STEP,
    "trained loss over": LARGE_STEP,
    "rest of V over its corner": Planted(
        "the rest of V's last row is half its corner", each(inputs_in_labels)
    ),
    "least lead of preconditioned GD": Planted(
        "exchanged descents", patches=((loss_figures, "steps", exchanged),)
    ),
    "least step size over": Planted(
        "the layers in reverse order", each(changed(lambda w: w.flip(2)))
    ),
    "a_": LARGE_SCALARS,
    "b_": LARGE_SCALARS,
    "share not below": WORSE_LEAST_LOSS,
}
PLANTED = table("ahn2023", OTHERS)
UNTRAINED_HOLD = {
    "AH2": "no weights, trained or not, have a lower loss than equation 2",
    "AH18": "no trained weights enter",
    "AH26": "untrained layers have a larger loss, as the theorem says of all weights",
}
