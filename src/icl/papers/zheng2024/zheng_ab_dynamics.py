"""Training along pages 42 and 38 of the talk (Zheng et al.): ab, ratio and error, and how ab is
split into a and b.
"""

import numpy as np

from icl.drawing import own_style
from icl.figure import (
    Axes,
    Axis,
    Figure,
    Picture,
    Rows,
    Style,
    Sweep,
    Table,
    Trained,
    facts,
    join,
    plotting,
    rows,
)
from icl.models.autoregressive import theory, trainings
from icl.models.autoregressive.config import Config
from icl.papers.zheng2024 import talk_style
from icl.tasks.unitary_statistics import population

LAWS = ("gaussian", "sparse")
EPOCHS = trainings.EPOCHS


def sweeps(scale: str) -> list[Sweep]:
    """Trainings of full blocks from three starts under both laws."""
    return [trainings.from_every_start(law, trainings.CONVERGED[scale]) for law in LAWS]


def last_error(a: np.ndarray, b: np.ndarray, config: Config) -> float:
    """E |y_{T-1} - x_T|^2 for blocks A and B: twice the contribution of the last position to the
    loss.
    """
    full, shorter = (
        population(config.law, config.dimension, config.scale, config.length - i) for i in (0, 1)
    )
    return 2 * (full.loss(a, b)[0] - shorter.loss(a, b)[0])


def measure(runs: Trained, scale: str) -> Rows:
    """Return the curves of the panels, the limits, and the values that the claims bound."""
    gaussian, sparse = (runs[f"zheng_{law}"] for law in LAWS)
    gaussian_config, sparse_config = gaussian.sweep.configs[0], sparse.sweep.configs[0]
    ab, other = trainings.products(gaussian), trainings.products(sparse)
    power, fourth, later = (
        gaussian_config.moment(2),
        gaussian_config.moment(4),
        slice(1, EPOCHS + 1),
    )
    every = [zip(*trainings.blocks(sparse, run), strict=True) for run in range(len(other))]
    errors = np.array([[last_error(a, b, sparse_config) for a, b in pairs] for pairs in every])
    curves = [
        ("a", "ab", ab[:, :EPOCHS]),
        # E y_j / x_j = ab E u_j^2 and E <y, x> / E |x|^2 = ab E u_j^4 / E u_j^2, at every position
        ("b", "ratio", ab[:, later] * power),
        ("f", "ratio", ab[:, later] * fourth / power),
        ("c", "ab", other[:, later]),
        ("d", "loss", sparse.losses[:, later]),
        ("e", "squared error", errors[:, later]),
    ]
    # As drawn in the talk, for T to infinity, and for this T.
    drawn, limit = 1 / (5 * power), theory.limit(gaussian_config)
    limits = [
        ("c", "as drawn", 1 / sparse_config.scale**2),
        ("d", "as drawn", 0.0),
        ("e", "as drawn", 0.0),
    ]
    for panel, factor in (("a", 1.0), ("b", power), ("f", 3 * power)):
        limits += [(panel, "as drawn", drawn * factor), (panel, "at this T", limit * factor)]
    small, *larger = ab[:, EPOCHS]
    ends = np.concatenate([ab[:, -1] / limit, other[:, -1] / theory.limit(sparse_config)])
    claimed = {
        "largest relative distance of ab from its limit": abs(ends - 1).max(),
        "least ab over the drawn line, larger starts, gaussian": min(larger) / drawn,
        "largest ab over the drawn line, larger starts, gaussian": max(larger) / drawn,
        "ab from 0.1 0.1 over the least other one, gaussian": small / min(larger),
        "least ab at epoch 200, sparse": other[:, EPOCHS].min(),
        "largest loss drawn at epoch 200, sparse": sparse.losses[:, EPOCHS].max(),
    }
    names, epochs = np.array(list(trainings.STARTS))[:, None], np.arange(EPOCHS)
    parts = [
        rows(of, None, values, x=epochs, panel=panel, series=names) for panel, of, values in curves
    ]
    parts += [
        rows("limit", None, end, x=[0, EPOCHS - 1], panel=panel, series=name)
        for panel, name, end in limits
    ]
    return join([*parts, facts(None, claimed)])


