"""Stage-wise convergence: prediction error of the dominant feature and of the rare ones along training (Huang et al.).

One softmax layer on in-context regression over K = 20 features, of which v_1 has p_1 = 1/2 and every other
p_k = 1/38; prompts of N = 400 pairs, eta = 1. Curves are the exact population errors L_1 and L_k of the k-th query:
the sum over all prompts, no sampling, so that there are no bands and all rare features share one curve. The start
values differ because a prompt without learning already attends to v_1 half of the time. The paper does not state its
K, N, p_1 and eta in any text that could be consulted: the figure matches its claims, not its numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from icl import plotting
from icl.claims import Bound, Claim, Verdict, judge
from icl.experiments import _huang
from icl.plotting import Axis, Style
from icl.runs import Runs
from icl.spec import Sweep
from icl.table import rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REACHED = 0.05
DONE = 0.02
HORIZON = 3000.0

CLAIMS = (
    Claim(
        "H1",
        "The dominant feature converges first: the time T_k(0.05) at which a rare feature's error falls to 0.05 is at "
        "least 20 times T_1(0.05)",
        "Huang et al. 2024, theorem for imbalanced features; stage-wise convergence",
        (Bound("T_k(0.05) / T_1(0.05)", at_least=20, statistic="exact"),),
    ),
    Claim(
        "H2",
        "When the dominant feature is done (L_1 = 0.02), the rare ones have hardly started: L_k is at least 0.9 of its "
        "first value",
        "Huang et al. 2024, stage-wise convergence",
        (Bound("L_k / L_k(0) when L_1 = 0.02", at_least=0.9, statistic="exact"),),
    ),
    Claim(
        "H3",
        "Both converge: by eta t = 3000, L_1 is at most 0.001 and L_k at most 0.01",
        "Huang et al. 2024, theorem for imbalanced features",
        (
            Bound("L_1 at eta t = 3000", at_most=0.001, statistic="exact"),
            Bound("L_k at eta t = 3000", at_most=0.01, statistic="exact"),
        ),
    ),
)


def sweeps(scale: str) -> list[Sweep]:
    """The training that is shared with the heatmaps."""
    return [_huang.shared(scale)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Both errors at snapshots, when they reach 0.05, and what the claims compare."""
    path = _huang.path(runs["huang_shared"], 0)
    time, seed = path.time, path.config.seed
    errors = {"v_1": path.first.error, "v_k": path.other.error}
    parts, times = [], {}
    for series, error in errors.items():
        times[series] = _huang.crossing(time, error, REACHED)
        for panel, shown in (("linear", slice(None)), ("log", slice(1, None))):
            found = {"panel": panel, "series": series}
            parts.append(rows("prediction error", seed, error[shown], x=path.steps[shown], **found))
            parts.append(rows("reached", seed, REACHED, x=times[series] / path.config.rate, **found))
        late = _huang.at(HORIZON, time, error)
        parts.append(rows(f"L{series[1:]} at eta t = {HORIZON:g}", seed, late))
    done = _huang.crossing(time, errors["v_1"], DONE)
    left = _huang.at(done, time, errors["v_k"]) / errors["v_k"][0]
    parts += [
        rows(f"T_k({REACHED:g}) / T_1({REACHED:g})", seed, times["v_k"] / times["v_1"]),
        rows(f"L_k / L_k(0) when L_1 = {DONE:g}", seed, left),
    ]
    return _huang.finished(runs, parts)


STYLES = (
    Style("v_1", r"dominant feature, $\mathcal{L}_1$", "C0"),
    Style("v_k", r"under-represented, $\mathcal{L}_k$", "C3"),
)


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """Both curves on linear and on logarithmic time; dots where an error reaches 0.05."""
    figure, left = plotting.canvas((760, 360), (75, 370, 20, 300), panel="linear")
    right = plotting.add_panel(figure, (450, 745, 20, 300), "log")
    for axes in (left, right):
        panel = str(axes.get_label())
        plotting.curves(axes, table, STYLES, "prediction error")
        last = 1.0
        for style in STYLES:
            dot = plotting.summary(table, panel, style.series, "reached")
            axes.plot(dot["x"], dot["value"], "o", color=style.colour, markersize=7)
            last = max(last, float(plotting.summary(table, panel, style.series, "prediction error")["x"].max()))
        axes.axhline(REACHED, color="0.6", linestyle=":", linewidth=1)
        limits = (1, last) if panel == "log" else (-0.02 * last, last)
        plotting.frame(
            axes,
            Axis("GD iteration", limits, log=panel == "log"),
            Axis("Prediction error", (0, 0.65), [tenth / 10 for tenth in range(7)]),
            font=13,
            ticks=12,
        )
    plotting.legend(left, 12, "upper right", (0.98, 0.98))
    return figure


def check(table: pd.DataFrame) -> list[Verdict]:
    """The claims above."""
    return [judge(claim, table) for claim in CLAIMS]
