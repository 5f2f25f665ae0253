"""Chain of thought: training steps against alpha, K and M (theorem 4) and examples needed in a prompt (theorem 5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from icl.core.config import grid
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import SUMMARY_SEED, join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.evidence.intervals import kendall, least_length, log_slope
from icl.papers.li2025 import error_curves as shared
from icl.papers.li2025 import one_layer, theory, trainings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FRACTIONS = (0.2, 0.3, 0.4, 0.6, 0.8, 1.0)
CHAINS = (2, 3, 4, 6, 8, 12)
LONG_CHAINS = CHAINS[3:]
PATTERNS = (10, 15, 20, 30, 40)
LENGTH = 20  # every alpha is a whole number of these examples
STEPS = {"paper": 400, "laptop": 400, "smoke": 20}
WINDOW = 10
TARGET = 0.05

ENOUGH = 0.05
QUERIES = {"paper": 1000, "laptop": 300, "smoke": 10}
LENGTHS = tuple(sorted({round(n) for n in np.geomspace(4, 240, 45)}))
# One of alpha', tau^f and rho^f varies, and the other two are what they are in the other figures.
VARIED = {
    "alpha'": ("relevant_fraction_test", (0.4, 0.6, 0.8, 1.0)),
    "tau^f": ("path_probability", (0.4, 0.5, 0.6)),
    "rho^f": ("primacy", (0.5, 0.6, 0.7, 0.8)),
}

SOURCE = "Li et al. 2025, theorem "


class Test(trainings.Varied):
    """Refused unless prompts exist for every setting of the last panel."""

    VARIATIONS = tuple({name: value} for name, values in VARIED.values() for value in values)


def sweeps(scale: str) -> list[Sweep]:
    """One training over alpha, one per K and one per M, whose values fix shapes; and the one that errors share."""
    seeds, steps, test = range(trainings.SEEDS[scale]), (STEPS[scale],), one_layer.Test()
    length = [LENGTH]
    configs = {"li_cot_alpha": grid(one_layer.Config, context_length=length, relevant_fraction=FRACTIONS, seed=seeds)}
    for letter, name, values in (("k", "chain_length", CHAINS), ("m", "relevant_patterns", PATTERNS)):
        for value in values:
            configs[f"li_cot_{letter}{value}"] = grid(shared.pinned(**{name: value}), context_length=length, seed=seeds)
    training = [Sweep(name, "li_cot", own, steps, test) for name, own in configs.items()]
    return [*training, trainings.trained(scale, Test, context_length_test=LENGTHS[-1], queries=QUERIES[scale])]


class Panel(NamedTuple):
    """Steps against one constant: its letter in the table, its values, and the sign for it."""

    letter: str
    values: tuple[float, ...]
    sign: str


PANELS = (Panel("alpha", FRACTIONS, r"\alpha"), Panel("K", CHAINS, "K"), Panel("M", PATTERNS, "M"))


def steps_to(runs: Runs) -> np.ndarray:
    """The first step at which the mean loss of the last WINDOW batches is below TARGET: (runs,).

    The loss is that of patterns of norm one, |F - z|^2 / 2 over beta^2. NaN for a run that does not get there.
    """
    losses = runs.losses / np.array([[config.pattern_norm**2] for config in runs.sweep.configs])
    means = np.lib.stride_tricks.sliding_window_view(losses, WINDOW, axis=-1).mean(axis=-1)
    below = means < TARGET
    return np.where(below.any(axis=-1), below.argmax(axis=-1) + WINDOW, np.nan)


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Steps per constant and seed, examples per setting and seed, and the fits to both."""
    return join([*_training(runs), *_examples(runs["li_cot"])])


def _training(runs: Mapping[str, Runs]) -> list[pd.DataFrame]:
    over = {
        "alpha": [runs["li_cot_alpha"]],
        "K": [runs[f"li_cot_k{value}"] for value in CHAINS],
        "M": [runs[f"li_cot_m{value}"] for value in PATTERNS],
    }
    seeds = sorted(set(runs["li_cot_alpha"].sweep.seeds))
    steps = {
        letter: np.concatenate([steps_to(own) for own in found]).reshape(-1, len(seeds))
        for letter, found in over.items()
    }
    formula = {
        letter: np.array([_formula(own, run) for own in found for run in range(0, len(own.losses), len(seeds))])
        for letter, found in over.items()
    }
    # One factor for all panels, in the geometric mean; each seed has its own.
    logs = [np.log(steps[letter] / formula[letter][:, None]) for letter in steps]
    factor = np.exp(np.concatenate(logs).mean(axis=0))
    parts = []
    for letter, values, _ in PANELS:
        x, found = np.array(values, dtype=float), steps[letter]
        curves = {"steps": found, "fit": power_law(x, found, x), "theorem": formula[letter][:, None] * factor}
        parts += [
            rows("steps", np.array(seeds), own, x=x[:, None], panel=letter, series=series)
            for series, own in curves.items()
        ]
        taus = [kendall(x, own) if np.isfinite(own).all() else np.nan for own in found.T]
        parts.append(rows(f"Kendall's tau of steps and {letter}", seeds, taus))
        parts.append(rows(f"exponent of steps in {letter}", seeds, slopes(x, found)))
    long = np.array(CHAINS) >= LONG_CHAINS[0]
    parts.append(rows("exponent of steps in K from 6 on", seeds, slopes(np.array(LONG_CHAINS), steps["K"][long])))
    return parts


