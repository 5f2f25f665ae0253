"""Two result sets side by side: what is the same, what moved within its interval, what moved beyond it."""

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from icl.report.verdict_files import compare

ROOT = Path(__file__).parents[1]


def verdicts(**parts: tuple[float | None, float | None, float | None]) -> dict[str, Any]:
    """A figure with one claim, X, of one bound per keyword: (estimate, low, high)."""
    rows = [
        {"observable": name, "bound": ">= 0", "statistic": "mean", "estimate": estimate, "low": low, "high": high,
         "runs": 5, "outcome": "supported"}
        for name, (estimate, low, high) in parts.items()
    ]  # fmt: skip
    claim = {"claim": "X", "statement": "s", "source": "t", "scale": "smoke", "outcome": "supported", "parts": rows}
    return {"figure": "f", "verdicts": [claim], "fidelity": None}


def kinds(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, str]:
    return {change.observable: change.change for change in compare.changes({"f": ours}, {"f": theirs})}


def test_equal_sets_differ_in_nothing() -> None:
    one = verdicts(a=(1.0, 0.9, 1.1), b=(2.0, None, None))
    found = list(compare.changes({"f": one}, {"f": copy.deepcopy(one)}))
    assert [change.change for change in found] == [compare.SAME, compare.SAME]
    assert not any(change.is_news for change in found)
    assert compare.markdown(found) == "2 numbers: 2 the same. 0 verdicts changed.\n\n"


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


def test_what_stands_on_one_side_only_is_said() -> None:
    here, there = verdicts(a=(1, 1, 1), b=(2, 2, 2)), verdicts(a=(1, 1, 1), c=(3, 3, 3))
    assert kinds(here, there) == {"a": compare.SAME, "b": compare.ADDED, "c": compare.REMOVED}
    alone = list(compare.changes({"f": here}, {"g": there}))
    assert [change.figure for change in alone] == ["f", "f", "g", "g"]
    assert "| f | X | b | >= 0 | 2 [2, 2] | - | only in these results | supported |" in compare.markdown(alone)


def test_a_changed_outcome_is_news_even_where_the_number_is_within() -> None:
    here, there = verdicts(a=(1.0, 0.9, 1.1)), verdicts(a=(1.05, 0.95, 1.15))
    there["verdicts"][0]["outcome"] = "contradicted"
    (change,) = compare.changes({"f": here}, {"f": there})
    assert change.change == compare.WITHIN and change.is_news
    text = compare.markdown([change])
    assert "1 within the intervals. 1 verdicts changed." in text
    assert "contradicted → supported |" in text


def test_the_script_reads_a_results_folder_or_one_of_its_scales(tmp_path: Path) -> None:
    for side, estimate in (("ours", 1.0), ("theirs", 2.0)):
        folder = tmp_path / side / "smoke" / "verdicts"
        folder.mkdir(parents=True)
        (folder / "f.json").write_text(json.dumps(verdicts(a=(estimate, estimate, estimate))))

    def script(against: Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(ROOT / "scripts/compare.py"), "--against", str(against), "--scale", "smoke"]
        command += ["--table", str(tmp_path / "t.md"), "--verdicts", str(tmp_path / "ours/smoke/verdicts/f.json")]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    for against in (tmp_path / "theirs", tmp_path / "theirs" / "smoke"):
        done = script(against)
        assert (done.returncode, done.stderr) == (0, "")
        assert "1 beyond the intervals" in done.stdout
        assert done.stdout == f"\n{(tmp_path / 't.md').read_text()}\n"
    missing = script(tmp_path / "nowhere")
    assert missing.returncode == 1
    assert "nowhere: holds no verdicts of the scale smoke" in missing.stderr
