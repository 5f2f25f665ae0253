"""Chain of thought: training steps against alpha, K and M (theorem 4), and examples per prompt
(theorems 5 and 6).

The theorems' Theta(.) and Omega(.) have constants of one here, if none are fitted (Li et al. 2025,
arXiv 2410.02167).
"""

from typing import Any, NamedTuple

import numpy as np

from icl.drawing import own_style, plotting
from icl.evidence.intervals import first_step_below, kendall, least_length, log_slope
from icl.evidence.significance import mean_interval
from icl.figure import (
    Axes,
    Figure,
    Picture,
    Rows,
    Runs,
    Style,
    Sweep,
    Table,
    Trained,
    curves,
    facts,
    grid,
    join,
)
from icl.papers.li2025 import one_layer, trainings
from icl.papers.li2025.decoding import chain_of_thought, single_answer, wrong_answers
from icl.papers.li2025.transition_matrices import condition_1


def training_terms(alpha: float, k: int, m: int, eps: float) -> tuple[float, float]:
    """Theorem 4: the terms alpha^-2 K^3 and M K (1/alpha + 1/eps) of the number T of SGD
    iterations to a loss eps.
    """
    return alpha**-2 * k**3, m * k * (1 / alpha + 1 / eps)


def chain_examples(alpha: float, tau: float, rho: float) -> float:
    """Theorem 5: l_ts = Omega((alpha' tau^f rho^f)^-2) examples are sufficient for correct
    chains of thought.
    """
    return (alpha * tau * rho) ** -2


def end_examples(alpha: float, tau: float) -> float:
    """Theorem 6: l_ts = Omega((alpha' tau_o^f)^-2) examples are sufficient for a right answer
    under Condition 1.
    """
    return (alpha * tau) ** -2


