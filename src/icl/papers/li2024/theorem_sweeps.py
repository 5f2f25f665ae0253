"""icl_conditions, icl_sizes and icl_rates: theorems of Li et al. 2024 along one constant of their training at a time.

icl_conditions: the conditions of theorem 1 (talk page 18). icl_sizes: theorems 1 and 3 as the problem grows. icl_rates:
training steps against the fraction alpha of relevant contexts (theorem 1).
"""

import math
from collections.abc import Iterator, Mapping
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from icl.core.runs import single
from icl.core.table import ERROR
from icl.evidence.intervals import first_step_below, log_slope
from icl.figure import Axis, Figure, Picture, Rows, Runs, Style, Sweep, Table, Trained, facts, join, plotting, rows
from icl.papers.li2024 import evaluation, one_layer, trainings
from icl.papers.li2024.neuron_figures import large
from icl.papers.li2024.pruning import HINGE, pruning
from icl.papers.li2024.record import held_out_loss

SHARED = "li_icl_sgd"
"""The sweep of the theorems' training, a point of each panel."""
RUN = "one-layer model"
"""The series of the runs."""
TARGET, WINDOW = 0.1, 10
"""Steps are counted until the mean hinge loss over WINDOW batches is below TARGET."""
EPS = 128**-0.5
"""The eps that the training's batch size allows."""
TASKS, FRACTION = 30, 0.8


def _log(label: str, limits: tuple[float, float], ticks: tuple[float, ...]) -> Axis:
    return Axis(label, limits, ticks, [f"{tick:g}" for tick in ticks], log=True)


class Panel(NamedTuple):
    """The trainings along one constant, and the look of their panel: label and limits of x, y, place of the legend."""

    constant: str
    values: tuple[int, ...]
    label: str
    limits: tuple[float, float]
    y: Axis
    corner: plotting.Corner = "upper right"
    at: tuple[float, float] = (0.98, 0.98)

    def sweep(self, value: int) -> str:
        """Return the name of the training with this value, which is the shared one if it is the default."""
        default = getattr(one_layer.Config, self.constant)
        return SHARED if value == default else f"{SHARED}_{self.constant.removesuffix('_patterns')}_{value}"

    def along(self, runs: Trained) -> dict[int, Runs]:
        """Return the training with each value."""
        return {value: runs[self.sweep(value)] for value in self.values}

    def frame(self, axes: Any, x: Axis | None, font: float) -> None:
        """Set axes and legend; x is logarithmic with ticks at the values if none is given."""
        plotting.frame(axes, x or _log(self.label, self.limits, self.values), self.y, font=14, ticks=12)
        axes.xaxis.minorticks_off()
        plotting.legend(axes, font, self.corner, self.at)


LOSS, STEPS = Axis("Hinge loss and error", (3e-5, 3), log=True), f"Steps to hinge loss {TARGET}"
SHARE = Axis("Share of large neurons", (0, 1), (0, 0.25, 0.5, 0.75, 1))
RISE = Axis("Rise without small neurons", (-0.02, 0.06), (-0.02, 0, 0.02, 0.04, 0.06))
PATTERN_STEPS = _log(STEPS, (50, 400), (50, 100, 200, 400))
CONDITIONS = {
    "tasks": Panel("task_shifts", (1, 2, 3, 4), "Share of training tasks", (0.1, 0.9), LOSS),
    "length": Panel("context_length", (1, 2, 5, 10, 20), r"Training contexts $l_{tr}$", (0.8, 25), LOSS),
    "batch": Panel("batch", (4, 16, 64, 128, 512), "Batch $B$", (3, 700), LOSS, "center right", (0.98, 0.48)),
}
SIZES = {
    "M_1": Panel(
        "relevant_patterns", (6, 8, 12), "Patterns $M_1$", (5.5, 13), PATTERN_STEPS, "upper left", (0.02, 0.98)
    ),
    "m": Panel("neurons", (32, 64, 128), "Neurons $m$", (28, 146), SHARE, "lower right", (0.98, 0.02)),
    "M_2": Panel("irrelevant_patterns", (6, 24, 60), "Irrelevant patterns $M_2$", (5, 72), RISE),
}


