"""Three layers of linear attention, three steps of gradient descent and least squares over the number of examples."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from icl.core.lazy import Picture
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import Table, join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.figure import Figure
from icl.papers.ahn2023 import gradient_descents, trainings
from icl.papers.ahn2023.evaluation import fresh_gram_matrices, losses_on, of_runs, selected_losses
from icl.papers.ahn2023.linear_attention import Config

STEPS = 3
# Series -> number of examples -> losses of the seeds.
Curves = dict[str, dict[int, np.ndarray]]


def sweeps(scale: str) -> list[Sweep]:
    """Return one training for few and one for many examples; fewer than five have a tenth of the learning rate."""
    return [trainings.by_length(scale, kind) for kind in trainings.LENGTHS]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Return losses on the same fresh prompts per seed and number of examples, and the values that the claims bound."""
    curves: Curves = {}
    for trained in runs.values():
        test, losses = trained.sweep.test, selected_losses(trained)
        lengths = np.array([config.context_length for config in trained.sweep.configs])
        for n in np.unique(lengths).tolist():
            configs = [config for config in trained.sweep.configs if config.context_length == n]
            by_series = {"transformer": losses[lengths == n]} | _baselines(configs, test.prompts, test.curve_prompts)
            for series, values in by_series.items():
                curves.setdefault(series, {})[n] = values
    seeds = sorted({seed for trained in runs.values() for seed in trained.sweep.seeds})
    parts = [
        of_runs("loss", seeds, np.stack(list(by_n.values()), axis=1), x=list(by_n), panel="length", series=name)
        for name, by_n in curves.items()
    ]
    tested = sorted(curves["transformer"])
    failed = np.array([~(curves["transformer"][n] < curves["PGD"][n]) * 1.0 for n in tested])
    parts.append(rows("failed", seeds, failed, x=np.array(tested)[:, None], panel="length", series="transformer"))
    parts.append(rows("failed at any n", seeds, failed.max(axis=0)))
    return join([*parts, *(rows(name, seeds, values) for name, values in _comparisons(curves).items())])


def _baselines(configs: list[Config], count: int, to_choose: int) -> dict[str, np.ndarray]:
    """Losses of both descents and least squares, with all examples and, as published, with one fewer.

    The step sizes are chosen for the first seed.
    """
    fewer = [gradient_descents.with_fewer_examples(config) for config in configs]
    variants = (
        ("", configs, gradient_descents.best_step_size),
        (" official", fewer, gradient_descents.published_step_size),
    )
    losses = {}
    for suffix, seen, choose in variants:
        for kind in ("GD", "PGD"):
            size = choose(kind, STEPS, seen[0], to_choose)
            stacks = ((gradient_descents.steps(kind, size, STEPS, c), fresh_gram_matrices(c, count), c) for c in seen)
            losses[kind + suffix] = np.array([float(losses_on(*each)) for each in stacks])
        losses["OLS" + suffix] = np.array([least_squares_loss(c, count) for c in seen])
    return losses


def least_squares_loss(config: Config, count: int) -> float:
    """Return E |(I - G^+ G) w|^2, the loss of the minimum-norm solution in whitened coordinates with w ~ N(0, I)."""
    g = fresh_gram_matrices(config, count)[0].permute(2, 0, 1).numpy()
    seen = np.linalg.pinv(g, rcond=1e-10, hermitian=True) @ g
    return float(np.square(np.eye(config.dimension) - seen).sum(axis=(1, 2)).mean())


def _comparisons(curves: Curves) -> dict[str, np.ndarray]:
    """The values that the claims bound, per seed."""
    log = {series: {n: np.log(losses) for n, losses in curves[series].items()} for series in ("PGD", "transformer")}
    lengths = sorted(curves["transformer"])
    several = [n for n in lengths if n >= 4]
    return {
        "least lead of the transformer over preconditioned GD, n >= 4":
            np.min([log["PGD"][n] - log["transformer"][n] for n in several], axis=0),
        "least gain of the transformer per two examples":
            np.min([log["transformer"][n] - log["transformer"][n + 2] for n in lengths[:-1]], axis=0),
    }  # fmt: skip


STYLES = (
    Style("GD", "3-Step GD", "blue"),
    Style("PGD", "3-Step Preconditioned GD", "green"),
    Style("transformer", "3-Layer Linear Transformer", "red"),
    Style("OLS", "OLS", "purple"),
)
AS_PUBLISHED = (
    Style("GD official", "GD, $n-1$ examples", "blue", line=":"),
    Style("PGD official", "PGD, $n-1$ examples", "green", line=":"),
    Style("OLS official", "OLS, $n-1$ examples", "purple", line=":"),
)


@plotting.published
def draw(table: Table) -> Picture:
    """Draw one panel with a linear axis, as published."""
    figure, axes = plotting.canvas((700, 700), (100, 680, 20, 610), panel="length")
    plotting.medians(axes, table, STYLES, "loss", linewidth=3)
    plotting.medians(axes, table, AS_PUBLISHED, "loss", linewidth=2)
    failed = table.points("length", "transformer", "failed")["value"]
    note = f"{int(failed.sum())} of {len(failed)} trainings end\nabove preconditioned GD"
    axes.text(0.98, 0.55, note, fontsize=12, color="red", horizontalalignment="right", transform=axes.transAxes)
    examples = Axis("Number of ICL Examples", (1, 21), range(2, 23, 4))
    plotting.frame(axes, examples, Axis("Loss", (-0.1, 5.3)), font=20, ticks=16)
    plotting.legend(axes, 13, "upper right", (0.99, 0.99))
    return figure


FIGURES = (Figure("ahn_length", sweeps, measure, draw),)
