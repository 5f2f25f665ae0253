"""Figures 17 to 19 and their kin: error of the trained layer against the number of examples (Li et
al. 2025).

figure17 : chain of thought, by alpha', the fraction of relevant examples (theorem 5)
figure18 : chain of thought, by tau^f, the probability of right chains; verdicts also vary alpha',
    rho^f and the span
cot_factors : chain of thought, by rho^f, the lead of right steps; and a single answer, by alpha',
    by rho_o^f, the lead of the right end, and by tau_o^f, its probability
figure19 : both answers, with and without Condition 1 (theorem 6)
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from icl.core.table import ERROR
from icl.drawing import own_style
from icl.evidence import errors
from icl.evidence.intervals import kendall
from icl.figure import (
    Axis,
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
    single,
)
from icl.papers.li2025 import one_layer, trainings
from icl.papers.li2025.decoding import Answer, chain_of_thought, single_answer, wrong_answers
from icl.papers.li2025.prompts import Setting
from icl.papers.li2025.transition_matrices import condition_1

LENGTHS = range(0, 101, 10)
LOOKS = (("r", "o"), ("b", "x"), ("m", "+"), ("c", "d"))
LEGEND = {"corner": "lower left", "at": (-0.016, -0.022)}


COUNTED = 60
"""Wrong answers counted per evaluation of a band, inferred: published half-widths are a fifth of
the error.
"""


def evaluations(wrong: np.ndarray) -> np.ndarray:
    """Return an error per group of queries, (lengths, queries) -> (lengths, groups), from part of
    the group.

    An evaluation of a curve of error p has the first COUNTED / p queries of its group, or all if
    they are fewer.
    """
    groups = np.stack(np.array_split(wrong, errors.GROUPS, axis=-1), axis=1)
    numbers = COUNTED / np.maximum(wrong.mean(axis=-1), COUNTED / groups.shape[-1])
    return np.stack(
        [
            group[:, : int(np.ceil(n))].mean(axis=-1)
            for group, n in zip(groups, numbers, strict=True)
        ]
    )


def plotted_lengths(test: one_layer.Evaluation) -> list[int]:
    """Return the plotted numbers of examples, up to the test's context length."""
    return [n for n in LENGTHS if n <= test.context_length_test]


def curves(
    answer: Answer, trained: Runs, settings: Mapping[str, Setting], panel: str = "main"
) -> tuple[Rows, np.ndarray]:
    """Rows of error curves by the name of their setting, and the errors of all runs, (curves,
    lengths, runs, queries).

    The drawn run has a band over the `evaluations` of four groups of queries, each as many as a run
    has.
    """
    index, test, shown = trainings.drawn(trained), trained.sweep.test, list(settings.values())
    one, at = (
        trained.alone(index, replace(test, queries=errors.GROUPS * test.queries)),
        plotted_lengths(test),
    )
    wrong, drawn = wrong_answers(answer, trained, shown, at), wrong_answers(answer, one, shown, at)
    parts: list[Rows] = []
    for name, of_runs, of_drawn in zip(settings, wrong, drawn, strict=True):
        groups, labels = evaluations(of_drawn[:, 0]), {"panel": panel, "series": name, "x": at}
        parts += errors.drawn_error(trained.sweep.seeds, index, of_runs, of_drawn, groups, **labels)
    return join(parts), wrong


def order_of_errors(values: Sequence[float], wrong: np.ndarray) -> np.ndarray:
    """Kendall's tau between a constant and the error, averaged over all numbers of examples above
    0: (runs,).

    values : (settings,); wrong : (settings, lengths, runs, queries), of which the first length is 0
    """
    return np.array(
        [kendall(np.array(values), of_run) for of_run in wrong[:, 1:].mean(axis=(1, 3)).T]
    )


@plotting.under_defaults
def draw(
    table: Table, styles: Sequence[Style], y: Axis, legend: Mapping[str, Any], left: float = 117.82
) -> Picture:
    """Draw error curves in the published style; `left` is the left edge of the axes in pixels."""
    figure, axes = plotting.canvas((400, 400), (left, 359.88, 26.25, 317.72))
    plotting.curves(axes, table, styles, ERROR, band=plotting.published_band)
    plotting.frame(axes, Axis("# of context examples", (0, 100), range(0, 101, 20)), y, font=19)
    plotting.legend(axes, 12, **legend)
    return figure


def published_picture(labels: Mapping[str, str], **look: Any) -> Callable[[Table], Picture]:
    """Return the function that draws a published figure: name of each curve -> its label."""
    styles = [
        Style(name, label, *of_curve)
        for (name, label), of_curve in zip(labels.items(), LOOKS, strict=False)
    ]
    return partial(draw, styles=styles, **look)


# Curves by one constant

ANSWERS = {
    "CoT": (chain_of_thought, one_layer.Evaluation.setting),
    "ICL": (single_answer, one_layer.Evaluation.end_setting),
}
"""How the layer answers, and to which prompts: a single answer sees only both ends of the
chains.
"""


