"""Dynamics of ab, ratio and error along training, Gaussian first token and Example 4.1 (Zheng et al., talk page 42).

(a)-(d) are drawn as published, from exact population gradient descent (d = 5, T = 100): it agrees with the published
curves, one sample of 10 000 sequences each, without a free parameter. What differs or is mislabelled there: the dashed
lines of (a) and (b) are limits for T -> infinity; at T = 100 descent ends at the dotted ones, ab = 0.768 and ratio
0.192. (d) is not the squared error at T_te: it is half the squared error summed over all 98 positions; the error that
its label and caption name is (e). The ratio of (b) is an unweighted mean of coordinate-wise ratios; least squares on
the same predictions gives the three times larger (f). x = 0 is epoch 1 in (b) to (f). The start (0.1, 0.1) of (a) has
not converged by epoch 200: 0.733.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from icl import plotting, reference
from icl.claims import Bound, Claim, Verdict, judge
from icl.experiments import _zheng
from icl.plotting import Axis, Style
from icl.runs import Runs
from icl.spec import Sweep
from icl.statistics import exact
from icl.systems import zheng_ar as system
from icl.table import join, rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LAWS = ("gaussian", "sparse")
EPOCHS = _zheng.EPOCHS

CLAIMS = (
    Claim(
        "Z1",
        "The two blocks stay multiples of the identity: exact population descent over whole blocks gives the ab of the "
        "recursion in a and b at every epoch, to 1e-12",
        "Zheng et al. 2024, Theorem 4.1",
        (Bound("largest |ab of the blocks - ab of the recursion|", at_most=1e-12, statistic="exact"),),
    ),
    Claim(
        "Z2",
        "Gaussian and sparse first tokens leave the off-diagonal entries of both blocks at zero (below 1e-14)",
        "Zheng et al. 2024, Theorem 4.1",
        (Bound("largest off-diagonal entry", at_most=1e-14, statistic="exact"),),
    ),
    Claim(
        "Z3",
        "Descent ends at ab = k_1 / (k_2 + k_3 S / (T - 2)) from every start, to 1e-9: 0.767620 (Gaussian) and 4 "
        "(Example 4.1) at T = 100",
        "Zheng et al. 2024, Theorem 4.1",
        (
            Bound("largest relative distance of ab from its limit", at_most=1e-9, statistic="exact"),
            Bound("last ab, gaussian", at_least=0.7676195, at_most=0.7676205, statistic="exact"),
            Bound("last ab, sparse", at_least=4 - 5e-7, at_most=4 + 5e-7, statistic="exact"),
        ),
    ),
    Claim(
        "Z4",
        "a^2 - b^2 is conserved along gradient flow, to 1e-7",
        "Zheng et al. 2024, proof of Theorem 4.1",
        (Bound("largest drift of a^2 - b^2", at_most=1e-7, statistic="exact"),),
    ),
    Claim(
        "Z7",
        "After 200 epochs the two larger starts have ab within 0.03 of 0.7676, and (0.1, 0.1) is within 0.03 of 0.7326 "
        "and below 0.76: it has not converged (Gaussian)",
        "Zheng et al. 2024, talk page 42a",
        (
            Bound("ab at epoch 200, gaussian, start 0.5 1.5", at_least=0.7376, at_most=0.7976, statistic="exact"),
            Bound("ab at epoch 200, gaussian, start 2 2", at_least=0.7376, at_most=0.7976, statistic="exact"),
            Bound("ab at epoch 200, gaussian, start 0.1 0.1", at_least=0.7026, at_most=0.76, statistic="exact"),
        ),
    ),
    Claim(
        "Z10",
        "With Example 4.1, ab is above 3.99 at epoch 200 from all starts and the loss that is drawn below 1e-3; the "
        "first value drawn from (0.1, 0.1) is 12.18",
        "Zheng et al. 2024, talk page 42c and d",
        (
            Bound("least ab at epoch 200, sparse", at_least=3.99, statistic="exact"),
            Bound("largest loss drawn at epoch 200, sparse", at_most=1e-3, statistic="exact"),
            Bound("first loss drawn, sparse, start 0.1 0.1", at_least=12.16, at_most=12.20, statistic="exact"),
        ),
    ),
    Claim(
        "Z14",
        "The exact curves are the published ones: within 0.03 in (a) from epoch 5 on and 0.08 before, 0.02 in (b), "
        "0.06 in (c) and 0.2 in (d), at every value that could be read",
        "Zheng et al. 2024, talk page 42 (digitised)",
        (
            Bound("largest distance from page 42a, early", at_most=0.08, statistic="exact"),
            Bound("largest distance from page 42a", at_most=0.03, statistic="exact"),
            Bound("largest distance from page 42b", at_most=0.02, statistic="exact"),
            Bound("largest distance from page 42c", at_most=0.06, statistic="exact"),
            Bound("largest distance from page 42d", at_most=0.2, statistic="exact"),
        ),
    ),
    Claim(
        "Z-C4.1",
        "At every position the trained layer predicts by one gradient step on 1/2 sum |x_{i+1} - Phi x_i|^2 from Phi = "
        "0 with step ab / (t - 1), to 1e-10",
        "Zheng et al. 2024, Corollary 4.1",
        (Bound("largest |layer - one gradient step|", at_most=1e-10, statistic="exact"),),
    ),
    Claim(
        "Z-A4.2",
        "Example 4.1 satisfies the assumption on the first token: every moment up to order 6 with an odd power is "
        "zero, k_1, k_2 and k_3 are c^4/d, c^6/d and 0; the all-ones token violates it",
        "Zheng et al. 2024, Assumption 4.2 and Example 4.1",
        (
            Bound("largest odd moment, Example 4.1", at_most=1e-15, statistic="exact"),
            Bound("largest error of k_1, k_2, k_3, Example 4.1", at_most=1e-15, statistic="exact"),
            Bound("least odd moment, all ones", at_least=0.5, statistic="exact"),
        ),
    ),
)


def sweeps(scale: str) -> list[Sweep]:
    """Three starts under both laws, over whole blocks and in a and b alone."""
    return [_zheng.sweep(law, scale, engine) for law in LAWS for engine in ("population", "scalar")]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """The curves of the panels, the limits, and what the claims compare."""
    parts, facts = [], []
    for law in LAWS:
        trained, two = runs[_zheng.name_of(law)], runs[_zheng.name_of(law, "scalar")]
        for run in range(len(_zheng.STARTS)):
            parts += _curves(trained, run)
            facts.append(_facts(trained, two, run) | {"layer": _against_one_step(trained, run)})
        parts += _limits(trained.sweep.configs[0], _zheng.products(trained, 0)[-1])
    curves = join(parts)
    return exact(join([curves, *_judged(facts), *_read_off(curves), *_assumption()]))


def _curves(trained: Runs, run: int) -> list[pd.DataFrame]:
    config = trained.sweep.configs[run]
    epochs, ab = np.arange(EPOCHS), _zheng.products(trained, run)
    power, fourth = system.moment(config, 2), system.moment(config, 4)
    later = ab[1 : EPOCHS + 1]
    label = {"series": config.start, "x": epochs}
    if config.law == "gaussian":
        return [
            rows("ab", 0, ab[:EPOCHS], panel="a", **label),
            # E y_j / x_j = ab E u_j^2 and E <y, x> / E |x|^2 = ab E u_j^4 / E u_j^2, at every position
            rows("ratio", 0, later * power, panel="b", **label),
            rows("ratio", 0, later * fourth / power, panel="f", **label),
        ]
    errors = [system.last_error(*_zheng.blocks(trained, run, epoch), config) for epoch in range(1, EPOCHS + 1)]
    return [
        rows("ab", 0, later, panel="c", **label),
        rows("loss", 0, trained.losses[run, 1 : EPOCHS + 1], panel="d", **label),
        rows("squared error", 0, errors, panel="e", **label),
    ]


def _limits(config: system.Config, last: float) -> list[pd.DataFrame]:
    """The lines as drawn in the talk (T -> infinity) and for this T."""
    own, ends = system.limit(config), {"x": [0, EPOCHS - 1]}
    facts = [rows(f"last ab, {config.law}", 0, last)]
    if config.law == "sparse":
        lines = [("c", "as drawn", 1 / config.scale**2), ("d", "as drawn", 0.0), ("e", "as drawn", 0.0)]
    else:
        drawn, power = 1 / (5 * config.scale**2), config.scale**2
        lines = [
            (panel, series, value * factor)
            for panel, factor in (("a", 1.0), ("b", power), ("f", 3 * power))
            for series, value in (("as drawn", drawn), ("at this T", own))
        ]
    return facts + [rows("limit", 0, [value] * 2, panel=panel, series=series, **ends) for panel, series, value in lines]


def _facts(trained: Runs, two: Runs, run: int) -> dict[str, object]:
    """What one run contributes to the claims."""
    config, ab = trained.sweep.configs[run], _zheng.products(trained, run)
    a, b = system.moving({name: w[run] for name, w in trained.weights.items()}, config)
    apart = ~np.eye(config.dimension, dtype=bool)
    flow_a, flow_b = system.flow(config, np.linspace(0, EPOCHS * config.rate, EPOCHS + 1))
    a_0, b_0 = config.starts
    return {
        "law": config.law,
        "start": config.start,
        "recursion": abs(ab - _zheng.products(two, run))[: EPOCHS + 1].max(),
        "off": max(abs(a[..., apart]).max(), abs(b[..., apart]).max()),
        "limit": abs(ab[-1] / system.limit(config) - 1),
        "drift": abs(flow_a**2 - flow_b**2 - (a_0**2 - b_0**2)).max(),
        "ab": ab[EPOCHS],
        "first loss": trained.losses[run, 1],
        "last loss": trained.losses[run, EPOCHS],
    }


def _against_one_step(trained: Runs, run: int) -> float:
    """Largest difference between the literal layer and one gradient step, on 50 fresh sequences, at every position."""
    config = trained.sweep.configs[run]
    x = system.sequences(config, "evaluate", 50)
    a, b = _zheng.blocks(trained, run, trained.sweep.snapshots[-1])
    layer = system.layer(a, b, x)
    ab = _zheng.products(trained, run)[-1]
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


def _read_off(curves: pd.DataFrame) -> list[pd.DataFrame]:
    """Largest distance from the values that were read off the talk, panel by panel."""
    published = reference.load("zheng_ab_dynamics")
    assert published is not None
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
    d, c = 5, _zheng.SCALES["sparse"]
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
    plotting.curves(axes, table, _zheng.CURVES, own.observable)
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
    axes.text(0.5, -0.31, caption, fontsize=12, ha="center", transform=axes.transAxes, fontfamily=_zheng.SERIF)
    _zheng.serif(axes)


def check(table: pd.DataFrame) -> list[Verdict]:
    """The claims above."""
    return [judge(claim, table) for claim in CLAIMS]
