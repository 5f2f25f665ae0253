"""The report: what stands in it, that it needs nothing else, and that equal results give equal bytes."""

import copy
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from icl.core import discovery, sealed, table
from icl.core.sealed import SealedError
from icl.evidence import ledger
from icl.pipeline import figures
from icl.pipeline.plan import Plan
from icl.report import compare, verdict_files
from icl.report.page import gather, render
from icl.report.page.entries import Files, constants, entry, margin, spans_decades, values, warnings

PLAN = Plan("smoke")


@pytest.fixture(scope="module")
def whole(figure9_made: Path) -> dict[str, Any]:
    return gather.entries(PLAN, ["figure9"], figure9_made)[0]


@pytest.fixture(scope="module")
def page(figure9_made: Path) -> str:
    return render.html(PLAN, gather.entries(PLAN, ["figure9", "figure12"], figure9_made))


def test_an_entry_says_everything_about_its_figure(whole: dict[str, Any]) -> None:
    assert whole["paper"] == ledger.of_figure("figure9").title
    assert whole["missing"] == []
    assert [claim["claim"] for claim in whole["claims"]] == [claim.id for claim in ledger.claims("figure9")]
    assert {row["name"] for row in whole["constants"]} >= {"pattern_norm", "relevant_fraction", "prompts"}
    assert whole["costs"]["training li_icl"].cpu == 4.0
    assert whole["cpu"] == 7.0
    assert whole["provenance"]["trainings"][0]["seeds"] == [1000, 1001]
    assert len(whole["provenance"]["digest"]) == 64
    assert [row["panel"] for row in whole["fidelity"]] == ["main"]


def test_charts_hold_the_tables_summaries_and_the_published_curves(whole: dict[str, Any], figure9_made: Path) -> None:
    rows, _ = table.read(figure9_made / "results/smoke/tables/figure9.parquet")
    (chart,) = [one for one in whole["charts"] if one["title"].startswith("attention weight")]
    for curve in chart["curves"]:
        drawn = rows[
            (rows["seed"] == -1) & (rows["series"] == curve["name"]) & (rows["observable"] == "attention weight")
        ]
        assert curve["x"] == sorted(drawn["x"])
        assert curve["y"] == pytest.approx(list(drawn.sort_values("x")["value"]), rel=1e-5)
    assert [curve["name"] for curve in chart["published"]] == ["The same ODR (published)", "Other (published)"]


def test_the_page_needs_nothing_else(page: str) -> None:
    """No address of another file or host is loaded: sources are data, links stay inside."""
    body = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert set(re.findall(r'(?:src|href)="([^"#]{0,14})', body)) <= {"", "data:image/png", "data:,"}
    assert "url(" not in body and "@import" not in body
    assert page.count("<script") == page.count("</script>") == 3


def test_every_figure_and_claim_has_one_anchor_and_every_link_a_target(page: str) -> None:
    anchors = re.findall(r'\sid="([^"]+)"', re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL))
    assert len(anchors) == len(set(anchors))
    assert {"figure9", "figure12", "A-P1b"} <= set(anchors)
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(anchors)


def test_verdicts_are_on_the_page_in_words_and_formula(page: str, whole: dict[str, Any]) -> None:
    claim = whole["claims"][0]
    assert all(claim[part].replace("'", "&#39;") in page for part in ("says", "tested", "not_shown", "kind", "source"))
    assert "<math><mo>∈</mo><mo>[</mo><mn>0.38</mn><mo>,</mo><mn>0.46</mn><mo>]</mo></math>" in page
    assert "<math><mo>≥</mo><mn>0.7</mn></math>" in page
    assert "snakemake figure9 --config scale=smoke" in page


def test_the_charts_data_cannot_leave_their_script_element() -> None:
    text = render._as_script({"title": "</script><script>alert(1)</script>"})
    assert "<" not in text
    assert json.loads(text)["title"].startswith("</script>")


def test_texts_are_escaped(whole: dict[str, Any]) -> None:
    spoilt = copy.deepcopy(whole)
    spoilt["claims"][0]["tested"] = "a < b & <script>alert(1)</script>"
    assert "a &lt; b &amp; &lt;script&gt;alert(1)" in render.html(PLAN, [spoilt])


def test_built_twice_it_is_the_same(figure9_made: Path, page: str) -> None:
    again = gather.entries(PLAN, ["figure9", "figure12"], figure9_made)
    assert render.html(PLAN, again) == page
    once_more = gather.entries(PLAN, ["figure9", "figure12"], figure9_made)
    assert render.markdown(PLAN, again) == render.markdown(PLAN, once_more)


def test_what_is_missing_is_said_with_the_command_that_makes_it(figure9_made: Path, page: str, tmp_path: Path) -> None:
    line = "figure12: verdicts, table, picture not made yet; `snakemake figure12 --config scale=smoke` makes it"
    entries = gather.entries(PLAN, ["figure9", "figure12"], figure9_made)
    assert line in warnings(entries)
    assert line in page and line in render.markdown(PLAN, entries)
    nothing = gather.entries(Plan("laptop"), ["figure9"], tmp_path)
    assert nothing[0]["missing"] == ["verdicts", "table", "picture"]
    assert "Not made yet: verdicts, table, picture" in render.html(Plan("laptop"), nothing)


