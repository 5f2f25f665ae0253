"""icl_conditions, icl_sizes and icl_rates: theorems of Li et al. 2024 along one constant of their
training at a time.

icl_conditions: the conditions of theorem 1 (talk page 18). icl_sizes: theorems 1 and 3 as the
problem grows. icl_rates: training steps against the fraction alpha of relevant contexts (theorem
1).
"""

import math
from collections.abc import Iterator, Mapping
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from icl.core.runs import single
from icl.core.table import ERROR
from icl.drawing import own_style
from icl.evidence.intervals import first_step_below, log_slope
from icl.figure import (
    Figure,
    Picture,
    Rows,
    Runs,
    Style,
    Sweep,
    Table,
    Trained,
    facts,
    join,
    plotting,
    rows,
)
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
FACTOR = 1.5
"""Our bound for O(eps) in theorem 1, at eps = 1 / sqrt(B), is FACTOR eps."""
EPS = 128**-0.5
"""The eps that the training's batch size allows."""
TASKS, FRACTION = 30, 0.8


class Panel(NamedTuple):
    """The trainings along one constant, and its label."""

    constant: str
    values: tuple[int, ...]
    label: str

    def sweep(self, value: int) -> str:
        """Return the name of the training with this value, which is the shared one if it is the
        default.
        """
        default = getattr(one_layer.Config, self.constant)
        return (
            SHARED
            if value == default
            else f"{SHARED}_{self.constant.removesuffix('_patterns')}_{value}"
        )

    def along(self, runs: Trained) -> dict[int, Runs]:
        """Return the training with each value."""
        return {value: runs[self.sweep(value)] for value in self.values}


STEPS = f"Steps to hinge loss {TARGET}"
CONDITIONS = {
    "tasks": Panel("task_shifts", (1, 2, 3, 4), "Share of training tasks"),
    "length": Panel("context_length", (1, 2, 5, 10, 20), "Training contexts $l_{tr}$"),
    "batch": Panel("batch", (4, 16, 64, 128, 512), "Batch $B$"),
}
SIZES = {
    "M_1": Panel("relevant_patterns", (6, 8, 12), "Patterns $M_1$"),
    "m": Panel("neurons", (32, 64, 128), "Neurons $m$"),
    "M_2": Panel("irrelevant_patterns", (6, 24, 60), "Irrelevant patterns $M_2$"),
}


@cache
def pinned(**values: int) -> type[trainings.TheoremConfig]:
    """Return a Config with fixed values, which users cannot change because they stand on the
    panel's axis.
    """

    class Pinned(trainings.TheoremConfig):
        def __post_init__(self) -> None:
            for name, value in values.items():
                object.__setattr__(self, name, value)
            super().__post_init__()

    return Pinned


def growth_of_steps(patterns: float) -> float:
    """M_1 sqrt(log M_1), the growth of the number of steps in theorem 1."""
    return float(patterns * np.sqrt(np.log(patterns)))


def sweeps(scale: str, panels: Mapping[str, Panel]) -> list[Sweep]:
    """Return the training of the theorems, and one sweep per other value of each constant, since
    these set tensor shapes.

    More patterns have the smallest even cover by a fraction (M_1 - 1)^(-1/2) of all tasks, and T
    grows as theorem 1 says, with M_1 sqrt(log M_1). |a_i| falls as 1 / sqrt(m).
    """
    planned, default = trainings.theorem_training(scale), trainings.TheoremConfig
    for panel in panels.values():
        for value in panel.values:
            name, steps = panel.sweep(value), 10 if scale == "smoke" else 400
            values, readout = {panel.constant: value}, {}
            if name == SHARED:
                continue
            if panel.constant == "neurons":
                readout = {"readout": [default.readout * (default.neurons / value) ** 0.5]}
            if panel.constant == "relevant_patterns":
                values["task_shifts"] = math.ceil((value - 1) ** 0.5)
                steps = round(
                    steps * (growth_of_steps(value) / growth_of_steps(default.relevant_patterns))
                )
            configs = trainings.theorem_configs(scale, pinned(**values), **readout)
            planned.append(Sweep(name, one_layer.MODEL, configs, (steps,), planned[0].test))
    return planned


def unseen(runs: Runs) -> dict[str, np.ndarray]:
    """Hinge loss and error of every run on unseen tasks at full context length: (runs,) each."""
    trained = trainings.in_axes(runs)
    prompts = evaluation.in_domain(trained.sweep)
    logits = evaluation.contributions(trained.last(), prompts).sum(dim=-1)
    return {
        HINGE: evaluation.hinge(logits, prompts),
        ERROR: evaluation.wrong(logits, prompts).mean(axis=-1),
    }


# icl_conditions


