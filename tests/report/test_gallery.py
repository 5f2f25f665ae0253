"""The gallery's two files, their update from results, and what README and docs name."""

import re
from pathlib import Path

import pytest
from conftest import ROOT

from icl import registry
from icl.core import provenance, runs
from icl.core.records import RecordError
from icl.evidence import ledger
from icl.evidence.judging import NOT_TESTED, Verdict
from icl.pipeline.config import FIRST_SEED
from icl.pipeline.plan import Plan
from icl.report import costs, entries, gallery, results

PLAN = Plan("smoke")
LINES = gallery.read(ROOT / gallery.VERDICTS)


def test_every_verdict_is_stored_once_and_on_the_bounds_of_the_ledger() -> None:
    names = ("claim", "scale", "first_seed", "other_arithmetic")
    assert len({tuple(map(line.get, names)) for line in LINES}) == len(LINES)
    for line in LINES:
        assert gallery.is_current(line) and ledger.claim(line["claim"]).figure == line["figure"], (
            line["claim"]
        )
        assert Verdict.read(line).plain().items() <= line.items()
    line = next(line for line in LINES if line["parts"])
    first, *others = line["parts"]
    assert not gallery.is_current(
        next(one for one in LINES if one["claim"] == "G9-small") | {"scale": "paper"}
    )
    for change in (
        {"claim": "gone"},
        {"parts": others},
        {"parts": []},
        {"parts": [first | {"at_most": 7.0}, *others]},
    ):
        assert not gallery.is_current(line | change), change


def test_an_update_replaces_its_scale_and_seeds_and_the_largest_scale_is_shown(
    figure9: results.Found,
) -> None:
    records = figure9.records
    kept = [line for line in LINES if line["figure"] in ("figure9", "figure10")]
    gallery.write(gallery.VERDICTS, kept)
    gallery.update(Plan("smoke", first_seed=7), records)
    assert not gallery.FIGURES.exists()  # other seeds add nothing but their verdicts
    for _ in range(2):
        gallery.update(PLAN, records)
    assert [line for line in gallery.read(gallery.VERDICTS) if line["scale"] != "smoke"] == kept
    second, first = (line for line in gallery.read(gallery.VERDICTS) if line["scale"] == "smoke")
    assert (second["first_seed"], first["first_seed"]) == (7, FIRST_SEED)
    assert Verdict.read(first).plain() == records["figure9"]["verdicts"][0]
    (line,), record = gallery.read(gallery.FIGURES), records["figure9"]
    about = {key: record[key] for key in ("distances", "diverged", "about")}
    assert line == {
        "figure": "figure9",
        "scale": "smoke",
        "seeds": 0,
        "costs": line["costs"],
        **about,
    }
    weights = [runs.read_arrays(Path(path))[1]["cpu_seconds"] for path in PLAN.run_files("figure9")]
    assert line["costs"]["training li_icl"][0] == pytest.approx(sum(weights), abs=0.01)
    assert line["costs"]["measure"][0] == 3.0
    entry = next(entry for entry in entries.from_gallery() if entry.name == "figure9")
    assert (entry.plan.scale, entry.cards[0].outcome, entry.pictures) == ("laptop", "supported", {})
    gallery.VERDICTS.unlink()
    gallery.update(PLAN, records)
    (entry,) = entries.from_gallery()
    assert entry.plan.scale == "smoke" and set(entry.pictures) == {"", "_compared"}
    assert {path.suffix for path in gallery.FOLDER.iterdir()} == {".jsonl", ".png"}


def test_the_committed_results_are_of_one_revision_and_one_machine() -> None:
    if not provenance.is_clone() or (ROOT / ".git/shallow").exists():
        pytest.skip("the commits are not at hand: an archive, or a shallow clone")
    assert gallery.mixtures(gallery.read(ROOT / gallery.FIGURES)) == []
    judged = [line for line in LINES if line["scale"] != "smoke"]
    assert judged == LINES and all(line["date"] and line["parts"] for line in judged)


def test_a_mixture_of_revisions_versions_or_machines_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gallery, "_is_in_history", lambda revision: revision != "gone")
    about = {"revision": "a", "clean": True, "python": "3", "versions": {}, "arithmetic": {}}
    line = {"figure": "figure9", "scale": "laptop", "about": about}
    assert gallery.mixtures([line, line | {"scale": "paper"}]) == []
    for key, value in (("revision", "b"), ("python", "4"), ("arithmetic", {"processor": "x"})):
        (found,) = gallery.mixtures(
            [line, line | {"figure": "figure8", "about": about | {key: value}}]
        )
        assert "figure9 (laptop), figure8 (laptop)" in found
    for key, value in (("revision", "gone"), ("clean", False), ("clean", None)):
        (found,) = gallery.mixtures([line | {"about": about | {key: value}}])
        assert found.startswith("figure9 (laptop): was not made from a revision")


