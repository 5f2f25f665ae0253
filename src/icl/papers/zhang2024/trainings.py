"""What the figures of Zhang et al. share: trained limits, prompts to test them, and the look of the deck's panels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from icl.core.config import grid
from icl.core.runs import Runs
from icl.core.streams import stream
from icl.core.sweep import Sweep
from icl.core.table import join, rows
from icl.drawing import darkgrid, plotting
from icl.drawing.plotting import Axis, Style
from icl.evidence.intervals import exact, lone
from icl.models.estimators import Estimator
from icl.papers.zhang2024 import linear_attention as system
from icl.tasks import linear_regression as tasks
from icl.tasks.linear_regression import Prompts

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# A condition number of 20, whose slowest direction has settled at t = 1e4 (relative distances below 1e-8).
SKEWED = "2 1 0.5 0.25 0.1"
# Large enough that Gamma is the covariance and that examples average out completely: one part in 1e9.
INFINITE = 10**9
SEEDS = {"paper": 10, "laptop": 10, "smoke": 2}
# The dimension and the longest prompt of Garg et al.'s panels, which the deck sets beside the theory.
DECK_DIMENSION, DECK_LENGTH = 20, 40


def limits(name: str, scale: str, **axes: Any) -> Sweep:
    """The flow to t = 16384 in 8 intervals, with a seed per set of test prompts; its start is the same for all."""
    return Sweep(
        name=f"zhang_{name}",
        system="zhang_lsa",
        configs=grid(system.Config, rate=[1.0], growth=[3.0], **axes, seed=range(SEEDS[scale])),
        snapshots=(8,),
        test=system.Test(prompts_test=8, prompts_theorem=100) if scale == "smoke" else system.Test(),
    )


def deck(scale: str) -> Sweep:
    """The layer trained on standard normal inputs in the deck's size, for the panels that show Garg et al.'s tests."""
    return limits("deck", scale, dimension=[DECK_DIMENSION], context_length=[DECK_LENGTH])


def step(runs: Runs, run: int) -> np.ndarray:
    """A = c U' of a trained layer: y_hat = x_query' A (1/M) sum_i y_i x_i, (d, d)."""
    u, c = system.moving(runs.last())
    matrix: np.ndarray = c[run] * u[run].T
    return matrix


def alike(runs: Runs, **constants: Any) -> list[int]:
    """The runs with these constants, one per seed, in order."""
    return [
        run
        for run, config in enumerate(runs.sweep.configs)
        if all(getattr(config, name) == value for name, value in constants.items())
    ]


def generator(config: system.Config, purpose: str, point: int = 0) -> np.random.Generator:
    """Randomness of the evaluation, the same for every training constant."""
    return stream(system.SYSTEM, config.seed, f"evaluate {purpose}", point)


def finished(runs: Mapping[str, Runs], parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The table of what has no randomness, marked as exact; where another engine sampled, of lone runs."""
    random = any(
        config.engine == "sampled" or config.start != "identity"
        for trained in runs.values()
        for config in trained.sweep.configs
    )
    return (lone if random else exact)(join(parts))


# Errors on literal prompts, over the number of examples


def deck_prompts(runs: Runs, run: int, purpose: str, length: int = DECK_LENGTH) -> tuple[Prompts, np.random.Generator]:
    """Standard normal prompts of one seed, and the generator for what is drawn after them."""
    config, test = runs.sweep.configs[run], runs.sweep.test
    source = generator(config, purpose)
    return tasks.gaussian(source, (test.prompts_test,), length, config.dimension), source


def error(estimate: Estimator, prompts: Prompts, count: int) -> float:
    """The mean squared error from the first `count` examples, over the dimension."""
    own = prompts.inputs[..., :count, :], prompts.labels[..., :count], prompts.inputs[..., -1, :]
    answer = estimate(*own) if count else 0.0
    return float(np.mean((answer - prompts.labels[..., -1]) ** 2)) / prompts.inputs.shape[-1]


