"""GPT-2 on inputs x and on tasks w larger or smaller than in training by a factor (Garg et al., talk page 15).

Scales 1/3, 1/2, 1, 2 and 3; squared errors over d and over scale^2, so that least squares and the answer 0 are the
same for all. x in the table is k / d; lines and bands as in garg_linear. The published curves of scales 1/3 and 1/2 of
x stand well above that of 1; the order is the claim, as magnitudes depend on the size of the model and on d.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from icl import plotting
from icl.claims import Bound, Claim, Verdict, judge
from icl.experiments import _garg, _garg_errors, _garg_panels, _zhang
from icl.experiments._garg_errors import LEAST_SQUARES, TRANSFORMER, means
from icl.plotting import Axis, Style
from icl.runs import Runs
from icl.spec import Sweep

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCALES: Mapping[str, float] = {"1/3": 1 / 3, "1/2": 0.5, "1": 1.0, "2": 2.0, "3": 3.0}
PANELS: Mapping[str, Callable[[float], _garg_errors.Shift]] = {
    "x": _garg_errors.scaled_inputs,
    "w": _garg_errors.scaled_weights,
}

CLAIMS = (
    Claim(
        "G11",
        "Not robust to scaled inputs: with 2d examples the transformer's error over scale^2 is largest at scale 3 of "
        "x, there at least 5 times that at scale 1, and those at scales 2 and 1/3 are above that at 1 too",
        "Garg et al. 2022 (talk page 15 a)",
        (
            Bound("error at scale 3 of x less the largest of the others", at_least=0.0),
            Bound("error at scale 3 of x over that at 1", at_least=5.0),
            Bound("error at scale 2 of x less that at 1", at_least=0.0),
            Bound("error at scale 1/3 of x less that at 1", at_least=0.0),
        ),
    ),
    Claim(
        "G12",
        "Scaled tasks are milder: with 2d examples the error over scale^2 is smaller at scale 3 of w than of x",
        "Garg et al. 2022 (talk page 15)",
        (Bound("error at scale 3 of x less that of w", at_least=0.0),),
    ),
)


def sweeps(scale: str) -> list[Sweep]:
    """The training that all figures of the paper share."""
    return [_garg.sweep(scale)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Errors at all scales; the prompts are the same but for the factor."""
    trained, weights = runs["garg"], _garg_errors.resampling(runs["garg"])
    plain = _garg_errors.errors(trained, _garg_errors.asked(trained, "clean", _garg_errors.clean), [LEAST_SQUARES])
    parts: list[pd.DataFrame] = []
    last: dict[tuple[str, str], np.ndarray] = {}
    for panel, scaled in PANELS.items():
        found = {LEAST_SQUARES: plain[LEAST_SQUARES]}
        for name, factor in SCALES.items():
            given = _garg_errors.asked(trained, "scaled", scaled(factor))
            found[name] = plain[TRANSFORMER] if factor == 1 else _garg_errors.errors(trained, given, [])[TRANSFORMER]
            last[panel, name] = means(found[name])[:, 2 * _garg_errors.dimension(trained)]
        parts += _garg_errors.curves(trained, weights, panel, found)
    return _garg_errors.table_of(trained, [*parts, *_garg_errors.facts(trained, _orders(last))])


def _orders(last: Mapping[tuple[str, str], np.ndarray]) -> dict[str, np.ndarray]:
    others = np.max([last["x", name] for name in SCALES if name != "3"], axis=0)
    return {
        "error at scale 3 of x less the largest of the others": last["x", "3"] - others,
        "error at scale 3 of x over that at 1": last["x", "3"] / last["x", "1"],
        "error at scale 2 of x less that at 1": last["x", "2"] - last["x", "1"],
        "error at scale 1/3 of x less that at 1": last["x", "1/3"] - last["x", "1"],
        "error at scale 3 of x less that of w": last["x", "3"] - last["w", "3"],
    }


STYLES = (
    Style("1/3", "1/3", _zhang.BLUE),
    Style("1/2", "1/2", _zhang.ORANGE),
    Style("1", "1", _zhang.GREEN),
    Style("2", "2", _zhang.RED),
    Style("3", "3", _zhang.PINK),
    Style(LEAST_SQUARES, LEAST_SQUARES, _zhang.TAN, line="--"),
)
# With the published slip of the pen.
TITLES = {"x": "(a) scaled $x$, Transformer", "w": "(b) scaled $w$, Transfomer"}


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """The published two panels, the legend in the right one."""
    x = _garg_panels.count_axis(_garg_panels.dimension_in(table), _garg_panels.HALVES, _garg_panels.END)
    y = Axis("squared error", (-0.1, 1.1), [0, 0.2, 0.4, 0.6, 0.8, 1.0])
    figure, left = plotting.canvas((790, 365), (64, 354, 14, 226), panel="x")
    right = plotting.add_panel(figure, (460, 750, 14, 226), "w")
    for axes in (left, right):
        _garg_panels.dress(axes, x, y, 12, 11, named=axes is left)
        _garg_panels.zero_line(axes)
        _garg_panels.draw_curves(axes, table, STYLES)
        _garg_panels.caption(figure, axes, TITLES[str(axes.get_label())], 90, 13)
    _garg_panels.legend_box(right, 10, loc="upper right", title="scale", title_fontsize=11, labelspacing=0.4)
    return figure


def check(table: pd.DataFrame) -> list[Verdict]:
    """The claims above."""
    return [judge(claim, table) for claim in CLAIMS]
