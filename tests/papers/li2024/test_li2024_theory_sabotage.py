"""Every bound on the theorems of Li et al. 2024 can fail: with a sabotage it is contradicted.

The runs are real trainings with six seeds (see spoilt_runs). The tests do not depend on how well the published claims
hold: the sabotaged run breaks a bound, and the control, mostly the same run without the sabotage, does not.
"""

from collections.abc import Mapping

import pytest

from tests import sabotaged
from tests.papers.li2024.spoilt_runs import (
    FIGURES,
    LI_ICL_REVERSED,
    WRONG_SIGN,
    Sabotage,
    assert_decided,
    equal_rows,
    fast_with_few_patterns,
    fast_with_large_alpha,
    large_rows_without_effect,
    larger_shares,
    one_giant_row,
    reversed_norms,
    reversed_norms_of_many_patterns,
    silent_at_the_start,
    small_rows_of_the_unlucky,
    trained_on_longer_prompts,
    uniform_attention,
)

# Every claim is judged on trainings with and without its sabotage.
pytestmark = pytest.mark.slow

# claim -> observable of each bound -> the sabotage that breaks it
SABOTAGES: Mapping[str, Mapping[str, Sabotage]] = {
    "A-T3c-random": {
        "least rise of the hinge loss per share of large neurons, random": Sabotage(
            large_rows_without_effect, control=larger_shares
        )
    },
    "A-lucky": {"share of neurons that are lucky at the start": Sabotage(silent_at_the_start)},
    "A-unlucky": {
        "final norm of unlucky neurons over lucky ones": Sabotage(equal_rows, control_runs=small_rows_of_the_unlucky)
    },
    "A-T1-SGD": {"error on unseen tasks, SGD": WRONG_SIGN, "hinge loss on unseen tasks, SGD": WRONG_SIGN},
    "A-T2-SGD": {f"hinge loss at S_1={total}, SGD": WRONG_SIGN for total in (1.1, 1.3)},
    "A-S1-below-SGD": {"hinge loss at S_1=0.5, SGD": WRONG_SIGN},
    "A-T3b-SGD": {"rise of the hinge loss without small neurons, SGD": Sabotage(reversed_norms)},
    "A-T3c-SGD": {
        "least rise of the hinge loss per share of large neurons, SGD": Sabotage(large_rows_without_effect),
    },
    "A-context-SGD": {
        "cosine of the attended features with the pattern, SGD": Sabotage(uniform_attention),
        "attended label times z, SGD": Sabotage(uniform_attention),
    },
    "A-T1-tasks-few": {f"hinge loss on unseen tasks, {n} of 30 tasks": WRONG_SIGN for n in (6, 12)},
    "A-T1-length": {f"hinge loss on unseen tasks, l_tr = {n}": WRONG_SIGN for n in (5, 10)},
    "A-T1-short": {"classification error on unseen tasks, l_tr = 1": Sabotage(trained_on_longer_prompts)},
    "A-T1-batch": {"growth of the hinge loss times sqrt(B), B >= M_1": WRONG_SIGN},
    "A-T1b": {"slope of steps against alpha": Sabotage(fast_with_large_alpha)},
    "A-T1c": {
        "largest rise of l* with alpha'": Sabotage(test=LI_ICL_REVERSED),
        "largest over smallest l* alpha'": Sabotage(test=LI_ICL_REVERSED),
    },
    "A-induction": {"share of answers that one layer's label gives": WRONG_SIGN},
    "A-T1-M1": {f"hinge loss on unseen tasks, M_1 = {m_1}": WRONG_SIGN for m_1 in (8, 12)},
    "A-T1-M1-steps": {"slope of steps against M_1 sqrt(log M_1)": Sabotage(fast_with_few_patterns)},
    "A-T3a-m": {
        "least share of large neurons over m": Sabotage(one_giant_row),
        "slope of the share of large neurons against m": Sabotage(one_giant_row),
    },
    "A-T3c-m": {
        f"least rise of the hinge loss per share of large neurons, m = {m}": Sabotage(large_rows_without_effect)
        for m in (32, 128)
    },
    "A-T3b-M2": {
        "largest rise over eps + M_2^(-1/2)": Sabotage(reversed_norms),
        "growth of the rise over eps + M_2^(-1/2)": Sabotage(reversed_norms_of_many_patterns),
    },
}


def test_every_bound_of_every_claim_has_a_sabotage() -> None:
    bounds = sabotaged.bounds_of_claims([name for name in FIGURES if name.startswith("icl_")])
    # These use the measurements of figures 8 to 11 and 14, whose bounds have sabotages.
    for claim in ("A-P1a-SGD", "A-P1b-SGD", "A-P2a-SGD", "A-P2b-SGD", "A-T3a-SGD"):
        del bounds[claim]
    assert {claim: set(parts) for claim, parts in SABOTAGES.items()} == bounds


@pytest.mark.parametrize(("claim", "observable"), sabotaged.cases(SABOTAGES))
def test_a_sabotage_is_contradicted_and_its_control_is_not(claim: str, observable: str) -> None:
    assert_decided(claim, observable, SABOTAGES[claim][observable])
