"""Optimal step of the layer without a mean against T_max, and its asymptote (Sander et al.,
Proposition 2).
"""

import numpy as np

from icl.drawing import own_style
from icl.figure import (
    Axis,
    Figure,
    Picture,
    Rows,
    Style,
    Sweep,
    Table,
    Trained,
    facts,
    grid,
    join,
    plotting,
    rows,
)
from icl.models.autoregressive import trainings
from icl.models.autoregressive.config import Config, Evaluation
from icl.models.autoregressive.model import MODEL

LENGTHS = np.array([10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000])
DIMENSIONS = (5, 10)
STEPS = 400
# Descent after a perturbation of all six numbers by a third of a_3 and b_1 at the optimum for
# T_max = 10 and d = 5.
RETURN = 1000
SEEDS = {"paper": 20, "laptop": 20, "smoke": 2}


def sweeps(scale: str) -> list[Sweep]:
    """Descents at every T_max and d, and descents of all six numbers from perturbed optima."""
    trained = grid(
        Config,
        dimension=DIMENSIONS,
        length=LENGTHS.tolist(),
        start=[(0.01, 0.01)],
        law=["full-one"],
        scale=[1.0],
        gradient_estimator=["population_unnormalised"],
        learning_rate=[0.1],
    )
    perturbed = grid(
        Config,
        seed=range(SEEDS[scale]),
        length=[10],
        dimension=[5],
        start=[(0.3, 0.3)],
        perturbation=[0.1],
        law=["full-one"],
        scale=[1.0],
        gradient_estimator=["population_six_scalars"],
        learning_rate=[0.3],
    )
    return [
        Sweep("sander_descent", MODEL, trained, (0, STEPS), Evaluation()),
        Sweep("sander_perturbed", MODEL, perturbed, (0, RETURN), Evaluation()),
    ]


def optimum(dimension: int, most: int, fewer: int = 0) -> float:
    """sum T / sum (T^2 + (d - 1) T) over T = 2 ... T_max; `fewer` reduces the summands at every
    position.
    """
    n = np.arange(2.0, most + 1) - fewer
    return float(n.sum() / (n**2 + (dimension - 1) * n).sum())


def measure(runs: Trained, scale: str) -> Rows:
    """Return the limits of descent, the proposition's values, and the ends of descent from
    perturbed optima.
    """
    reached = trainings.products(runs["sander_descent"])[:, -1].reshape(len(DIMENSIONS), -1)
    wanted, shifted = (
        np.array([[optimum(d, most, fewer) for most in LENGTHS] for d in DIMENSIONS])
        for fewer in (0, 1)
    )
    parts = [
        rows("step", None, 1.5 / LENGTHS, x=LENGTHS, panel="step", series="asymptote"),
        rows("ratio", None, 1.0, x=LENGTHS[[0, -1]], panel="ratio", series="asymptote"),
    ]
    for name, values in (("descent", reached), ("optimum", wanted), ("shifted", shifted)):
        at = {"x": LENGTHS, "series": np.array([f"{name}, d = {d}" for d in DIMENSIONS])[:, None]}
        parts.append(rows("step", None, values, panel="step", **at))
        parts.append(rows("ratio", None, values * LENGTHS / 1.5, panel="ratio", **at))
    ratios = reached * LENGTHS / 1.5
    claimed = {
        "largest relative distance of the end of descent": abs(reached / wanted - 1).max(),
        "ratio to the asymptote, T_max = 1000": ratios[0, LENGTHS == 1000],
        "least rise of the ratio": np.diff(ratios, axis=1).min(),
        "largest ratio to the asymptote": ratios.max(),
    }
    return join([*parts, facts(None, claimed), _perturbed(runs)])


def _perturbed(runs: Trained) -> Rows:
    """Return the remaining a_1 + a_4 and b_2 over the root of a_3 b_1, and the distance of a_3
    b_1 from the optimum.
    """
    perturbed, size = runs["sander_perturbed"], np.sqrt(optimum(5, 10))
    a, b = (
        perturbed.weights[name].numpy() for name in ("KQ", "PV")
    )  # (runs, snapshots, 4) and (runs, snapshots, 2)
    rest = abs(np.stack([a[..., 0] + a[..., 3], b[..., 1]])).max(axis=0) / size
    claimed = {
        "larger of |a_1 + a_4| and |b_2|, at the start": rest[:, 0],
        "larger of |a_1 + a_4| and |b_2|, at the end": rest[:, -1],
        "relative distance of a_3 b_1, at the end": abs(a[:, -1, 2] * b[:, -1, 0] / size**2 - 1),
    }
    return facts(perturbed.sweep.seeds, claimed)


LOOKS = own_style.styles({f"d = {d}": f"$d={d}$" for d in DIMENSIONS}, markers=True)
OPTIMA = [
    look._replace(series=f"optimum, {look.series}", label=f"Proposition 2, {look.label}", marker="")
    for look in LOOKS
]
ENDS = [
    look._replace(series=f"descent, {look.series}", label=f"descent, {look.label}", line="none")
    for look in LOOKS
]
SHIFTED = [
    look._replace(
        series=f"shifted, {look.series}", label=f"$T-1$ summands, {look.label}", marker="", line=":"
    )
    for look in LOOKS
]
ASYMPTOTE = Style("asymptote", r"$3/(2T_{\max})$", "k")


@plotting.under_defaults
def draw(table: Table) -> Picture:
    """Draw the steps on logarithmic axes, and their ratio to the asymptote."""
    title = "Optimal step of the layer without a mean, and its ratio to the asymptote"
    figure, panels = own_style.panels(["step", "ratio"], 2, title, (430, 330))
    step, ratio = panels.values()
    x, shown = Axis(r"$T_{\max}$", (8, 13000), log=True), (*OPTIMA, *ENDS)
    for axes, styles, y in (
        (step, (*shown, ASYMPTOTE), Axis(r"Optimal step $a_3 b_1$", (1e-4, 0.3), log=True)),
        (ratio, (*shown, *SHIFTED, ASYMPTOTE), Axis(r"$a_3 b_1\,/\,(3/2T_{\max})$", (0.35, 1.05))),
    ):
        plotting.curves(axes, table, styles, plotting.panel_of(axes), markersize=5, linewidth=1.5)
        axes.lines[-1].set(linewidth=0.8)  # the asymptote
        plotting.frame(axes, x, y, own_style.FONT)
        axes.legend(loc="lower left" if axes is step else "lower right", **own_style.LEGEND)
    return figure


FIGURES = (Figure("sander_coefficients", sweeps, measure, draw),)