@cache
def pinned(**values: int) -> type[one_layer.Config]:
    """Return a Config with fixed values, which users cannot change because they stand on the panel's axis."""

    class Pinned(one_layer.Config):
        def __post_init__(self) -> None:
            for name, value in values.items():
                object.__setattr__(self, name, value)
            super().__post_init__()

    return Pinned


def growth_of_steps(patterns: float) -> float:
    """M_1 sqrt(log M_1), the growth of the number of steps in theorem 1."""
    return float(patterns * np.sqrt(np.log(patterns)))


def sweeps(scale: str, panels: Mapping[str, Panel]) -> list[Sweep]:
    """Return the training of the theorems, and one sweep per other value of each constant, since these set tensor
    shapes.

    More patterns have the smallest even cover by a fraction (M_1 - 1)^(-1/2) of all tasks, and T grows as theorem 1
    says, with M_1 sqrt(log M_1). |a_i| falls as 1 / sqrt(m).
    """
    planned, default = trainings.theorem_training(scale), one_layer.Config
    for panel in panels.values():
        for value in panel.values:
            name, steps = panel.sweep(value), 10 if scale == "smoke" else 400
            values, readout = {panel.constant: value}, {}
            if name == SHARED:
                continue
            if panel.constant == "neurons":
                readout = {"readout": [trainings.THEOREM["readout"] * (default.neurons / value) ** 0.5]}
            if panel.constant == "relevant_patterns":
                values["task_shifts"] = math.ceil((value - 1) ** 0.5)
                steps = round(steps * (growth_of_steps(value) / growth_of_steps(default.relevant_patterns)))
            configs = trainings.theorem_configs(scale, pinned(**values), **readout)
            planned.append(Sweep(name, "li_icl", configs, (steps,), planned[0].test))
    return planned


def unseen(runs: Runs) -> dict[str, np.ndarray]:
    """Hinge loss and error of every run on unseen tasks at full context length: (runs,) each."""
    trained = trainings.in_axes(runs)
    prompts = evaluation.in_domain(trained.sweep)
    logits = evaluation.contributions(trained.last(), prompts).sum(dim=-1)
    return {HINGE: evaluation.hinge(logits, prompts), ERROR: evaluation.wrong(logits, prompts).mean(axis=-1)}


# icl_conditions


def measure_conditions(runs: Trained, scale: str) -> Rows:
    """Hinge loss and classification error on unseen tasks with 20 contexts at alpha' = 0.8, per value and seed."""
    along = {name: panel.along(runs) for name, panel in CONDITIONS.items()}
    seeds, patterns, parts, hinge, error = runs[SHARED].sweep.seeds, one_layer.Config.relevant_patterns, [], {}, {}
    for name, of_name in along.items():
        for value, trained in of_name.items():
            losses, x = unseen(trained), value * patterns / TASKS if name == "tasks" else value
            parts += [rows(loss, seeds, values, x=x, panel=name, series=loss) for loss, values in losses.items()]
            hinge[name, value], error[name, value] = losses[HINGE], losses[ERROR]
    growth = hinge["batch", 512] * np.sqrt(512) - hinge["batch", 16] * np.sqrt(16)
    claimed = {
        **{f"hinge loss on unseen tasks, {patterns * s} of {TASKS} tasks": hinge["tasks", s] for s in (1, 2)},
        **{f"hinge loss on unseen tasks, l_tr = {length}": hinge["length", length] for length in (5, 10)},
        "classification error on unseen tasks, l_tr = 1": error["length", 1],
        "growth of the hinge loss times sqrt(B), B >= M_1": growth,
    }
    ranges = {"few tasks": ("tasks", (1, 2)), "l_tr": ("length", (5, 10)), "B": ("batch", (16, 64, 128, 512))}
    for where, (name, values) in ranges.items():
        parts.append(trainings.least_conditions([along[name][value] for value in values], where))
    return join([*parts, facts(seeds, claimed)])


