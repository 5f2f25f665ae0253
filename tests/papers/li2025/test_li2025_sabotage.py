"""Every bound of the chain-of-thought claims can fail: with a sabotage of the runs or the test it is contradicted.

The runs are one real training with six seeds, shorter and with smaller batches than that of the figures. Without the
sabotage (the control) the same bound is not contradicted.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch

from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.training import train
from icl.papers.li2025 import attention_groups, error_curves, off_span, one_layer, prompts
from icl.papers.li2025.transition_matrices import condition_1
from icl.pipeline import figures
from tests import sabotaged
from tests.sabotaged import Patch, same, untouched

# Every claim is judged on trainings with and without its sabotage.
pytestmark = pytest.mark.slow

FIGURES = ("figure17", "figure18", "figure19", "figure20", "cot_worked_example")
FIGURE_OF = sabotaged.figures_of_claims(FIGURES)
SEEDS, QUERIES, BATCH = 6, 40, 60


def small(sweep: Sweep) -> Sweep:
    configs = tuple(dataclasses.replace(config, batch=BATCH) for config in sweep.configs if config.seed < SEEDS)
    test = dataclasses.replace(sweep.test, queries=QUERIES)
    return dataclasses.replace(sweep, configs=configs, test=test, snapshots=tuple(range(0, 401, 50)))


@cache
def trained() -> Runs:
    return train(small(figures.sweeps("figure20", "laptop", {})["li_cot"]))


# Sabotaged runs


def untrained(runs: Runs) -> Runs:
    """The weights stay at their initial values."""
    return changed(runs, lambda w: w[:, :1].expand_as(w))


def at_once(runs: Runs) -> Runs:
    """All snapshots have the final weights."""
    return changed(runs, lambda w: w[:, -1:].expand_as(w))


def stopped(runs: Runs) -> Runs:
    """The weights stay constant after the second snapshot."""
    return changed(runs, lambda w: torch.cat([w[:, :1], w[:, 1:2].expand_as(w[:, 1:])], dim=1))


def opposite(runs: Runs) -> Runs:
    """All matrices are negated: attention is unchanged, and of two patterns the other one is the answer."""
    return changed(runs, lambda w: -w)


def changed(runs: Runs, change: Callable[[torch.Tensor], torch.Tensor]) -> Runs:
    return dataclasses.replace(runs, weights={name: change(w).clone() for name, w in runs.weights.items()})


# Sabotaged tests


def errors_reversed(patch: pytest.MonkeyPatch) -> None:
    """The errors in reverse order of the constant."""
    order = error_curves.order_of_errors
    patch.setattr(error_curves, "order_of_errors", lambda values, wrong: order(values, wrong[::-1]))


def pattern_first(patch: pytest.MonkeyPatch) -> None:
    """Swap the groups "same pattern, other step" and "other pattern, same step"."""
    attention = attention_groups.attention
    patch.setattr(attention_groups, "attention", lambda *arguments: attention(*arguments)[..., [0, 2, 1, 3]])


def prompts_from(matrices: np.ndarray, where_condition_1: bool | None = None) -> Patch:
    """The examples follow other matrices than those whose Condition 1 is measured.

    where_condition_1 : only where Condition 1 holds (True) or fails (False); None: everywhere
    """
    assemble = prompts.assemble

    def sabotaged_prompts(drawn: prompts.Draw, setting: prompts.Setting, which: slice) -> prompts.Prompts:
        if where_condition_1 is None or condition_1(setting.matrices).all() == where_condition_1:
            setting = dataclasses.replace(setting, matrices=matrices)
        return assemble(drawn, setting, which)

    return lambda patch: patch.setattr(prompts, "assemble", sabotaged_prompts)


def trained_everywhere(patch: pytest.MonkeyPatch) -> None:
    """Off the span the weights are those in the span."""
    patch.setattr(off_span, "off_span", lambda params, configs: params)


# Every step leads from 1 to 1, and so does B.
condition_met = prompts_from(np.stack([np.eye(2)] * 3))
# From 2 the right chain ends at 1, but the likeliest end is 2.
second_start_misled = prompts_from(np.stack([[[0.6, 0.4], [0.4, 0.6]], [[0.0, 1.0], [0.6, 0.4]], np.eye(2)]))


@dataclass(frozen=True)
class Sabotage:
    runs: Callable[[Runs], Runs] = same
    test: Patch = untouched


UNTRAINED, REVERSED = Sabotage(untrained), Sabotage(test=errors_reversed)
HOLDS = Sabotage(test=prompts_from(one_layer.Test().end_setting().matrices, where_condition_1=False))
BREAKS = Sabotage(test=prompts_from(one_layer.Test().misleading_setting().matrices, where_condition_1=True))

SABOTAGES: Mapping[str, Mapping[str, Sabotage]] = {
    "B-F17": {"Kendall's tau of error and alpha'": REVERSED},
    "B-T5": {"error with 100 examples": UNTRAINED},
    "B-T5-order": {
        "Kendall's tau of error and tau^f": REVERSED,
        "Kendall's tau of error and alpha'": REVERSED,
        "Kendall's tau of error and rho^f": REVERSED,
    },
    "B-T5-span": {
        "error off the span, alpha' = 0.1": Sabotage(test=trained_everywhere),
        "error in the span, alpha' = 0.1": UNTRAINED,
    },
    "B-EX-model": {
        "ICL error from start 1 with 100 examples": Sabotage(test=condition_met),
        "ICL error from start 2 with 100 examples": Sabotage(test=second_start_misled),
        "CoT error from start 1 with 100 examples": UNTRAINED,
        "CoT error from start 2 with 100 examples": Sabotage(opposite),
    },
    "B-T6a": {
        "least ICL error without Condition 1": HOLDS,
        "largest fall of ICL error without Condition 1": HOLDS,
    },
    "B-T6b": {
        "ICL error with Condition 1 and 100 examples": BREAKS,
        "Kendall's tau of ICL error with Condition 1 and examples": BREAKS,
    },
    "B-F19": {"CoT error over ICL error without Condition 1": UNTRAINED},
    "B-M": {
        "same TSR and step at the end": UNTRAINED,
        "off-step weight before same TSR and step passes 0.6": Sabotage(test=pattern_first),
        "rise of the other TSR on the step": Sabotage(at_once),
        "fall of the other TSR on the step": Sabotage(stopped),
    },
    "B-M-lead": {"least share of queries whose right pattern leads, over steps": UNTRAINED},
}


@cache
def measured(name: str, change: Callable[[Runs], Runs], test: Patch) -> pd.DataFrame:
    runs = change(dataclasses.replace(trained(), sweep=small(figures.sweeps(name, "laptop", {})["li_cot"])))
    with pytest.MonkeyPatch.context() as patch:
        test(patch)
        return figures.measure(name, {"li_cot": runs}, "laptop")


def part_of(claim: str, observable: str, sabotage: Sabotage) -> sabotaged.Outcome:
    name = FIGURE_OF[claim]
    return sabotaged.judged(name, measured(name, sabotage.runs, sabotage.test), claim, observable)


@pytest.mark.parametrize(("claim", "observable"), sabotaged.cases(SABOTAGES))
def test_a_sabotage_is_contradicted_and_its_control_is_not(claim: str, observable: str) -> None:
    sabotage = part_of(claim, observable, SABOTAGES[claim][observable])
    control = part_of(claim, observable, Sabotage())
    sabotaged.assert_only_the_spoilt_is_contradicted(sabotage, control)


def test_every_bound_has_a_sabotage() -> None:
    bounds = sabotaged.bounds_of_claims(FIGURES)
    assert {claim: set(parts) for claim, parts in SABOTAGES.items()} == bounds