def test_mixed_scales_and_revisions_are_shown_as_such(whole: dict[str, Any]) -> None:
    other = copy.deepcopy(whole) | {"name": "figure12"}
    other["claims"][0]["scale"], other["claims"][0]["claim"] = "laptop", "A-X"
    other["provenance"] |= {"revision": "0123456789abcdef", "clean": False}
    whole["provenance"]["revision"] = "fedcba9876543210"
    said = warnings([whole, other])
    assert "mixed scales: laptop, smoke; each verdict says which it is of" in said
    assert "mixed revisions: 0123456789ab, fedcba987654; each figure says which it was made with" in said
    assert any(line.startswith("made from a source tree with uncommitted changes:") for line in said)


def test_a_damaged_table_stops_the_report_by_name(figure9_made: Path, tmp_path: Path) -> None:
    root = tmp_path / "damaged"
    shutil.copytree(figure9_made, root)
    path = root / "results/smoke/tables/figure9.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(table.TableError, match=r"figure9\.parquet"):
        gather.entries(PLAN, ["figure9"], root)


def test_what_changed_since_the_other_results_is_marked(figure9_made: Path, tmp_path: Path) -> None:
    theirs = verdict_files.load(figure9_made / "results/smoke/verdicts/figure9.json")
    theirs["verdicts"][0]["outcome"] = "contradicted"
    sealed.write(tmp_path / "smoke/verdicts/figure9.json", "verdicts", theirs)
    (one,) = gather.entries(PLAN, ["figure9"], figure9_made, tmp_path)
    assert one["changed"] and one["claims"][0]["changed"]
    text = render.html(PLAN, [one], "before")
    assert "Changed since before:" in text and 'id="changed"' in text
    (same,) = gather.entries(PLAN, ["figure9"], figure9_made, figure9_made / "results")
    assert not same["changed"]
    assert 'id="changed"' not in render.html(PLAN, [same])


def test_verdicts_of_another_table_figure_or_folder_stop_the_report(figure9_made: Path, tmp_path: Path) -> None:
    root = tmp_path / "swapped"
    shutil.copytree(figure9_made, root)
    path = root / PLAN.verdict_file("figure9")
    held = verdict_files.load(path)
    for other in ({"figure": "figure10"}, {"folder": "laptop"}, {"table": "0" * 64}):
        sealed.write(path, "verdicts", held | other)
        with pytest.raises(SealedError, match=r"figure9\.json"):
            gather.entries(PLAN, ["figure9"], root)


def test_a_variant_has_its_own_folder_command_and_grades(figure9_made: Path) -> None:
    plan = Plan("smoke", 2, {"li_icl": {"relevant_fraction": 0.6}}, "fewer")
    (one,) = gather.entries(plan, ["figure9"], figure9_made)
    assert one["missing"] == ["verdicts", "table", "picture"]
    assert one["command"] == plan.command("figure9")
    graded = constants(list(plan.sweeps("figure9").values()), PLAN.sweeps("figure9"), {})
    assert [row["name"] for row in graded if row["grade"] == "changed"] == ["relevant_fraction"]
    assert "relevant_fraction" in render.html(plan, [one]).split("<nav", 1)[0]


@pytest.mark.parametrize("scale", ["laptop", "smoke"])
def test_a_value_that_a_scale_reduces_is_not_graded_as_published(scale: str) -> None:
    """The configuration of the published code is that of the paper scale alone."""
    ours, papers = figures.sweeps("garg_linear", scale, {}), figures.sweeps("garg_linear", "paper", {})
    graded = {row["name"]: row["grade"] for row in constants(list(ours.values()), ours, papers)}
    (mine,), (theirs,) = ours.values(), papers.values()
    differ = {name for name in graded if values(mine, name) != values(theirs, name)}
    assert {"steps", "dimension", "learning_rate"} <= differ
    assert {name for name, grade in graded.items() if grade == "reduced"} == differ
    assert "reduced" not in {row["grade"] for row in constants(list(papers.values()), papers, papers)}


@pytest.mark.parametrize(
    ("bound", "interval", "expected"),
    [
        (">= 0.7", (0.9, 0.8, 1.0), 2.0),
        ("<= 0.7", (0.9, 0.8, 1.0), -2.0),
        ("in [0.5, 1]", (0.9, 0.8, 1.0), 1.0),
        ("in [-1e+03, 1e-05]", (0.0, -1e-5, 1e-5), 1.0),
        (">= 0.7", (0.9, 0.9, 0.9), None),
        (">= 0.7", (None, None, None), None),
    ],
)
def test_the_margin_is_in_half_widths_of_the_interval(bound: str, interval: Any, expected: float | None) -> None:
    part = dict(zip(("estimate", "low", "high"), interval, strict=True)) | {"bound": bound}
    assert margin(part) == (None if expected is None else pytest.approx(expected))


def test_axes_are_logarithmic_where_decades_ask_for_it() -> None:
    assert spans_decades([1e-3, 1.0])
    assert not spans_decades([0.1, 1.0])
    assert not spans_decades([0.0, 1.0])
    assert not spans_decades([])


def test_every_figure_can_be_entered_without_results() -> None:
    plan = Plan("laptop")
    pages = [entry(plan, name, Files()) for name in discovery.figures()]
    assert all(one["missing"] for one in pages)
    assert render.html(plan, pages).count("<article") == len(pages)


def test_changes_speak_of_the_claim_they_belong_to(whole: dict[str, Any]) -> None:
    change = compare.Change("figure9", "other", "x", ">= 0", None, None, "", "supported", compare.REMOVED)
    assert not entry(PLAN, "figure9", Files(), [change])["changed"]
