"""Losses of trained stacks on fresh prompts, and their distance from the predicted structure
(Ahn et al. 2023).
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from icl.figure import Rows, Runs, Tensor, rows, stream, torch
from icl.papers.ahn2023 import gram_losses
from icl.papers.ahn2023 import linear_attention as model
from icl.papers.ahn2023.gram_losses import Whitened
from icl.papers.ahn2023.linear_attention import Config


def fresh_gram_matrices(config: Config, count: int, purpose: str = "evaluate") -> Tensor:
    """Whitened Gram matrices of fresh prompts, (1, d, d, count), the same for every run of a
    seed.
    """
    drawn = model.draw_whitened(config, stream(model.NAME, config.seed, purpose), count)
    return torch.from_numpy(drawn["gram"])[None]


def losses_on(blocks: Whitened, g: Tensor, config: Config) -> np.ndarray:
    """Return the expected loss over task and query of many weights of one run on the same Gram
    matrices.

    blocks : (..., L, d, d); g : (1, d, d, prompts); returns (...)
    """
    task_root = torch.from_numpy(model.whitened_task_root(config))[None]
    flat = (block.reshape(-1, *block.shape[-3:]) for block in blocks)
    losses = [
        float(
            gram_losses.averaged_loss(
                Whitened(p[None], a[None]), g, task_root, p_is_zero=not p.any()
            )
        )
        for p, a in zip(*flat, strict=True)
    ]
    return np.array(losses).reshape(blocks.a.shape[:-3])


def fresh_losses(stacks: Iterable[Whitened], configs: Sequence[Config], count: int) -> np.ndarray:
    """Return the losses of every run's stack, or several, on the run's fresh prompts, (runs,
    ...).
    """
    each = zip(stacks, configs, strict=True)
    return np.stack(
        [losses_on(stack, fresh_gram_matrices(config, count), config) for stack, config in each]
    )


def loss_curves(runs: Runs) -> np.ndarray:
    """Return the loss of every snapshot on the prompts of the curves, (runs, snapshots)."""
    configs, count = runs.sweep.configs, runs.sweep.test.curve_prompts
    stacks = map(Whitened, *model.whitened(runs.weights, configs))
    return fresh_losses(stacks, configs, count)


def selected_losses(runs: Runs) -> np.ndarray:
    """Return the losses on fresh prompts of the selected snapshots, (runs,).

    Like the authors, we select from the last tenth of the training the snapshot that is best on
    separate prompts. A run that has diverged counts as untrained: its loss is that of the
    prediction 0, E |w|^2 with w whitened.
    """
    configs, count = runs.sweep.configs, runs.sweep.test.prompts
    last = max(1, len(runs.sweep.snapshots) // 10)
    blocks = model.whitened({name: w[:, -last:] for name, w in runs.weights.items()}, configs)
    losses = []
    for config, p, a in zip(configs, *blocks, strict=True):
        candidates = losses_on(Whitened(p, a), fresh_gram_matrices(config, count, "select"), config)
        best = int(np.argmin(np.where(np.isnan(candidates), np.inf, candidates)))
        loss = losses_on(Whitened(p[best], a[best]), fresh_gram_matrices(config, count), config)
        losses.append(
            loss if np.isfinite(loss) else np.square(model.whitened_task_root(config)).sum()
        )
    return np.array(losses)


def distance_to_scalar(matrices: Tensor) -> np.ndarray:
    """|M - (tr M / d) I|_F / |M|_F, the distance from the predicted structure: (..., d, d) ->
    (...).
    """
    mean = torch.diagonal(matrices, dim1=-2, dim2=-1).mean(dim=-1)
    rest = matrices - mean[..., None, None] * torch.eye(matrices.shape[-1], dtype=matrices.dtype)
    return (torch.linalg.matrix_norm(rest) / torch.linalg.matrix_norm(matrices)).numpy()


def entries(seeds: Any, matrices: np.ndarray, panel: str) -> Rows:
    """Return the rows of square matrices, (..., d, d) for seeds (...), with one series per row
    of a matrix.
    """
    numbers = np.arange(matrices.shape[-1])
    series = np.array([f"row {number}" for number in numbers])[:, None]
    return rows(
        "entry", np.asarray(seeds)[..., None, None], matrices, x=numbers, panel=panel, series=series
    )
