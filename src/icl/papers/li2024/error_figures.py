"""Figures 12, 13, 27 and 28 of Li et al. 2024, and icl_generalisation: error against context
length.

Figure 12: the decoder out of domain, by coefficient sum S_1. Figure 13: the decoder in and out of
domain, by fraction alpha' of relevant contexts. Figures 27 and 28: the one-layer model against
classical classifiers on the same contexts. icl_generalisation: the one-layer model on unseen tasks
and out-of-domain patterns (theorems 1 and 2).
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from icl.core.table import ERROR
from icl.drawing import own_style
from icl.evidence.errors import mean_error
from icl.evidence.intervals import kendall, least_length
from icl.figure import (
    Axis,
    Figure,
    Picture,
    Rows,
    Runs,
    Style,
    Table,
    Trained,
    facts,
    join,
    plotting,
    single,
    torch,
)
from icl.models import estimators, transformer
from icl.papers.li2024 import evaluation, trainings
from icl.papers.li2024.evaluation import EvaluationPrompts
from icl.papers.li2024.record import Look, Record, error_axis, figure, held_out_loss, measure_errors

ENOUGH = 0.05
"""The error below which a context length counts as sufficient (figure 13, theorem 1)."""
LOOKS = (("r", "o"), ("b", "x"), ("m", "+"), ("c", "d"), ("y", "<"), ("g", "s"))
"""Colour and marker of the curves of a published picture, in order."""
HINGE_LOSS_AT = {
    1.3: "hinge loss at S_1=1.3",
    1.1: "hinge loss at S_1=1.1",
    0.9: "hinge loss at S_1=0.9",
    0.7: "hinge loss at S_1=0.7",
    0.5: "hinge loss at S_1=0.5",
}
ERROR_AT = {
    "S_1=1.3": "error at S_1=1.3",
    "S_1=1.1": "error at S_1=1.1",
    "S_1=0.9": "error at S_1=0.9",
    "S_1=0.7": "error at S_1=0.7",
    "S_1=0.5": "error at S_1=0.5",
}
SUMS = {f"S_1={total}": total for total in (1.3, 1.1, 0.9, 0.7, 0.5)}
SUM_STYLES = tuple(Style(name, f"${name}$", *look) for name, look in zip(SUMS, LOOKS, strict=False))
CONTEXTS = Axis("Context length", (0, 20), range(0, 21, 4))


# Figures 12 and 13

CHUNK = 200
"""Prompts evaluated at a time: keeps the activations of ten runs below 200 MB."""
SUM_LENGTHS, FRACTION_LENGTHS = tuple(range(2, 21, 2)), tuple(range(0, 21, 2))
DECODER_FRACTIONS = (1.0, 0.9, 0.8)


def decoder_wrong(runs: Runs, prompts: EvaluationPrompts, lengths: Sequence[int]) -> np.ndarray:
    """Return whether the decoder is wrong on each prompt after l contexts, for each length l: bool
    (lengths, runs, prompts).

    All lengths use the same prompts, so curves over the context length are paired.
    """
    params, heads = runs.last(), runs.sweep.configs[0].heads
    with torch.no_grad():
        logits = [
            transformer.predict_prefixes(params, part[:, :, :-1], part[:, :, -1], lengths, heads)[
                ..., 0
            ]
            for part in torch.split(prompts.tokens.float(), CHUNK, dim=1)
        ]
    return evaluation.wrong(torch.cat(logits, dim=1).double().movedim(-1, 0), prompts)


def _by_sum(runs: Runs) -> dict[str, np.ndarray]:
    return {
        series: decoder_wrong(
            runs, evaluation.out_of_domain(runs.sweep, coefficient_sum=total), SUM_LENGTHS
        )
        for series, total in SUMS.items()
    }


def _order_of_sums(wrong: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return the error for each S_1 at the last context length, and the order of these errors."""
    last = {ERROR_AT[series]: answers[-1].mean(axis=-1) for series, answers in wrong.items()}
    taus = [
        kendall(np.array(list(SUMS.values())), of_run) for of_run in np.stack(list(last.values())).T
    ]
    return last | {"Kendall's tau of error and S_1": taus}


def _by_fraction(runs: Runs) -> dict[str, np.ndarray]:
    domains = {"id": evaluation.in_domain, "ood": evaluation.out_of_domain}
    return {
        f"alpha'={fraction}, {domain}": decoder_wrong(
            runs, domains[domain](runs.sweep, relevant_fraction_test=fraction), FRACTION_LENGTHS
        )
        for domain, fraction in product(domains, DECODER_FRACTIONS)
    }


