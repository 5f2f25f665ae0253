"""The scales of the gallery, its reductions, and verdicts that differ between scales."""

import dataclasses
from typing import Any

import pytest

from icl.core import discovery
from icl.core.config import FIRST_SEED
from icl.evidence import ledger
from icl.pipeline import figures
from icl.report import scales


def verdict(claim: str, scale: str, outcome: str = "supported") -> dict[str, Any]:
    return {"claim": claim, "scale": scale, "outcome": outcome, "parts": []}


def test_the_gallery_shows_the_largest_scale_and_keeps_the_others() -> None:
    laptop, paper = [verdict("X", "laptop")], [verdict("X", "paper", "contradicted"), verdict("Y", "paper")]
    for kept in (scales.updated(laptop, paper), scales.updated(paper, laptop)):
        assert scales.shown({"figure9": kept}) == [{"figure": "figure9", "verdicts": paper}]
        assert scales.at(kept, "laptop") == laptop
    anew = [verdict("X", "paper")]
    assert scales.updated([*paper, *laptop], anew) == [*anew, *laptop]


def test_a_verdict_on_other_bounds_is_dropped_and_its_claim_listed() -> None:
    (claim,) = ledger.claims("figure9")
    parts = [{"observable": b.observable, "bound": b.words(), "statistic": b.statistic, "p": 0.1} for b in claim.bounds]
    met = [{"observable": one.observable, "bound": one.words(), "met": 10, "runs": 10} for one in claim.conditions]
    sound = verdict(claim.id, "laptop") | {"parts": parts, "conditions": met}
    untested = [{key: value for key, value in part.items() if key != "p"} for part in parts]
    assert scales.current({"figure9": [sound]}) == {"figure9": [sound]}
    for other in ({"parts": parts[1:]}, {"conditions": []}, {"parts": untested}):
        assert scales.current({"figure9": [sound | other], "figure10": [verdict("gone", "laptop")]}) == {}
    assert claim.id in scales.unjudged({}) and claim.id not in scales.unjudged({"figure9": [sound]})


def test_verdicts_are_listed_where_they_differ_between_scales() -> None:
    kept = {
        "figure9": [verdict("X", "laptop"), verdict("X", "paper", "contradicted")],
        "figure10": [verdict("Y", "laptop"), verdict("Y", "paper"), verdict("Z", "laptop", "inconclusive")],
    }
    said = scales.differing(kept)
    assert "2 claims are judged at two scales, 1 of them differently" in said
    assert "| X | supported (laptop) | contradicted (paper) |" in said
    assert "Y" not in said


@pytest.mark.parametrize("name", sorted(discovery.figures()))
def test_every_difference_from_the_paper_scale_is_a_reduction(name: str) -> None:
    """Sweeps are equal at two scales exactly if there is no reduction."""
    assert scales.of_figure(name, "paper") == {}
    ours, papers = (figures.sweeps(name, scale, {}) for scale in ("laptop", "paper"))
    trained = {
        key
        for key, sweep in ours.items()
        if (sweep.configs, sweep.snapshots[-1], sweep.test)
        != (papers[key].configs, papers[key].snapshots[-1], papers[key].test)
    }
    assert set(scales.of_figure(name, "laptop")) == trained


def test_a_reduction_has_both_values_and_distinguishes_training_from_test() -> None:
    (sweep,) = figures.sweeps("figure9", "laptop", {}).values()
    fewer = dataclasses.replace(
        sweep, configs=sweep.configs[:3], test=dataclasses.replace(sweep.test, prompts=sweep.test.prompts // 2)
    )
    assert list(scales.reductions(fewer, sweep)) == [
        ("seeds", "3", str(len(sweep.configs))),
        ("prompts of the test", str(sweep.test.prompts // 2), str(sweep.test.prompts)),
    ]


def test_verdicts_on_development_seeds_are_named() -> None:
    part = {"observable": "error", "statistic": "mean"}
    early, late = ({"claim": "A-F9", "first_seed": seed, "parts": [part]} for seed in (0, FIRST_SEED))
    computed = {"claim": "Z11", "first_seed": 0, "parts": [part | {"statistic": "exact"}]}
    kept = {"figure9": [late, early], "figure12": [late], "zheng_heatmap": [computed]}
    assert scales.from_development(kept) == ["figure9"]
