"""The gallery's two files, their update from results, and what README and docs name."""

import re
import shutil
from pathlib import Path

import pytest
from conftest import ROOT

from icl import registry
from icl.core import provenance, runs
from icl.core.records import RecordError
from icl.evidence import freeze, ledger
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
        assert gallery.is_current(line), line["claim"]
        assert ledger.claim(line["claim"]).figure == line["figure"]
        assert Verdict.read(line).plain().items() <= line.items()
    line = next(line for line in LINES if line["claim"] == "G9-small")
    first, *others = line["parts"]
    moved = [first | {"at_most": 7.0}, *others]
    for change in ({"claim": "gone"}, {"parts": others}, {"parts": moved}, {"scale": "paper"}):
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
    about |= {"figure": "figure9", "scale": "smoke", "seeds": 0}
    measured = line.pop("costs")
    assert line == about and measured["measure"][0] == 3.0
    shards = list(map(Path, PLAN.run_files("figure9")))
    seconds = sum(runs.read_arrays(path)[1]["cpu_seconds"] for path in shards)
    assert measured["training li_icl"][0] == pytest.approx(seconds, abs=0.01)
    shutil.copy(shards[0], shards[0].with_name("0of9.safetensors"))  # of another number of shards
    assert costs.of_figure(PLAN, "figure9")["training li_icl"] == measured["training li_icl"]
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
    lines = gallery.read(ROOT / gallery.FIGURES)
    assert gallery.unclean(lines) == gallery.mixtures(lines) == []
    assert all(line["scale"] != "smoke" and line["date"] and line["parts"] for line in LINES)


def test_a_sample_of_fewer_seeds_than_the_gallerys_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line = {"figure": "figure9", "scale": "smoke", "seeds": 0}
    monkeypatch.setattr(gallery, "read", lambda path: [line])
    assert gallery.larger_samples(PLAN, ["figure9"]) == []
    fewer = Plan("smoke", seeds=1)
    (found,) = gallery.larger_samples(fewer, ["figure9"])
    assert found == "figure9 (smoke): the gallery has more seeds"
    assert gallery.larger_samples(fewer, ["figure8"]) == []


def test_a_mixture_of_revisions_versions_or_machines_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    about = {"revision": "a", "clean": True, "python": "3", "versions": {}, "arithmetic": {}}
    line = {"figure": "figure9", "scale": "laptop", "about": about}
    assert gallery.mixtures([line, line | {"scale": "paper"}]) == []
    for change in ({"revision": "b"}, {"python": "4"}, {"arithmetic": {"processor": "x"}}):
        other = line | {"figure": "figure8", "about": about | change}
        (found,) = gallery.mixtures([line, other])
        assert "figure9 (laptop), figure8 (laptop)" in found
        monkeypatch.setattr(freeze, "frozen", lambda: {"A-P1b": {}})  # a claim on figure 9
        assert gallery.mixtures([line, other]) == []
        monkeypatch.undo()
    monkeypatch.setattr(gallery, "_is_in_history", lambda revision: revision != "gone")
    assert gallery.unclean([line]) == []
    for flaw in ({"revision": "gone"}, {"clean": False}, {"clean": None}):
        (found,) = gallery.unclean([line | {"about": about | flaw}])
        assert found.startswith("figure9 (laptop): was not made from a revision")