def curve(
    estimate: Estimator, every: Sequence[Prompts], seeds: Sequence[int], counts: Sequence[int], **labels: Any
) -> pd.DataFrame:
    """The rows "squared error" of one estimator, on the prompts of every seed."""
    values = [[error(estimate, own, k) for k in counts] for own in every]
    return rows("squared error", np.array(seeds)[:, None], values, x=counts, **labels)


# Prompts of any length, by what a prediction depends on: d (d + 1) / 2 draws instead of M d


class Statistics(NamedTuple):
    """moment : (1/M) sum_i y_i x_i; weights : w; query : x_query, standard normal until it is given a covariance."""

    moment: np.ndarray
    weights: np.ndarray
    query: np.ndarray

    def error(self, matrix: np.ndarray) -> np.ndarray:
        """x_query' A moment - <w, x_query>, (prompts,)."""
        return self.prediction(matrix) - self.truth

    def prediction(self, matrix: np.ndarray) -> np.ndarray:
        """x_query' A moment, (prompts,)."""
        predicted: np.ndarray = np.sum((self.query @ matrix) * self.moment, axis=-1)
        return predicted

    @property
    def truth(self) -> np.ndarray:
        """<w, x_query>, (prompts,)."""
        found: np.ndarray = np.sum(self.query * self.weights, axis=-1)
        return found


def statistics(
    source: np.random.Generator,
    count: int,
    covariance: np.ndarray,
    length: int,
    noise: float = 0.0,
    task: np.ndarray | None = None,
) -> Statistics:
    """`count` prompts of M >= d examples with a diagonal covariance, (d,) or (count, d), and noise of a variance.

    Each has its own task w ~ N(0, I) unless one is given for all.

    Given the inputs, (1/M) sum_i noise_i x_i is Gaussian with covariance (noise/M) (1/M) sum_i x_i x_i'.
    """
    d, root = np.shape(covariance)[-1], np.sqrt(covariance)
    gram = tasks.wishart(source, (count,), length, d) / length * root[..., :, None] * root[..., None, :]
    weights, query, spare = source.standard_normal((3, count, d))
    if task is not None:
        weights = np.broadcast_to(task, weights.shape)
    moment = np.einsum("pde,pe->pd", gram, weights)
    if noise:
        moment += np.sqrt(noise / length) * np.einsum("pde,pe->pd", np.linalg.cholesky(gram), spare)
    return Statistics(moment, weights, query * root)


LIMIT = Style("LSA, theory", "LSA, theory", darkgrid.BLUE)
MEASURED = Style("LSA, prompts", "LSA, prompts", darkgrid.BLUE, "o", "")
LEAST_SQUARES = Style("Least Squares", "Least Squares", darkgrid.ORANGE)
AVERAGING = Style("Averaging", "Averaging", darkgrid.RED)
EXAMPLES = Axis("in-context examples", (-1, 40.1), range(0, 41, 10))
SQUARED_ERROR = Axis("squared error", (-0.1, 1.5), np.arange(0, 1.51, 0.25).tolist())


def markers(axes: Axes, table: pd.DataFrame, styles: Sequence[Style], observable: str) -> None:
    """Points with their 95 % intervals over seeds."""
    for style in styles:
        found = plotting.summary(table, str(axes.get_label()), style.series, observable)
        axes.vlines(found["x"], found["low"], found["high"], color=style.colour, linewidth=1.5)
        axes.plot(
            found["x"], found["value"], color=style.colour, marker=style.marker, markersize=5, linestyle="none",
            label=style.label, gid=style.series,
        )  # fmt: skip


def panel(figure: Figure, edges: tuple[float, float, float, float], name: str, title: str, x: Axis, y: Axis) -> Axes:
    """Further axes in that look, framed, with a title."""
    axes = plotting.add_panel(figure, edges, name)
    dress(axes, title, x, y)
    return axes


def dress(axes: Axes, title: str, x: Axis, y: Axis) -> None:
    """Axes in that look, framed, with a title."""
    darkgrid.grid_look(axes)
    plotting.frame(axes, x, y, font=10, ticks=9)
    axes.set_title(title, fontsize=10)