def fitted_factors(terms: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Least-squares fit in log T of the factors c >= 0 of T = c_1 term_1 + c_2 term_2: (n, 2) and
    (n,) -> (2,).

    NaN if a time is not finite.
    """
    from scipy.optimize import least_squares

    if not np.isfinite(times).all():
        return np.full(2, np.nan)
    # Start from half of the factor with which each term alone fits on average.
    start = np.log(np.exp(np.mean(np.log(times)[:, None] - np.log(terms), axis=0)) / 2)
    return np.exp(least_squares(lambda log: np.log(terms @ np.exp(log)) - np.log(times), start).x)


def slopes(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Log-log slope for each seed: (n,) and (n, seeds) -> (seeds,)."""
    return np.array([log_slope(x, of_seed) for of_seed in y.T])


def power_law(
    x: np.ndarray, y: np.ndarray, at: np.ndarray, slope: float | None = None
) -> np.ndarray:
    """Least-squares power law for each seed, with a given slope if any: (n,), (n, seeds) and
    (m,) -> (m, seeds).
    """
    exponent = slopes(x, y) if slope is None else slope
    return np.exp(np.log(y).mean(axis=0) + exponent * (np.log(at)[:, None] - np.log(x).mean()))


# Training steps


class Panel(NamedTuple):
    """Steps against one constant; K and M set tensor shapes and so have a sweep per value."""

    letter: str
    constant: str
    values: tuple[float, ...]
    symbol: str
    sweeps: list[str]


ALPHAS, KS, MS = (0.2, 0.3, 0.4, 0.6, 0.8, 1.0), (2, 3, 4, 6, 8, 12), (10, 15, 20, 30, 40)
PANELS = (
    Panel("alpha", "relevant_fraction", ALPHAS, r"\alpha", ["li_cot_alpha"]),
    Panel("K", "chain_length", KS, "K", [f"li_cot_k{k}" for k in KS]),
    Panel("M", "relevant_patterns", MS, "M", [f"li_cot_m{m}" for m in MS]),
)
LENGTH = 20  # a whole number of relevant examples for every alpha
STEPS = {"paper": 400, "laptop": 400, "smoke": 20}
WINDOW = 10
TARGET = 0.1  # a batch of 120 prompts is more than eps^-2
TARGETS = (0.4, 0.3, 0.2, 0.15, TARGET)
FACTORS = (0.0222, 0.0863)
"""Factors of theorem 4's two terms: means over seeds 0 to 9, fitted by `snakemake cot_rates
--config first_seed=0`.
"""


def sweeps(scale: str) -> list[Sweep]:
    """Sweeps over alpha, K and M, and the shared training for the errors."""
    fixed = {"context_length": [LENGTH], "seed": range(trainings.SEEDS[scale])}
    configs = {"li_cot_alpha": grid(one_layer.Config, relevant_fraction=ALPHAS, **fixed)}
    for panel in PANELS[1:]:
        for name, value in zip(panel.sweeps, panel.values, strict=True):
            configs[name] = grid(trainings.pinned(**{panel.constant: value}), **fixed)
    training = [
        Sweep(n, one_layer.MODEL, c, (STEPS[scale],), one_layer.Evaluation())
        for n, c in configs.items()
    ]
    test = trainings.varied_test(**dict([*VARIED.values(), *VARIED_ENDS.values()]))
    size = {"context_length_test": LENGTHS[-1], "queries": QUERIES[scale]}
    return [*training, *trainings.shared_training(scale, test, **size)]


def measure(runs: Trained, scale: str) -> Rows:
    """Return steps per constant and seed, examples per setting and seed, and their fits."""
    shared = runs["li_cot"]
    steps, of_training = training(runs)
    needed, of_examples = examples(shared)
    found = of_training | of_examples | facts_of_ends(shared) | trainings.conditions(shared)
    return join([*steps, *needed, facts(shared.sweep.seeds, found)])


def steps_to_target(runs: Runs, target: float = TARGET) -> np.ndarray:
    """First step with a mean |F - z|^2 / (2 beta^2) of the last WINDOW batches below the target,
    NaN if none: (runs,).
    """
    losses = runs.losses / np.array([[config.pattern_norm**2] for config in runs.sweep.configs])
    return first_step_below(losses, target, WINDOW)


ORDERS = {
    "alpha": "Kendall's tau of steps and alpha",
    "K": "Kendall's tau of steps and K",
    "M": "Kendall's tau of steps and M",
}
# Log-log slopes of steps over formula in the constant, or in 1/alpha, that lengthens training.
GROWTHS = {
    "alpha": (-1, "growth of steps over theorem 4 in 1/alpha"),
    "K": (1, "growth of steps over theorem 4 in K"),
    "M": (1, "growth of steps over theorem 4 in M"),
}


def training(runs: Trained) -> tuple[list[Rows], dict[str, Any]]:
    """Return steps against each constant with fits, their order and exponents, and the
    conditions of theorem 4.
    """
    first, seeds = runs["li_cot_alpha"].sweep, runs["li_cot"].sweep.seeds
    terms, steps, parts = [], [], []
    found: dict[str, Any] = {}
    for letter, _, values, _, names in PANELS:
        trained, x = [runs[name] for name in names], np.array(values, dtype=float)
        y = np.concatenate([steps_to_target(part) for part in trained]).reshape(-1, len(seeds))
        configs = [config for part in trained for config in part.sweep.configs[:: len(seeds)]]
        constants = [(c.relevant_fraction, c.chain_length, c.relevant_patterns) for c in configs]
        points = np.array([training_terms(*of_point, TARGET) for of_point in constants])
        parts.append(
            curves("steps", letter, seeds, x[:, None], {"steps": y, "fit": power_law(x, y, x)})
        )
        parts.append(curves("steps", letter, None, x, {"theorem": points @ FACTORS}))
        sign, name = GROWTHS[letter]
        found[name] = sign * slopes(x, y / (points @ FACTORS)[:, None])
        found[ORDERS[letter]] = [kendall(x, of_seed) for of_seed in y.T]
        found[f"exponent of steps in {letter}"] = slopes(x, y)
        if letter == "K":
            found["exponent of steps in K from 6 on"] = slopes(x[x >= 6], y[x >= 6])
        terms.append(points)
        steps.append(y)
    all_terms, all_steps = np.concatenate(terms), np.concatenate(steps)
    factors = np.array([fitted_factors(all_terms, of_seed) for of_seed in all_steps.T])
    return parts, found | {
        "growth of steps over theorem 4 in 1/eps": growth_with_accuracy(runs["li_cot_alpha"]),
        "largest steps over theorem 4": (all_steps / (all_terms @ FACTORS)[:, None]).max(axis=0),
        "fitted factor of alpha^-2 K^3": factors[:, 0],
        "fitted factor of M K (1/alpha + 1/eps)": factors[:, 1],
        "batch times eps^2": first.configs[0].batch * TARGET**2,
        "least training examples times alpha": min(
            c.context_length * c.relevant_fraction for c in first.configs
        ),
    }


def growth_with_accuracy(runs: Runs) -> np.ndarray:
    """Log-log slope in 1/eps of the steps over theorem 4, at the largest alpha, where eps matters
    most: (seeds,).
    """
    configs = runs.sweep.configs
    chosen = [run for run, config in enumerate(configs) if config.relevant_fraction == ALPHAS[-1]]
    one = configs[chosen[0]]
    formula = [
        np.dot(FACTORS, training_terms(ALPHAS[-1], one.chain_length, one.relevant_patterns, eps))
        for eps in TARGETS
    ]
    steps = np.stack([steps_to_target(runs, eps)[chosen] for eps in TARGETS])
    return slopes(1 / np.array(TARGETS), steps / np.array(formula)[:, None])


# Examples per prompt

# The published error under Condition 1 is below 0.15 with 35 examples; LENGTHS[-1] is more than
# four times as many.
ENOUGH, ENOUGH_ENDS = 0.05, 0.15
QUERIES = {"paper": 1000, "laptop": 300, "smoke": 10}
LENGTHS = tuple(sorted({round(n) for n in np.geomspace(4, 240, 45)}))
# One of alpha', tau^f and rho^f varies; the other two have the values of the other figures.
VARIED = {
    "alpha'": ("relevant_fraction_test", (0.4, 0.6, 0.8, 1.0)),
    "tau^f": ("path_probability", (0.4, 0.5, 0.6)),
    "rho^f": ("primacy", (0.5, 0.6, 0.7, 0.8)),
}
# The talk says that more examples are needed when one of these is small.
FEWER = {
    "alpha'": "Kendall's tau of examples and alpha'",
    "tau^f": "Kendall's tau of examples and tau^f",
}
VARIED_ENDS = {"alpha'": VARIED["alpha'"], "tau_o^f": ("end_probability", (0.4, 0.5, 0.6, 0.7))}


def examples(runs: Runs) -> tuple[list[Rows], dict[str, np.ndarray]]:
    """Return the least number of examples for correct chains as each factor of theorem 5 varies,
    and its fits.
    """
    test, seeds = runs.sweep.test, runs.sweep.seeds
    tests = {
        letter: [test.variation(**{name: v}) for v in values]
        for letter, (name, values) in VARIED.items()
    }
    # The point with the default values is in every series, but counts once.
    points = list(dict.fromkeys(point for of_letter in tests.values() for point in of_letter))
    errors = wrong_answers(
        chain_of_thought, runs, [point.setting() for point in points], LENGTHS
    ).mean(axis=-1)
    y = np.stack([least_length(curve, LENGTHS, ENOUGH) for curve in errors])
    x = np.array(
        [chain_examples(p.relevant_fraction_test, p.path_probability, p.primacy) for p in points]
    )
    found = growth(
        x, y, "growth of examples over theorem 5", "exponent of examples in alpha' tau^f rho^f"
    )
    ends = np.array([x.min(), x.max()])
    lines = {"fit": power_law(x, y, ends), "theorem": power_law(x, y, ends, slope=1.0)}
    parts = [curves("examples", "examples", seeds, ends[:, None], lines)]
    for letter, of_letter in tests.items():
        place = [points.index(point) for point in of_letter]
        parts.append(curves("examples", "examples", seeds, x[place, None], {letter: y[place]}))
        values = np.array(VARIED[letter][1])
        found[f"exponent of examples in {letter}"] = slopes(values, y[place])
        if letter in FEWER:
            found[FEWER[letter]] = np.array([kendall(values, of_run) for of_run in y[place].T])
    found["no wrong step with 240 examples"] = np.where(errors[x.argmin(), -1] == 0, 1.0, 0.0)
    return parts, found


def facts_of_ends(runs: Runs) -> dict[str, Any]:
    """How the least number of examples for a single answer grows as the factors of theorem 6
    vary, and Condition 1.
    """
    varied = [{name: value} for name, values in VARIED_ENDS.values() for value in values]
    points = list(dict.fromkeys(runs.sweep.test.variation(**change) for change in varied))
    settings = [point.end_setting() for point in points]
    errors = wrong_answers(single_answer, runs, settings, LENGTHS).mean(axis=-1)
    y = np.stack([least_length(curve, LENGTHS, ENOUGH_ENDS) for curve in errors])
    x = np.array(
        [end_examples(point.relevant_fraction_test, point.end_probability) for point in points]
    )
    share = min(condition_1(setting.matrices).mean() for setting in settings)
    found = growth(
        x, y, "growth of ICL examples over theorem 6", "exponent of ICL examples in alpha' tau_o^f"
    )
    return found | {"least share of starts that meet Condition 1": share}


def growth(x: np.ndarray, y: np.ndarray, over: str, exponent: str) -> dict[str, np.ndarray]:
    """Log-log slope of the needed examples y over the theorem's x, which is at most 0 for an upper
    bound of this order, and the exponent in its factors: x = factors^-2.

    over, exponent : their observables
    """
    return {over: slopes(x, y / x[:, None]), exponent: slopes(x**-0.5, y)}


# Picture

EXAMPLES = own_style.styles({name: rf"$\{name}$ varies" for name in VARIED}, markers=True)
FIT, THEOREM = (
    Style("fit", "power law", "0.3", line="-"),
    Style("theorem", "theorem", "0.3", line="--"),
)
HALF_SHOWN = 0.005  # smaller half-widths would be drawn as 0.00


@plotting.under_defaults
def draw(table: Table) -> Picture:
    """Three panels of steps and one of examples, with their fits."""
    title = (
        "Training steps (a to c) and examples (d): fitted power law (solid) and theorem (dashed)"
    )
    figure, panels = own_style.panels(
        [panel.letter for panel in PANELS] + ["examples"], 2, title, (360, 240)
    )
    for letter, _, values, symbol, _ in PANELS:
        axes = panels[letter]
        own_style.log_ticks(axes, values, (20, 50, 100, 200, 400))
        own_style.dots(axes, table.points(letter, "steps", "steps"), EXAMPLES[0])
        own_style.axis_labels(axes, f"${symbol}$", f"Steps to loss {TARGET:g}")
        axes.set_ylim(20, 600)
        plotting.edge_arrows(axes)
        _lines(axes, table, "steps", symbol, f"exponent of steps in {letter}")
    axes, needed = panels["examples"], r"(\alpha'\tau^f\rho^f)"
    own_style.log_ticks(axes, (5, 10, 20, 40), (20, 50, 100))
    for style in EXAMPLES:
        own_style.dots(axes, table.points("examples", style.series, "examples"), style)
    own_style.axis_labels(axes, f"${needed}^{{-2}}$", f"Examples to error {ENOUGH:g}")
    _lines(axes, table, "examples", needed, "exponent of examples in alpha' tau^f rho^f")
    own_style.legend(figure, [style._replace(line="") for style in EXAMPLES])
    return figure


def _lines(axes: Axes, table: Table, observable: str, symbol: str, exponent: str) -> None:
    """Draw the fit, named by its exponent with its interval, and the theorem's line."""
    plotting.curves(axes, table, (FIT, THEOREM), observable, linewidth=1.2)
    fitted, low, high = mean_interval(np.array(list(table.fact(exponent).values())))
    half = f" \\pm {(high - low) / 2:.2f}" if (high - low) / 2 >= HALF_SHOWN else ""
    own_style.name_curves(axes, {"fit": f"${symbol}^{{{fitted:.2f}{half}}}$", "theorem": "theorem"})


FIGURES = (Figure("cot_rates", sweeps, measure, draw),)
