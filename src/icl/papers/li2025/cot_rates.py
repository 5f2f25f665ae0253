"""Chain of thought: training steps against alpha, K and M (theorem 4) and examples needed per prompt (theorem 5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from icl.core.config import grid
from icl.core.lazy import Axes, Picture
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import Table, join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.evidence.intervals import first_step_below, kendall, least_length, log_slope
from icl.evidence.significance import mean_interval
from icl.figure import Figure
from icl.papers.li2025 import decoding, one_layer, premises, theory, trainings

FRACTIONS = (0.2, 0.3, 0.4, 0.6, 0.8, 1.0)
CHAINS = (2, 3, 4, 6, 8, 12)
LONG_CHAINS = CHAINS[3:]
PATTERNS = (10, 15, 20, 30, 40)
LENGTH = 20  # a whole number of relevant examples for every alpha
STEPS = {"paper": 400, "laptop": 400, "smoke": 20}
WINDOW = 10
TARGET = 0.1  # a batch of 120 prompts is more than eps^-2
TARGETS = (0.4, 0.3, 0.2, 0.15, 0.1)
FACTORS = (0.0222, 0.0863)
"""Factors of theorem 4's two terms: means over seeds 0 to 9, fitted by `snakemake cot_rates --config first_seed=0`."""

ENOUGH = 0.05
# The published error under Condition 1 is below 0.15 with 35 examples; LENGTHS[-1] is more than four times as many.
ENOUGH_ENDS = 0.15
QUERIES = {"paper": 1000, "laptop": 300, "smoke": 10}
LENGTHS = tuple(sorted({round(n) for n in np.geomspace(4, 240, 45)}))
# One of alpha', tau^f and rho^f varies; the other two have the values of the other figures.
VARIED = {
    "alpha'": ("relevant_fraction_test", (0.4, 0.6, 0.8, 1.0)),
    "tau^f": ("path_probability", (0.4, 0.5, 0.6)),
    "rho^f": ("primacy", (0.5, 0.6, 0.7, 0.8)),
}
VARIED_ENDS = {"alpha'": VARIED["alpha'"], "tau_o^f": ("end_probability", (0.4, 0.5, 0.6, 0.7))}


def sweeps(scale: str) -> list[Sweep]:
    """A sweep over alpha, one per K and one per M, which set tensor shapes, and the shared training for the errors."""
    seeds, length = range(trainings.SEEDS[scale]), [LENGTH]
    configs = {"li_cot_alpha": grid(one_layer.Config, context_length=length, relevant_fraction=FRACTIONS, seed=seeds)}
    for letter, name, values in (("k", "chain_length", CHAINS), ("m", "relevant_patterns", PATTERNS)):
        for value in values:
            kind = trainings.pinned(**{name: value})
            configs[f"li_cot_{letter}{value}"] = grid(kind, context_length=length, seed=seeds)
    steps, test = (STEPS[scale],), trainings.varied_test(**dict([*VARIED.values(), *VARIED_ENDS.values()]))
    training = [Sweep(name, one_layer.SYSTEM, kinds, steps, one_layer.Test()) for name, kinds in configs.items()]
    return [*training, trainings.shared_training(scale, test, context_length_test=LENGTHS[-1], queries=QUERIES[scale])]


class Panel(NamedTuple):
    """Steps against one constant: its letter in the table, its values, and its symbol."""

    letter: str
    values: tuple[float, ...]
    sign: str


PANELS = (Panel("alpha", FRACTIONS, r"\alpha"), Panel("K", CHAINS, "K"), Panel("M", PATTERNS, "M"))