def test_an_outcome_that_another_order_of_sums_moves_is_shown_beside_it(
    figure9: results.Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    (verdict,) = figure9.records["figure9"]["verdicts"]
    gallery.update(PLAN, figure9.records)
    monkeypatch.setenv("MKL_CBWR", "SSE4_2")
    for outcome, is_moved in (("inconclusive", False), ("supported", True)):
        record = figure9.records["figure9"] | {"verdicts": [verdict | {"outcome": outcome}]}
        gallery.update(PLAN, {"figure9": record})
        (entry,) = entries.from_gallery()
        (card,) = entry.cards
        assert card.rejudged == ("smoke", outcome, "inconclusive")
        assert card.outcome == "inconclusive" and card.is_moved is is_moved
    assert len(gallery.read(gallery.FIGURES)) == 1


WORKSTATION = {"scale": "workstation"}


@pytest.mark.parametrize(
    ("claim", "first", "second", "repeats"),
    [
        ("A-P1b", {}, {"outcome": "supported"}, "yes"),
        ("A-P1b", {}, {"outcome": "contradicted"}, "no: contradicted"),
        # Another scale repeats nothing, nor is anything computed repeated.
        ("A-P1b", {}, {"outcome": "contradicted", "scale": "paper"}, "–"),
        ("S2", {}, {"outcome": "contradicted"}, "–"),
        # A figure is shown at its largest scale only, and samples of a smaller one beside it.
        ("A-P1b", WORKSTATION, {"outcome": "supported"}, "yes at the laptop scale"),
        ("A-P1b", WORKSTATION, {"outcome": "no"}, "no: no at the laptop scale"),
    ],
)
@pytest.mark.usefixtures("figure9")
def test_a_second_sample_repeats_or_not(
    claim: str, first: dict[str, str], second: dict[str, str], repeats: str
) -> None:
    lines = [line for line in LINES if gallery.is_first(line) and line["claim"] == claim]
    (laptop,) = [line for line in lines if line["scale"] == "laptop"]
    again = laptop | {"first_seed": 2000} | second
    rejudged = laptop | {"other_arithmetic": True, "outcome": "inconclusive"}
    later = again | {"first_seed": 3000, "outcome": NOT_TESTED}
    gallery.write(gallery.VERDICTS, [laptop | first, laptop, again, later, rejudged])
    (entry,) = entries.from_gallery()
    (card,) = [card for card in entry.cards if card.claim.id == claim]
    assert entry.plan.scale == first.get("scale", "laptop")
    assert (card.outcome, card.repeats) == (laptop["outcome"], repeats)
    assert card.rejudged == ("laptop", "inconclusive", laptop["outcome"]) and card.is_moved
    for other in entry.cards:
        if entry.plan.scale not in (other.claim.scales or [entry.plan.scale]):
            assert other.outcome == NOT_TESTED


def test_costs_count_a_training_once_and_a_damaged_benchmark_is_named(tmp_path: Path) -> None:
    trained = {"training a": (60, 1, 1)}
    two = [trained | {"measure": (5, 1, 1)}, trained | {"draw": (1, 1, 1)}]
    assert costs.total(("laptop", one) for one in two) == (66, 60)
    assert costs.total(zip(("laptop", "paper"), two, strict=True)) == (126, 120)
    path = tmp_path / "figure9.tsv"
    path.write_text("s\tcpu_time\tmax_rss\n1\t-\tNA\n")
    assert costs.benchmark(path) == (0.0, 0.0)
    path.write_text("nothing")
    with pytest.raises(RecordError, match=r"figure9\.tsv"):
        costs.benchmark(path)


def test_expected_costs_grow_with_the_runs_of_a_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measured here with ten seeds; measuring and drawing cost the same for any number."""
    measured = {"training garg": [600.0, 1, 1], "measure": [5.0, 1, 1]}
    of_garg = {"scale": "laptop", "seeds": 10, "costs": measured}
    lines = [of_garg | {"figure": "garg_linear"}, of_garg | {"figure": "garg_shifts"}]
    # At the workstation scale a figure of the paper's size is measured as one of its own scale.
    lines += [{"figure": "cot_rates", "scale": "workstation", "costs": {"measure": [5.0, 1, 1]}}]
    monkeypatch.setattr(gallery, "read", lambda path: lines)
    names = ["garg_linear", "garg_shifts", "figure9"]
    assert gallery.expected_costs(Plan("laptop", seeds=20), names) == (1210, ["figure9"])
    assert gallery.expected_costs(Plan("laptop"), names[:1]) == (305, [])
    assert gallery.expected_costs(Plan("workstation"), [*names, "cot_rates"]) == (5, names)


def test_what_the_documentation_names_exists() -> None:
    paths = [ROOT / "README.md", *(ROOT / "gallery").glob("*.md"), *(ROOT / "docs").glob("*.md")]
    pages = {path: path.read_text("utf-8") for path in paths}
    text = "\n".join(pages.values())
    makefile = (ROOT / "Makefile").read_text("utf-8")
    rules = "\n".join(path.read_text("utf-8") for path in (ROOT / "workflow/rules").glob("*.smk"))
    targets = {*registry.figures(), *re.findall(r"icl new figure \w+ (\w+)", text)}
    targets |= set(re.findall(r"(?m)^(?:use )?rule (?:\w+ as )?(\w+)\b", rules))
    targets |= set(" ".join(re.findall(r"(?m)^OWN := (.*)$", makefile)).split())
    assert set(re.findall(r"(?m)(?:`|^)make (\w+)", text)) <= targets
    for path, of_page in pages.items():
        for link in re.findall(r'(?:\]\(|src=")(?!https?:|#)([^)"#\s]+)', of_page):
            assert (path.parent / link).exists(), (path.name, link)
    assert sum(path.stat().st_size for path in (ROOT / "gallery").iterdir()) < 16e6
    found = re.findall(r"(?m)^@\w+\{(\w+),", (ROOT / "references.bib").read_text("utf-8"))
    assert {key for paper in ledger.papers() for key in paper.cite} == set(found)