LOSSES = (Style(HINGE, HINGE, "C0", "o"), Style(ERROR, ERROR, "C1", "d", " "))
STATED = {
    "tasks": ((1 / 5, r"$M_1$ tasks", ":"), (5**-0.5, r"$(M_1-1)^{-1/2}$", "--")),
    "length": ((1 / FRACTION, r"$1/\alpha$", ":"),),
    "batch": ((6, "$M_1$", ":"),),
}
"""The theorem's conditions at M_1 = 6: place, label and line style."""


@plotting.under_defaults
def draw_conditions(table: Table) -> Picture:
    """One panel per condition: means as lines, runs as dots, the theorem's conditions as thin lines."""
    figure, panels = plotting.panels((1140, 380), plotting.grid_edges(list(CONDITIONS), (85, 375, 20, 310), (370, 0)))
    for name, axes in panels.items():
        panel = CONDITIONS[name]
        for style in LOSSES:
            plotting.dots(axes, table, style._replace(label="", marker="."), style.series, alpha=0.5)
            plotting.curves(axes, table, (style,), style.series, markersize=7)
        for place, label, line in STATED[name]:
            axes.axvline(place, color="0.4", linestyle=line, linewidth=1.2, label=label)
        if name == "batch":
            axes.plot(panel.values, 1.5 / np.sqrt(panel.values), **plotting.GUIDE, label=r"$1.5\,/\sqrt{B}$")
        shares = Axis(panel.label, panel.limits, (0.2, 0.4, 0.6, 0.8)) if name == "tasks" else None
        panel.frame(axes, shares, font=10)
    return figure


# icl_sizes


def measure_sizes(runs: Trained, scale: str) -> Rows:
    """Return steps and errors against M_1, large neurons against m, and the cost of pruning small ones against M_2."""
    seeds = runs[SHARED].sweep.seeds
    parts: list[Rows] = []
    for name, measured in (("M_1", _patterns), ("m", _neurons), ("M_2", _irrelevant)):
        along = SIZES[name].along(runs)
        losses = [held_out_loss(of_size) for of_size in along.values()]
        parts += [*measured(along, seeds), trainings.least_conditions(along.values(), name)]
        parts.append(rows(f"largest held-out loss, {name}", seeds, np.max(losses, axis=0)))
    return join(parts)


def _patterns(along: Mapping[int, Runs], seeds: list[int]) -> Iterator[Rows]:
    sizes = np.array([growth_of_steps(m_1) for m_1 in along])
    steps = np.stack([first_step_below(of_size.losses, TARGET, WINDOW) for of_size in along.values()])
    line, x = np.exp(np.log(steps / sizes[:, None]).mean()) * sizes, np.array(list(along))[:, None]
    yield rows("steps", seeds, steps, panel="M_1", series=RUN, x=x)
    yield rows("steps", seeds, line[:, None], panel="M_1", series="theorem 1", x=x)
    yield rows("slope of steps against M_1 sqrt(log M_1)", seeds, [log_slope(sizes, of_run) for of_run in steps.T])
    for m_1 in (8, 12):
        yield rows(f"hinge loss on unseen tasks, M_1 = {m_1}", seeds, unseen(along[m_1])[HINGE])


def _neurons(along: Mapping[int, Runs], seeds: list[int]) -> Iterator[Rows]:
    norms = [of_size.last()["W_O"].norm(dim=-1).numpy() for of_size in along.values()]
    x, shares = np.array(list(along)), np.stack([large(of_size).mean(axis=-1) for of_size in norms])
    yield rows("share of large neurons", seeds, shares, panel="m", series=RUN, x=x[:, None])
    yield rows("least share of large neurons over m", seeds, shares.min(axis=0))
    slopes = [log_slope(x, of_run) for of_run in shares.T]
    yield rows("slope of the share of large neurons against m", seeds, slopes)
    for m in (32, 128):
        least = pruning(trainings.in_axes(along[m])).least_rise_per_share()
        yield rows(f"least rise of the hinge loss per share of large neurons, m = {m}", seeds, least)


