"""Comparison of two result sets: equal numbers, changes within the intervals and beyond them."""

import copy
from pathlib import Path
from typing import Any

import pytest

from icl.core import sealed
from icl.core.sealed import SealedError
from icl.report import compare, verdict_files


def verdicts(**parts: tuple[float | None, float | None, float | None]) -> dict[str, Any]:
    """A figure with one claim, X, with one bound per keyword: (estimate, low, high)."""
    rows = [
        {"observable": name, "bound": ">= 0", "statistic": "mean", "estimate": estimate, "low": low, "high": high,
         "runs": 5, "outcome": "supported"}
        for name, (estimate, low, high) in parts.items()
    ]  # fmt: skip
    claim = {"claim": "X", "scale": "smoke", "outcome": "supported", "parts": rows}
    return {"figure": "f", "verdicts": [claim], "fidelity": [], "diverged": []}


def kinds(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, str]:
    return {change.observable: change.change for change in compare.changes({"f": ours}, {"f": theirs})}


def test_equal_sets_differ_in_nothing() -> None:
    one = verdicts(a=(1.0, 0.9, 1.1), b=(2.0, None, None))
    found = list(compare.changes({"f": one}, {"f": copy.deepcopy(one)}))
    assert [change.change for change in found] == [compare.SAME, compare.SAME]
    assert not any(change.is_news for change in found)
    assert compare.markdown(found) == "2 numbers: 2 the same. 0 verdicts changed.\n"


@pytest.mark.parametrize(
    ("ours", "theirs", "kind"),
    [
        ((1.0, 0.9, 1.1), (1.15, 1.05, 1.25), compare.WITHIN),
        ((1.0, 0.9, 1.1), (1.2, 1.1, 1.3), compare.WITHIN),
        ((1.0, 0.9, 1.1), (1.3, 1.2, 1.4), compare.BEYOND),
        ((1.3, 1.2, 1.4), (1.0, 0.9, 1.1), compare.BEYOND),
        ((1.0, 1.0, 1.0), (1.0 + 1e-12, 1.0 + 1e-12, 1.0 + 1e-12), compare.BEYOND),
        ((1.0, 0.9, 1.1), (None, None, None), compare.UNKNOWN),
    ],
)
def test_numbers_are_apart_when_their_intervals_are(ours: Any, theirs: Any, kind: str) -> None:
    assert kinds(verdicts(a=ours), verdicts(a=theirs)) == {"a": kind}


def test_bounds_of_one_set_only_are_listed() -> None:
    here, there = verdicts(a=(1, 1, 1), b=(2, 2, 2)), verdicts(a=(1, 1, 1), c=(3, 3, 3))
    assert kinds(here, there) == {"a": compare.SAME, "b": compare.ADDED, "c": compare.REMOVED}
    alone = list(compare.changes({"f": here}, {"g": there}))
    assert [change.figure for change in alone] == ["f", "f", "g", "g"]
    assert "| f | X | b | >= 0 | 2 in all runs | - | only in these results | supported |" in compare.markdown(alone)


def test_a_changed_outcome_is_news_even_within_the_intervals() -> None:
    here, there = verdicts(a=(1.0, 0.9, 1.1)), verdicts(a=(1.05, 0.95, 1.15))
    there["verdicts"][0]["outcome"] = "contradicted"
    (change,) = compare.changes({"f": here}, {"f": there})
    assert change.change == compare.WITHIN and change.is_news
    assert compare.changed_verdicts([change]) == {"X": "contradicted → supported"}
    text = compare.markdown([change])
    assert "1 within the intervals. 1 verdicts changed." in text
    assert "contradicted → supported |" in text


def test_other_results_are_a_results_folder_or_one_of_its_scales(tmp_path: Path) -> None:
    one = verdicts(a=(1.0, 0.9, 1.1))
    sealed.write(tmp_path / "smoke/verdicts/f.json", "verdicts", one)
    for folder in (tmp_path, tmp_path / "smoke"):
        assert verdict_files.load_all(folder, "smoke") == {"f": one}
    for folder, scale in ((tmp_path / "nowhere", "smoke"), (tmp_path, "laptop")):
        with pytest.raises(SealedError, match=f"holds no verdicts of {scale}"):
            verdict_files.load_all(folder, scale)


def test_damaged_other_results_are_named(tmp_path: Path) -> None:
    path = tmp_path / "smoke/verdicts/f.json"
    sealed.write(path, "verdicts", verdicts(a=(1.0, 0.9, 1.1)))
    path.write_text(path.read_text().replace("1.1", "1.2"))
    with pytest.raises(SealedError, match=r"f\.json: is damaged"):
        verdict_files.load_all(tmp_path, "smoke")


@pytest.mark.slow
def test_the_other_results_are_checked_before_anything_runs(workflow: Any) -> None:
    done = workflow("compare", "--config", "scale=smoke", "against=nowhere")
    assert done.returncode != 0
    assert "against = nowhere: holds no verdicts of smoke" in done.stdout
    assert not (workflow.folder / "results").exists()