def _fall_with_fraction(wrong: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return the fall of the mean error with alpha' and from in domain to out of domain, and
    whether a larger alpha' needs no more contexts out of domain, and alpha' = 1 fewer than 0.8.
    """
    mean = {series: answers[1:].mean(axis=(0, -1)) for series, answers in wrong.items()}
    falls = {}
    for domain in ("id", "ood"):
        low, mid, high = (mean[f"alpha'={fraction}, {domain}"] for fraction in (0.8, 0.9, 1.0))
        falls[f"mean error at alpha' = 0.8 less that at 0.9, {domain}"] = low - mid
        falls[f"mean error at alpha' = 0.9 less that at 1.0, {domain}"] = mid - high
    for fraction in DECODER_FRACTIONS:
        falls[f"mean error in domain less that out of domain, alpha' = {fraction}"] = (
            mean[f"alpha'={fraction}, id"] - mean[f"alpha'={fraction}, ood"]
        )
    # A run that never gets there needs more than all lengths.
    fewest, middle, most = (
        np.nan_to_num(
            least_length(wrong[series].mean(axis=-1), FRACTION_LENGTHS, ENOUGH),
            nan=FRACTION_LENGTHS[-1] + 1,
        )
        for series in (f"alpha'={fraction}, ood" for fraction in DECODER_FRACTIONS)
    )
    fewer = (fewest <= middle) & (middle <= most) & (fewest < most)
    return falls | {"fewer contexts the larger alpha', ood": fewer.astype(float)}


FRACTION_STYLES = tuple(
    Style(f"alpha'={fraction}, {domain}", rf"$\alpha'={fraction}$, {domain}", *look)
    for (domain, fraction), look in zip(
        product(("id", "ood"), DECODER_FRACTIONS), LOOKS, strict=True
    )
)


# Figures 27 and 28

CLASSICAL_LENGTHS = tuple(range(6, 21, 2))
CLASSICAL_PROMPTS = {"paper": 200, "laptop": 200, "smoke": 4}
TIMES = 50
"""Curves and claims have 10,000 prompts for each run. The published levels are multiples of 1 /
2,000; as many here would double the sampling error of the comparison.
"""
NAMES = ("ICL", "Logistic", "SVM Gau.", "SVM Lin.", "1-NN", "3-NN")
METHODS = tuple(Style(name, name, *look) for name, look in zip(NAMES, LOOKS, strict=True))


def _by_method(runs: Runs) -> dict[str, np.ndarray]:
    """Return whether each method is wrong on each run's prompts: series -> bool (lengths, runs,
    prompts).
    """
    prompts = evaluation.in_domain(runs.sweep)
    wrong = {
        "ICL": evaluation.wrong(evaluation.logits(runs.last(), prompts, CLASSICAL_LENGTHS), prompts)
    }
    inputs = prompts.tokens[..., : runs.sweep.configs[0].feature_dimension].flatten(0, 1).numpy()
    labels = prompts.labels.flatten(0, 1).numpy()
    for name, classify in estimators.batched_classifiers().items():
        answers = [classify(inputs[:, :n], labels[:, :n], inputs[:, -1]) for n in CLASSICAL_LENGTHS]
        wrong[name] = (np.stack(answers) != labels[:, -1]).reshape(wrong["ICL"].shape)
    return wrong


def measure_methods(runs: Trained, scale: str) -> Rows:
    """Return the error curves of every run on TIMES as many prompts, and what the claims
    bound.
    """
    record = Record(single(runs))
    test = record.runs.sweep.test
    more = replace(test, prompts=TIMES * test.prompts)
    of_each = [_by_method(record.runs.alone(run, more)) for run in range(len(record.seeds))]
    wrong = {name: np.concatenate([of_run[name] for of_run in of_each], axis=1) for name in NAMES}
    record.error_curves(wrong, _by_method, CLASSICAL_LENGTHS, times=TIMES)
    return record.rows(_against_best(wrong))


def _against_best(wrong: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return the error of the one-layer model less that of the best classical method, at the
    last length.
    """
    last = {series: answers[-1].mean(axis=-1) for series, answers in wrong.items()}
    best = min((errors for name, errors in last.items() if name != "ICL"), key=np.mean)
    return {"ICL error less the best classical error": last["ICL"] - best}


# icl_generalisation

LENGTHS = tuple(range(2, 21))
FRACTIONS = {f"alpha'={fraction}": fraction for fraction in (0.4, 0.6, 0.8, 1.0)}