@dataclass(frozen=True)
class Varied:
    """The constant of the test prompts that a panel varies.

    constant : the field of Evaluation
    values : name of each curve in the table, a formula without its leading backslash -> value of
        the constant
    answer : of ANSWERS
    order : observable of Kendall's tau between the constant and the error
    further : other observables of the runs
    others : constants that `further` varies, and their values
    """

    constant: str
    values: Mapping[str, float]
    answer: str
    order: str
    further: Callable[[Runs], dict[str, Any]] = lambda trained: {}
    others: tuple[tuple[str, tuple[float, ...]], ...] = ()

    def constants(self) -> dict[str, tuple[float, ...]]:
        """Return the varied constants and their values."""
        return {self.constant: tuple(self.values.values()), **dict(self.others)}

    def measure(self, trained: Runs, panel: str = "main") -> Rows:
        """Error of the trained model for each value and number of examples, on the same draws,
        and Kendall's tau.
        """
        answer, setting = ANSWERS[self.answer]
        test = trained.sweep.test
        settings = {
            name: setting(test.variation(**{self.constant: value}))
            for name, value in self.values.items()
        }
        shown, wrong = curves(answer, trained, settings, panel)
        found = {self.order: order_of_errors(list(self.values.values()), wrong)} | self.further(
            trained
        )
        return join([shown, facts(trained.sweep.seeds, found)])


def sweeps(scale: str, panels: Sequence[Varied]) -> list[Sweep]:
    """Return the shared training, if prompts exist for all values."""
    constants = {name: values for one in panels for name, values in one.constants().items()}
    return trainings.shared_training(scale, trainings.varied_test(**constants))


def measure(runs: Trained, scale: str, panels: Mapping[str, Varied]) -> Rows:
    """Return the rows of every panel."""
    trained = single(runs)
    return join(
        [
            *(one.measure(trained, panel) for panel, one in panels.items()),
            trainings.drawn_run(trained),
        ]
    )


def figure(name: str, panels: Mapping[str, Varied], draw: Any) -> Figure:
    """Return a figure with a panel per varied constant."""
    every = partial(sweeps, panels=tuple(panels.values()))
    return Figure(name, every, partial(measure, panels=panels), draw, draws_one_run=True)


def published_figure(name: str, varied: Varied, spacing: float, **legend: Any) -> Figure:
    """Return a published figure, and how its legend differs from the others'."""
    y, labels = (
        Axis(f"{varied.answer} error", (1e-3, 1), log=True),
        {name: rf"$\{name}$" for name in varied.values},
    )
    return figure(
        name,
        {"main": varied},
        published_picture(labels, y=y, legend=LEGEND | {"spacing": spacing, **legend}),
    )


def named(letter: str, values: Sequence[float]) -> dict[str, float]:
    """Names of the curves of a constant: "letter=value" -> value."""
    return {f"{letter}={value:.1f}": value for value in values}


FRACTION, FRACTIONS = "relevant_fraction_test", (0.4, 0.6, 0.8, 1.0)
TAUS, LEADS = (0.4, 0.5, 0.6, 0.7), (0.5, 0.6, 0.7, 0.8)
# The published legend of figure 17 lacks the prime in three entries.
PUBLISHED = {"alpha'=0.4": 0.4, "alpha=0.6": 0.6, "alpha=0.8": 0.8, "alpha=1.0": 1.0}

# Figure 18: theorem 5, one of its three factors at a time

# Observable -> constant and its values.
OTHER_FACTORS = {
    "Kendall's tau of error and alpha'": (FRACTION, FRACTIONS),
    "Kendall's tau of error and rho^f": ("primacy", (0.2, 0.4, 0.6, 0.8)),
}
RARE = 0.1
"""alpha', below 1/M': most examples then have another start than the query, and a majority vote
over all is wrong.
"""


def facts_of_theorem_5(trained: Runs) -> dict[str, Any]:
    """Return the order of the errors by the other two factors, the defaults' error, and the
    theorem's conditions.
    """
    test = trained.sweep.test

    def wrong(tests: Sequence[one_layer.Evaluation]) -> np.ndarray:
        return wrong_answers(
            chain_of_thought, trained, [one.setting() for one in tests], plotted_lengths(test)
        )

    found = {
        order: order_of_errors(values, wrong([test.variation(**{name: v}) for v in values]))
        for order, (name, values) in OTHER_FACTORS.items()
    }
    found["error with 100 examples"] = wrong([test])[0, -1].mean(axis=-1)
    # In and off the span, on the same prompts with few relevant examples and no noise or errors.
    exact = test.variation(
        noise=0.0, relevant_fraction_test=RARE, path_probability=1.0, primacy=1.0
    )
    clean = replace(trained, sweep=replace(trained.sweep, test=exact))
    for where, runs in (("error in the span", clean), ("error off the span", off_span(clean))):
        (error,) = wrong_answers(
            chain_of_thought, runs, [exact.setting()], [exact.context_length_test]
        )[0]
        found[f"{where}, alpha' = {RARE:g}"] = error.mean(axis=-1)
    return found | trainings.conditions(trained)