@pytest.mark.usefixtures("figure9")
def test_an_outcome_that_another_order_of_sums_moves_is_shown_beside_it(
    figure9: results.Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    (verdict,) = figure9.records["figure9"]["verdicts"]
    monkeypatch.setenv("MKL_CBWR", "SSE4_2")
    for outcome, is_moved in (("inconclusive", False), ("supported", True)):
        gallery.VERDICTS.unlink(missing_ok=True)
        monkeypatch.delenv("MKL_CBWR")
        gallery.update(PLAN, figure9.records)
        monkeypatch.setenv("MKL_CBWR", "SSE4_2")
        record = figure9.records["figure9"] | {"verdicts": [verdict | {"outcome": outcome}]}
        gallery.update(PLAN, {"figure9": record})
        (entry,) = entries.from_gallery()
        (card,) = entry.cards
        assert card.rejudged == ("smoke", outcome, "inconclusive")
        assert card.outcome == "inconclusive" and card.is_moved is is_moved
    assert len(gallery.read(gallery.FIGURES)) == 1


@pytest.mark.parametrize(
    ("claim", "scale", "second", "repeats"),
    [
        ("A-P1b", "laptop", "supported", "yes"),
        ("A-P1b", "laptop", "contradicted", "no: contradicted"),
        ("A-P1b", "paper", "contradicted", "–"),  # another scale repeats nothing
        ("S2", "laptop", "contradicted", "–"),  # computed
    ],
)
@pytest.mark.usefixtures("figure9")
def test_a_second_sample_repeats_or_not(claim: str, scale: str, second: str, repeats: str) -> None:
    lines = [line for line in LINES if gallery.is_first(line) and line["claim"] == claim]
    (first,) = [line for line in lines if line["scale"] == "laptop"]
    other = {"first_seed": 2000, "scale": scale, "outcome": second}
    gallery.write(gallery.VERDICTS, [first, first | other])
    (entry,) = entries.from_gallery()
    (card,) = [card for card in entry.cards if card.claim.id == claim]
    assert (entry.plan.scale, card.outcome, card.repeats) == ("laptop", first["outcome"], repeats)
    not_run = [
        card for card in entry.cards if card.claim.scales and "laptop" not in card.claim.scales
    ]
    assert all(card.outcome == NOT_TESTED for card in not_run)


@pytest.mark.parametrize(
    ("second", "repeats"),
    [
        ("supported", "yes at the laptop scale"),
        ("inconclusive", "no: inconclusive at the laptop scale"),
    ],
)
@pytest.mark.usefixtures("figure9")
def test_at_a_larger_scale_the_samples_of_the_smaller_one_stand_beside_the_verdict(
    second: str, repeats: str
) -> None:
    """They would be lost otherwise, since a figure is shown at its largest scale only."""
    lines = [line for line in LINES if gallery.is_first(line) and line["claim"] == "A-P1b"]
    (first,) = [line for line in lines if line["scale"] == "laptop"]
    larger = first | {"scale": "workstation"}
    other = first | {"other_arithmetic": True, "outcome": "inconclusive"}
    gallery.write(
        gallery.VERDICTS, [larger, first, first | {"first_seed": 2000, "outcome": second}, other]
    )
    (entry,) = entries.from_gallery()
    (card,) = [card for card in entry.cards if card.claim.id == "A-P1b"]
    assert (entry.plan.scale, card.repeats) == ("workstation", repeats)
    assert card.rejudged == ("laptop", "inconclusive", first["outcome"]) and card.is_moved


def test_costs_count_a_training_once_and_a_damaged_benchmark_is_named(tmp_path: Path) -> None:
    two = [
        {"training a": (60, 1, 1), "measure": (5, 1, 1)},
        {"training a": (60, 1, 1), "draw": (1, 1, 1)},
    ]
    assert costs.total(two) == (66, 60)
    path = tmp_path / "figure9.tsv"
    path.write_text("s\tcpu_time\tmax_rss\n1\t-\tNA\n")
    assert costs.benchmark(path) == (0.0, 0.0)
    path.write_text("nothing")
    with pytest.raises(RecordError, match=r"figure9\.tsv"):
        costs.benchmark(path)


def test_expected_costs_grow_with_the_runs_of_a_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measured here with ten seeds; measuring and drawing cost the same for any number."""
    measured = {"training garg": [600.0, 1, 1], "measure": [5.0, 1, 1]}
    lines = [
        {"figure": name, "scale": "laptop", "seeds": 10, "costs": measured}
        for name in ("garg_linear", "garg_shifts")
    ]
    monkeypatch.setattr(gallery, "read", lambda path: lines)
    names = ["garg_linear", "garg_shifts", "figure9"]
    assert gallery.expected_costs(Plan("laptop", seeds=20), names) == (1210, ["figure9"])
    assert gallery.expected_costs(Plan("laptop"), names[:1]) == (305, [])
    assert gallery.expected_costs(Plan("workstation"), names) == (0, names)


def test_what_the_documentation_names_exists() -> None:
    paths = [ROOT / "README.md", *(ROOT / "gallery").glob("*.md"), *(ROOT / "docs").glob("*.md")]
    pages = {path: path.read_text(encoding="utf-8") for path in paths}
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    text = "\n".join(pages.values())
    rules = "\n".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "workflow/rules").glob("*.smk")
    )
    targets = {
        *registry.figures(),
        *re.findall(r"^(?:use )?rule (?:\w+ as )?(\w+)\b", rules, re.MULTILINE),
    }
    targets |= set(" ".join(re.findall(r"^OWN := (.*)$", makefile, re.MULTILINE)).split())
    targets |= set(re.findall(r"icl new figure \w+ (\w+)", text))
    assert set(re.findall(r"(?:`|^)make (\w+)", text, re.MULTILINE)) <= targets
    links = [
        (path, link)
        for path, of_page in pages.items()
        for link in re.findall(r'(?:\]\(|src=")(?!https?:|#)([^)"#\s]+)', of_page)
    ]
    assert [(path.name, link) for path, link in links if not (path.parent / link).exists()] == []
    assert sum(path.stat().st_size for path in (ROOT / "gallery").iterdir()) < 16e6
    found = re.findall(
        r"^@\w+\{(\w+),", (ROOT / "references.bib").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert {key for paper in ledger.papers() for key in paper.cite} == set(found)
