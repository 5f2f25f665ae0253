"""The README's commands exist, its generated parts are generated, and the gallery holds what it shows."""

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml

from icl import papers
from icl.core import discovery
from icl.core.config import GRADES, Constants, constant
from icl.evidence import published_curves
from icl.pipeline.plan import Plan
from icl.report.verdict_files import gallery, verdict_files
from studies.spaces import spaces

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
FIGURES = yaml.safe_load((ROOT / "workflow/config.yaml").read_text())["figures"]


def test_every_configured_figure_has_its_command_in_the_readme() -> None:
    assert gallery.lacking(TEXT, FIGURES) == []
    assert gallery.lacking(TEXT, ["figure_of_nothing"]) == ["figure_of_nothing"]


def test_every_make_target_named_in_the_readme_exists() -> None:
    own = re.search(r"^OWN := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert own is not None
    rules = "\n".join(path.read_text() for path in (ROOT / "workflow/rules").glob("*.smk"))
    known = {*own.group(1).split(), *FIGURES, *(f"calibrate_{name}" for name in spaces())}
    known |= set(re.findall(r"^(?:use )?rule (?:\w+ as )?(\w+)\b", rules, re.MULTILINE))
    named = set(re.findall(r"`make (\w+)", TEXT)) | set(re.findall(r"^make (\w+)", TEXT, re.MULTILINE))
    assert named <= known


def test_every_picture_shown_is_committed_and_small() -> None:
    shown = re.findall(r'src="(gallery/[^"]+)"', TEXT)
    assert {f"gallery/{name}.png" for name in FIGURES} <= set(shown)
    assert [name for name in shown if not (ROOT / name).is_file()] == []
    assert sum(path.stat().st_size for path in (ROOT / "gallery").iterdir()) < 10e6


def test_overlays_are_shown_for_exactly_the_published_figures() -> None:
    shown = set(re.findall(r'src="gallery/(\w+)_overlay.png"', TEXT))
    assert shown == {name for name in FIGURES if published_curves.load(name) is not None}


def test_constants_in_the_gallery_are_those_in_the_source() -> None:
    listed = (ROOT / "gallery/constants.md").read_text(encoding="utf-8")
    assert gallery.constants(gallery.all_constants(FIGURES)) + "\n" == listed


def test_a_bar_in_a_constant_s_letter_or_source_ends_no_cell() -> None:
    rows = gallery.constants(gallery.all_constants(FIGURES)).splitlines()
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {7}


def test_costs_are_given_for_every_figure() -> None:
    listed = (ROOT / "gallery/costs.md").read_text(encoding="utf-8")
    assert gallery.lacking(listed, FIGURES) == []


def test_all_costs_together_count_a_shared_training_once(figure9_made: Path, tmp_path: Path) -> None:
    """Two figures of one training: two shards of a minute, and two minutes of measuring each."""
    shutil.copytree(figure9_made, tmp_path, dirs_exist_ok=True)
    results = tmp_path / "results/smoke"
    shutil.copy(results / "tables/figure9.parquet", results / "tables/figure10.parquet")
    for name, seconds in (("train/li_icl.0of2", 60), ("train/li_icl.1of2", 60), ("measure/figure9", 120),
                          ("measure/figure10", 120)):  # fmt: skip
        (results / f"benchmarks/{name}.tsv").write_text(f"s\tcpu_time\tmax_rss\n1\t{seconds}\t400\n")
    listed = gallery.costs(["figure9", "figure10"], "smoke", results, tmp_path / "figures/smoke")
    assert "| figure9 | `make figure9` | li_icl | 120 | 120 | 400 |" in listed
    assert listed.endswith("All 2 figures from nothing, each training once: 6 CPU minutes, 2 of them for training.")


def test_every_figure_belongs_to_one_paper_and_every_paper_can_be_cited() -> None:
    entries = re.findall(r"^@\w+\{(\w+),", (ROOT / "references.bib").read_text(encoding="utf-8"), re.MULTILINE)
    assert {key for paper in papers.PAPERS for key in paper.keys} == set(entries)
    for name in FIGURES:
        assert f"### {papers.of(name).title}" in TEXT
    with pytest.raises(ValueError, match="belongs to 0 of the papers"):
        papers.of("figure_of_nothing")


def test_every_constant_has_a_grade_and_a_source() -> None:
    for heading, instances in gallery.all_constants(FIGURES).items():
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


def test_the_committed_verdicts_name_every_claim() -> None:
    """But those that a figure makes of another scale only."""
    table = (ROOT / "gallery/verdicts.md").read_text(encoding="utf-8")

    for name in FIGURES:
        module = discovery.figure(name)
        for claim in module.CLAIMS:
            if "laptop" in getattr(module, "ONLY_AT", {}).get(claim.id, ("laptop",)):
                assert f"| {name} | {claim.id} |" in table


def test_verdict_lines_and_counts(tmp_path: Path) -> None:
    part = {"observable": "o", "bound": "<= 1", "statistic": "mean", "estimate": 0.5, "low": None, "high": 0.75,
            "runs": 7, "outcome": "inconclusive"}  # fmt: skip
    verdict = {"claim": "X-1", "statement": "s", "source": "t", "scale": "laptop", "outcome": "inconclusive",
               "parts": [part]}  # fmt: skip
    path = tmp_path / "x.json"
    about = {"diverged": ["sweep s, run 0"]}
    path.write_text(json.dumps({"figure": "x", "verdicts": [verdict], "fidelity": None, "table": about}))
    loaded = verdict_files.load(path)
    assert "mean 0.5 [-, 0.75], claimed <= 1, 7 runs" in verdict_files.lines(loaded)
    assert "diverged      sweep s, run 0\n" in verdict_files.lines(loaded)
    assert verdict_files.counts([loaded]) == "0 supported, 0 contradicted, 1 inconclusive"
    path.write_text("[]")
    with pytest.raises(ValueError, match=r"x\.json"):
        verdict_files.load(path)


def test_the_constant_changed_in_the_readme_is_accepted_beside_all_figures() -> None:
    system, name, value = re.search(r"constants=\{(\w+): \{(\w+): ([\d.]+)\}\}", TEXT).groups()  # type: ignore[union-attr]
    config = yaml.safe_load((ROOT / "workflow/config.yaml").read_text()) | {"constants": {system: {name: value}}}
    plan = Plan.of(config)
    changed = {sweep.name: {getattr(c, name) for c in sweep.configs} for _, sweep in plan.trainings.values()
               if sweep.system == system}  # fmt: skip
    assert changed["li_icl"] == {float(value)}
    assert f"{name} = {value}" in plan.note("figure9")
    # A sweep over the constant keeps its own values, and its figure says nothing of a change.
    assert len(changed["li_icl_alpha"]) > 1
    assert name not in plan.note("icl_rates")
