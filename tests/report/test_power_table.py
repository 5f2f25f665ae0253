"""The table of the violations that the seeds of each claim would have detected, and its picture."""

from pathlib import Path
from typing import Any

from PIL import Image

from icl.report import power_table, verdict_files


def end(at: float, contradicted: float | None, inconclusive: float | None = -0.1) -> dict[str, Any]:
    return {"observable": "y", "end": at, "runs": 10, "spread": 0.2, "inconclusive": inconclusive,
            "contradicted": contradicted}  # fmt: skip


VERDICTS = [
    {"claim": "A", "parts": [], "power": [end(0.0, 0.1), end(1.0, 0.3)]},
    {"claim": "B", "parts": [], "power": [end(1.0, None)]},
    {"claim": "C", "parts": [], "power": [end(1.0, 0.1, None)]},
    {"claim": "D", "parts": []},
]


def test_a_claim_that_nothing_contradicts_is_named_and_sizes_are_in_both_units() -> None:
    said = power_table.markdown([{"figure": "figure0", "verdicts": VERDICTS}])
    assert "| A | y | 1 | 10 | 0.2 | -0.1 | -0.5 | 0.3 | 1.5 |" in said
    assert "contradicts these claims: B." in said
    assert "wider than the bound: C." in said


def test_the_smallest_violation_caught_is_that_of_the_worse_end() -> None:
    assert [verdict_files.caught(verdict, "y") for verdict in VERDICTS] == [0.3, None, 0.1, None]


def test_the_picture_grows_by_a_bar_per_claim(tmp_path: Path) -> None:
    heights = []
    for count in (1, 3):
        power_table.draw([{"figure": "figure0", "verdicts": VERDICTS[:count]}], tmp_path / "power.png")
        with Image.open(tmp_path / "power.png") as picture:
            heights.append(picture.height)
    assert heights[1] - heights[0] == 2 * power_table.ROW
