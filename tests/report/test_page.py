"""The report: what it says, that it loads nothing else, its size, and that equal results give equal bytes."""

import copy
import csv
import io
import json
import re
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest
import yaml
from conftest import ROOT
from PIL import Image

from icl.core import discovery, sealed, table
from icl.core.sealed import SealedError
from icl.evidence import ledger, sensitivity
from icl.pipeline import figures
from icl.pipeline.plan import Plan
from icl.report import compare, scales, verdict_files
from icl.report.page import claims, constants, gather, overview, pictures, render
from icl.report.page.entries import Files, agreement, entry
from icl.report.page.intervals import HEIGHT, WIDTH, axis, drawing, margin
from icl.report.page.overview import warnings

PLAN = Plan("smoke")
LARGEST = 4_000_000
"""Bytes of the whole report at most."""


@pytest.fixture(scope="module")
def whole(figure9_made: Path) -> dict[str, Any]:
    return gather.entries(PLAN, ["figure9"], figure9_made)[0]


@pytest.fixture(scope="module")
def gallery() -> list[dict[str, Any]]:
    """The entries of all figures, with the verdicts and pictures of the gallery."""
    plan, folder = Plan("laptop"), ROOT / "gallery"
    kept = scales.current(json.loads((folder / "verdicts.json").read_text(encoding="utf-8")))
    tested = [
        one | {"verdicts": [verdict for verdict in one["verdicts"] if verdict["parts"]]} for one in scales.shown(kept)
    ]
    judged = {one["figure"]: one for one in tested}
    made = []
    for name in plan.figures:
        paths = {path.stem.removeprefix(name): folder / Path(path).name for path in map(Path, plan.pictures(name))}
        files = Files(
            {"fidelity": [], "diverged": [], **judged[name]} if name in judged else None,
            pictures={
                end: path.read_bytes() for end, path in paths.items() if path.suffix == ".png" and path.is_file()
            },
        )
        made.append(entry(plan, name, files, (), gather.replicates(plan, ROOT)))
    return made


@pytest.fixture(scope="module")
def everything(gallery: list[dict[str, Any]]) -> str:
    return render.html(Plan("laptop"), gallery)


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


def test_the_page_loads_nothing_else(everything: str) -> None:
    """Sources are data; links lead into the page, to arXiv, or to files of the repository that exist."""
    body = re.sub(r"<script>.*?</script>", "", everything, flags=re.DOTALL)
    assert everything.count("<script") == everything.count("</script>") == 1
    assert all(source.startswith("data:image/webp") for source in re.findall(r'src="([^"]*)', body))
    assert "url(" not in body and "@import" not in body
    for address in set(re.findall(r'href="([^"#]+)"', body)):
        known = ("data:,", "data:text/csv", "https://arxiv.org/abs/")
        if not address.startswith(known) and "/figures/" not in address:
            assert (ROOT / address.removeprefix("../../../")).is_file(), address


def test_every_claim_has_one_card_and_one_row(everything: str, gallery: list[dict[str, Any]]) -> None:
    judged = sorted(claim["claim"] for one in gallery for claim in one["claims"])
    assert judged and len(judged) == len(set(judged))
    assert sorted(re.findall(r'<section class="claim [^"]*" id="([^"]+)"', everything)) == judged
    assert sorted(re.findall(r'<tr data-claim="([^"]+)"', everything)) == judged