def split(product: float, difference: float) -> tuple[float, float]:
    """Return the a, b > 0 with ab = product and a^2 - b^2 = difference."""
    root = np.hypot(difference, 2 * product)
    return float(np.sqrt((root + difference) / 2)), float(np.sqrt((root - difference) / 2))


def measure_split(runs: Trained, scale: str) -> Rows:
    """Return a and b at every epoch, their limits predicted by the start, and the drift of a^2 -
    b^2.
    """
    parts, drifts, distances, epochs = [], [], [], np.arange(EPOCHS + 1)
    for law in LAWS:
        trained = runs[f"zheng_{law}"]
        for run, (name, (a_0, b_0)) in enumerate(trainings.STARTS.items()):
            a, b = (
                np.diagonal(block, axis1=1, axis2=2).mean(axis=1)
                for block in trainings.blocks(trained, run)
            )
            # Relative to a_0^2 + b_0^2, because a_0^2 - b_0^2 is 0 for two of the starts.
            drifts.append(np.abs(a**2 - b**2 - (a_0**2 - b_0**2)).max() / (a_0**2 + b_0**2))
            ends = split(theory.limit(trained.sweep.configs[run]), a_0**2 - b_0**2)
            for letter, course, end in zip("ab", (a, b), ends, strict=True):
                series = f"{letter}, {name}"
                distances.append(abs(course[-1] / end - 1))
                parts.append(
                    rows("weight", None, course[epochs], x=epochs, panel=law, series=series)
                )
                parts.append(
                    rows("weight", None, end, x=[0, EPOCHS], panel=law, series=f"end of {series}")
                )
    claimed = {
        "largest drift of a^2 - b^2 over a_0^2 + b_0^2": max(drifts),
        "largest relative distance of a and b from their predicted ends": max(distances),
    }
    return join([*parts, facts(None, claimed)])


# Panel -> observable, y label, step and number of its ticks, label of the dashed line, caption
PANELS = {
    "a": (
        "ab",
        "Dynamics of ab",
        (0.5, 9),
        r"$1/5\sigma^2=0.8$",
        r"Gaussian with $\sigma=0.5$, dynamics of $ab$",
    ),
    "b": (
        "ratio",
        "Ratio of pred/true at $T_{te}$",
        (0.2, 5),
        "Ratio = 0.2",
        r"Gaussian with $\sigma=0.5$, ratio of $\hat{y}_{T_{te}-1}/x_{T_{te}}$",
    ),
    "c": (
        "ab",
        "Dynamics of ab",
        (0.5, 9),
        "$1/c^2=4.0$",
        "Example 4.1 with $c=0.5$, dynamics of $ab$",
    ),
    "d": (
        "loss",
        "MSE loss at $T_{te}$",
        (2, 7),
        "Theoretical MSE = 0",
        "Example 4.1, $c=0.5$; half the sum over all $t$",
    ),
}
# The same for our panels
OURS = {
    "e": (
        "squared error",
        "Squared error at $T_{te}$",
        (0.05, 6),
        "0",
        r"What (d) names: $\mathrm{E}\,||\hat{y}_{T_{te}-1}-x_{T_{te}}||_2^2$",
    ),
    "f": (
        "ratio",
        "Least-squares ratio at $T_{te}$",
        (0.5, 6),
        "0.6",
        r"Twin of (b): $\mathrm{E}\langle\hat{y},x\rangle/\mathrm{E}|x|^2$ of the same predictions",
    ),
}


