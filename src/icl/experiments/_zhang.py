"""What the figures of Zhang et al. share: trained limits, prompts to test them, and the look of the deck's panels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from icl import estimators, plotting
from icl.plotting import Axis, Style
from icl.rng import stream
from icl.runs import Runs
from icl.spec import Sweep, grid
from icl.statistics import exact, lone
from icl.systems import zhang_lsa as system
from icl.table import join
from icl.tasks import linear_regression as tasks

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
    """The flow to t = 2e4 in 26 intervals, with a seed per set of test prompts; its start is the same for all."""
    return Sweep(
        name=f"zhang_{name}",
        system="zhang_lsa",
        configs=grid(system.Config, rate=[1.0], growth=[0.5], **axes, seed=range(SEEDS[scale])),
        snapshots=(26,),
        test=system.Test(prompts_test={"paper": 128, "laptop": 128, "smoke": 8}[scale]),
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

Shift = Callable[[tasks.Prompts, np.random.Generator], tasks.Prompts]


def first_examples(prompts: tasks.Prompts, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The first examples and the query: what an estimator takes."""
    return prompts.inputs[..., :count, :], prompts.labels[..., :count], prompts.inputs[..., -1, :]


def errors(estimate: estimators.Estimator, prompts: tasks.Prompts, counts: Sequence[int]) -> np.ndarray:
    """Squared errors over their mean for the answer 0, from the first examples only: (counts,).

    That scale is E <w, x_query>^2, estimated from the same prompts, in pairs.
    """
    truth = prompts.labels[..., -1]
    found = [np.mean((estimate(*first_examples(prompts, k)) - truth) ** 2) if k else np.mean(truth**2) for k in counts]
    return np.array(found)


def deck_prompts(runs: Runs, run: int, purpose: str, length: int = DECK_LENGTH) -> tuple[tasks.Prompts, Any]:
    """Standard normal prompts of one seed, and the generator for what is drawn after them."""
    config, test = runs.sweep.configs[run], runs.sweep.test
    source = generator(config, purpose)
    return tasks.gaussian(source, (test.prompts_test,), length, config.dimension), source


# The look of Garg et al.'s panels: seaborn's "darkgrid" and its palette "colorblind"

BLUE, ORANGE, GREEN, RED, PINK, TAN = "#0173b2", "#de8f05", "#029e73", "#d55e00", "#cc78bc", "#ca9161"
LIMIT = Style("LSA limit", "LSA, theory", BLUE)
PROMPTS = Style("LSA", "LSA, prompts", BLUE, "o", "")
LEAST_SQUARES = Style("Least Squares", "Least Squares", ORANGE)


def grid_look(axes: Axes) -> None:
    """White lines on pale blue-grey, without a frame."""
    axes.set_facecolor("#eaeaf2")
    axes.grid(color="w", linewidth=1.0)
    axes.set_axisbelow(True)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(which="both", length=0)


def markers(axes: Axes, table: pd.DataFrame, styles: Sequence[Style], observable: str) -> None:
    """Points with their 95 % intervals over seeds."""
    for style in styles:
        found = plotting.summary(table, str(axes.get_label()), style.series, observable)
        middle = found["value"]
        reach = [(middle - found["low"]).fillna(0), (found["high"] - middle).fillna(0)]
        axes.errorbar(
            found["x"], middle, reach, color=style.colour, marker=style.marker, markersize=5, linestyle="none",
            linewidth=1.2, capsize=2, label=style.label, gid=style.series,
        )  # fmt: skip


def panel(figure: Figure, edges: tuple[float, float, float, float], name: str, title: str, x: Axis, y: Axis) -> Axes:
    """Further axes in that look, framed, with a title."""
    axes = plotting.add_panel(figure, edges, name)
    dress(axes, title, x, y)
    return axes


def dress(axes: Axes, title: str, x: Axis, y: Axis) -> None:
    """Axes in that look, framed, with a title."""
    grid_look(axes)
    plotting.frame(axes, x, y, font=10, ticks=9)
    axes.set_title(title, fontsize=10)