def test_sums_leave_out_our_own_checks_and_identities(everything: str, gallery: list[dict[str, Any]]) -> None:
    kinds = [ledger.claim(claim["claim"]).kind for one in gallery for claim in one["claims"]]
    head = everything[everything.index('<table class="sums">') :]
    total, *rows = (
        [sum(map(int, re.findall(r">(\d+) <", cell))) for cell in re.split("<td[^>]*>", row)[1:]]
        for row in head[: head.index("</table>")].split("</tr>")[1:-1]
    )
    assert total == [kinds.count(kind) for kind in ("theorem", "remark", "figure", "number")]
    assert np.sum(rows, axis=0).tolist() == total
    assert kinds.count("ours") > 0
    own = {claim.id for paper in ledger.papers() for claim in paper.claims if claim.kind == "ours"}
    outside = re.sub(r'<details class="fold">.*?</details>', "", everything, flags=re.DOTALL)
    assert not own & set(re.findall(r'(?:id|data-claim)="([^"]+)"', outside))
    assert not {one.id for paper in ledger.papers() for one in paper.identities} & set(
        re.findall(r">([\w.-]+)</a>", outside)
    )


def test_the_whole_gallery_fits_in_four_megabytes(everything: str) -> None:
    assert len(everything.encode()) <= LARGEST


def test_pictures_have_sizes(everything: str) -> None:
    """Otherwise a link would land elsewhere once they are there."""
    images = re.findall(r"<img [^>]*>", everything)
    assert len(images) >= len(discovery.figures())
    assert all(re.search(r' width="\d+" height="\d+"', image) for image in images)


def test_a_compact_picture_has_few_colours_and_white_stays_white() -> None:
    data = (ROOT / "gallery" / "figure9.png").read_bytes()
    made = pictures.compact(data)
    assert made == pictures.compact(data)
    assert (made.width, made.height) == Image.open(io.BytesIO(data)).size
    assert len(made.source) < len(data)


def test_every_paper_has_three_sentences_and_the_table_of_its_theorems(gallery: list[dict[str, Any]]) -> None:
    for paper in overview.papers(gallery):
        said = f"{paper['about']} {paper['result']}"
        assert len(re.findall(r"\.(?= [A-Z0-9]|$)", said)) == 3, said
        theorems = {claim.id for claim in ledger.of_paper(paper["key"]).claims if claim.kind == "theorem"}
        assert {claim["claim"] for _, claim in paper["kinds"]["theorem"]} <= theorems
        assert sum(paper["sums"]["theorem"].values()) == len(paper["kinds"]["theorem"])


def test_verdicts_over_development_seeds_and_other_seeds_are_marked(whole: dict[str, Any]) -> None:
    early = copy.deepcopy(whole)
    early["claims"][0]["development"] = True
    assert not any(claim["development"] for claim in whole["claims"])
    assert "development seeds" not in render.html(PLAN, [whole])
    assert render.html(PLAN, [early]).count('<span class="tag">development seeds</span>') == 2
    assert any("developed on: figure9" in line for line in warnings([early]))
    assert gather.replicates(Plan("laptop"), ROOT)
    assert gather.replicates(PLAN, ROOT) == {}


def test_a_frame_that_differs_from_the_verdict_says_why(gallery: list[dict[str, Any]]) -> None:
    differ = 0
    for claim in (claim for one in gallery for claim in one["claims"]):
        for strip in claim["strips"]:
            (framed,) = [cell for cell in strip["cells"] if cell["chosen"]]
            assert bool(strip["why"]) == (framed["outcome"] != claim["outcome"])
            assert "_" not in strip["constant"]
            differ += bool(strip["why"])
    assert differ


def test_a_frame_at_a_value_that_is_no_longer_in_use_says_so() -> None:
    (name, (strip, *_)) = next(iter(sensitivity.strips().items()))
    row = {"system": strip.system, "name": strip.constant, "values": {"77": ["x"]}}
    assert "is 77 now" in constants.discrepancy(strip, {"claim": name, "outcome": "supported", "parts": []}, [row])


