"""The talk's panels of Garg et al.'s tests (pages 25-27), with a linear layer for GPT-2, and the
look of all panels.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from icl.drawing import darkgrid, own_style
from icl.drawing.plotting import Corner
from icl.figure import Axes, Axis, Picture, Rows, Runs, Style, Table, curves, plotting
from icl.models import estimators
from icl.papers.zhang2024.evaluation import DECK, TALK_LENGTH, generator, layers, of_first_run
from icl.tasks import linear_regression as tasks
from icl.tasks.linear_regression import Prompts

ERROR = "squared error"
"""The observable of these panels, over the dimension."""
LEAST_SQUARES, NEIGHBOURS, AVERAGING = "Least Squares", "3-Nearest Neighbors", "Averaging"
ON_PROMPTS, THEORY = "LSA, prompts", "LSA, theory"
Shift = Callable[[Prompts, np.random.Generator], Prompts]


def prompts(runs: Runs, purpose: str, shift: Shift = lambda plain, source: plain) -> Prompts:
    """Return standard normal prompts of every run, with leading axes (runs, prompts), changed by
    a random shift.
    """
    shifted = []
    for config in runs.sweep.configs:
        source = generator(config, purpose)
        plain = tasks.gaussian(
            source, (runs.sweep.test.prompts_test,), TALK_LENGTH, config.dimension
        )
        shifted.append(shift(plain, source))
    return Prompts(*(np.stack(part) for part in zip(*shifted, strict=True)))


def errors(runs: Runs, drawn: Prompts, counts: Sequence[int]) -> dict[str, np.ndarray]:
    """Mean squared errors over d of the first layer and Garg et al.'s baselines: series -> (runs,
    counts).

    Without examples all predict 0.
    """
    predictors = {
        ON_PROMPTS: estimators.preconditioned_gradient_descent([layers(runs)[0][1]]),
        LEAST_SQUARES: estimators.least_squares,
        NEIGHBOURS: estimators.nearest_neighbours(3),
        AVERAGING: estimators.averaging,
    }
    x, y, query, truth = drawn.inputs, drawn.labels, drawn.inputs[..., -1, :], drawn.labels[..., -1]
    answers = {
        name: [predict(x[..., :k, :], y[..., :k], query) if k else 0 * truth for k in counts]
        for name, predict in predictors.items()
    }
    return {
        name: np.mean((np.stack(of) - truth) ** 2, axis=-1).T / x.shape[-1]
        for name, of in answers.items()
    }


def error_rows(
    runs: Runs,
    panel: str,
    counts: Sequence[int],
    measured: Mapping[str, np.ndarray],
    theory: Mapping[str, Any],
) -> list[Rows]:
    """Rows of a panel: errors on prompts, (runs, counts), and closed forms at counts[0],
    counts[0] + 1, ...
    """
    seeds, x = (
        np.array(runs.sweep.seeds)[:, None],
        counts[0] + np.arange(len(next(iter(theory.values())))),
    )
    computed = curves(ERROR, panel, None, x, theory)
    return [curves(ERROR, panel, seeds, counts, measured), of_first_run(runs, computed)]


LAYER = [Style(THEORY, THEORY, darkgrid.BLUE), Style(ON_PROMPTS, ON_PROMPTS, darkgrid.BLUE, "o")]
BASELINES = {LEAST_SQUARES: darkgrid.ORANGE, NEIGHBOURS: darkgrid.GREEN, AVERAGING: darkgrid.RED}
LINES = [line for *_, line in own_style.CYCLE]
SERIES = [
    *(
        Style(name, name, colour, line=line)
        for (name, colour), line in zip(BASELINES.items(), LINES, strict=False)
    ),
    *LAYER,
]
"""The baselines, dashed for print in grey, the closed form, and the trained layer on prompts."""
EXAMPLES = Axis("in-context examples", (-1, 41.1), range(0, 41, 10))
SQUARED_ERROR = Axis(ERROR, (-0.1, 1.5), np.arange(0, 1.51, 0.25).tolist())
TEST_LENGTH = Axis("Test length $M$", (8, 12500), log=True)
TRAINING_LENGTH = Axis("Training length $N$", (8, 12500), log=True)
LOWER_LEFT: Any = (8, "lower left", (0.02, 0.02))

Panel = tuple[tuple[float, float, float, float], str, Axis, Axis]
"""A panel's edges in pixels (left, right, top, bottom), its title and its axes."""
Shown = tuple[str, Sequence[Style], tuple[float, Corner, tuple[float, float]] | None]
"""A panel's observable, its series in the order of drawing, and font size, corner and place of
its legend.
"""