def _formula(runs: Runs, run: int) -> float:
    c = runs.sweep.configs[run]
    return theory.chain_training_time(c.relevant_fraction, c.chain_length, c.relevant_patterns, TARGET)


def _examples(runs: Runs) -> list[pd.DataFrame]:
    test, seeds = runs.sweep.test, np.array(runs.sweep.seeds)
    points = [(series, test.variation({name: value})) for series, (name, values) in VARIED.items() for value in values]
    settings = [own.setting() for _, own in points]
    errors = one_layer.cot_wrong(runs.last(), runs.sweep.configs, test, settings, LENGTHS).mean(axis=-1)
    least = np.stack([least_length(own, LENGTHS, ENOUGH) for own in errors])
    wanted = np.array(
        [theory.chain_examples(own.relevant_fraction_test, own.path_probability, own.primacy) for _, own in points]
    )
    # Every series has the point where none of them is changed: it counts once.
    once = np.sort(np.unique([repr(own) for _, own in points], return_index=True)[1])
    x, y = wanted[once], least[once]
    ends = np.array([x.min(), x.max()])
    lines = {"fit": power_law(x, y, ends), "theorem": power_law(x, y, ends, slope=1.0)}
    parts = [
        rows("examples", seeds, own, x=ends[:, None], panel="examples", series=series) for series, own in lines.items()
    ]
    for (series, _), place, own in zip(points, wanted, least, strict=True):
        parts.append(rows("examples", seeds, own, x=place, panel="examples", series=series))
    for series, (_, values) in VARIED.items():
        own = least[[name == series for name, _ in points]]
        parts.append(rows(f"exponent of examples in {series}", seeds, slopes(np.array(values), own)))
    return [*parts, rows("exponent of examples in alpha' tau^f rho^f", seeds, slopes(x**-0.5, y))]


def slopes(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Log-log slope of every seed: (n,) and (n, seeds) -> (seeds,)."""
    return np.array([log_slope(x, own) for own in y.T])


def power_law(x: np.ndarray, y: np.ndarray, at: np.ndarray, slope: float | None = None) -> np.ndarray:
    """The least-squares power law of every seed, or that of a given slope: (n,), (n, seeds) and (m,) -> (m, seeds)."""
    own = slopes(x, y) if slope is None else slope
    line: np.ndarray = np.exp(np.log(y).mean(axis=0) + own * (np.log(at)[:, None] - np.log(x).mean()))
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
def draw(table: pd.DataFrame) -> Figure:
    """Three panels of steps with their fits, and one of examples."""
    figure, first = plotting.canvas((760, 720), (85, 370, 15, 295), panel="alpha")
    axes = [first, *(plotting.add_panel(figure, edges, name) for name, edges in EDGES.items())]
    steps = _ticked(f"Steps to loss {TARGET:g}", (10, 20, 50, 100, 200, 400))
    for panel, (letter, values, sign) in zip(axes, PANELS, strict=False):
        dots = table[(table["panel"] == letter) & (table["series"] == "steps") & (table["statistic"] == "run")]
        panel.plot(dots["x"], dots["value"], "o", color="C0", markersize=5, label="one seed", gid="steps")
        _lines(panel, table, "steps", f"${sign}^{{%s}}$", f"exponent of steps in {letter}", "theorem 4, scaled")
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


def _lines(axes: Axes, table: pd.DataFrame, observable: str, label: str, exponent: str, theorem: str) -> None:
    """The fit, named by its exponent with its interval, and the theorem's line."""
    found = table[(table["observable"] == exponent) & (table["seed"] == SUMMARY_SEED)].iloc[0]
    half = (found["high"] - found["low"]) / 2
    named = label % f"{found['value']:.3f} \\pm {half:.3f}"
    for series, look in (("fit", {"color": "C0", "linewidth": 1.5}), ("theorem", plotting.GUIDE)):
        line = plotting.summary(table, str(axes.get_label()), series, observable)
        axes.plot(line["x"], line["value"], **look, label=named if series == "fit" else theorem, gid=series)