def off_span(runs: Runs) -> Runs:
    """Return the weights that act on M patterns orthogonal to all TRR patterns, which theorem 5
    leaves open.

    Training moves no weight along such directions: there W_Q and W_K stay delta I, and W_V copies.
    So the layer acts on these patterns with its initial weights, and with the trained weights of
    the positional codes.
    """
    configs = runs.sweep.configs
    codes = slice(2 * configs[0].relevant_patterns, None)
    weights = {
        name: w[:, None].expand_as(runs.weights[name]).clone()
        for name, w in one_layer.init(configs).items()
    }
    for name in ("W_Q", "W_K"):
        weights[name][..., codes, codes] = runs.weights[name][..., codes, codes]
    return replace(runs, weights=weights)


# Figure 19: Condition 1

COT, WITH, WITHOUT = "CoT", "ICL w. Condition 1", "ICL w.o. Condition 1"


class MisleadingTest(one_layer.Evaluation):
    """Test constants for which matrices that violate Condition 1 exist; others raise
    ConstantError.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.misleading_setting()


def measure_condition(runs: Trained, scale: str) -> Rows:
    """Return the three errors for each number of examples, and the claims' observables from 10
    examples on.
    """
    trained = single(runs)
    holds, fails = trained.sweep.test.end_setting(), trained.sweep.test.misleading_setting()
    cot_curve, cot = curves(chain_of_thought, trained, {COT: fails})
    icl_curves, icl = curves(single_answer, trained, {WITH: holds, WITHOUT: fails})
    (cot,), (right, misled) = (wrong[:, 1:].mean(axis=-1) for wrong in (cot, icl))
    falls, examples = np.maximum.accumulate(misled, axis=0) - misled, np.arange(len(right))
    found = {
        "least ICL error without Condition 1": misled.min(axis=0),
        "largest fall of ICL error without Condition 1": falls.max(axis=0),
        "ICL error with Condition 1 and 100 examples": right[-1],
        "Kendall's tau of ICL error with Condition 1 and examples": [
            kendall(examples, run) for run in right.T
        ],
        "CoT error over ICL error without Condition 1": cot[-1]
        / np.where(misled[-1] > 0, misled[-1], np.nan),
        f"share of starts that meet Condition 1, {WITH}": condition_1(holds.matrices).mean(),
        f"share of starts that meet Condition 1, {WITHOUT}": condition_1(fails.matrices).mean(),
    } | trainings.conditions(trained)
    return join(
        [cot_curve, icl_curves, trainings.drawn_run(trained), facts(trained.sweep.seeds, found)]
    )


FIGURE17 = Varied(FRACTION, PUBLISHED, "CoT", "Kendall's tau of error and alpha'")
OTHERS = tuple(OTHER_FACTORS.values())
FIGURE18 = Varied(
    "path_probability",
    named("tau^f", TAUS),
    "CoT",
    "Kendall's tau of error and tau^f",
    facts_of_theorem_5,
    OTHERS,
)
FIGURE19 = published_picture(
    {name: name for name in (COT, WITH, WITHOUT)},
    y=Axis("Testing error", (3e-3, 1), log=True),
    legend=LEGEND | {"spacing": 0.62},
    left=117.57,
)
MISLEADING = partial(trainings.shared_training, test=MisleadingTest)

# cot_factors

FACTORS = {
    "CoT, rho^f": Varied(
        "primacy", named("rho^f", LEADS), "CoT", "Kendall's tau of CoT error and rho^f"
    ),
    "ICL, alpha'": Varied(
        FRACTION, named("alpha'", FRACTIONS), "ICL", "Kendall's tau of ICL error and alpha'"
    ),
    "ICL, rho_o^f": Varied(
        "end_primacy", named("rho_o^f", LEADS), "ICL", "Kendall's tau of ICL error and rho_o^f"
    ),
    "ICL, tau_o^f": Varied(
        "end_probability", named("tau_o^f", TAUS), "ICL", "Kendall's tau of ICL error and tau_o^f"
    ),
}


@plotting.under_defaults
def draw_factors(table: Table) -> Picture:
    """Draw a row of panels, one per varied constant, with bands over groups of queries."""
    title = "Error against the number of examples, for four values of a constant"
    picture, panels = own_style.panels(list(FACTORS), 4, title, (235, 235))
    for varied, axes in zip(FACTORS.values(), panels.values(), strict=True):
        styles = own_style.styles({name: f"{value:.1f}" for name, value in varied.values.items()})
        plotting.curves(axes, table, styles, ERROR, band=plotting.pale, **own_style.LINE)
        axes.set(yscale="log", ylim=(1e-3, 1), xlim=(0, 100))
        plotting.edge_arrows(axes)
        constant, _ = next(iter(varied.values)).split("=")
        own_style.axis_labels(axes, "", "", rf"{varied.answer}, by $\{constant}$")
        own_style.name_curves(axes)
    own_style.common_labels(picture, "Number of examples", "Error")
    return picture


FIGURES = (
    published_figure("figure17", FIGURE17, spacing=0.58),
    published_figure("figure18", FIGURE18, spacing=0.6, corner="upper right", at=(1.015, 1.021)),
    Figure("figure19", MISLEADING, measure_condition, FIGURE19, draws_one_run=True),
    figure("cot_factors", FACTORS, draw_factors),
)
