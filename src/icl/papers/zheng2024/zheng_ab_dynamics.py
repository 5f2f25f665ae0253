"""Dynamics of ab, ratio and error along training, Gaussian first token and Example 4.1 (Zheng et al., talk page 42)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import join, rows
from icl.drawing import plotting, zheng_look
from icl.drawing.plotting import Axis, Style
from icl.evidence.intervals import exact
from icl.models import autoregressive as system
from icl.models import autoregressive_definition as definition
from icl.models import autoregressive_readout as readout
from icl.models import autoregressive_theory as theory
from icl.models import autoregressive_trainings as trainings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LAWS = ("gaussian", "sparse")
EPOCHS = trainings.EPOCHS


def sweeps(scale: str) -> list[Sweep]:
    """Three starts under both laws, over whole blocks and in a and b alone."""
    return [trainings.sweep(law, scale, estimator) for law in LAWS for estimator in ("population", "population_scalar")]


def measure(runs: Mapping[str, Runs], scale: str, published: pd.DataFrame) -> pd.DataFrame:
    """The curves of the panels, the limits, and what the claims compare."""
    parts, facts = [], []
    for law in LAWS:
        trained, recursion = runs[trainings.sweep_name(law)], runs[trainings.sweep_name(law, "population_scalar")]
        for run in range(len(trainings.STARTS)):
            parts += _curves(trained, run)
            facts.append(_facts(trained, recursion, run) | {"layer": _against_one_step(trained, run)})
        parts += _limits(trained.sweep.configs[0], readout.products_along(trained, 0)[-1])
    curves = join(parts)
    return exact(join([curves, *_judged(facts), *_read_off(curves, published), *_assumption()]))


def _curves(trained: Runs, run: int) -> list[pd.DataFrame]:
    config = trained.sweep.configs[run]
    epochs, ab = np.arange(EPOCHS), readout.products_along(trained, run)
    power, fourth = config.moment(2), config.moment(4)
    later = ab[1 : EPOCHS + 1]
    label = {"series": config.start, "x": epochs}
    if config.law == "gaussian":
        return [
            rows("ab", 0, ab[:EPOCHS], panel="a", **label),
            # E y_j / x_j = ab E u_j^2 and E <y, x> / E |x|^2 = ab E u_j^4 / E u_j^2, at every position
            rows("ratio", 0, later * power, panel="b", **label),
            rows("ratio", 0, later * fourth / power, panel="f", **label),
        ]
    errors = [readout.last_error(*readout.blocks_at(trained, run, epoch), config) for epoch in range(1, EPOCHS + 1)]
    return [
        rows("ab", 0, later, panel="c", **label),
        rows("loss", 0, trained.losses[run, 1 : EPOCHS + 1], panel="d", **label),
        rows("squared error", 0, errors, panel="e", **label),
    ]


def _limits(config: system.Config, last: float) -> list[pd.DataFrame]:
    """The lines as drawn in the talk (T -> infinity) and for this T."""
    limit, ends = theory.limit(config), {"x": [0, EPOCHS - 1]}
    facts = [rows(f"last ab, {config.law}", 0, last)]
    if config.law == "sparse":
        lines = [("c", "as drawn", 1 / config.scale**2), ("d", "as drawn", 0.0), ("e", "as drawn", 0.0)]
    else:
        drawn, power = 1 / (5 * config.scale**2), config.scale**2
        lines = [
            (panel, series, value * factor)
            for panel, factor in (("a", 1.0), ("b", power), ("f", 3 * power))
            for series, value in (("as drawn", drawn), ("at this T", limit))
        ]
    return facts + [rows("limit", 0, [value] * 2, panel=panel, series=series, **ends) for panel, series, value in lines]


def _facts(trained: Runs, recursion: Runs, run: int) -> dict[str, object]:
    """What one run contributes to the claims."""
    config, ab = trained.sweep.configs[run], readout.products_along(trained, run)
    a, b = readout.moving_blocks({name: w[run] for name, w in trained.weights.items()}, config)
    apart = ~np.eye(config.dimension, dtype=bool)
    flow_a, flow_b = theory.flow(config, np.linspace(0, EPOCHS * config.learning_rate, EPOCHS + 1))
    a_0, b_0 = config.starts
    return {
        "law": config.law,
        "start": config.start,
        "recursion": abs(ab - readout.products_along(recursion, run))[: EPOCHS + 1].max(),
        "off": max(abs(a[..., apart]).max(), abs(b[..., apart]).max()),
        "limit": abs(ab[-1] / theory.limit(config) - 1),
        "drift": abs(flow_a**2 - flow_b**2 - (a_0**2 - b_0**2)).max(),
        "ab": ab[EPOCHS],
        "first loss": trained.losses[run, 1],
        "last loss": trained.losses[run, EPOCHS],
    }


def _against_one_step(trained: Runs, run: int) -> float:
    """Largest difference between the literal layer and one gradient step, on 50 fresh sequences, at every position."""
    config = trained.sweep.configs[run]
    x = system.sequences(config, "evaluate", 50)
    a, b = readout.blocks_at(trained, run, trained.sweep.snapshots[-1])
    layer = definition.layer_of_blocks(a, b, x)
    ab = readout.products_along(trained, run)[-1]
    worst = 0.0
    for t in range(2, config.length):
        descent = x[:, 1:t].swapaxes(1, 2) @ x[:, : t - 1].conj()  # -d/dPhi of 1/2 sum |x_{i+1} - Phi x_i|^2 at Phi = 0
        moved = (ab / (t - 1) * descent @ x[:, t - 1, :, None])[..., 0]
        worst = max(worst, float(abs(layer[:, t - 2] - moved).max()))
    return worst


def _judged(facts: list[dict[str, object]]) -> list[pd.DataFrame]:
    def worst(key: str, law: str = "", best: bool = False) -> object:
        values = np.array([own[key] for own in facts if law in ("", own["law"])], dtype=float)
        return values.min() if best else values.max()

    (first,) = [own["first loss"] for own in facts if (own["law"], own["start"]) == ("sparse", "0.1 0.1")]
    found = {
        "largest |ab of the blocks - ab of the recursion|": worst("recursion"),
        "largest off-diagonal entry": worst("off"),
        "largest relative distance of ab from its limit": worst("limit"),
        "largest drift of a^2 - b^2": worst("drift"),
        "least ab at epoch 200, sparse": worst("ab", "sparse", best=True),
        "largest loss drawn at epoch 200, sparse": worst("last loss", "sparse"),
        "first loss drawn, sparse, start 0.1 0.1": first,
        "largest |layer - one gradient step|": worst("layer"),
    }
    found |= {
        f"ab at epoch 200, gaussian, start {own['start']}": own["ab"] for own in facts if own["law"] == "gaussian"
    }
    return [rows(name, 0, value) for name, value in found.items()]


def _read_off(curves: pd.DataFrame, published: pd.DataFrame) -> list[pd.DataFrame]:
    """Largest distance from the values that were read off the talk, panel by panel."""
    keys = ["panel", "series", "x"]
    drawn = curves[curves["observable"].isin(["ab", "ratio", "loss"])]
    both = published.assign(x=published["x"].astype(float))[[*keys, "y"]].merge(drawn[[*keys, "value"]], on=keys)
    both["distance"] = abs(both["y"] - both["value"])
    parts = []
    for panel, own in both.groupby("panel"):
        early = (own["panel"] == "a") & (own["x"] < 5)
        parts.append(rows(f"largest distance from page 42{panel}", 0, own["distance"][~early].max()))
        if early.any():
            parts.append(rows(f"largest distance from page 42{panel}, early", 0, own["distance"][early].max()))
    return parts


def first_tokens(dimension: int, scale: float) -> dict[str, np.ndarray]:
    """Every value of the first token, equally likely: the 2 d of Example 4.1, and the one of all ones."""
    one = np.eye(dimension)
    return {"Example 4.1": scale * np.concatenate([one, -one]), "all ones": np.ones((1, dimension))}


def _assumption() -> list[pd.DataFrame]:
    """Assumption 4.2 by going through every value: odd moments over four coordinates, and k_1, k_2 and k_3."""
    d, c = 5, trainings.SCALES["sparse"]
    powers = [p for p in product(range(7), repeat=4) if sum(p) <= 6 and any(power % 2 for power in p)]
    tokens = first_tokens(d, c)
    odd = {name: [abs((u[:, :4] ** np.array(p)).prod(axis=1).mean()) for p in powers] for name, u in tokens.items()}
    u = tokens["Example 4.1"]
    k = ((u[:, 0] ** 4).mean(), (u[:, 0] ** 6).mean(), sum((u[:, 0] ** 2 * u[:, r] ** 4).mean() for r in range(1, d)))
    return [
        rows("largest odd moment, Example 4.1", 0, max(odd["Example 4.1"])),
        rows("least odd moment, all ones", 0, min(odd["all ones"])),
        rows("largest error of k_1, k_2, k_3, Example 4.1", 0, max(abs(np.array(k) - [c**4 / d, c**6 / d, 0]))),
    ]


DRAWN = Style("as drawn", "", "C3", line="--")
FINITE = Style("at this T", "", "k", line=":")


class Panel(NamedTuple):
    """One panel: what it shows, its y label and ticks, the label of its dashed line, its legend, its caption."""

    observable: str
    label: str
    ticks: Sequence[float]
    dashed: str
    corner: plotting.Corner
    caption: str


HALVES = [0.5 * i for i in range(9)]
PANELS = {
    "a": Panel("ab", "Dynamics of ab", HALVES, r"$1/5\sigma^2=0.8$", "upper right",
               r"Gaussian with $\sigma=0.5$, dynamics of $ab$"),
    "b": Panel("ratio", "Ratio of pred/true at $T_{te}$", [0, 0.2, 0.4, 0.6, 0.8], "Ratio = 0.2", "upper right",
               r"Gaussian with $\sigma=0.5$, ratio of $\hat{y}_{T_{te}-1}/x_{T_{te}}$"),
    "c": Panel("ab", "Dynamics of ab", HALVES, "$1/c^2=4.0$", "lower right",
               "Example 4.1 with $c=0.5$, dynamics of $ab$"),
    "d": Panel("loss", "MSE loss at $T_{te}$", range(0, 13, 2), "Theoretical MSE = 0", "upper right",
               "Example 4.1, $c=0.5$; in truth half the sum over $t$"),
    "e": Panel("squared error", "Squared error at $T_{te}$", [0.05 * i for i in range(6)], "Theoretical MSE = 0",
               "upper right", r"What (d) names: $\mathrm{E}\,||\hat{y}_{T_{te}-1}-x_{T_{te}}||_2^2$"),
    "f": Panel("ratio", "Least-squares ratio at $T_{te}$", HALVES[:6], "Ratio = 0.6", "upper right",
               r"Twin of (b): $\mathrm{E}\langle\hat{y},x\rangle/\mathrm{E}|x|^2$ of the same predictions"),
}  # fmt: skip


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """The four published panels, and below them the quantities that two of them were taken for."""
    places = {panel: (75 + 460 * (i % 2), 447 + 460 * (i % 2), 15 + 335 * (i // 2), 253 + 335 * (i // 2))
              for i, panel in enumerate(PANELS)}  # fmt: skip
    figure, first = plotting.canvas((925, 1010), places["a"], panel="a")
    for panel in PANELS:
        axes = first if panel == "a" else plotting.add_panel(figure, places[panel], panel)
        _panel(axes, table, panel)
    return figure


def _panel(axes: Axes, table: pd.DataFrame, panel: str) -> None:
    own = PANELS[panel]
    plotting.curves(axes, table, zheng_look.start_styles(trainings.STARTS), own.observable)
    lines = [DRAWN._replace(label=own.dashed)]
    if panel in "abf":
        value = plotting.summary(table, panel, "at this T", "limit")["value"].iloc[0]
        lines.append(FINITE._replace(label=f"at $T=100$: {value:.3f}"))
    plotting.curves(axes, table, lines, "limit")
    for line in axes.lines:
        line.set_linewidth(1.4)
    plotting.frame(axes, Axis("Epoch", (-10, 210), range(0, 201, 25)), Axis(own.label, ticks=own.ticks), 15, 12.5)
    axes.legend(fontsize=10, loc=own.corner)
    caption = f"({panel}) {own.caption}"
    axes.text(0.5, -0.31, caption, fontsize=12, ha="center", transform=axes.transAxes, fontfamily=zheng_look.SERIF)
    zheng_look.serif(axes)
