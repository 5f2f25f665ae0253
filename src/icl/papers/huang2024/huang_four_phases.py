"""Four-phase dynamics of the attention weights of an under-represented feature (Huang et al.)."""

import numpy as np

from icl.core.lazy import Axes
from icl.drawing import own_style
from icl.evidence.intervals import log_slope
from icl.figure import (
    Axis,
    Figure,
    Picture,
    Rows,
    Sweep,
    Table,
    Trained,
    facts,
    grid,
    join,
    plotting,
    rows,
)
from icl.papers.huang2024 import evaluation
from icl.papers.huang2024 import softmax_attention as model
from icl.papers.huang2024.evaluation import FASTER, Trajectory, crossing

# panel -> (K, eta, steps): the end of training is eta t = 3200, 12800 and 134400.
SETTINGS = {"small": (20, 2.0, 1600), "medium": (50, 4.0, 3200), "large": (200, 84.0, 1600)}
DRAWN = ("medium", "large")
LEAST_RATIO = 2.0
# Snapshots between two drawn points.
EVERY = 16
# log_10 K of trainings in the limit of long prompts until eta t = 1.2 K^2, after the switch and
# before the escape.
FAR = (6, 8, 10, 12)
DEPTH = 0.49


def sweeps(scale: str) -> list[Sweep]:
    """One training per K with snapshots at all steps, so that boundaries are exact to the
    iteration.

    Further sweeps train the first phases with very many features, in logarithmic time.
    """
    planned = {}
    for size, (features, eta, steps) in SETTINGS.items():
        config = model.Config(
            features=features, learning_rate=eta * FASTER[scale], least_ratio=LEAST_RATIO
        )
        planned[size] = (config,), tuple(range(steps // FASTER[scale] + 1))
    rate = evaluation.growing_rate(scale)
    for power in FAR:
        configs = grid(
            model.Config, gradient_estimator=["infinite_context"], features=[10**power], **rate
        )
        planned[f"far_{power}"] = configs, evaluation.all_steps(1.2 * 100**power, scale)
    return [
        Sweep(f"huang_phases_{name}", model.MODEL, *plan, model.Evaluation())
        for name, plan in planned.items()
    ]


def boundaries(path: Trajectory, test: model.Evaluation) -> dict[str, float]:
    """Return the iterations at which the phases end, and of the switch within phase II; NaN if
    never.
    """
    return {
        "t_I": first_step(path.influence <= test.phase_ratio),
        "t_switch": first_step(path.influence <= 1),
        "t_II": first_step(path.influence <= 1 / test.phase_ratio),
        "t_III": first_step(path.weights[:, 0] >= test.phase_weight * np.log(path.config.features)),
    }


def first_step(condition: np.ndarray) -> float:
    """First index at which a condition holds; NaN if it never does."""
    return float(condition.argmax()) if condition.any() else np.nan


def measure(runs: Trained, scale: str) -> Rows:
    """Weights, gradients and errors along training, the boundaries, and the claims' observables
    over all K.
    """
    parts, by_size = [], []
    for size in SETTINGS:
        trained = runs[f"huang_phases_{size}"]
        path = evaluation.trajectory(trained)
        ends, error = boundaries(path, trained.sweep.test), path.other.error
        changes = np.count_nonzero(np.diff(path.influence > 1))
        at_third_end = np.interp(ends["t_III"], path.steps, error)
        by_size.append((changes, ends["t_III"] / ends["t_II"], error[-1] / at_third_end))
        if size in DRAWN:
            parts.append(drawn_curves(size, path, ends, max(1, EVERY // FASTER[scale])))
    changes, ratios, falls = np.array(by_size).T
    bounded = {
        "most changes of the leading influence": changes.max(),
        "least t_III / t_II": ratios.min(),
        "largest L_k(end) / L_k(t_III)": falls.max(),
    }
    return join([*parts, facts(None, bounded | very_many_features(runs))])


def drawn_curves(size: str, path: Trajectory, ends: dict[str, float], every: int) -> Rows:
    """Rows of the curves of one K, and of its constants and boundaries."""
    shown = np.array(evaluation.thinned(len(path.steps), every))
    inner, panel = shown[:-1], f"weights {size}"
    weights, slopes, error = (
        path.weights[shown],
        abs(path.other.descent[inner]),
        path.other.error[shown],
    )
    return join(
        [
            rows("features", None, path.config.features, panel=panel),
            rows("rate", None, path.config.learning_rate, panel=panel),
            rows("boundary", None, list(ends.values()), panel=panel, series=list(ends)),
            rows("weight", None, weights, x=shown[:, None], panel=panel, series=list(WEIGHTS)),
            rows(
                "gradient",
                None,
                slopes,
                x=inner[:, None],
                panel=f"gradients {size}",
                series=list(GRADIENTS),
            ),
            rows("prediction error", None, error, x=shown, panel=f"errors {size}", series="L_k"),
        ]
    )


def very_many_features(runs: Trained) -> dict[str, float]:
    """Slopes of the times at which B_{k,1} falls to -0.49 log K and of the switch."""
    k, paths = (
        10.0 ** np.array(FAR),
        [evaluation.trajectory(runs[f"huang_phases_far_{power}"]) for power in FAR],
    )
    levels = zip(paths, -DEPTH * np.log(k), strict=True)
    falls = np.array([crossing(path.time, path.weights[:, 1], level) for path, level in levels])
    switches = np.array([path.switch for path in paths])
    return {
        "slope of the time of B_{k,1} = -0.49 log K against K": log_slope(k, falls),
        "slope of the switch against K, large K": log_slope(k, switches),
        "t(B_{k,1} = -0.49 log K) / t_switch, largest K": falls[-1] / switches[-1],
    }


# Series -> label.
WEIGHTS = {"A_k": r"$A_k$", "B_{k,1}": r"$B_{k,1}$", "B_{k,n}": r"$B_{k,n}$"}
GRADIENTS = {
    "alpha_k": r"$\alpha_k$",
    "beta_{k,1}": r"$|\beta_{k,1}|$",
    "beta_{k,n}": r"$|\beta_{k,n}|$",
}
# Without L_1: the learning rate for the rare features is far too large to show how the dominant one
# learns.
ERRORS = {"L_k": r"$\mathcal{L}_k$"}
# Kind of panel -> observable, labels and y axis.
PANELS = {
    "weights": ("weight", WEIGHTS, Axis("Attention weight", (-4.5, 9))),
    "gradients": ("gradient", GRADIENTS, Axis("Gradient", log=True)),
    "errors": ("prediction error", ERRORS, Axis("Prediction error", (0, 0.7))),
}
HEIGHTS = (1.4, 1, 1)


@plotting.under_defaults
def draw(table: Table) -> Picture:
    """Weights, gradients and errors below each other, for two numbers of features."""
    title = (
        "Four phases of an under-represented feature "
        "(dotted vertical: the leading influence switches)"
    )
    names = [[f"{kind} {size}" for size in DRAWN] for kind in PANELS]
    picture, panels = own_style.mosaic(names, (870, 640), title, HEIGHTS)
    for panel, axes in panels.items():
        kind, size = panel.split()
        draw_panel(axes, table, kind, f"weights {size}")
        axes.yaxis.label.set_visible(size == DRAWN[0])
        axes.xaxis.label.set_visible(kind == "errors")
        axes.tick_params(labelbottom=kind == "errors")
    return picture


def draw_panel(axes: Axes, table: Table, kind: str, source: str) -> None:
    """Draw the curves of one kind over the phases, whose boundaries are in the panel `source`."""
    observable, labels, y = PANELS[kind]
    t_1, t_switch, t_2, t_3 = table.matrix(source, "boundary")[:, 0]
    last = float(table.curve(source, "A_k", "weight")["x"].max())
    plotting.curves(axes, table, own_style.styles(labels), observable, **own_style.LINE)
    names = ("I", "II", "III", "IV") if kind == "weights" else [""] * 4
    plotting.shade(axes, [0.0, t_1, t_2, t_3, last], names, font=own_style.FONT)
    axes.axvline(t_switch, ymax=0.91, color="k", linestyle=":", linewidth=1)
    if kind == "weights":
        features, rate = (table.matrix(source, name).item() for name in ("features", "rate"))
        height = np.log(max(features, 3.0))
        axes.axhline(height, color="0.4", linewidth=0.8)
        axes.text(0.01 * last, height, r"$\log K$", fontsize=own_style.FONT, va="bottom")
        axes.set_title(
            f"$K={features:.0f}$, $N={20 * features:.0f}$, $\\eta={rate:g}$",
            fontsize=own_style.FONT,
        )
    plotting.frame(axes, Axis("GD iteration", (0, last)), y, own_style.FONT)
    own_style.name_curves(axes)


FIGURES = (Figure("huang_four_phases", sweeps, measure, draw),)