@plotting.under_defaults
def draw(table: Table) -> Picture:
    """Draw the four published panels, and below them two panels with the quantities that their
    labels suggest.
    """
    edges = plotting.grid_edges(list(PANELS), (75, 447, 15, 253), (460, 335), columns=2)
    below = plotting.grid_edges(list(OURS), (75, 447, 752, 942), (460, 0))
    figure, panels = plotting.panels((925, 997), edges | below)
    for name, axes in panels.items():
        observable, label, (step, count), drawn, caption = (PANELS | OURS)[name]
        published = name in PANELS
        styles = (
            talk_style.styles() if published else own_style.styles(talk_style.LABELS, markers=True)
        )
        plotting.curves(axes, table, styles, observable, linewidth=1.4, **talk_style.MARKS)
        lines = [
            Style("as drawn", drawn, "C3" if published else "k", line="--" if published else "-")
        ]
        if name in "abf":
            value = table.curve(name, "at this T", "limit")["value"].iloc[0]
            lines.append(Style("at this T", f"at $T=100$: {value:.3f}", "k", line=":"))
        plotting.curves(axes, table, lines, "limit", linewidth=1.4 if published else 0.8)
        y = Axis(label, ticks=[step * i for i in range(count)])
        if published:
            axes.legend(fontsize=10, loc="lower right" if name == "c" else "upper right")
            finish(axes, y, f"({name}) {caption}")
        else:
            plotting.frame(axes, EPOCH, y, own_style.FONT + 1)
            axes.legend(loc="upper right", **own_style.LEGEND)
            axes.set_title(f"({name}) {caption}", fontsize=own_style.FONT + 1, loc="left")
            axes.spines[["top", "right"]].set_visible(False)
    talk_style.ours_below(figure, 1 - 690 / 997)
    return figure


EPOCH = Axis("Epoch", (-10, 210), range(0, 201, 25))


def finish(axes: Axes, y: Axis, caption: str) -> None:
    """Draw the axis of epochs and the caption, in the talk's typeface; formulas keep
    matplotlib's own, as published.
    """
    plotting.frame(axes, EPOCH, y, 15, 12.5)
    below = axes.text(0.5, -0.31, caption, fontsize=12, ha="center", transform=axes.transAxes)
    axes.tick_params(labelfontfamily=talk_style.SERIF)
    legend = axes.get_legend()
    for text in (
        below,
        axes.xaxis.label,
        axes.yaxis.label,
        *(legend.get_texts() if legend else ()),
    ):
        text.set_fontfamily(talk_style.SERIF)


@plotting.under_defaults
def draw_split(table: Table) -> Picture:
    """Draw a panel per law: a solid and b dashed in the colour of their start, predicted limits
    dotted.
    """
    edges = plotting.grid_edges(LAWS, (75, 447, 15, 253), (460, 0))
    figure, panels = plotting.panels((925, 345), edges)
    for axes in panels.values():
        for name, label, colour, mark, _ in talk_style.styles():
            ends = [Style(f"end of {letter}, {name}", "", colour, line=":") for letter in "ab"]
            courses = [
                Style(f"a, {name}", label, colour, mark),
                Style(f"b, {name}", "", colour, mark, "--"),
            ]
            plotting.curves(axes, table, ends, "weight", linewidth=1.0)
            plotting.curves(axes, table, courses, "weight", linewidth=1.6, **talk_style.MARKS)
        for label, line in (("$a$", "-"), ("$b$", "--"), ("predicted end", ":")):
            axes.plot([], [], color="0.4", linestyle=line, linewidth=1.4, label=label)
    panels["sparse"].legend(fontsize=10, loc="lower right").set_gid("starts")
    for law, top, ticks, caption in (
        ("gaussian", 2.1, 5, r"(a) Gaussian with $\sigma=0.5$"),
        ("sparse", 2.6, 6, "(b) Example 4.1 with $c=0.5$"),
    ):
        finish(panels[law], Axis("$a$ and $b$", (0, top), [0.5 * i for i in range(ticks)]), caption)
    return figure


FIGURES = (
    Figure("zheng_ab_dynamics", sweeps, measure, draw),
    Figure("zheng_a_and_b", sweeps, measure_split, draw_split),
)