def _irrelevant(along: Mapping[int, Runs], seeds: list[int]) -> Iterator[Rows]:
    rises = np.stack([pruning(trainings.in_axes(of_size)).rise_without_small() for of_size in along.values()])
    allowed, x = np.array([[EPS + m_2**-0.5] for m_2 in along]), np.array(list(along))[:, None]
    multiples = rises / allowed
    yield rows("rise of the hinge loss", seeds, rises, panel="M_2", series=RUN, x=x)
    yield rows("rise of the hinge loss", seeds, allowed / 10, panel="M_2", series="theorem 3", x=x)
    yield rows("largest rise over eps + M_2^(-1/2)", seeds, multiples.max(axis=0))
    yield rows("growth of the rise over eps + M_2^(-1/2)", seeds, multiples[-1] - multiples[0])


DRAWN = {
    "M_1": ("steps", (Style("theorem 1", r"$M_1\sqrt{\log M_1}$", "0.4", line="--"),)),
    "m": ("share of large neurons", ()),
    "M_2": ("rise of the hinge loss", (Style("theorem 3", r"$(\epsilon + M_2^{-1/2})\,/\,10$", "0.4", line="--"),)),
}
"""Panel -> observable and the theorem's line."""


@plotting.under_defaults
def draw_sizes(table: Table) -> Picture:
    """One panel per size: runs as dots, the theorem as a dashed line."""
    figure, panels = plotting.panels((1140, 380), plotting.grid_edges(list(SIZES), (85, 355, 20, 310), (385, 0)))
    for name, axes in panels.items():
        observable, theorem = DRAWN[name]
        plotting.dots(axes, table, Style(RUN, "one run", "C0"), observable)
        plotting.curves(axes, table, theorem, observable)
        SIZES[name].frame(axes, None, font=11)
        axes.yaxis.minorticks_off()
    return figure


# icl_rates

FRACTIONS = (0.3, 0.4, 0.55, 0.75, 1.0)


def rate_sweeps(scale: str) -> list[Sweep]:
    """One sweep over all alphas and seeds."""
    configs = trainings.theorem_configs(scale, relevant_fraction=FRACTIONS)
    return [Sweep("li_icl_alpha", "li_icl", configs, (40 if scale == "smoke" else 600,), one_layer.Evaluation())]


def measure_rates(runs: Trained, scale: str) -> Rows:
    """Return steps per alpha and seed, the slope of each seed, and the theorem's line through the mean of the dots."""
    trained, x = single(runs), np.array(FRACTIONS)
    seeds = sorted(set(trained.sweep.seeds))
    steps = first_step_below(trained.losses, TARGET, WINDOW).reshape(len(x), len(seeds))
    line = np.exp(np.log(steps).mean() + 2 / 3 * np.log(x).mean()) * x ** (-2 / 3)
    return join(
        [
            rows("steps", seeds, steps, panel="main", series=RUN, x=x[:, None]),
            rows("steps", seeds, line[:, None], panel="main", series="exponent -2/3", x=x[:, None]),
            rows("slope of steps against alpha", seeds, [log_slope(x, of_run) for of_run in steps.T]),
            trainings.least_conditions([trained], "alpha"),
        ]
    )


@plotting.under_defaults
def draw_rates(table: Table) -> Picture:
    """One dot per seed, and a line with the theorem's exponent through their mean."""
    figure, axes = plotting.canvas((400, 400), (83.5, 380.0, 15.0, 329.7))
    theorem = Style("exponent -2/3", r"$\alpha^{-2/3}$", "k", line="--")
    plotting.curves(axes, table, (theorem,), "steps", linewidth=1.5)
    plotting.dots(axes, table, Style(RUN, "one seed", "C0"), "steps")
    x, y = _log(r"$\alpha$", (0.27, 1.1), FRACTIONS), _log(STEPS, (60, 300), (75, 100, 150, 200, 300))
    plotting.frame(axes, x, y, font=15)
    axes.minorticks_off()
    plotting.legend(axes, 12, "upper right", (0.98, 0.98))
    return figure


FIGURES = (
    Figure("icl_conditions", partial(sweeps, panels=CONDITIONS), measure_conditions, draw_conditions),
    Figure("icl_sizes", partial(sweeps, panels=SIZES), measure_sizes, draw_sizes),
    Figure("icl_rates", rate_sweeps, measure_rates, draw_rates),
)
