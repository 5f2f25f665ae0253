"""Every bound on a published figure of Li et al. 2024 can fail: with a sabotage it is contradicted.

The runs are real trainings with six seeds (see spoilt_runs). The tests do not depend on how well the published claims
hold: the sabotaged run breaks a bound, and the same run without the sabotage (the control) does not.
"""

import dataclasses
from collections.abc import Iterator, Mapping

import pytest
import torch

from icl.papers.li2024 import classical_figures, one_layer_evaluation
from tests import sabotaged
from tests.papers.li2024.spoilt_runs import (
    FIGURES,
    GPT2_FALLING,
    LI_ICL_FALLING,
    NOTHING_LEARNT,
    WRONG_SIGN,
    Sabotage,
    all_rows_grown,
    assert_decided,
    best_everywhere,
    equal_rows,
    forgotten,
    fresh_values,
    harder_above_one,
    harder_answers,
    harder_below_one,
    most_attentive_layer,
    negated_decoder_readout,
    one_giant_row,
    reversed_norms,
    runs_of,
    shuffled_queries_and_keys,
    trained_from_the_start,
    uniform_attention,
    untrained,
)

# Every claim is judged on trainings with and without its sabotage.
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True, scope="module")
def short_curves() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        # The claims only use the last point of the classical curves.
        patch.setattr(classical_figures, "LENGTHS", (6, 20))
        yield


# claim -> observable of each bound -> the sabotage that breaks it
SABOTAGES: Mapping[str, Mapping[str, Sabotage]] = {
    "A-P1a": {
        "share along the pattern": Sabotage(shuffled_queries_and_keys),
        "growth along the pattern": NOTHING_LEARNT,
    },
    "A-P1b": {
        "attention at the start": Sabotage(trained_from_the_start),
        "attention at the end": Sabotage(uniform_attention),
        "largest fall of attention": Sabotage(forgotten),
    },
    "A-P2a": {
        "angle at the start": Sabotage(trained_from_the_start),
        "angle at the end": Sabotage(fresh_values),
    },
    "A-P2b": {
        "angle at the end, a_i > 0": WRONG_SIGN,
        "angle at the end, a_i < 0": WRONG_SIGN,
    },
    "A-T3a": {
        "largest ratio of neighbouring norms": Sabotage(equal_rows),
        "share of small neurons": Sabotage(one_giant_row),
        "norm of small neurons over initial norm": Sabotage(all_rows_grown),
    },
    "A-F14": {
        "share of draws, hinge loss": Sabotage(reversed_norms),
        "share of draws, classification error": Sabotage(reversed_norms, control=harder_answers),
    },
    "A-F15": {"share of rates in order": Sabotage(test=LI_ICL_FALLING)},
    "A-F27": {"ICL error less the best classical error": WRONG_SIGN},
    "A-F28": {"ICL error less the best classical error": WRONG_SIGN},
    # Flipped answers give the control the claimed order; the sabotages are the opposite order, and the smaller task
    # unchanged, which is solved at every S_1.
    "A-F12": {
        "Kendall's tau of error and S_1": Sabotage(best_everywhere, harder_above_one, harder_below_one),
    },
    "A-T2-GPT2": {
        "error at S_1=1.1": Sabotage(negated_decoder_readout),
        "error at S_1=1.3": Sabotage(negated_decoder_readout),
    },
    "A-F13": {
        f"mean error at alpha' = {low} less that at {high}, {domain}": Sabotage(best_everywhere, test=GPT2_FALLING)
        for domain in ("id", "ood")
        for low, high in ((0.8, 0.9), (0.9, 1.0))
    },
    "A-F13-length": {
        "fewer contexts at alpha' = 1 than at 0.8, ood": Sabotage(best_everywhere, test=GPT2_FALLING),
    },
    "A-F21": {"rise of attention": Sabotage(untrained, control=most_attentive_layer)},
    "A-F22": {"rise of attention": Sabotage(untrained, control=most_attentive_layer)},
    "A-F23": {"rise of attention": Sabotage(untrained, control=most_attentive_layer)},
    "A-F24": {"share of neurons that grow": NOTHING_LEARNT},
    "A-F25": {"share of neurons that grow": NOTHING_LEARNT},
    "A-F26": {"share of neurons that grow": NOTHING_LEARNT},
    "A-3L-angle": {"largest turn of a layer": NOTHING_LEARNT},
}


def test_every_bound_of_every_claim_has_a_sabotage() -> None:
    bounds = sabotaged.bounds_of_claims([name for name in FIGURES if name.startswith("figure")])
    assert {claim: set(parts) for claim, parts in SABOTAGES.items()} == bounds


@pytest.mark.parametrize(("claim", "observable"), sabotaged.cases(SABOTAGES))
def test_a_sabotage_is_contradicted_and_its_control_is_not(claim: str, observable: str) -> None:
    assert_decided(claim, observable, SABOTAGES[claim][observable])


def test_rescaled_rows_give_the_same_function() -> None:
    """These sabotages change norms but no logit."""
    runs = runs_of("figure14")["li_icl"]
    prompts = one_layer_evaluation.out_of_domain(runs.sweep.configs, dataclasses.replace(runs.sweep.test, prompts=20))
    plain = one_layer_evaluation.contributions(runs.last(), prompts, 20).sum(dim=-1)
    for change in (equal_rows, one_giant_row, all_rows_grown, reversed_norms):
        logits = one_layer_evaluation.contributions(change(runs).last(), prompts, 20).sum(dim=-1)
        torch.testing.assert_close(logits, plain, rtol=1e-9, atol=1e-9)