def theory_and_prompts(labels: Mapping[str, str]) -> list[Style]:
    """Return the line "name, theory" and the points "name, prompts" of every series of our
    panels: name -> label.
    """
    return [
        one
        for style in own_style.styles(labels, markers=True)
        for one in (
            style._replace(series=f"{style.series}, theory", marker=""),
            style._replace(series=f"{style.series}, prompts", label=""),
        )
    ]


@plotting.under_defaults
def draw(
    table: Table,
    size: tuple[int, int],
    panels: Mapping[str, Panel],
    shown: Mapping[str, Shown],
    unfolded: Mapping[str, tuple[float, float]] = {},
) -> Picture:
    """Draw panels in seaborn's dark grid, with 95 % intervals over seeds at points and visible
    parts of lines.

    Those of the talk have a dashed line at the error of the prediction 0, under noise as published
    at 1 + 1/d, and arrows for points above the axes.

    unfolded : panel -> arguments of `unfold`
    """
    figure, found = plotting.panels(size, {name: edges for name, (edges, *_) in panels.items()})
    for name, axes in found.items():
        (_, title, x, y), (observable, styles, legend) = panels[name], shown[name]
        darkgrid.grid_look(axes)
        plotting.frame(axes, x, y, font=10, ticks=9)
        axes.set_title(title, fontsize=10)
        if name in unfolded:
            unfold(axes, *unfolded[name])
        for style in styles:
            curve = table.curve(name, style.series, observable)
            look: dict[str, Any] = {"color": style.colour, "alpha": 0.3, "linewidth": 0}
            if style.marker:
                axes.vlines(
                    curve["x"], curve["low"], curve["high"], color=style.colour, linewidth=1.5
                )
                plotting.curve(
                    axes, style, curve["x"], curve["value"], linestyle="none", markersize=5
                )
            else:
                inside = curve["value"].between(*axes.get_ylim())
                axes.fill_between(curve["x"], curve["low"], curve["high"], where=inside, **look)
                plotting.curve(axes, style, curve["x"], curve["value"])
        if observable == ERROR:
            of_zero = 1 + 1 / DECK["dimension"][0] if name == "noisy" else 1.0
            axes.axhline(of_zero, color="0.5", linestyle="--", linewidth=1.5)
            plotting.edge_arrows(axes)
        if legend:
            plotting.legend(axes, *legend, spacing=0.2)
    return figure


def unfold(axes: Axes, linear: float, top: float) -> None:
    """Make the y axis linear with its ticks up to `linear`, as published, and logarithmic above
    up to `top`.
    """
    places = [*axes.get_yticks(), *(10.0**power for power in range(1, 6) if 10.0**power <= top)]
    axes.set_yscale("symlog", linthresh=linear, linscale=2.5)
    axes.set_yticks(places, [f"{place:g}" for place in places])
    axes.minorticks_off()
    axes.set_ylim(-0.1, top)
    axes.axhline(linear, color="0.35", linewidth=0.8, zorder=1)
    look: dict[str, Any] = {"fontsize": 7, "color": "0.35", "ha": "right", "va": "bottom"}
    axes.text(0.99, linear, "log above", transform=axes.get_yaxis_transform(), **look)
