"""The commands in README and docs exist, their generated parts are current, and the gallery is complete."""

import json
import re
import shutil
from pathlib import Path

import pytest

from icl.core import discovery
from icl.core.config import FIRST_SEED, GRADES, Constants, constant
from icl.evidence import ledger, published_curves, sensitivity
from icl.pipeline.plan import Plan
from icl.report import costs, counting, documents, gallery, scales, tables, verdict_files

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCS = {path.relative_to(ROOT / "docs").as_posix(): path.read_text(encoding="utf-8")
        for path in sorted((ROOT / "docs").rglob("*.md"))}  # fmt: skip
TEXT = "\n".join([README, *DOCS.values()])
KEPT = json.loads((ROOT / "gallery/verdicts.json").read_text(encoding="utf-8"))
PICTURES = {path.name for path in (ROOT / "gallery").iterdir()}
OTHERS = verdict_files.on_other_seeds(ROOT / "gallery/replicates.json", scales.shown(KEPT))
SHOWN = verdict_files.decided(scales.shown(KEPT), OTHERS)
"""Figures added since the last `make gallery` are not in it."""
MEND = "run `snakemake gallery_text`; with results of a figure `snakemake gallery --config only=<figure>`"


def test_every_make_target_named_in_the_documentation_exists() -> None:
    own = re.search(r"^OWN := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert own is not None
    rules = "\n".join(path.read_text() for path in (ROOT / "workflow/rules").glob("*.smk"))
    known = {*own.group(1).split(), *discovery.figures()}
    known |= set(re.findall(r"^(?:use )?rule (?:\w+ as )?(\w+)\b", rules, re.MULTILINE))
    named = set(re.findall(r"`make (\w+)", TEXT)) | set(re.findall(r"^make (\w+)", TEXT, re.MULTILINE))
    # The documentation adds some figures as examples.
    assert named <= known | set(re.findall(r"icl new figure \w+ (\w+)", TEXT))


def test_readme_and_generated_pages_are_current() -> None:
    assert gallery.with_section(README, "gallery", documents.readme(SHOWN, OTHERS)) == README, MEND
    pages = documents.pages(SHOWN, PICTURES, OTHERS)
    assert {name: DOCS.get(name) for name in pages} == pages, MEND
    assert {name for name in DOCS if name.startswith("gallery/")} <= set(pages), MEND


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 150


def test_links_of_readme_and_docs_lead_to_files() -> None:
    texts = {"README.md": README} | {f"docs/{name}": text for name, text in DOCS.items()}
    dead = [
        (name, link)
        for name, text in texts.items()
        for link in re.findall(r'(?:\]\(|src=")(?!https?:|#)([^)"#\s]+)', text)
        if not ((ROOT / name).parent / link).exists()
    ]
    assert dead == []


def test_every_picture_is_shown_and_the_gallery_is_small() -> None:
    shown = set(re.findall(r"\]\(\.\./\.\./gallery/([^)]+)\)", TEXT))
    assert {f"{name}.png" for name in KEPT} <= shown
    assert sum(path.stat().st_size for path in (ROOT / "gallery").iterdir()) < 12e6


def test_overlays_are_shown_for_exactly_the_published_figures() -> None:
    shown = set(re.findall(r"gallery/(\w+)_overlay.png\)", "".join(documents.pages(SHOWN, PICTURES, OTHERS).values())))
    assert shown == {name for name in KEPT if published_curves.load(name) is not None}, MEND


def test_a_contradicted_figure_claim_is_not_about_a_theorem() -> None:
    part = {
        "outcome": "contradicted",
        "observable": "growth",
        "statistic": "mean",
        "estimate": 1.0,
        "low": 0.9,
        "high": 1.1,
        "bound": ">= 2",
    }
    said = documents.meaning(ledger.claim("A-F24"), {"outcome": "contradicted", "parts": [part]})
    assert "published picture" in said
    assert "says nothing about a theorem" in said
    assert documents.meaning(ledger.claim("A-F24"), {"outcome": "supported", "parts": [part]}) == ""


def test_the_tables_of_the_gallery_are_current() -> None:
    names = ("verdicts", "constants", "costs", "reduced")
    kept = {name: (ROOT / f"gallery/{name}.md").read_text(encoding="utf-8") for name in names}
    assert scales.markdown(KEPT) == kept["reduced"], MEND
    assert costs.at_scales(json.loads((ROOT / "gallery/costs.json").read_text(encoding="utf-8"))) == kept["costs"], MEND
    verdicts = verdict_files.markdown(SHOWN, sensitivity.fragile(), OTHERS)
    assert verdict_files.with_identities(verdict_files.multiplicity(SHOWN) + "\n" + verdicts) == kept["verdicts"], MEND
    assert gallery.constants(gallery.all_constants(KEPT)) == kept["constants"], MEND


def test_the_committed_verdicts_are_those_of_the_ledger() -> None:
    """They have its bounds and order; a claim whose bounds changed is listed as not judged."""
    assert scales.current(KEPT) == KEPT, MEND
    for name, verdicts in KEPT.items():
        for scale in {verdict["scale"] for verdict in verdicts}:
            judged = [verdict["claim"] for verdict in scales.at(verdicts, scale)]
            claims = [claim.id for claim in ledger.claims(name) if scale in (claim.scales or (scale,))]
            assert judged == [claim for claim in claims if claim in judged], MEND


def test_bars_and_line_breaks_end_no_cell() -> None:
    text = tables.markdown(["a", "b"], [["one | two", "three\nfour"], ["0010", 1e5]])
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines()]
    assert [[cell.strip() for cell in row] for row in rows] == [
        ["a", "b"], ["---", "---"], ["one \\| two", "three four"], ["0010", "100000.0"],
    ]  # fmt: skip


