"""Planted violations of the claims on Li et al. 2024.

Sound runs are trainings with six seeds: of the one-layer model and the decoder as in the figures,
of the stack for 1,200 steps, with seeds in which every layer finds the query's pattern.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import torch

from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.training import train
from icl.papers.li2024 import (
    evaluation,
    icl_lucky_neurons,
    icl_readout,
    pruning,
    training_curves,
)
from icl.pipeline import figures
from tests.papers.violations import changed
from tests.planted import UNTRAINED, Planted, Trained, each, same, with_weights

SEEDS = {"li_icl_stack": (1003, 1007, 1011, 1012, 1013, 1019)}
PROMPTS = {"figure13": 1000, "figure27": 10, "figure28": 10}
Change = Callable[[Runs], Runs]


def sound(figure: str) -> Trained:
    runs = {}
    for name, sweep in figures.sweeps(figure, "laptop", {}).items():
        trained = _trained(replace(_fewer(sweep), test=type(sweep.test)()))
        test = replace(sweep.test, prompts=PROMPTS.get(figure, 200))
        runs[name] = replace(trained, sweep=replace(trained.sweep, test=test))
    return CONSTRUCTED.get(figure, same)(runs)


def _fewer(sweep: Sweep) -> Sweep:
    """The sweep with six seeds and a snapshot of the start."""
    if sweep.name == "li_icl_stack":
        snapshots = tuple(1200 * s // 1600 for s in sweep.snapshots)
        configs = tuple(replace(sweep.configs[0], seed=seed) for seed in SEEDS[sweep.name])
        return replace(sweep, configs=configs, snapshots=snapshots)
    configs = tuple(config for config in sweep.configs if config.seed % 1000 < 6)
    return replace(sweep, configs=configs, snapshots=tuple(sorted({0, *sweep.snapshots})))


@cache
def _trained(sweep: Sweep) -> Runs:
    return train(sweep)


# Changes of runs


def at(runs: Runs, snapshot: int, **weights: torch.Tensor) -> Runs:
    """The runs with other weights, (runs, ...), at one snapshot."""
    new = {name: runs.weights[name].clone() for name in weights}
    for name, w in weights.items():
        new[name][:, snapshot] = w
    return with_weights(runs, **new)


def rescaled(runs: Runs, scale: torch.Tensor) -> Runs:
    """The final rows of W_O times `scale` > 0, (runs, m), and a divided by it: the same function
    with other norms.
    """
    last = runs.last()
    return at(runs, -1, W_O=last["W_O"] * scale[..., None], a=last["a"] / scale)


def rescaled_by(scale_of: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    return lambda runs: rescaled(runs, scale_of(runs.last()["W_O"].norm(dim=-1)))


def giant_rows(runs: Runs) -> Runs:
    """The largest row of each sign of a_i is a hundred times as large."""
    norms = runs.last()["W_O"].norm(dim=-1)
    positive = runs.last()["a"] > 0
    of_sign = [norms * sign for sign in (positive, ~positive)]
    largest = sum(part == part.amax(dim=1, keepdim=True) for part in of_sign)
    return rescaled(runs, 1 + 99.0 * largest)


def large_rows_without_effect(runs: Runs) -> Runs:
    a = runs.last()["a"]
    idle = torch.arange(a.shape[1]).expand_as(a) < round(0.2 * a.shape[1])
    runs = rescaled(runs, 1 + 99.0 * idle)
    return at(runs, -1, a=torch.where(idle, 1e-9, 1.0) * runs.last()["a"])


def small_rows_along_large(runs: Runs) -> Runs:
    """The small rows keep their norms, but have the direction of a large row and its sign of a."""
    last = runs.last()
    rows = last["W_O"].clone()
    a = last["a"].clone()
    norms = last["W_O"].norm(dim=-1)
    for run, is_large in enumerate(torch.from_numpy(pruning.pruning(runs).large)):
        small = torch.nonzero(~is_large)[:, 0]
        like = torch.nonzero(is_large)[:, 0][: len(small)]
        scale = norms[run, small] / norms[run, like]
        rows[run, small], a[run, small] = rows[run, like] * scale[:, None], a[run, like]
    return at(runs, -1, W_O=rows, a=a)


def off_the_pattern(runs: Runs) -> Runs:
    order = torch.from_numpy(np.random.default_rng(0).permutation(runs.weights["W_Q"].shape[-1]))
    return at(runs, -1, **{name: runs.last()[name][:, order] for name in ("W_Q", "W_K")})


def random_values(runs: Runs) -> Runs:
    last = runs.last()["W_V"]
    drawn = torch.from_numpy(np.random.default_rng(0).standard_normal(last.shape))
    return at(runs, -1, W_V=drawn * last.std())


def forgotten(runs: Runs) -> Runs:
    index = runs.sweep.snapshots.index(training_curves.ATTENTION_EPOCHS[-1])
    return at(runs, index, **{name: w[:, 0] for name, w in runs.weights.items()})


def faster(factor_of: Callable[[Any], int]) -> Change:
    """The losses of trainings that are faster by a factor, given the config of each."""

    def change(runs: Runs) -> Runs:
        factors = [[factor_of(config)] for config in runs.sweep.configs]
        steps = runs.losses.shape[1]
        places = np.minimum(np.array(factors) * np.arange(steps), steps - 1)
        return replace(runs, losses=np.take_along_axis(runs.losses, places, axis=1))

    return change


# Sound runs whose weights are constructed


def small_unlucky_rows(runs: Runs) -> Runs:
    """The neurons that are not lucky at the start have small rows at the end."""
    prompts = evaluation.in_domain(runs.sweep)
    is_lucky = icl_lucky_neurons.lucky(runs.at(0), prompts, icl_lucky_neurons.MOSTLY)
    return rescaled(runs, torch.from_numpy(np.where(is_lucky, 1.0, 0.2)))


CONSTRUCTED: dict[str, Callable[[Trained], Trained]] = {
    # The read-out is two thirds as large, so that margins do not hide what pruning costs.
    "icl_large_neurons": each(changed(lambda a: a / 1.5, "a")),
    "icl_lucky_neurons": each(small_unlucky_rows),
}


# Violations

STARTS_TRAINED = Planted(
    "the initial weights are the trained ones", each(lambda runs: at(runs, 0, **runs.last()))
)
UNIFORM = Planted("attention is uniform", each(changed(torch.zeros_like, "W_K")))
AT_ONCE = Planted(
    "all weights are trained after a twentieth of the steps",
    each(changed(lambda w: torch.cat([w[:, :1], w[:, -1:].expand_as(w[:, 1:])], dim=1))),
)
FORGOTTEN = Planted("the last epoch has the initial weights", each(forgotten))
OFF_PATTERN = Planted("W_Q and W_K of the same norm map off the pattern", each(off_the_pattern))
RANDOM_VALUES = Planted("W_V is random", each(random_values))
NEGATED = Planted(
    "every answer has the opposite sign", each(changed(torch.neg, "a", "read_out", "read_out.bias"))
)
EQUAL_ROWS = Planted("all rows of W_O have equal norms", each(rescaled_by(lambda norms: 1 / norms)))
GIANT_ROWS = Planted("two rows of W_O are a hundred times as large", each(giant_rows))
GROWN_ROWS = Planted(
    "all rows of W_O have grown threefold", each(rescaled_by(lambda norms: 3 + 0 * norms))
)
REVERSED = rescaled_by(lambda norms: norms**-2)
REVERSED_ROWS = Planted("the row norms of W_O are in reverse order", each(REVERSED))
SMALL_ROWS_ALONG_LARGE = Planted(
    "the small rows of W_O point along large ones", each(small_rows_along_large)
)
ALL_KEPT = Planted(
    "all rows of W_O count as unchanged", patches=((icl_readout, "KEPT", lambda _: 1e9),)
)
IDLE_ROWS = Planted("the largest rows of W_O have no effect", each(large_rows_without_effect))


def tested_at(what: str, constant: str, instead: Callable[[float], float]) -> Planted:
    """Test prompts with another value of a constant than stated."""

    def replacement(original: Any) -> Any:
        def prompts(sweep: Sweep, **tested: Any) -> Any:
            stated = tested.get(constant, getattr(sweep.test, constant))
            return original(sweep, **tested | {constant: instead(stated)})

        return prompts

    names = "in_domain", "out_of_domain"
    return Planted(what, patches=tuple((evaluation, name, replacement) for name in names))


SUMS_REVERSED = tested_at(
    "S_1 is tested in the opposite order", "coefficient_sum", lambda total: 1.8 - total
)
NONE_WRONG = Planted(
    "no answer is wrong",
    patches=((evaluation, "wrong", lambda _: lambda logits, _: np.zeros(logits.shape, bool)),),
)
FRACTION = "a larger alpha' is tested as a smaller one", "relevant_fraction_test"
DECODER_FRACTIONS = tested_at(*FRACTION, lambda fraction: 1.8 - fraction)
FRACTIONS = tested_at(*FRACTION, lambda fraction: 1.4 - fraction)
# At a wider range, since pruning at equal steps hardly changes the order.
PRUNING_FRACTIONS = tested_at(*FRACTION, lambda fraction: min(2.05 - 1.75 * fraction, 1.0))

OUT_OF_DOMAIN = evaluation.out_of_domain


def always_out_of_domain(total: float) -> Callable[[Any], Any]:
    """Test prompts out of domain with this S_1, whatever is asked for."""

    def replacement(_: Any) -> Any:
        return lambda sweep, **tested: OUT_OF_DOMAIN(sweep, **tested | {"coefficient_sum": total})

    return replacement


FAR_OUT_OF_DOMAIN = Planted(
    "in domain is tested at S_1 = 1.3, out of domain at S_1 = 0.1",
    patches=(
        (evaluation, "in_domain", always_out_of_domain(1.3)),
        (evaluation, "out_of_domain", always_out_of_domain(0.1)),
    ),
)
SMALLER_SLOPE = Planted(
    "trainings with alpha = 0.3 are twice as fast",
    each(faster(lambda config: 2 if config.relevant_fraction == 0.3 else 1)),
)
# Claims on the training of the figures, with the same bounds on the training with SGD.
ON_BOTH_TRAININGS: dict[str, dict[str, Planted]] = {
    "A-P1a": {"share along the pattern": OFF_PATTERN, "growth along the pattern": UNTRAINED},
    "A-P1b": {
        "attention at the start": STARTS_TRAINED,
        "attention at the end": UNIFORM,
        "largest fall of attention": FORGOTTEN,
    },
    "A-P2b": {"angle at the end, a_i > 0": NEGATED, "angle at the end, a_i < 0": NEGATED},
    "A-T3a": {
        "largest ratio of neighbouring norms": EQUAL_ROWS,
        "share of small neurons": GIANT_ROWS,
        "norm of small neurons over initial norm": GROWN_ROWS,
    },
}
PLANTED: dict[str, dict[str, Planted]] = {
    **ON_BOTH_TRAININGS,
    **{
        f"{claim}-SGD": {f"{observable}, SGD": planted for observable, planted in parts.items()}
        for claim, parts in ON_BOTH_TRAININGS.items()
    },
    "A-P2a": {"angle at the start": STARTS_TRAINED, "angle at the end": RANDOM_VALUES},
    "A-F14": {"magnitude-based below random at every rate": REVERSED_ROWS},
    "A-F15": {"share of rates with alpha' = 0.6 above both others": PRUNING_FRACTIONS},
    "A-F27": {"ICL error less the best classical error": NEGATED},
    "A-F28": {"ICL error less the best classical error": NEGATED},
    "A-F12": {"Kendall's tau of error and S_1": SUMS_REVERSED},
    "A-T2-GPT2": {f"error at S_1={total}": NEGATED for total in (1.1, 1.3)},
    "A-F13": {
        f"mean error at alpha' = {low} less that at {high}, {domain}": DECODER_FRACTIONS
        for domain in ("id", "ood")
        for low, high in ((0.8, 0.9), (0.9, 1.0))
    },
    "A-F12-below": {f"error at S_1={total}": NONE_WRONG for total in (0.9, 0.7, 0.5)},
    "A-F13-domains": {
        f"mean error in domain less that out of domain, alpha' = {fraction}": FAR_OUT_OF_DOMAIN
        for fraction in (1.0, 0.9, 0.8)
    },
    "A-F13-length": {"fewer contexts the larger alpha', ood": DECODER_FRACTIONS},
    **{f"A-F{number}": {"attention rises": UNTRAINED} for number in (21, 22, 23)},
    **{
        f"A-F{number}-jump": {"attention has a plateau and a jump": AT_ONCE}
        for number in (21, 22, 23)
    },
    **{f"A-F{number}": {"share of neurons that grow": UNTRAINED} for number in (24, 25, 26)},
    "A-3L-angle": {"largest turn of a layer": UNTRAINED},
    "A-induction": {"share of answers that one layer's label gives": NEGATED},
    "A-T1c": {
        f"largest {what} alpha'": FRACTIONS for what in ("rise of l* with", "over smallest l*")
    },
    **{
        claim: {
            "slope of steps against alpha": Planted(
                "trainings with alpha = 1 are twice as fast",
                each(faster(lambda config: 2 if config.relevant_fraction == 1 else 1)),
                control=SMALLER_SLOPE if claim == "A-T1b" else None,
            )
        }
        for claim in ("A-T1b", "A-T1b-order")
    },
    "A-P2a-SGD": {
        "angle of the feature rows at the start, SGD": STARTS_TRAINED,
        "angle of the feature rows at the end, SGD": RANDOM_VALUES,
    },
    "A-T1-SGD": {f"{loss} on unseen tasks, SGD": NEGATED for loss in ("error", "hinge loss")},
    "A-T2-SGD": {f"hinge loss at S_1={total}, SGD": NEGATED for total in (1.1, 1.3)},
    "A-S1-below-SGD": {"hinge loss at S_1=0.5, SGD": NEGATED},
    "A-T3b-SGD": {"change of F without small neurons, SGD": SMALL_ROWS_ALONG_LARGE},
    "A-T3c-SGD": {"least rise of the hinge loss per share of large neurons, SGD": IDLE_ROWS},
    "A-context-SGD": {
        "cosine of the attended features with the pattern, SGD": UNIFORM,
        "attended label times z, SGD": UNIFORM,
    },
    **{
        claim: {f"least rise of the hinge loss per share of large neurons, {name}": IDLE_ROWS}
        for claim, name in (("A-T3c-random", "random"), ("A-T3c-margin", "random at margin 1"))
    },
    "A-T1-tasks-few": {
        f"hinge loss on unseen tasks, {tasks} of 30 tasks": NEGATED for tasks in (6, 12)
    },
    "A-T1-length": {f"hinge loss on unseen tasks, l_tr = {length}": NEGATED for length in (5, 10)},
    "A-T1-short": {
        "classification error on unseen tasks, l_tr = 1": Planted(
            "the weights are those trained on twenty contexts",
            lambda runs: {
                name: at(of_sweep, -1, **runs["li_icl_sgd"].last())
                for name, of_sweep in runs.items()
            },
        )
    },
    "A-T1-batch": {
        "slope of steps to 1.5/sqrt(B) against B": Planted(
            "trainings with batches below 128 are faster",
            each(faster(lambda config: 2 if config.batch < 128 else 1)),
        )
    },
    "A-T1-M1": {f"hinge loss on unseen tasks, M_1 = {m_1}": NEGATED for m_1 in (8, 12)},
    "A-T1-M1-steps": {
        "slope of steps against M_1 sqrt(log M_1)": Planted(
            "trainings with few patterns are faster",
            each(faster(lambda config: {6: 4, 8: 2, 12: 1}[config.relevant_patterns])),
        )
    },
    "A-T3a-m": {
        "least share of large neurons over m": GIANT_ROWS,
        "slope of the share of large neurons against m": GIANT_ROWS,
    },
    "A-T3c-m": {
        f"least rise of the hinge loss per share of large neurons, m = {m}": IDLE_ROWS
        for m in (32, 128)
    },
    "A-T3b-M2": {"largest change of F over eps + M_2^(-1/2)": SMALL_ROWS_ALONG_LARGE},
    "A-T3a-readout": {
        f"share of rows that keep their norm, a {kind}": UNTRAINED for kind in icl_readout.KINDS
    },
    "A-T3b-readout": {
        f"change of F without rows that keep their norm, a {kind}": ALL_KEPT
        for kind in icl_readout.KINDS
    },
    "A-T3c-readout": {
        f"least rise of the hinge loss per share of other rows, a {kind}": IDLE_ROWS
        for kind in icl_readout.KINDS
    },
    "A-lucky-rows": {
        "angle of lucky feature rows to the mean pattern": RANDOM_VALUES,
        "angle of lucky label rows to sign(a_i) q": NEGATED,
    },
    "A-lucky-active": {"share of lucky neurons that stay active out of domain": UNTRAINED},
    "A-unlucky": {"final norm of unlucky neurons over lucky ones": EQUAL_ROWS},
}
UNTRAINED_HOLD = {
    "A-F15": "every answer is wrong at every alpha' and rate, so no error increases",
    "A-T1b": "steps are counted in the losses, not in the weights",
    "A-T1b-order": "steps are counted in the losses, not in the weights",
    "A-T1-batch": "steps are counted in the losses, not in the weights",
    "A-T1-M1-steps": "steps are counted in the losses, not in the weights",
    "A-F12-below": "it says that the model fails",
    "A-T1-short": "it says that a training fails",
    "A-T3a-m": "rows of similar norms all have more than half the largest",
    "A-T3b-SGD": "it bounds a cost from above, and removing neurons without effect costs nothing",
    "A-T3b-M2": "it bounds a cost from above, and removing neurons without effect costs nothing",
    "A-T3b-readout": "it bounds a change from above, and untrained neurons have nearly no effect",
}
