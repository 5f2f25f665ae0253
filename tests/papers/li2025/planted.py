"""Violations of Li et al. 2025: in a short training, in weights and losses made by hand."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import torch

from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.training import train
from icl.papers.li2025 import attention_figures, cot_rates, error_figures, one_layer, prompts
from icl.papers.li2025.transition_matrices import condition_1, with_exact_steps
from icl.pipeline import figures
from tests.papers.violations import changed
from tests.planted import UNTRAINED, Planted, Trained, each

SEEDS = 6
QUERIES = 60
BATCH = 60
SNAPSHOTS = tuple(range(0, 401, 50))
Law = Callable[..., float]


def small(sweep: Sweep, **changes: Any) -> Sweep:
    configs = tuple(replace(config, **changes) for config in sweep.configs if config.seed < SEEDS)
    return replace(sweep, configs=configs, test=replace(sweep.test, queries=QUERIES))


@cache
def shared() -> Runs:
    (sweep,) = figures.sweeps("figure20", "laptop", {}).values()
    return train(replace(small(sweep, batch=BATCH), snapshots=SNAPSHOTS))


def on_shared(sweep: Sweep) -> Runs:
    return replace(shared(), sweep=replace(shared().sweep, test=small(sweep).test))


def of_theorem_4(config: one_layer.Config) -> tuple[float, int, int]:
    return config.relevant_fraction, config.chain_length, config.relevant_patterns


def theorem_4(alpha: float, k: int, m: int) -> float:
    return float(np.dot(cot_rates.FACTORS, cot_rates.training_terms(alpha, k, m, cot_rates.TARGET)))


def by_law(sweep: Sweep, law: Law = theorem_4) -> Runs:
    """Losses that drop to zero at the time given by a law, with small delays between seeds, and
    no weights.
    """
    few = small(sweep)
    times = [law(*of_theorem_4(config)) + config.seed % 3 for config in few.configs]
    # At K = 12, theorem 4 with its factors exceeds the steps of the figure.
    losses = np.where(np.arange(2000) < np.array(times)[:, None], 100.0, 0.0)
    return Runs(few, {"W_Q": torch.zeros(len(times), len(few.snapshots))}, losses)


def by_power(sweep: Sweep, exponent: float) -> Runs:
    """Losses that reach eps at a time like eps^-exponent, and the target at theorem 4's time."""
    runs = by_law(sweep)
    times = (runs.losses > 0).sum(axis=1, keepdims=True)
    norms = np.array([[config.pattern_norm**2] for config in runs.sweep.configs])
    decay = (times / np.arange(1, 2001)) ** (1 / exponent)
    return replace(runs, losses=norms * cot_rates.TARGET * decay)


def made_by_hand(sweep: Sweep) -> Runs:
    """The final weights of the three layers attend to the query's pattern and step; W_V = 0."""
    few = replace(small(sweep), snapshots=(0, 1))
    start = one_layer.init(few.configs)
    same = 3 * torch.eye(few.configs[0].dimension, dtype=torch.float64)
    end = {n: torch.zeros_like(w) if n == "W_V" else same.expand_as(w) for n, w in start.items()}
    weights = {name: torch.stack([w, end[name]], dim=1) for name, w in start.items()}
    return Runs(few, weights, np.zeros((SEEDS, 1)))


def sound(figure: str) -> Trained:
    make = {"li_cot": on_shared, "li_cot_three_layer": made_by_hand}
    sweeps = figures.sweeps(figure, "laptop", {})
    return {name: make.get(name, by_law)(sweep) for name, sweep in sweeps.items()}


# Violations


def steps_of(what: str, make: Callable[[Sweep], Runs]) -> Planted:
    """The trainings but the shared one have other losses."""
    return Planted(
        what, lambda runs: {n: r if n == "li_cot" else make(r.sweep) for n, r in runs.items()}
    )


def steps_by(what: str, law: Law) -> Planted:
    return steps_of(what, lambda sweep: by_law(sweep, law))


def slower(what: str, law: Law) -> Planted:
    """Training steps that are theorem 4's times a factor."""
    return steps_by(what, lambda *constants: theorem_4(*constants) * law(*constants))


def patched(what: str, target: Any, name: str, change: Callable[..., Any]) -> Planted:
    """`change` gets the patched function and its arguments."""
    return Planted(
        what, patches=((target, name, lambda original: lambda *given: change(original, *given)),)
    )


def prompts_from(what: str, matrices: np.ndarray, where_condition_1: bool | None = None) -> Planted:
    """Examples from other matrices than those whose Condition 1 is measured, everywhere or only
    where it is so.
    """

    def assemble(
        original: Any, drawn: Any, setting: prompts.Setting, which: slice = slice(None)
    ) -> Any:
        changes = where_condition_1 in (None, condition_1(setting.matrices).all())
        return original(drawn, replace(setting, matrices=matrices) if changes else setting, which)

    return patched(what, prompts, "assemble", assemble)