def test_all_costs_together_count_a_shared_training_once(figure9_made: Path, tmp_path: Path) -> None:
    """Two figures share a training: two shards of 2 s by their weights, and two minutes of measuring each.

    The benchmarks of the shards are those of the last process of a resumed training.
    """
    shutil.copytree(figure9_made, tmp_path, dirs_exist_ok=True)
    plan, benchmarks = Plan("smoke"), tmp_path / "results/smoke/benchmarks"
    for name, seconds in (("train/li_icl.0of2", 1), ("train/li_icl.1of2", 1), ("measure/figure9", 120),
                          ("measure/figure10", 120)):  # fmt: skip
        (benchmarks / f"{name}.tsv").write_text(f"s\tcpu_time\tmax_rss\n1\t{seconds}\t400\n")
    found = costs.of_figure(plan, "figure9", tmp_path)
    assert {job: cost.cpu for job, cost in found.items()} == {"training li_icl": 4.0, "measure": 120.0}
    assert found["training li_icl"].disk > 0
    listed = costs.markdown(costs.updated({}, plan, ["figure9", "figure10"], tmp_path), "smoke")
    assert "4 CPU minutes, 0 of them for training." in listed


def test_costs_stay_until_a_job_runs_again_and_unneeded_trainings_are_removed(tmp_path: Path) -> None:
    plan, (first, second) = Plan("smoke"), ("figure9", "figure10")
    kept = {name: {"training li_icl": [9.0, 1.0, 1.0], "training gone": [5.0, 1.0, 1.0], "measure": [3.0, 1.0, 1.0]}
            for name in (first, second)}  # fmt: skip
    path = tmp_path / "results/smoke/benchmarks/train/li_icl.0of2.tsv"
    path.parent.mkdir(parents=True)
    path.write_text("s\tcpu_time\tmax_rss\n1\t7\t400\n")
    found = costs.updated(kept, plan, [first], tmp_path)
    assert found[first] == {"training li_icl": [7.0, 400.0, 0.0], "measure": [3.0, 1.0, 1.0]}
    assert found[second] == found[first]


def test_a_benchmark_without_numbers_is_named(tmp_path: Path) -> None:
    path = tmp_path / "figure9.tsv"
    path.write_text("s\tcpu_time\tmax_rss\n1\t-\tNA\n")
    assert costs.benchmark(path) == (0.0, 0.0)
    path.write_text("nothing")
    with pytest.raises(ValueError, match=r"figure9\.tsv"):
        costs.benchmark(path)


def test_every_citation_is_in_the_references_and_no_other() -> None:
    entries = re.findall(r"^@\w+\{(\w+),", (ROOT / "references.bib").read_text(encoding="utf-8"), re.MULTILINE)
    assert {key for paper in ledger.papers() for key in paper.cite} == set(entries)


def test_every_constant_has_a_grade_and_a_source() -> None:
    for heading, instances in gallery.all_constants(discovery.figures()).items():
        for row in (row for instance in instances for row in instance.graded()):
            assert row["grade"] in GRADES, (heading, row["name"])
            assert len(row["source"]) > 10, (heading, row["name"])


def test_a_constant_without_a_known_grade_is_refused() -> None:
    with pytest.raises(ValueError, match="guessed"):
        constant(1.0, "guessed", "nowhere")
    assert Constants().graded() == []


def test_sections_are_replaced_and_nothing_else() -> None:
    text = "before\n<!-- costs:begin (note) -->\nold\n<!-- costs:end -->\nafter"
    assert gallery.with_section(text, "costs", "new | x\\1") == (
        "before\n<!-- costs:begin (note) -->\n\nnew | x\\1\n\n<!-- costs:end -->\nafter"
    )
    with pytest.raises(ValueError, match="gallery"):
        gallery.with_section(text, "gallery", "new")


def test_verdict_lines_and_counts(figure9_results: Path) -> None:
    one = verdict_files.load(figure9_results / "results/smoke/verdicts/figure9.json")
    one["verdicts"][0]["parts"][0] |= {"estimate": 0.5, "low": None, "high": 0.75, "bound": "<= 1", "runs": 7}
    said = verdict_files.lines(one | {"diverged": ["sweep s, run 0"]})
    assert "mean 0.5 [-, 0.75], claimed <= 1, 7 runs" in said
    assert ledger.claims("figure9")[0].tested in said
    assert said.endswith("diverged      sweep s, run 0\n")
    row = f"| {verdict_files.KINDS['figure']} | 0 | 0 | 1 | 0 |"
    assert any(line.startswith(row) for line in counting.counts([one]).splitlines())


def test_the_constant_changed_in_the_readme_is_accepted_beside_all_figures() -> None:
    system, name, value = re.search(r"SET='(\w+): \{(\w+): ([\d.]+)\}'", TEXT).groups()  # type: ignore[union-attr]
    plan = Plan.of(
        {"scale": "laptop", "shards": 2, "constants": {system: {name: value}}, "variant": "", "first_seed": FIRST_SEED}
    )
    changed = {sweep.name: {getattr(c, name) for c in sweep.configs} for _, sweep in plan.trainings.values()
               if sweep.system == system}  # fmt: skip
    assert changed["li_icl"] == {float(value)}
    assert f"{name} = {value}" in plan.note("figure9")
    # A sweep over the constant keeps its own values, and its figure has no note of a change.
    assert len(changed["li_icl_alpha"]) > 1
    assert name not in plan.note("icl_rates")