def steps_to_target(runs: Runs, target: float = TARGET) -> np.ndarray:
    """First step at which the mean loss of the last WINDOW batches is below `target`, NaN if there is none: (runs,).

    The loss is that of patterns of norm one, |F - z|^2 / 2 over beta^2.
    """
    losses = runs.losses / np.array([[config.pattern_norm**2] for config in runs.sweep.configs])
    return first_step_below(losses, target, WINDOW)


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Steps per constant and seed, examples per setting and seed, and their fits."""
    shared = runs["li_cot"]
    return join([*_training(runs), *_examples(shared), *_examples_of_ends(shared), *premises.of_training(shared)])


def _training(runs: Mapping[str, Runs]) -> list[pd.DataFrame]:
    varied = {
        "alpha": [runs["li_cot_alpha"]],
        "K": [runs[f"li_cot_k{value}"] for value in CHAINS],
        "M": [runs[f"li_cot_m{value}"] for value in PATTERNS],
    }
    seeds = np.array(sorted(set(runs["li_cot_alpha"].sweep.seeds)))
    steps = {
        letter: np.concatenate([steps_to_target(part) for part in parts]).reshape(-1, len(seeds))
        for letter, parts in varied.items()
    }
    terms = {
        letter: np.array([_terms(c) for part in parts for c in part.sweep.configs[:: len(seeds)]])
        for letter, parts in varied.items()
    }
    tables = []
    for letter, values, _ in PANELS:
        x, y = np.array(values, dtype=float), steps[letter]
        formula = terms[letter] @ FACTORS
        curves = {"steps": y, "fit": power_law(x, y, x), "theorem": np.repeat(formula[:, None], len(seeds), axis=1)}
        for series, curve in curves.items():
            tables.append(rows("steps", seeds, curve, x=x[:, None], panel=letter, series=series))
        taus = [kendall(x, of_seed) if np.isfinite(of_seed).all() else np.nan for of_seed in y.T]
        tables.append(rows(f"Kendall's tau of steps and {letter}", seeds, taus))
        tables.append(rows(f"exponent of steps in {letter}", seeds, slopes(x, y)))
    tables += _factors(np.concatenate(list(terms.values())), np.concatenate(list(steps.values())), seeds)
    tables += _conditions(runs["li_cot_alpha"], seeds)
    long = np.array(CHAINS) >= LONG_CHAINS[0]
    tables.append(rows("exponent of steps in K from 6 on", seeds, slopes(np.array(LONG_CHAINS), steps["K"][long])))
    return tables


def _terms(config: one_layer.Config, target: float = TARGET) -> tuple[float, float]:
    return theory.chain_training_terms(config.relevant_fraction, config.chain_length, config.relevant_patterns, target)


def _factors(terms: np.ndarray, steps: np.ndarray, seeds: np.ndarray) -> list[pd.DataFrame]:
    """The factors of theorem 4's two terms that fit each seed's steps: terms (n, 2), steps (n, seeds)."""
    parts = []
    fitted = [
        theory.fitted_factors(terms, of_seed) if np.isfinite(of_seed).all() else (np.nan, np.nan) for of_seed in steps.T
    ]
    for term, factors in zip(("alpha^-2 K^3", "M K (1/alpha + 1/eps)"), np.array(fitted).T, strict=True):
        parts.append(rows(f"fitted factor of {term}", seeds, factors))
    return parts


def _conditions(runs: Runs, seeds: np.ndarray) -> list[pd.DataFrame]:
    """Conditions of theorem 4 on the trainings: eps^-2 prompts per batch, and 1/alpha examples per prompt."""
    first = runs.sweep.configs[0]
    examples = min(config.context_length * config.relevant_fraction for config in runs.sweep.configs)
    return [
        rows("batch times eps^2", seeds, first.batch * TARGET**2),
        rows("least training examples times alpha", seeds, examples),
    ]


def growth(x: np.ndarray, y: np.ndarray, formula: np.ndarray) -> np.ndarray:
    """Log-log slope in x of the ratio of y to the formula: (n,), (n, seeds) and (n,) -> (seeds,). For an upper bound of
    this order the slope is at most 0.
    """
    return slopes(x, y / formula[:, None])


def _examples(runs: Runs) -> list[pd.DataFrame]:
    test, seeds = runs.sweep.test, np.array(runs.sweep.seeds)
    points = [(letter, test.variation({name: value})) for letter, (name, values) in VARIED.items() for value in values]
    settings = [point.setting() for _, point in points]
    errors = decoding.cot_wrong(runs.last(), runs.sweep.configs, test, settings, LENGTHS).mean(axis=-1)
    least = np.stack([least_length(curve, LENGTHS, ENOUGH) for curve in errors])
    formula = np.array(
        [theory.chain_examples(p.relevant_fraction_test, p.path_probability, p.primacy) for _, p in points]
    )
    # The point with the default values is in every series, but counts once.
    once = np.sort(np.unique([repr(point) for _, point in points], return_index=True)[1])
    x, y = formula[once], least[once]
    ends = np.array([x.min(), x.max()])
    lines = {"fit": power_law(x, y, ends), "theorem": power_law(x, y, ends, slope=1.0)}
    tables = [
        rows("examples", seeds, line, x=ends[:, None], panel="examples", series=series)
        for series, line in lines.items()
    ]
    for (letter, _), value, needed in zip(points, formula, least, strict=True):
        tables.append(rows("examples", seeds, needed, x=value, panel="examples", series=letter))
    for letter, (_, values) in VARIED.items():
        needed = least[[name == letter for name, _ in points]]
        tables.append(rows(f"exponent of examples in {letter}", seeds, slopes(np.array(values), needed)))
    tables.append(rows("growth of examples over theorem 5", seeds, growth(x, y, x)))
    return [*tables, rows("exponent of examples in alpha' tau^f rho^f", seeds, slopes(x**-0.5, y))]


def _examples_of_ends(runs: Runs) -> list[pd.DataFrame]:
    """Growth of the least number of examples for a single answer, relative to theorem 6, as alpha' and tau_o^f vary."""
    test, seeds = runs.sweep.test, np.array(runs.sweep.seeds)
    points = {repr(p): p for name, values in VARIED_ENDS.values() for p in (test.variation({name: v}) for v in values)}
    settings = [point.end_setting() for point in points.values()]
    errors = decoding.icl_wrong(runs.last(), runs.sweep.configs, test, settings, LENGTHS).mean(axis=-1)
    least = np.stack([least_length(curve, LENGTHS, ENOUGH_ENDS) for curve in errors])
    formula = np.array([theory.end_examples(p.relevant_fraction_test, p.end_probability) for p in points.values()])
    shares = [premises.share_of_starts(setting.matrices) for setting in settings]
    return [
        rows("growth of ICL examples over theorem 6", seeds, growth(formula, least, formula)),
        rows("exponent of ICL examples in alpha' tau_o^f", seeds, slopes(formula**-0.5, least)),
        rows("least share of starts that meet Condition 1", seeds, min(shares)),
    ]