DEFAULTS = one_layer.Evaluation()
REVERSED = patched(
    "the errors are reversed",
    error_figures,
    "order_of_errors",
    lambda order, values, wrong: order(values, wrong[::-1]),
)
HOLDS = prompts_from("Condition 1 holds", DEFAULTS.end_setting().matrices, where_condition_1=False)
BREAKS = prompts_from(
    "Condition 1 fails", DEFAULTS.misleading_setting().matrices, where_condition_1=True
)
# From 2 the right chain ends at 1, but the likeliest end is 2.
MISLED = with_exact_steps(np.array([[[0.6, 0.4], [0.4, 0.6]], [[0.0, 1.0], [0.6, 0.4]]]), 3)
SWAPPED = patched(
    "pattern and step are swapped",
    attention_figures,
    "attention",
    lambda attend, *of: attend(*of)[..., [0, 2, 1, 3]],
)
SQUARED = patched(
    "the examples grow too fast",
    cot_rates,
    "growth",
    lambda growth, x, y, *names: growth(x, x[:, None] * y, *names),
)
MORE = patched(
    "the numbers of examples are reversed",
    cot_rates,
    "least_length",
    lambda least, *of: 240 - least(*of),
)
NEGATED = Planted("all weights are negated", each(changed(torch.neg)))
EVERYWHERE = patched(
    "the trained weights also act off the span",
    error_figures,
    "off_span",
    lambda off_span, runs: runs,
)
NO_ERRORS = prompts_from("the examples make no errors", np.stack([np.eye(2)] * 3))
FROM_THE_START = Planted(
    "the weights are final from the start", each(changed(lambda w: w[:, -1:].expand_as(w)))
)
STOPPED = Planted(
    "the training stops early",
    each(changed(lambda w: torch.cat([w[:, :1], w[:, 1:2].expand_as(w[:, 1:])], dim=1))),
)

PLANTED: Mapping[str, Mapping[str, Planted]] = {
    "B-F17": {"Kendall's tau of error and alpha'": REVERSED},
    "B-T5-rho": {"Kendall's tau of CoT error and rho^f": REVERSED},
    "B-T6-alpha": {"Kendall's tau of ICL error and alpha'": REVERSED},
    "B-T6-rho": {"Kendall's tau of ICL error and rho_o^f": REVERSED},
    "B-T6-tau": {"Kendall's tau of ICL error and tau_o^f": REVERSED},
    "B-F18": {"error with 100 examples": UNTRAINED},
    "B-T5": {"error with 100 examples": UNTRAINED},
    "B-T5-order": {
        f"Kendall's tau of error and {factor}": REVERSED for factor in ("tau^f", "alpha'", "rho^f")
    },
    "B-T5-span": {
        "error off the span, alpha' = 0.1": EVERYWHERE,
        "error in the span, alpha' = 0.1": UNTRAINED,
    },
    "B-EX-model": {
        "ICL error from start 1 with 100 examples": NO_ERRORS,
        "ICL error from start 2 with 100 examples": prompts_from(
            "the examples also mislead from start 2", MISLED
        ),
        "CoT error from start 1 with 100 examples": UNTRAINED,
        "CoT error from start 2 with 100 examples": NEGATED,
    },
    "B-T6a": {
        f"{what} ICL error without Condition 1": HOLDS for what in ("least", "largest fall of")
    },
    "B-T6b": {
        "ICL error with Condition 1 and 100 examples": BREAKS,
        "Kendall's tau of ICL error with Condition 1 and examples": BREAKS,
    },
    "B-F19": {"CoT error over ICL error without Condition 1": UNTRAINED},
    "B-M": {
        "same TSR and step at the end": UNTRAINED,
        "off-step weight before same TSR and step passes 0.6": SWAPPED,
        "rise of the other TSR on the step": FROM_THE_START,
        "fall of the other TSR on the step": STOPPED,
    },
    "B-M-lead": {"least share of queries whose right pattern leads, over steps": UNTRAINED},
    "B-T4": {
        "Kendall's tau of steps and alpha": steps_by(
            "rare examples help", lambda alpha, k, m: 300 * alpha**0.5
        ),
        "Kendall's tau of steps and K": steps_by(
            "longer chains are learnt faster", lambda alpha, k, m: 300 / k
        ),
        "Kendall's tau of steps and M": steps_by(
            "more patterns are learnt faster", lambda alpha, k, m: 2000 / m
        ),
    },
    # The window of ten batches lowers the slopes of short times by 0.05 to 0.15.
    "B-T4-bound": {
        "growth of steps over theorem 4 in 1/alpha": slower(
            "steps grow faster by alpha^-0.2", lambda alpha, k, m: alpha**-0.2
        ),
        "growth of steps over theorem 4 in K": slower(
            "steps grow faster by K^0.3", lambda alpha, k, m: (k / 3) ** 0.3
        ),
        "growth of steps over theorem 4 in M": slower(
            "steps grow faster by M^0.4", lambda alpha, k, m: (m / 20) ** 0.4
        ),
        "growth of steps over theorem 4 in 1/eps": steps_of(
            "steps grow as eps^-1.2", lambda sweep: by_power(sweep, 1.2)
        ),
        "largest steps over theorem 4": slower(
            "all steps are 1.4 times as many", lambda alpha, k, m: 1.4
        ),
    },
    "B-T5b": {"growth of examples over theorem 5": SQUARED},
    "B-T5-zero": {"no wrong step with 240 examples": NEGATED},
    "B-T5-fewer": {
        f"Kendall's tau of examples and {factor}": MORE for factor in ("alpha'", "tau^f")
    },
    "B-T6-rate": {"growth of ICL examples over theorem 6": SQUARED},
    "B-M3": {
        f"{name}, layer {layer}": UNTRAINED
        for layer in (1, 2, 3)
        for name in ("same TSR, same step at the end", "fall off the step")
    },
    "B-M3-pattern": {
        f"rise of the TSR's share of the step, layer {layer}": UNTRAINED for layer in (1, 2, 3)
    },
}
VOTES = (
    "untrained attention is nearly uniform, and a majority vote over all examples has the same "
    "order"
)
UNTRAINED_HOLD = {
    "B-T4": "it is about losses during training",
    "B-T4-bound": "it is about losses during training",
    "B-T6-alpha": VOTES,
    "B-T6-rho": VOTES,
    "B-T6-tau": VOTES,
    "B-T6a": "where Condition 1 fails, a majority vote over all examples is wrong too",
}