def measure_generalisation(runs: Trained, scale: str) -> Rows:
    """Errors of the one-layer model in and out of domain, and the least sufficient context
    length.
    """
    trained, lengths = trainings.in_axes(single(runs)), []
    seeds = trained.sweep.seeds
    parts: list[Rows] = []
    claimed: dict[str, Any] = {}
    for series, fraction in FRACTIONS.items():
        prompts = evaluation.in_domain(trained.sweep, relevant_fraction_test=fraction)
        wrong, hinge = _wrong_and_hinge(trained, prompts)
        parts += mean_error(seeds, wrong, x=LENGTHS, panel="in domain", series=series)
        lengths.append(least_length(wrong.mean(axis=-1), LENGTHS, ENOUGH))
        if fraction == trained.sweep.test.relevant_fraction_test:
            claimed |= {
                "error on unseen tasks": wrong[-1].mean(axis=-1),
                "hinge loss on unseen tasks": hinge,
            }
    for series, total in SUMS.items():
        prompts = evaluation.out_of_domain(trained.sweep, coefficient_sum=total)
        wrong, hinge = _wrong_and_hinge(trained, prompts)
        parts += mean_error(seeds, wrong, x=LENGTHS, panel="out of domain", series=series)
        claimed |= {ERROR_AT[series]: wrong[-1].mean(axis=-1), HINGE_LOSS_AT[total]: hinge}
    products = np.stack(lengths) * np.array(list(FRACTIONS.values()))[:, None]
    claimed["largest rise of l* with alpha'"] = np.diff(lengths, axis=0).max(axis=0)
    claimed["largest over smallest l* alpha'"] = products.max(axis=0) / products.min(axis=0)
    claimed["held-out loss"] = held_out_loss(single(runs))
    # All runs have the same constants.
    claimed |= trainings.conditions(trained.sweep.configs[0])
    return join([*parts, facts(seeds, claimed)])


def _wrong_and_hinge(runs: Runs, prompts: EvaluationPrompts) -> tuple[np.ndarray, np.ndarray]:
    """Return whether each answer is wrong, (lengths, runs, prompts), and the hinge loss at the
    last length, (runs,).
    """
    logits = evaluation.logits(runs.last(), prompts, LENGTHS)
    return evaluation.wrong(logits, prompts), evaluation.hinge(logits[-1], prompts)


IN_DOMAIN = own_style.styles({name: rf"$\alpha'={value}$" for name, value in FRACTIONS.items()})
OUT_OF_DOMAIN = own_style.styles({name: f"${name}$" for name in SUMS})


@plotting.under_defaults
def draw_generalisation(table: Table) -> Picture:
    """Two panels of error against context length; zeros are drawn as "none"."""
    title = "Error on unseen tasks (a) and on out-of-domain patterns (b)"
    figure, panels = own_style.panels(("in domain", "out of domain"), 2, title, (360, 270))
    none = own_style.below(table.curves.loc[table.curves["panel"] != "", "value"])
    for (panel, axes), styles in zip(panels.items(), (IN_DOMAIN, OUT_OF_DOMAIN), strict=True):
        plotting.curves(axes, table, styles, ERROR, none=none, band=plotting.pale, **own_style.LINE)
        axes.set(yscale="log", ylim=(none, 1), xlim=(0, 20), xticks=range(0, 21, 4))
        plotting.none_tick(axes, none)
        own_style.axis_labels(axes, "Context length", "Classification error", panel.capitalize())
    own_style.name_curves(panels["in domain"])
    own_style.name_curves(
        panels["out of domain"], {OUT_OF_DOMAIN[0].series: "five $S_1$,\n0.5 to 1.3"}
    )
    return figure


def _classical(
    name: str, fraction: float, top: float, highest: float, legend: tuple[Any, ...]
) -> Figure:
    tested: dict[str, Any] = {"prompts": CLASSICAL_PROMPTS, "relevant_fraction_test": fraction}
    training = partial(trainings.sgd_training, **tested)
    x = Axis("# of contexts or samples", (6, 20), range(8, 21, 4))
    edges, y = (130.18, 485.63, top, 431.72), error_axis(1e-3, highest)
    look = Look(520, edges, x, y, 22, legend, band=False, guide=True)
    return figure(name, training, measure_methods, ERROR, METHODS, look)


LEGEND12, LEGEND13 = (
    (12, "lower left", (-0.017, -0.022), 0.728),
    (15, "upper right", (1.003, 1.009), 0.616),
)
FIGURE12 = Look(
    400, (117.82, 368.25, 26.25, 317.72), CONTEXTS, error_axis(1e-3, 1e-1), 19, LEGEND12, guide=True
)
FIGURE13 = Look(450, (129.90, 415.62, 18.40, 361.72), CONTEXTS, error_axis(6e-3, 4), 22, LEGEND13)
_plain_training = partial(trainings.decoder_training, test=trainings.PlainTest)
_fraction_training = partial(trainings.decoder_training, test=trainings.FractionTest)
_measure_sums = partial(measure_errors, wrong_of=_by_sum, claimed=_order_of_sums, x=SUM_LENGTHS)
_measure_fractions = partial(
    measure_errors, wrong_of=_by_fraction, claimed=_fall_with_fraction, x=FRACTION_LENGTHS
)
FIGURES = (
    figure("figure12", _plain_training, _measure_sums, ERROR, SUM_STYLES, FIGURE12),
    figure("figure13", _fraction_training, _measure_fractions, ERROR, FRACTION_STYLES, FIGURE13),
    _classical("figure27", 0.8, 28.25, 1, (18, "upper right", (1.004, 1.009), 0.45)),
    _classical("figure28", 0.6, 19.22, 2, (17, "upper right", (1.006, 1.011), 0.52)),
    Figure(
        "icl_generalisation",
        trainings.one_layer_training,
        measure_generalisation,
        draw_generalisation,
    ),
)
