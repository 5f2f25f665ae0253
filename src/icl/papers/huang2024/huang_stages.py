"""Stage-wise convergence: prediction errors of the dominant and of the rare features along training (Huang et al.)."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from icl.core.lazy import Picture
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import Table, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.figure import Figure
from icl.papers.huang2024 import trainings

REACHED = 0.05
DONE = 0.02
HORIZON = 3000.0
# The smaller of the levels that the errors reach at the horizon.
LAST = 0.001


def sweeps(scale: str) -> list[Sweep]:
    """The training shared with the heatmaps."""
    return [trainings.stages_and_heatmap(scale)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Both errors at snapshots, the times at which they reach 0.05, and the claims' observables."""
    path = trainings.trajectory(runs["huang_shared"], 0)
    time, seed = path.time, path.config.seed
    errors = {"v_1": path.first.error, "v_k": path.other.error}
    parts, times = [], {}
    for series, error in errors.items():
        times[series] = trainings.crossing(time, error, REACHED)
        for panel, shown in (("linear", slice(None)), ("log", slice(1, None))):
            labels = {"panel": panel, "series": series}
            parts.append(rows("prediction error", seed, error[shown], x=path.steps[shown], **labels))
            parts.append(rows("reached", seed, REACHED, x=times[series] / path.config.learning_rate, **labels))
        late = trainings.interpolated(HORIZON, time, error)
        parts.append(rows(f"L{series[1:]} at eta t = {HORIZON:g}", seed, late))
    parts += [rows(name, seed, value) for name, value in trainings.regime(path.config, LAST).items()]
    done = trainings.crossing(time, errors["v_1"], DONE)
    remaining = trainings.interpolated(done, time, errors["v_k"]) / errors["v_k"][0]
    parts += [
        rows(f"T_k({REACHED:g}) / T_1({REACHED:g})", seed, times["v_k"] / times["v_1"]),
        rows(f"L_k / L_k(0) when L_1 = {DONE:g}", seed, remaining),
    ]
    return trainings.with_statistic(runs, parts)


STYLES = (
    Style("v_1", r"dominant feature, $\mathcal{L}_1$", "C0"),
    Style("v_k", r"under-represented, $\mathcal{L}_k$", "C3"),
)


@plotting.published
def draw(table: Table) -> Picture:
    """Both curves on linear and on logarithmic time; dots where an error reaches 0.05."""
    figure, left = plotting.canvas((760, 360), (75, 370, 20, 300), panel="linear")
    right = plotting.add_panel(figure, (450, 745, 20, 300), "log")
    for axes in (left, right):
        panel = str(axes.get_label())
        plotting.curves(axes, table, STYLES, "prediction error")
        last = 1.0
        for style in STYLES:
            dot = table.curve(panel, style.series, "reached")
            axes.plot(dot["x"], dot["value"], "o", color=style.colour, markersize=7, gid=f"{style.series} reached")
            last = max(last, float(table.curve(panel, style.series, "prediction error")["x"].max()))
        axes.axhline(REACHED, color="0.6", linestyle=":", linewidth=1)
        limits = (1, last) if panel == "log" else (-0.02 * last, last)
        plotting.frame(
            axes,
            Axis("GD iteration", limits, log=panel == "log"),
            Axis("Prediction error", (0, 0.65), [tenth / 10 for tenth in range(7)]),
            font=13,
            ticks=12,
        )
    left.plot([], [], "o", color="0.4", markersize=7, label=f"{REACHED} reached")
    plotting.legend(left, 11, "upper right", (0.98, 0.98))
    return figure


FIGURES = (Figure("huang_stages", sweeps, measure, draw),)
