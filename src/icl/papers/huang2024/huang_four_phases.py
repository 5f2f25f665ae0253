"""Four-phase dynamics of the attention weights of an under-represented feature (Huang et al.)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from icl.core.config import grid
from icl.core.lazy import Picture
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import Table, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.evidence.intervals import log_slope
from icl.figure import Figure
from icl.papers.huang2024 import population_gradient, trainings, weight_forms
from icl.papers.huang2024 import softmax_attention as system

# panel -> (K, eta, steps): the end of training is eta t = 3200, 12800 and 134400.
SETTINGS = {"small": (20, 2.0, 1600), "medium": (50, 4.0, 3200), "large": (200, 84.0, 1600)}
DRAWN = ("medium", "large")
BOUNDARIES = ("t_I", "t_switch", "t_II", "t_III")
LEAST_RATIO = 2.0
# Snapshots between two drawn points.
EVERY = 16


# K of trainings in the limit of long prompts until eta t = 1.2 K^2, which is after the switch and before the escape.
FAR = (10**6, 10**8, 10**10, 10**12)
DEPTH = 0.49


def sweeps(scale: str) -> list[Sweep]:
    """One training per K with snapshots at all steps, so that boundaries are exact to the iteration.

    Further sweeps train the first phases with very many features, in logarithmic time.
    """
    faster, test = trainings.FASTER[scale], system.Test()
    drawn = [
        Sweep(
            name=f"huang_phases_{size}",
            system="huang_softmax",
            configs=(system.Config(features=features, learning_rate=rate * faster, least_ratio=LEAST_RATIO),),
            snapshots=tuple(range(steps // faster + 1)),
            test=test,
        )
        for size, (features, rate, steps) in SETTINGS.items()
    ]
    common = trainings.growing_rate(scale)
    return [
        *drawn,
        *(
            Sweep(
                name=f"huang_phases_far_{round(np.log10(features))}",
                system="huang_softmax",
                configs=grid(system.Config, gradient_estimator=["infinite_context"], features=[features], **common),
                snapshots=trainings.all_steps(1.2 * features**2, scale),
                test=test,
            )
            for features in FAR
        ),
    ]


def boundaries(q: np.ndarray, descent: np.ndarray, features: int, test: system.Test) -> dict[str, float]:
    """The iterations at which the phases end, and of the switch within phase II; NaN if never.

    q : A_k, B_{k,1}, B_{k,n} before each step, (steps + 1, 3); descent : minus their gradients, (steps, 3)
    """
    ratio = abs(descent[:, 1]) / descent[:, 0]
    levels = {"t_I": test.phase_ratio, "t_switch": 1.0, "t_II": 1 / test.phase_ratio}
    ends = {name: trainings.first_step(ratio <= level) for name, level in levels.items()}
    return ends | {"t_III": trainings.first_step(q[:, 0] >= test.phase_weight * np.log(features))}


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Weights, gradients and errors along training, the boundaries, and the claims' observables over all K."""
    parts, facts_by_size = [], []
    for size in SETTINGS:
        trained = runs[f"huang_phases_{size}"]
        descent = trainings.descent(trained, 0)
        path = trainings.trajectory(trained, 0, max(1, EVERY // trainings.FASTER[scale]))
        q = weight_forms.distinct_entries(trained.weights["Q"][0]).numpy()
        ends = boundaries(q[:, 1], descent, path.config.features, trained.sweep.test)
        facts_by_size.append(_facts(trained, q, descent, ends))
        parts += _drawn(size, path, descent, ends) if size in DRAWN else []
    extremes = {name: [facts[name] for facts in facts_by_size] for name in facts_by_size[0]} | _far(runs)
    for name, values in extremes.items():
        extreme = min if name.startswith("least") else max
        # Python's min and max would lose NaN.
        parts.append(rows(name, path.config.seed, extreme(values) if np.isfinite(values).all() else np.nan))
    return trainings.with_statistic(runs, parts)


def _facts(runs: Runs, q: np.ndarray, descent: np.ndarray, ends: dict[str, float]) -> dict[str, float]:
    """Values of one K for the claims, which judge the extreme over all K."""
    law = runs.sweep.configs[0].prompt_law

    def error(step: float) -> float:
        return float(population_gradient.columns(q[int(step)], law)[1].error) if np.isfinite(step) else np.nan

    leads = abs(descent[:, 1]) > descent[:, 0]
    return {
        "most changes of the leading influence": float(np.count_nonzero(np.diff(leads))),
        "least t_III / t_II": ends["t_III"] / ends["t_II"],
        "largest L_k(end) / L_k(t_III)": error(len(q) - 1) / error(ends["t_III"]),
    }


def _far(runs: Mapping[str, Runs]) -> dict[str, list[float]]:
    """Times at which B_{k,1} falls to -0.49 log K and of the switch, for very many features."""
    falls, switches = [], []
    for features in FAR:
        trained = runs[f"huang_phases_far_{round(np.log10(features))}"]
        q, slopes = weight_forms.distinct_entries(trained.weights["Q"][0]).numpy()[:, 1], trainings.descent(trained, 0)
        time = system.times(trained.sweep.configs[0], len(slopes))
        falls.append(trainings.crossing(time, q[:, 1], -DEPTH * np.log(features)))
        switches.append(trainings.crossing(time[:-1], abs(slopes[:, 1]) / slopes[:, 0], 1.0))
    return {
        "slope of the time of B_{k,1} = -0.49 log K against K": [log_slope(np.array(FAR, float), np.array(falls))],
        "slope of the switch against K, large K": [log_slope(np.array(FAR, float), np.array(switches))],
        "t(B_{k,1} = -0.49 log K) / t_switch, largest K": [falls[-1] / switches[-1]],
    }


def _drawn(size: str, path: trainings.Trajectory, descent: np.ndarray, ends: dict[str, float]) -> list[pd.DataFrame]:
    seed, steps = path.config.seed, path.steps
    parts = [rows("features", seed, path.config.features, panel=f"weights {size}")]
    parts += [rows("rate", seed, path.config.learning_rate, panel=f"weights {size}")]
    parts += [rows("boundary", seed, end, panel=f"weights {size}", series=name) for name, end in ends.items()]
    for index, (weight, slope) in enumerate((("A_k", "alpha_k"), ("B_{k,1}", "beta_{k,1}"), ("B_{k,n}", "beta_{k,n}"))):
        parts.append(rows("weight", seed, path.q[:, 1, index], x=steps, panel=f"weights {size}", series=weight))
        modulus = abs(descent[steps[:-1], index])
        parts.append(rows("gradient", seed, modulus, x=steps[:-1], panel=f"gradients {size}", series=slope))
    return [*parts, rows("prediction error", seed, path.other.error, x=steps, panel=f"errors {size}", series="L_k")]


WEIGHTS = (
    Style("A_k", r"$A_k$", "C3"),
    Style("B_{k,1}", r"$B_{k,1}$", "C0"),
    Style("B_{k,n}", r"$B_{k,n}$", "0.45"),
)
GRADIENTS = (
    Style("alpha_k", r"$\alpha_k$", "C3"),
    Style("beta_{k,1}", r"$|\beta_{k,1}|$", "C0"),
    Style("beta_{k,n}", r"$|\beta_{k,n}|$", "0.45"),
)
# Without L_1: the learning rate for the rare features is far too large to show how the dominant one learns.
ERRORS = (Style("L_k", r"$\mathcal{L}_k$", "C3"),)


@plotting.published
def draw(table: Table) -> Picture:
    """Weights, gradients and errors below each other, for two numbers of features."""
    figure, _ = plotting.canvas((870, 700), (75, 435, 40, 280), panel="weights medium")
    for column, size in enumerate(DRAWN):
        _column(figure, table, column, size)
    return figure


def _column(figure: Picture, table: Table, column: int, size: str) -> None:
    left, right = 75 + 412 * column, 435 + 412 * column
    weights = figure.axes[0] if column == 0 else plotting.add_panel(figure, (left, right, 40, 280), f"weights {size}")
    gradients = plotting.add_panel(figure, (left, right, 295, 470), f"gradients {size}")
    errors = plotting.add_panel(figure, (left, right, 485, 645), f"errors {size}")
    features, rate = (table.matrix(f"weights {size}", name).item() for name in ("features", "rate"))
    last = float(table.curves["x"][table.curves["panel"] == f"weights {size}"].max())
    ends = {n: table.curve(f"weights {size}", n, "boundary")["value"].iloc[0] for n in BOUNDARIES}
    edges = [0.0, ends["t_I"], ends["t_II"], ends["t_III"], last]
    for axes, styles, observable in (
        (weights, WEIGHTS, "weight"),
        (gradients, GRADIENTS, "gradient"),
        (errors, ERRORS, "prediction error"),
    ):
        plotting.curves(axes, table, styles, observable)
        plotting.shade(axes, edges, ("I", "II", "III", "IV") if axes is weights else [""] * 4, font=12)
        axes.axvline(ends["t_switch"], ymax=0.91, color="k", linestyle="--", linewidth=1)
    for level, label in ((1.0, r"$\log K$"), (-0.49, r"$-0.49\log K$")):
        height = level * np.log(max(features, 3.0))
        weights.axhline(height, color="k", linestyle=":", linewidth=1)
        weights.text(0.99 * last, height, label, fontsize=10, ha="right", va="bottom")
    weights.set_title(f"$K={features:.0f}$, $N={20 * features:.0f}$, $\\eta={rate:g}$", fontsize=13)
    x = Axis("GD iteration", (0, last))
    plotting.frame(weights, x, Axis("Attention weight", (-4.5, 9)), font=13, ticks=11)
    plotting.frame(gradients, x, Axis("Gradient", log=True), font=13, ticks=11)
    plotting.frame(errors, x, Axis("Prediction error", (0, 0.7)), font=13, ticks=11)
    for axes in (weights, gradients):
        axes.tick_params(labelbottom=False)
        axes.xaxis.label.set_visible(False)
    if column == 0:
        plotting.legend(weights, 12, "upper left", (0.3, 0.9), spacing=0.1)
        plotting.legend(gradients, 11, "lower right", (0.99, 0.02), spacing=0.15)
        plotting.legend(errors, 11, "upper right", (0.99, 0.97))
    else:
        for axes in (weights, gradients, errors):
            axes.yaxis.label.set_visible(False)


FIGURES = (Figure("huang_four_phases", sweeps, measure, draw),)
