"""Losses of trained stacks on fresh prompts, and their distance from the predicted structure (Ahn et al. 2023)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from icl.core.lazy import Tensor, torch
from icl.core.runs import Runs
from icl.core.streams import stream
from icl.core.table import rows
from icl.papers.ahn2023 import gram_recursions
from icl.papers.ahn2023 import linear_attention as system
from icl.papers.ahn2023.gram_recursions import Whitened
from icl.papers.ahn2023.linear_attention import Config


def fresh_gram_matrices(config: Config, count: int, purpose: str = "evaluate") -> "Tensor":
    """Return whitened Gram matrices of fresh prompts, (1, d, d, count), the same for every run of a seed."""
    return torch.from_numpy(system.draw_whitened(config, stream(system.SYSTEM, config.seed, purpose), count)["gram"])[
        None
    ]


def losses_on(blocks: Whitened, g: "Tensor", config: Config) -> np.ndarray:
    """Return the expected loss over task and query of many weights of one run on the same Gram matrices.

    blocks : (..., L, d, d); g : (1, d, d, prompts); returns (...)
    """
    task_root = torch.from_numpy(system.whitened_task_root(config))[None]
    shape = blocks.a.shape[:-3]
    flat = Whitened(*(block.reshape(-1, *block.shape[-3:]) for block in blocks))
    losses = [
        float(gram_recursions.averaged_loss(Whitened(p[None], a[None]), g, task_root, p_is_zero=not p.any()))
        for p, a in zip(flat.p, flat.a, strict=True)
    ]
    return np.array(losses).reshape(shape)


def losses_over_training(runs: Runs, blocks: Whitened) -> np.ndarray:
    """Return the loss of every snapshot on the prompts of the curves, (runs, snapshots)."""
    return _losses_of_runs(runs, blocks, runs.sweep.test.curve_prompts)


def _losses_of_runs(runs: Runs, blocks: Whitened, count: int) -> np.ndarray:
    each = zip(runs.sweep.configs, blocks.p, blocks.a, strict=True)
    return np.stack([losses_on(Whitened(p, a), fresh_gram_matrices(c, count), c) for c, p, a in each])


def selected_losses(runs: Runs) -> np.ndarray:
    """Return the losses on fresh prompts of the selected snapshots, (runs,).

    Like the authors, we select from the last tenth of the training the snapshot that is best on separate prompts. A run
    that has diverged counts as untrained: its loss is that of the prediction 0, E |w|^2 with w whitened.
    """
    configs, count = runs.sweep.configs, runs.sweep.test.prompts
    last = max(1, len(runs.sweep.snapshots) // 10)
    blocks = system.whitened({name: w[:, -last:] for name, w in runs.weights.items()}, configs)
    losses = []
    for config, p, a in zip(configs, blocks.p, blocks.a, strict=True):
        candidates = losses_on(Whitened(p, a), fresh_gram_matrices(config, count, "select"), config)
        best = int(np.argmin(np.where(np.isnan(candidates), np.inf, candidates)))
        loss = losses_on(Whitened(p[best], a[best]), fresh_gram_matrices(config, count), config)
        losses.append(loss if np.isfinite(loss) else np.square(system.whitened_task_root(config)).sum())
    return np.array(losses)


def distance_to_scalar(matrices: "Tensor") -> "Tensor":
    """Return |M - (tr M / d) I|_F / |M|_F, the distance from the predicted structure: (..., d, d) -> (...)."""
    d = matrices.shape[-1]
    mean = torch.diagonal(matrices, dim1=-2, dim2=-1).mean(dim=-1)
    rest = matrices - mean[..., None, None] * torch.eye(d, dtype=matrices.dtype)
    return torch.linalg.matrix_norm(rest) / torch.linalg.matrix_norm(matrices)


def of_runs(observable: str, seeds: Sequence[int], values: np.ndarray, **labels: Any) -> pd.DataFrame:
    """Return the rows of an observable, with values (runs, ...) over x of shape (...)."""
    return rows(observable, np.array(seeds).reshape(-1, *[1] * (values.ndim - 1)), values, **labels)