def test_the_weakest_constant_is_one_that_can_be_set(gallery: list[dict[str, Any]], whole: dict[str, Any]) -> None:
    moved = [claim["weakest"]["command"] for one in (*gallery, whole) for claim in one["claims"] if claim["weakest"]]
    for command in moved:
        name, said = re.fullmatch(r"make whatif FIGURE=(\w+) SET='(.*)'", command).groups()  # type: ignore[union-attr]
        assert Plan("smoke", 2, yaml.safe_load(said), "moved").sweeps(name)
    assert moved
    for one in gallery:
        for claim in one["claims"]:
            assert bool(claim["weakest"]) >= claim["fragile"]
            assert (
                not claim["fragile"]
                or "contradicted" in claim["weakest"]["why"]
                or "supported" in claim["weakest"]["why"]
            )


def test_the_numbers_of_a_claim_are_there_as_csv(whole: dict[str, Any], figure9_made: Path) -> None:
    rows, _ = table.read(figure9_made / "results/smoke/tables/figure9.parquet")
    for claim in whole["claims"]:
        lines = list(csv.reader(io.StringIO(unquote(claim["csv"].partition(",")[2]))))
        assert lines[0] == [claim["claim"], *(part["observable"] for part in claim["parts"])]
        seeds = {line[0] for line in lines if line[0].startswith("seed ")}
        assert seeds <= {f"seed {seed}" for seed in rows["seed"]}
        assert len(seeds) == max(part["runs"] for part in claim["parts"])


def test_every_run_is_a_point_of_the_drawing() -> None:
    part = {"observable": "a < b", "bound": "in [0.2, 0.8]", "statistic": "mean", "estimate": 0.5, "low": 0.4,
            "high": 0.6, "outcome": "supported"}  # fmt: skip
    svg = str(drawing(part, [0.1, 0.5, 0.5, 0.9]))
    assert svg.count("h0") == 4
    assert "a &lt; b" in svg and "4 single runs from 0.1 to 0.9" in svg
    assert svg.count('class="bound"') == 2
    places = [float(x) for x in re.findall(r'(?:[ "]M|cx="|H|x=")([\d.]+)', svg)]
    assert all(0 <= x <= WIDTH for x in places) and HEIGHT > 0
    assert str(drawing(part | {"estimate": None, "low": None, "high": None})) == ""


def test_a_value_that_the_interval_must_hold_is_drawn_and_said() -> None:
    part = {"observable": "slope", "bound": "in [-0.83, -0.58] and equal to -0.667", "estimate": -0.75, "low": -0.77,
            "high": -0.74, "outcome": "inconclusive", "statistic": "mean"}  # fmt: skip
    assert 'class="equal"' in str(drawing(part))
    assert render.bound_mathml(part["bound"]).endswith(", with −0.667 inside the interval")  # type: ignore[arg-type]


def test_an_axis_over_decades_is_logarithmic() -> None:
    place, logarithmic = axis([1e-4, 1.0])
    assert logarithmic and place(1e-2) == pytest.approx(WIDTH / 2)
    assert not axis([0.1, 1.0])[1] and not axis([0.0, 1.0])[1] and not axis([-1.0, 1.0])[1]
    assert np.isfinite(axis([0.0])[0](0.0))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("Li et al. 2025, theorems 5 and 6; talk", "theorem 5, theorem 6"),
        ("Zheng et al. 2024, Theorem 4.1", ""),
        ("talk pages 11 and 14", "page 11, page 14"),
    ],
)
def test_theorems_in_the_plural_are_found_one_by_one(source: str, expected: str) -> None:
    assert claims.names(source) == expected


def test_the_first_screen_leaves_out_how_a_statement_is_known() -> None:
    assert claims.brief("Known second-hand, from the author's talk: theorem 2. If S > 1") == "Theorem 2. If S > 1"
    assert claims.brief("Known from a talk, the authors' poster; the text could not be consulted. With") == "With"
    assert claims.brief("For large M the prediction") == "For large M the prediction"


def test_agreement_is_a_factor_or_a_difference() -> None:
    rows = [{"distance": "log10 ratio", "median": m} for m in (0.301, 0.4771, None)]
    assert agreement(rows) == "factor 2 to 3"
    assert agreement([{"distance": "absolute difference", "median": 0.012}]) == "difference 0.012"
    assert agreement([]) == ""


