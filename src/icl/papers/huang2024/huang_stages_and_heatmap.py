"""Stages of convergence and attention between the features, along one training (Huang et al.)."""

from functools import partial
from typing import Any

import numpy as np

from icl.core.lazy import Axes
from icl.drawing import own_style
from icl.figure import (
    Axis,
    Figure,
    Picture,
    Rows,
    Sweep,
    Table,
    Trained,
    curves,
    facts,
    join,
    plotting,
    rows,
)
from icl.papers.huang2024.evaluation import FASTER, Trajectory, crossing, regime, trajectory
from icl.papers.huang2024.population_gradient import full_matrix
from icl.papers.huang2024.softmax_attention import MODEL, Config, Evaluation


def sweeps(scale: str) -> list[Sweep]:
    """Return the training of both figures: K = 20, eta = 1, with a dominant feature (run 0) and
    without (run 1).
    """
    steps = (*range(100), *range(100, 5001, 20))
    configs = tuple(
        Config(dominant_probability=p_1, learning_rate=1.0 * FASTER[scale]) for p_1 in (0.5, 0.0)
    )
    snapshots = tuple(sorted({step // FASTER[scale] for step in steps}))
    return [Sweep("huang_shared", MODEL, configs, snapshots, Evaluation())]


# Stages

REACHED = 0.05


def measure_stages(runs: Trained, scale: str) -> Rows:
    """Both errors at snapshots, the times at which they reach 0.05, and the claims' observables."""
    path = trajectory(runs["huang_shared"])
    first, other = path.first.error, path.other.error
    times = np.array([crossing(path.time, error, REACHED) for error in (first, other)])
    parts = []
    for panel, start in (("linear", 0), ("log", 1)):
        errors = {"v_1": first[start:], "v_k": other[start:]}
        parts.append(curves("prediction error", panel, None, path.steps[start:], errors))
        x = times / path.config.learning_rate
        parts.append(rows("reached", None, REACHED, x=x, panel=panel, series=list(errors)))
    value_at = partial(np.interp, xp=path.time, left=np.nan, right=np.nan)
    bounded = {
        "T_k(0.05) / T_1(0.05)": times[1] / times[0],
        "L_k / L_k(0) when L_1 = 0.02": value_at(crossing(path.time, first, 0.02), fp=other)
        / other[0],
        "L_1 at eta t = 3000": value_at(3000, fp=first),
        "L_k at eta t = 3000": value_at(3000, fp=other),
    }
    # 0.001 is the smaller of the levels that the errors reach by then.
    return join([*parts, facts(None, bounded | regime(path.config, 0.001))])


ERRORS = {"v_1": r"dominant feature, $\mathcal{L}_1$", "v_k": r"under-represented, $\mathcal{L}_k$"}
TIMES = {"linear": "linear time", "log": "logarithmic time"}


@plotting.under_defaults
def draw_stages(table: Table) -> Picture:
    """Both curves on linear and on logarithmic time; dots where an error reaches 0.05."""
    title = "Two stages: the dominant feature is learnt first, the others later"
    picture, panels = own_style.panels(list(TIMES), 2, title, (370, 290))
    y = Axis("Prediction error", (0, 0.65), [tenth / 10 for tenth in range(7)])
    for panel, axes in panels.items():
        for style in own_style.styles(ERRORS, markers=True):
            plotting.curves(axes, table, [style], "prediction error", marker="", linewidth=1.5)
            dot = table.curve(panel, style.series, "reached")
            look: dict[str, Any] = {"color": style.colour, "markersize": 6, "linestyle": "none"}
            axes.plot(
                dot["x"], dot["value"], marker=style.marker, gid=f"{style.series} reached", **look
            )
        axes.axhline(REACHED, color="0.5", linewidth=0.8)
        last = max(1.0, float(table.curve(panel, "v_k", "prediction error")["x"].max()))
        limits = (1, last) if panel == "log" else (-0.02 * last, last)
        plotting.frame(axes, Axis("GD iteration", limits, log=panel == "log"), y, own_style.FONT)
        axes.set_title(TIMES[panel], fontsize=own_style.FONT)
    place = panels["linear"].get_yaxis_transform()
    panels["linear"].text(
        0.99,
        REACHED + 0.005,
        f"mark: {REACHED} reached",
        ha="right",
        transform=place,
        fontsize=own_style.FONT,
    )
    panels["linear"].legend(loc="upper right", **own_style.LEGEND)
    return picture


# Heatmap

CASES = ("imbalanced", "balanced")
# Iterations of the heatmaps and of the frames of the animation, at the paper scale.
SHOWN = {"imbalanced": (0, 100, 1200, 5000), "balanced": (0, 300, 600, 2500)}
FRAMES = (
    0,
    2,
    5,
    10,
    20,
    40,
    70,
    *range(100, 2000, 100),
    2000,
    2300,
    2600,
    3000,
    3500,
    4000,
    4500,
    5000,
)


def nearest_snapshots(iterations: tuple[int, ...], path: Trajectory) -> list[int]:
    """Return indices of the snapshots closest to some iterations, which are scaled to the length
    of the training.
    """
    scaled = np.array(iterations) * path.steps[-1] / 5000
    return sorted({int(abs(path.steps - step).argmin()) for step in scaled})


def measure_heatmap(runs: Trained, scale: str) -> Rows:
    """Heatmaps of the picture and of the animation, mean scores along training, and the claims'
    observables.
    """
    parts, bounded = [], {}
    for run, case in enumerate(CASES):
        path = trajectory(runs["huang_shared"], run)
        k, steps, numbers = path.config.features, path.steps, np.arange(1, path.config.features + 1)
        entries = np.stack([path.first.attention, path.other.attention], axis=1) / [
            [1, 1, k - 1],
            [1, 1, k - 2],
        ]
        squares = full_matrix(entries, k).swapaxes(
            -1, -2
        )  # E Attn_n, (snapshots, K, K) with a row per query v_k
        shown, frames = nearest_snapshots(SHOWN[case], path), nearest_snapshots(FRAMES, path)
        queries = np.array([f"v_{number}" for number in numbers])[:, None]
        for place, index in enumerate(shown):
            panel = f"{case} {place}"
            parts.append(
                rows(
                    "attention score", None, squares[index], x=numbers, panel=panel, series=queries
                )
            )
            parts.append(rows("iteration", None, steps[index], panel=panel))
        # One heatmap per frame, whose step is the colour.
        labels = {"panel": case, "series": queries, "colour": steps[frames, None, None]}
        parts.append(rows("attention score", None, squares[frames], x=numbers, **labels))
        means = {f"{case} v_k to v_k": path.other.attention[:, 0]}
        if case == "imbalanced":
            means["imbalanced v_k to v_1"] = path.other.attention[:, 1]
            means["imbalanced v_1 to v_1"] = path.first.attention[:, 0]
        for observable, at in (("mean score", slice(1, None)), ("mark", shown[1:])):
            of_points = {name: values[at] for name, values in means.items()}
            parts.append(curves(observable, "curves", None, steps[at], of_points))
        last, diagonal = squares[shown[-1]], np.eye(k, dtype=bool)
        bounded[f"smallest diagonal score, {case}"] = last[diagonal].min()
        bounded[f"largest other score, {case}"] = last[~diagonal].max()
    return join([*parts, facts(None, bounded)])


SCORES = own_style.styles(
    {
        "imbalanced v_1 to v_1": r"$v_1$ to $v_1$, imbalanced",
        "imbalanced v_k to v_1": r"$v_k$ to $v_1$, imbalanced",
        "imbalanced v_k to v_k": r"$v_k$ to $v_k$, imbalanced",
        "balanced v_k to v_k": r"$v_k$ to $v_k$, balanced",
    },
    markers=True,
)


def heatmap(axes: Axes, matrix: np.ndarray, title: str) -> Any:
    """Draw attention scores, (K, K); returns the mesh for a colour bar."""
    ticks = [1, *range(5, len(matrix) + 1, 5)]
    mesh = plotting.heatmap(axes, matrix, title, font=11, vmin=0, vmax=1, square=True)
    plotting.frame(
        axes,
        Axis("Attended feature $n$", ticks=ticks),
        Axis("Query $k$", ticks=ticks),
        font=10,
        ticks=8,
    )
    return mesh


@plotting.under_defaults
def draw_heatmap(table: Table) -> Picture:
    """Two rows of heatmaps, with curves below."""
    names = [f"{case} {place}" for case in CASES for place in range(4)]
    edges = plotting.grid_edges(names, (65, 199, 30, 180), (152, 190), columns=4)
    figure, panels = plotting.panels((760, 640), {**edges, "curves": (65, 545, 440, 590)})
    below = panels.pop("curves")
    for index, (panel, axes) in enumerate(panels.items()):
        row, column = divmod(index, 4)
        step = table.matrix(panel, "iteration").item()
        mesh = heatmap(axes, table.matrix(panel, "attention score"), f"$t={step:.0f}$")
        axes.xaxis.label.set_visible(row == 1)
        axes.yaxis.label.set_visible(column == 0)
        axes.tick_params(labelleft=column == 0, labelbottom=row == 1)
        if column == 0:
            axes.set_ylabel(f"{CASES[row]}\nQuery $k$", fontsize=10)
    bar = figure.colorbar(mesh, cax=plotting.add_panel(figure, (690, 702, 30, 370), "<colorbar>"))
    bar.set_label("Attention score", fontsize=11)
    plotting.curves(
        below, table, [style._replace(marker="") for style in SCORES], "mean score", linewidth=1.5
    )
    for style in SCORES:
        marks = table.curve("curves", style.series, "mark")
        below.plot(marks["x"], marks["value"], style.marker, color=style.colour, markersize=5)
    last = float(table.curve("curves", SCORES[-1].series, "mean score")["x"].max())
    x, y = Axis("GD iteration", (1, 1.1 * last), log=True), Axis("Attention score", (-0.03, 1.03))
    plotting.frame(below, x, y, font=11, ticks=10)
    plotting.legend(below, 10, "center left", (1.02, 0.5))
    return figure


def frames(table: Table) -> list[Picture]:
    """Frames of the animation, with both heatmaps side by side."""
    frame_points = table.runs[table.runs["colour"].notna()]
    return [frame(points, step) for step, points in frame_points.groupby("colour")]


@plotting.under_defaults
def frame(points: Rows, step: float) -> Picture:
    """One frame from the scores at its step."""
    edges = {"imbalanced": (45, 235, 30, 220), "balanced": (265, 455, 30, 220)}
    figure, panels = plotting.panels((520, 270), edges)
    for case, axes in panels.items():
        values = points.loc[points["panel"] == case, "value"].to_numpy()
        size = round(len(values) ** 0.5)
        mesh = heatmap(axes, values.reshape(size, size), f"{case}, $t={step:.0f}$")
    axes.yaxis.label.set_visible(False)
    figure.colorbar(mesh, cax=plotting.add_panel(figure, (470, 480, 30, 220), "<colorbar>"))
    return figure


FIGURES = (
    Figure("huang_stages", sweeps, measure_stages, draw_stages),
    Figure("huang_heatmap", sweeps, measure_heatmap, draw_heatmap, frames=frames),
)