def measure_conditions(runs: Trained, scale: str) -> Rows:
    """Hinge loss and classification error on unseen tasks with 20 contexts at alpha' = 0.8, per
    value and seed.
    """
    along = {name: panel.along(runs) for name, panel in CONDITIONS.items()}
    seeds, patterns, parts, hinge, error = (
        runs[SHARED].sweep.seeds,
        one_layer.Config.relevant_patterns,
        [],
        {},
        {},
    )
    for name, of_name in along.items():
        for value, trained in of_name.items():
            losses, x = unseen(trained), value * patterns / TASKS if name == "tasks" else value
            parts += [
                rows(loss, seeds, values, x=x, panel=name, series=loss)
                for loss, values in losses.items()
            ]
            hinge[name, value], error[name, value] = losses[HINGE], losses[ERROR]
    allowing = {b: trained for b, trained in along["batch"].items() if b >= patterns}
    steps = np.stack(
        [
            first_step_below(of_batch.losses, FACTOR / np.sqrt(b), WINDOW)
            for b, of_batch in allowing.items()
        ]
    )
    claimed = {
        **{
            f"hinge loss on unseen tasks, {patterns * s} of {TASKS} tasks": hinge["tasks", s]
            for s in (1, 2)
        },
        **{
            f"hinge loss on unseen tasks, l_tr = {length}": hinge["length", length]
            for length in (5, 10)
        },
        "classification error on unseen tasks, l_tr = 1": error["length", 1],
        "slope of steps to 1.5/sqrt(B) against B": [
            log_slope(np.array(list(allowing)), of_run) for of_run in steps.T
        ],
    }
    ranges = {
        "few tasks": ("tasks", (1, 2)),
        "l_tr": ("length", (5, 10)),
        "B": ("batch", tuple(allowing)),
    }
    for where, (name, values) in ranges.items():
        parts.append(trainings.least_conditions([along[name][value] for value in values], where))
    return join([*parts, facts(seeds, claimed)])


LOSS = own_style.styles({HINGE: "mean"}, markers=True)[0]
STATED = {
    "tasks": ((1 / 5, "$M_1$ tasks"), (5**-0.5, "$(M_1-1)^{-1/2}$")),
    "length": ((1 / FRACTION, r"$1/\alpha$"),),
    "batch": ((6, "$M_1$"),),
}
"""The theorem's conditions at M_1 = 6: place and label."""


@plotting.under_defaults
def draw_conditions(table: Table) -> Picture:
    """One panel per condition: the mean hinge loss as a line, runs as dots, the theorem's
    conditions as thin lines.

    The classification error is zero in most runs; numbers at the top say how many runs have another
    one.
    """
    runs = table.runs.loc[table.runs["panel"] != "", "seed"].nunique()
    title = (
        f"Hinge loss on unseen tasks against each condition of theorem 1; "
        f"top: runs of {runs} with wrong answers"
    )
    figure, panels = own_style.panels(list(CONDITIONS), 3, title, (280, 240))
    none = own_style.below(table.runs.loc[table.runs["panel"] != "", "value"])
    for name, axes in panels.items():
        own_style.log_ticks(axes, x=() if name == "tasks" else CONDITIONS[name].values)
        own_style.dots(axes, table.points(name, HINGE, HINGE), LOSS, none)
        plotting.curves(axes, table, [LOSS], HINGE, none=none, **own_style.LINE)
        errors = table.points(name, ERROR, ERROR)
        wrong = (errors["value"] > 0).groupby(errors["x"]).sum()
        for x, count in zip(wrong.index.to_numpy(), wrong, strict=True):
            look = {"ha": "center", "va": "top", "fontsize": own_style.FONT, "backgroundcolor": "w"}
            axes.text(x, 0.99, str(count), look, transform=axes.get_xaxis_transform())
        for place, label in STATED[name]:
            own_style.threshold(axes, place, label)
        axes.set(yscale="log", ylim=(none, 50))
        plotting.none_tick(axes, none)
        own_style.axis_labels(axes, CONDITIONS[name].label, "")
    own_style.common_labels(figure, y="Hinge loss")
    batches = np.array(CONDITIONS["batch"].values)
    panels["batch"].plot(
        batches, FACTOR / np.sqrt(batches), **plotting.GUIDE, label=r"$1.5/\sqrt{B}$", gid="bound"
    )
    own_style.name_curves(panels["batch"], {"bound": r"$1.5/\sqrt{B}$"})
    return figure


# icl_sizes


def measure_sizes(runs: Trained, scale: str) -> Rows:
    """Return steps and errors against M_1, large neurons against m, and the cost of pruning
    small ones against M_2.
    """
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
    steps = np.stack(
        [first_step_below(of_size.losses, TARGET, WINDOW) for of_size in along.values()]
    )
    line, x = np.exp(np.log(steps / sizes[:, None]).mean()) * sizes, np.array(list(along))[:, None]
    yield rows("steps", seeds, steps, panel="M_1", series=RUN, x=x)
    yield rows("steps", seeds, line[:, None], panel="M_1", series="theorem 1", x=x)
    yield rows(
        "slope of steps against M_1 sqrt(log M_1)",
        seeds,
        [log_slope(sizes, of_run) for of_run in steps.T],
    )
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
        yield rows(
            f"least rise of the hinge loss per share of large neurons, m = {m}", seeds, least
        )