def slopes(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Log-log slope for each seed: (n,) and (n, seeds) -> (seeds,)."""
    return np.array([log_slope(x, of_seed) for of_seed in y.T])


def power_law(x: np.ndarray, y: np.ndarray, at: np.ndarray, slope: float | None = None) -> np.ndarray:
    """Least-squares power law for each seed, with a given slope if any: (n,), (n, seeds) and (m,) -> (m, seeds)."""
    exponent = slopes(x, y) if slope is None else slope
    line: np.ndarray = np.exp(np.log(y).mean(axis=0) + exponent * (np.log(at)[:, None] - np.log(x).mean()))
    return line


EXAMPLES = (
    Style("alpha'", r"$\alpha'$ varies", "r", "o", " "),
    Style("tau^f", r"$\tau^f$ varies", "b", "x", " "),
    Style("rho^f", r"$\rho^f$ varies", "m", "+", " "),
)
EDGES = {"K": (460, 745, 15, 295), "M": (85, 370, 375, 655), "examples": (460, 745, 375, 655)}
LEGENDS: tuple[tuple[plotting.Corner, tuple[float, float]], ...] = (
    ("upper right", (0.98, 0.98)),
    ("lower right", (0.98, 0.02)),
    ("upper left", (0.02, 0.98)),
    ("lower right", (0.98, 0.02)),
)


@plotting.published
def draw(table: Table) -> Picture:
    """Three panels of steps and one of examples, with their fits."""
    figure, first = plotting.canvas((760, 720), (85, 370, 15, 295), panel="alpha")
    axes = [first, *(plotting.add_panel(figure, edges, name) for name, edges in EDGES.items())]
    steps = _ticked(f"Steps to loss {TARGET:g}", (10, 20, 50, 100, 200, 400))
    for panel, (letter, values, sign) in zip(axes, PANELS, strict=False):
        plotting.dots(panel, table, Style("steps", "one seed", "C0"), "steps")
        _lines(panel, table, "steps", f"${sign}^{{%s}}$", f"exponent of steps in {letter}", "theorem 4, fitted factors")
        limits, names = (values[0] / 1.15, values[-1] * 1.15), [f"{value:g}" for value in values]
        plotting.frame(panel, Axis(f"${sign}$", limits, values, names, log=True), steps, font=15, ticks=13)
    plotting.curves(axes[-1], table, EXAMPLES, "examples")
    needed, exponent = r"(\alpha'\tau^f\rho^f)", "exponent of examples in alpha' tau^f rho^f"
    _lines(axes[-1], table, "examples", f"${needed}^{{%s}}$", exponent, f"${needed}^{{-2}}$, theorem 5")
    x = Axis(f"${needed}^{{-2}}$", (4, 60), (5, 10, 20, 50), "5 10 20 50".split(), log=True)
    y = _ticked(f"Examples to error {ENOUGH:g}", (2, 5, 10, 20, 50, 100, 200))
    plotting.frame(axes[-1], x, y, font=15, ticks=13)
    for panel, (corner, at) in zip(axes, LEGENDS, strict=True):
        panel.minorticks_off()
        plotting.legend(panel, 11, corner, at, spacing=0.3)
    return figure


def _ticked(label: str, ticks: tuple[int, ...]) -> Axis:
    return Axis(label, (ticks[0] / 1.25, ticks[-1] * 1.25), ticks, [str(tick) for tick in ticks], log=True)


HALF_SHOWN = 0.005
"""Smaller half-widths would be drawn as 0.00 and are left out."""


def _lines(axes: Axes, table: Table, observable: str, label: str, exponent: str, theorem: str) -> None:
    """Draw the fit, labelled by its exponent and its interval if that is not too small, and the theorem's line."""
    fitted, low, high = mean_interval(np.array(list(table.fact(exponent).values())))
    half = (high - low) / 2
    text = label % (f"{fitted:.2f}" + (f" \\pm {half:.2f}" if half >= HALF_SHOWN else ""))
    for series, look in (("fit", {"color": "C0", "linewidth": 1.5}), ("theorem", plotting.GUIDE)):
        line = table.curve(plotting.panel_of(axes), series, observable)
        axes.plot(line["x"], line["value"], **look, label=text if series == "fit" else theorem, gid=series)


FIGURES = (Figure("cot_rates", sweeps, measure, draw),)
