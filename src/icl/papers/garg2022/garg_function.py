"""The function that GPT-2 infers from a prompt, along a line through the origin (Garg et al., talk page 12)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from icl.core.lazy import Picture
from icl.core.runs import Runs
from icl.core.streams import stream
from icl.core.sweep import Sweep
from icl.core.table import Table, exact, join, rows
from icl.drawing import darkgrid, plotting
from icl.drawing.plotting import Axis, Style
from icl.figure import Figure
from icl.models import estimators
from icl.papers.garg2022 import decoder, error_panels, errors, gpt2, trainings
from icl.tasks import linear_regression as tasks

TRUTH, PROJECTED = "ground truth", "ground truth projected"
AFTER = {
    "half": "#dims / 2 in-context examples",
    "one": "#dims in-context examples",
    "two": "#dims * 2 in-context examples",
}
VALUE = "function value"
# On the page, at d = 20: the ends of the line, the usual range of |x|, and the slopes (truth, projection) per panel.
REACH, USUAL = 15.0, (3.0, 6.0)
SLOPES = {"1": (-1.13, -0.99), "2": (1.2, 0.17), "3": (0.0, -0.32)}
POINTS = 61


def sweeps(scale: str) -> list[Sweep]:
    """Return the training that all figures of the paper share."""
    return [trainings.sweep(scale)]


class Lines(NamedTuple):
    """Prompts and a direction for each.

    inputs : (prompts, 2d, d); labels : (prompts, 2d); directions : unit vectors, (prompts, d)
    weights, projected : w and its projection on the span of the first d // 2 inputs, (prompts, d)
    """

    inputs: np.ndarray
    labels: np.ndarray
    directions: np.ndarray
    weights: np.ndarray
    projected: np.ndarray

    def slopes(self) -> np.ndarray:
        """Return the slopes of the truth and of the projected truth, (prompts, 2)."""
        return np.stack([np.sum(self.directions * w, axis=-1) for w in (self.weights, self.projected)], axis=-1)


def lines(runs: Runs) -> Lines:
    """Return the prompts and directions that all runs share."""
    d, source = errors.dimension(runs), stream(gpt2.SYSTEM, 0, "evaluate function")
    prompts = tasks.gaussian(source, (runs.sweep.test.prompts,), 2 * d - 1, d)
    directions = source.standard_normal(prompts.weights.shape)
    directions /= np.linalg.norm(directions, axis=-1, keepdims=True)
    half = prompts.inputs[:, : d // 2], prompts.labels[:, : d // 2]
    # The predictions of least squares along the axes are its weights.
    shape = prompts.weights.shape
    projected = [estimators.least_squares(*half, np.broadcast_to(axis, shape)) for axis in np.eye(d)]
    return Lines(prompts.inputs, prompts.labels, directions, prompts.weights, np.stack(projected, axis=-1))


def counts(d: int) -> dict[str, int]:
    """Return the numbers of examples after which the function is evaluated."""
    return {"half": d // 2, "one": d, "two": 2 * d}


def learned(runs: Runs, prompts: Lines, chosen: np.ndarray, count: int, distances: np.ndarray) -> np.ndarray:
    """Return predictions along the lines of the chosen prompts after `count` examples, (runs, chosen, distances)."""
    queries = prompts.directions[chosen, None] * distances[:, None]
    examples = prompts.inputs[None, chosen, :count], prompts.labels[None, chosen, :count]
    return decoder.predict_queries(runs.last(), *examples, queries[None], runs.sweep.configs[0].heads)


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Return the curves of three prompts, and the distances to least squares over all prompts."""
    trained, prompts = runs["garg"], lines(runs["garg"])
    d, seeds = errors.dimension(trained), np.array(trained.sweep.seeds)
    x = np.linspace(-REACH, REACH, POINTS) * _shrunk(d)
    slopes, truths, parts = prompts.slopes(), [], []
    nearest = [int(np.argmin(np.sum((slopes - page) ** 2, axis=-1))) for page in SLOPES.values()]
    for panel, prompt in zip(SLOPES, nearest, strict=True):
        for series, slope in zip((TRUTH, PROJECTED), slopes[prompt], strict=True):
            truths.append(rows(VALUE, 0, slope * x, x=x, panel=panel, series=series))
    for after, count in counts(d).items():
        values = learned(trained, prompts, np.array(nearest), count, x)
        for index, panel in enumerate(SLOPES):
            parts.append(rows(VALUE, seeds[:, None], values[:, index], x=x, panel=panel, series=AFTER[after]))
    distances = _distances(trained, prompts, d)
    return errors.table(trained, [exact(join(truths)), *parts, *errors.facts(trained, distances)])


def _shrunk(d: int) -> float:
    """The factor that converts distances on the page to this d."""
    return float(np.sqrt(d / errors.PUBLISHED_DIMENSION))


def _distances(runs: Runs, prompts: Lines, d: int) -> dict[str, np.ndarray]:
    """Mean squared distances over all prompts, in the usual range of |x| on both sides of the origin."""
    side = np.linspace(*USUAL, 3) * _shrunk(d)
    distances, indices, slopes = np.concatenate([-side, side]), np.arange(len(prompts.labels)), prompts.slopes()
    size = np.mean((slopes[:, :1] * distances) ** 2)
    names = {
        "half": ("squared distance to the projected truth after d/2 examples", 1),
        "two": ("squared distance to the truth after 2d examples", 0),
    }
    return {
        name: np.mean(
            (learned(runs, prompts, indices, counts(d)[after], distances) - slopes[:, which, None] * distances) ** 2,
            axis=(1, 2),
        ) / size
        for after, (name, which) in names.items()
    }  # fmt: skip


STYLES = (
    Style(TRUTH, TRUTH, darkgrid.BLUE),
    Style(PROJECTED, PROJECTED, darkgrid.BLUE, line="--"),
    Style(AFTER["half"], AFTER["half"], darkgrid.RED),
    Style(AFTER["one"], AFTER["one"], darkgrid.GREEN),
    Style(AFTER["two"], AFTER["two"], darkgrid.ORANGE),
)


@plotting.published
def draw(table: Table) -> Picture:
    """Draw the published three panels under one legend."""
    d = error_panels.dimension_in(table)
    size = _shrunk(d)
    x = Axis("distance from origin", (-REACH * size, REACH * size), [-10 * size, 0, 10 * size])
    y = Axis(VALUE, (-20 * size, 20 * size), [height * size for height in (-20, -10, 0, 10, 20)])
    figure, first = plotting.canvas((860, 345), (72, 264, 94, 280), panel="1")
    for index, panel in enumerate(SLOPES):
        edges = (72 + 266 * index, 264 + 266 * index, 94, 280)
        axes = first if index == 0 else plotting.add_panel(figure, edges, panel)
        error_panels.dress(axes, x, y, 12, 11, named=index == 0)
        for side in (-1, 1):
            axes.axvspan(*(side * end * size for end in USUAL), color="0.5", alpha=0.25, linewidth=0, zorder=0.5)
        plotting.curves(axes, table, STYLES, VALUE)
    places = {"loc": "upper center", "bbox_to_anchor": (430 / 860, 1 - 14 / 345), "bbox_transform": figure.transFigure}
    error_panels.legend_box(first, 11, ncols=3, borderaxespad=0, **places)
    error_panels.name_dimension(figure, d)
    return figure


FIGURES = (Figure("garg_function", sweeps, measure, draw),)