def _irrelevant(along: Mapping[int, Runs], seeds: list[int]) -> Iterator[Rows]:
    changes = np.stack(
        [pruning(trainings.in_axes(of_size)).change_without_small() for of_size in along.values()]
    )
    allowed, x = np.array([[EPS + m_2**-0.5] for m_2 in along]), np.array(list(along))[:, None]
    yield rows("change of F", seeds, changes, panel="M_2", series=RUN, x=x)
    yield rows("change of F", seeds, allowed / 10, panel="M_2", series="theorem 3", x=x)
    largest = (changes / allowed).max(axis=0)
    yield rows("largest change of F over eps + M_2^(-1/2)", seeds, largest)


ONE_RUN = own_style.styles({RUN: "one run"})[0]
DRAWN = {
    "M_1": ("steps", STEPS, "theorem 1", r"$\propto M_1\sqrt{\log M_1}$"),
    "m": ("share of large neurons", "Share of large neurons", "", ""),
    "M_2": (
        "change of F",
        "Change of $F$",
        "theorem 3",
        r"$(\epsilon + M_2^{-1/2})/10$",
    ),
}
"""Panel -> observable and its label, the series of the theorem's line and its label."""


@plotting.under_defaults
def draw_sizes(table: Table) -> Picture:
    """One panel per size: runs as dots, the theorem as a dashed line."""
    title = "Training steps, large neurons and pruning as the problem grows"
    figure, panels = own_style.panels(list(SIZES), 3, title, (280, 215))
    for name, axes in panels.items():
        observable, label, theorem, formula = DRAWN[name]
        own_style.log_ticks(
            axes, SIZES[name].values, (80, 100, 120, 150, 200) if name == "M_1" else ()
        )
        own_style.dots(axes, table.points(name, RUN, observable), ONE_RUN)
        if theorem:
            plotting.curves(
                axes, table, [Style(theorem, formula, "0.3", line="--")], observable, linewidth=1.2
            )
            own_style.name_curves(axes, {theorem: formula})
        own_style.axis_labels(axes, SIZES[name].label, label)
    panels["m"].set_ylim(0, 1)
    return figure


# icl_rates

FRACTIONS = (0.3, 0.4, 0.55, 0.75, 1.0)


def rate_sweeps(scale: str) -> list[Sweep]:
    """One sweep over all alphas and seeds."""
    configs = trainings.theorem_configs(scale, relevant_fraction=FRACTIONS)
    return [
        Sweep(
            "li_icl_alpha",
            one_layer.MODEL,
            configs,
            (40 if scale == "smoke" else 600,),
            one_layer.Evaluation(),
        )
    ]


def measure_rates(runs: Trained, scale: str) -> Rows:
    """Return steps per alpha and seed, the slope of each seed, and the theorem's line through
    the mean of the dots.
    """
    trained, x = single(runs), np.array(FRACTIONS)
    seeds = sorted(set(trained.sweep.seeds))
    steps = first_step_below(trained.losses, TARGET, WINDOW).reshape(len(x), len(seeds))
    line = np.exp(np.log(steps).mean() + 2 / 3 * np.log(x).mean()) * x ** (-2 / 3)
    return join(
        [
            rows("steps", seeds, steps, panel="main", series=RUN, x=x[:, None]),
            rows("steps", seeds, line[:, None], panel="main", series="exponent -2/3", x=x[:, None]),
            rows(
                "slope of steps against alpha", seeds, [log_slope(x, of_run) for of_run in steps.T]
            ),
            trainings.least_conditions([trained], "alpha"),
        ]
    )


@plotting.under_defaults
def draw_rates(table: Table) -> Picture:
    """One dot per seed, and a line with the theorem's exponent through their mean."""
    figure, panels = own_style.panels(
        ["main"], 1, r"Training steps against $\alpha$, one dot per run", (380, 280)
    )
    own_style.log_ticks(panels["main"], FRACTIONS, (75, 100, 150, 200, 300))
    own_style.dots(panels["main"], table.points("main", RUN, "steps"), ONE_RUN)
    theorem = Style("exponent -2/3", r"$\propto \alpha^{-2/3}$", "0.3", line="--")
    plotting.curves(panels["main"], table, [theorem], "steps", linewidth=1.2)
    panels["main"].set_ylim(60, 400)
    plotting.edge_arrows(panels["main"])
    own_style.name_curves(panels["main"], {theorem.series: theorem.label})
    own_style.axis_labels(panels["main"], r"Fraction of relevant contexts $\alpha$", STEPS)
    return figure


FIGURES = (
    Figure(
        "icl_conditions", partial(sweeps, panels=CONDITIONS), measure_conditions, draw_conditions
    ),
    Figure("icl_sizes", partial(sweeps, panels=SIZES), measure_sizes, draw_sizes),
    Figure("icl_rates", rate_sweeps, measure_rates, draw_rates),
)