def test_every_figure_and_claim_has_one_anchor_and_every_link_a_target(page: str) -> None:
    anchors = re.findall(r'\sid="([^"]+)"', re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL))
    assert len(anchors) == len(set(anchors))
    assert {"figure9", "figure12", "A-P1b"} <= set(anchors)
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(anchors)


def test_verdicts_are_on_the_page_in_words_and_formula(page: str, whole: dict[str, Any]) -> None:
    claim = whole["claims"][0]
    assert all(claim[part].replace("'", "&#39;") in page for part in ("says", "tested", "not_shown", "kind", "source"))
    assert "<mn>0.38</mn><mo>,</mo><mn>0.46</mn>" in page
    assert "<math><mo>≥</mo><mn>0.94</mn></math>" in page
    assert "make figure9 SCALE=smoke" in page


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
    line = "1 of 2 figures are not made yet: figure12; `make figures` makes all"
    entries = gather.entries(PLAN, ["figure9", "figure12"], figure9_made)
    assert line in warnings(entries)
    assert line.replace("'", "&#39;") in page and line in render.markdown(PLAN, entries)
    nothing = gather.entries(Plan("laptop"), ["figure9"], tmp_path)
    assert nothing[0]["missing"] == ["verdicts", "table", "picture"]
    assert "Not made yet: verdicts, table, picture" in render.html(Plan("laptop"), nothing)


def test_mixed_scales_and_revisions_are_shown_as_such(whole: dict[str, Any]) -> None:
    other = copy.deepcopy(whole) | {"name": "figure12"}
    other["claims"][0]["scale"], other["claims"][0]["claim"] = "laptop", "A-X"
    other["provenance"] |= {"revision": "0123456789abcdef", "clean": False}
    whole["provenance"]["revision"] = "fedcba9876543210"
    said = warnings([whole, other])
    assert "mixed scales: laptop, smoke; each verdict names its own" in said
    assert "mixed revisions: 0123456789ab, fedcba987654; each figure names its own" in said
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
    graded = constants.rows(list(plan.sweeps("figure9").values()), PLAN.sweeps("figure9"), {})
    assert [row["name"] for row in graded if row["grade"] == "changed"] == ["relevant_fraction"]
    assert "relevant_fraction" in render.html(plan, [one]).split("<nav", 1)[0]


@pytest.mark.parametrize("scale", ["laptop", "smoke"])
def test_a_value_that_a_scale_reduces_is_not_graded_as_published(scale: str) -> None:
    """The configuration of the published code is that of the paper scale alone."""
    ours, papers = figures.sweeps("garg_linear", scale, {}), figures.sweeps("garg_linear", "paper", {})
    graded = {row["name"]: row["grade"] for row in constants.rows(list(ours.values()), ours, papers)}
    (mine,), (theirs,) = ours.values(), papers.values()
    differ = {name for name in graded if constants.values(mine, name) != constants.values(theirs, name)}
    assert {"steps", "dimension", "learning_rate"} <= differ
    assert {name for name, grade in graded.items() if grade == "reduced"} == differ
    assert "reduced" not in {row["grade"] for row in constants.rows(list(papers.values()), papers, papers)}


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


def test_every_figure_can_be_entered_without_results() -> None:
    plan = Plan("laptop")
    pages = [entry(plan, name, Files()) for name in discovery.figures()]
    assert all(one["missing"] for one in pages)
    assert render.html(plan, pages).count("<article") == len(pages)


def test_changes_speak_of_the_claim_they_belong_to(whole: dict[str, Any]) -> None:
    change = compare.Change("figure9", "other", "x", ">= 0", None, None, "", "supported", compare.REMOVED)
    assert not entry(PLAN, "figure9", Files(), [change])["changed"]
