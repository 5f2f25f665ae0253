"""The function that GPT-2 infers from a prompt, along a line through the origin (Garg et al.,
talk page 12).
"""

import numpy as np

from icl.drawing import darkgrid
from icl.figure import (
    Axis,
    Figure,
    Picture,
    Rows,
    Runs,
    Style,
    Table,
    Trained,
    curves,
    join,
    plotting,
    rows,
    stream,
)
from icl.models import estimators
from icl.papers.garg2022 import decoder, gpt2
from icl.papers.garg2022.evaluation import (
    PUBLISHED_DIMENSION,
    dimension,
    judged,
    means,
    sweeps,
)
from icl.papers.garg2022.panels import (
    dimension_in,
    dress,
    legend_box,
    name_dimension,
)
from icl.tasks import linear_regression as tasks
from icl.tasks.linear_regression import Prompts

TRUTH, PROJECTED, VALUE = "ground truth", "ground truth projected", "function value"
# Series -> the number of examples over d
AFTER = {
    "#dims / 2 in-context examples": 0.5,
    "#dims in-context examples": 1,
    "#dims * 2 in-context examples": 2,
}
HALF, _, TWICE = AFTER
# On the page, at d = 20: the ends of the line, the usual range of |x|, and the slopes (truth,
# projection) per panel.
REACH, USUAL = 15.0, (3.0, 6.0)
SLOPES = {"1": (-1.13, -0.99), "2": (1.2, 0.17), "3": (0.0, -0.32)}
POINTS = 61


def lines(runs: Runs) -> tuple[Prompts, np.ndarray, np.ndarray]:
    """Prompts that all runs share, a direction for each, and w projected on the span of the
    first d // 2 inputs.
    """
    d, source = dimension(runs), stream(gpt2.NAME, 0, "evaluate function")
    prompts = tasks.gaussian(source, (runs.sweep.test.prompts,), 2 * d - 1, d)
    directions = source.standard_normal(prompts.weights.shape)
    directions /= np.linalg.norm(directions, axis=-1, keepdims=True)
    half = prompts.inputs[:, : d // 2], prompts.labels[:, : d // 2]
    # The predictions of least squares along the axes are its weights.
    projected = [
        estimators.least_squares(*half, np.broadcast_to(axis, directions.shape))
        for axis in np.eye(d)
    ]
    return prompts, directions, np.stack(projected, axis=-1)


def measure(runs: Trained, scale: str) -> Rows:
    """Curves of the three prompts with the slopes nearest to the page's, and distances to least
    squares over all.

    The distances are mean squares over all prompts, in the usual range of |x| on both sides of the
    origin.
    """
    trained = runs["garg"]
    (inputs, labels, weights), directions, projected = lines(trained)
    d, seeds, heads = (
        dimension(trained),
        np.array(trained.sweep.seeds),
        trained.sweep.configs[0].heads,
    )
    slopes = np.stack([np.sum(directions * w, axis=-1) for w in (weights, projected)], axis=-1)
    nearest = [np.argmin(np.sum((slopes - page) ** 2, axis=-1)) for page in SLOPES.values()]

    def learned(after: str, chosen: np.ndarray | slice, distances: np.ndarray) -> np.ndarray:
        """Predictions along the lines of the chosen prompts, (runs, chosen, distances)."""
        queries, k = directions[chosen, None] * distances[:, None], int(AFTER[after] * d)
        examples = inputs[None, chosen, :k], labels[None, chosen, :k]
        return decoder.predict_queries(trained.last(), *examples, queries[None], heads=heads)

    x = np.linspace(-REACH, REACH, POINTS) * _shrunk(d)
    predicted = {after: learned(after, np.array(nearest), x) for after in AFTER}
    parts = [rows("dimension", None, float(d))]
    for index, (panel, prompt) in enumerate(zip(SLOPES, nearest, strict=True)):
        exact = dict(zip((TRUTH, PROJECTED), np.outer(slopes[prompt], x), strict=True))
        of_runs = {after: values[:, index] for after, values in predicted.items()}
        parts += [
            curves(VALUE, panel, None, x, exact),
            curves(VALUE, panel, seeds[:, None], x, of_runs),
        ]
    side = np.linspace(*USUAL, 3) * _shrunk(d)
    distances = np.concatenate([-side, side])
    truth = np.mean((slopes[:, :1] * distances) ** 2, axis=1)
    size, bounded = means(trained, np.broadcast_to(truth, (len(seeds), len(truth)))), {}
    for observable, after, which in (
        ("squared distance to the projected truth after d/2 examples", HALF, 1),
        ("squared distance to the truth after 2d examples", TWICE, 0),
    ):
        wrong = learned(after, slice(None), distances) - slopes[:, which, None] * distances
        bounded[observable] = means(trained, np.mean(wrong**2, axis=2)) / size
    return join([*parts, judged(trained, bounded)])


def _shrunk(d: int) -> float:
    """Return the factor that converts distances on the page to this d."""
    return float(np.sqrt(d / PUBLISHED_DIMENSION))


STYLES = [
    Style(TRUTH, TRUTH, darkgrid.BLUE),
    Style(PROJECTED, PROJECTED, darkgrid.BLUE, line="--"),
    *(
        Style(n, n, c)
        for n, c in zip(AFTER, (darkgrid.RED, darkgrid.GREEN, darkgrid.ORANGE), strict=True)
    ),
]


@plotting.under_defaults
def draw(table: Table) -> Picture:
    """Draw the published three panels under one legend."""
    d = dimension_in(table)
    size = _shrunk(d)
    x = Axis("distance from origin", (-REACH * size, REACH * size), [-10 * size, 0, 10 * size])
    y = Axis(VALUE, (-20 * size, 20 * size), [height * size for height in (-20, -10, 0, 10, 20)])
    figure, panels = plotting.panels(
        (860, 345), plotting.grid_edges(tuple(SLOPES), (72, 264, 94, 280), (266, 0))
    )
    for name, axes in panels.items():
        dress(axes, x, y, 12, named=name == "1")
        for side in (-1, 1):
            axes.axvspan(
                *(side * end * size for end in USUAL),
                color="0.5",
                alpha=0.25,
                linewidth=0,
                zorder=0.5,
            )
        plotting.curves(axes, table, STYLES, VALUE)
    place = {"bbox_to_anchor": (430 / 860, 1 - 14 / 345), "bbox_transform": figure.transFigure}
    legend_box(panels["1"], 11, loc="upper center", ncols=3, borderaxespad=0, **place)
    name_dimension(figure, d)
    return figure


FIGURES = (Figure("garg_function", sweeps, measure, draw),)
