"""What Snakemake plans and makes: each target its own chain, shared trainings once, the same values in any shards."""

import dataclasses
import re
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from conftest import ROOT, Workflow

from icl.code import defines
from icl.core import discovery, runs, table
from icl.core.config import ConstantError
from icl.core.sweep import Sweep
from icl.core.training import train
from icl.evidence import published_curves
from icl.pipeline import figures, plan
from icl.pipeline.plan import Plan, has_reference

CONFIG = yaml.safe_load((ROOT / "workflow" / "config.yaml").read_text(encoding="utf-8"))
FIGURES = CONFIG["figures"]


def plan(**changes: Any) -> Plan:
    return Plan.of(CONFIG | changes)


# -- the plan, without Snakemake ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", ["paper", "laptop", "smoke"])
def test_every_figure_is_planned_at_every_scale(scale: str) -> None:
    made = plan(scale=scale)
    needed = {name for f in FIGURES for name in figures.sweeps(f, scale, {})}
    assert set(made.trainings) == needed
    for name in FIGURES:
        assert all(file.startswith(f"results/{scale}/runs/") for file in made.run_files(name))


def test_figures_that_share_a_sweep_share_its_files() -> None:
    made = plan(figures=["figure8", "figure9", "figure14"])
    assert made.run_files("figure8") == made.run_files("figure9") == made.run_files("figure14")
    assert list(made.trainings) == ["li_icl"]


@pytest.mark.parametrize(("shards", "count"), [(1, 1), (2, 2), (3, 2), (10000, 2)])
def test_there_are_never_more_shards_than_runs(shards: int, count: int) -> None:
    made = plan(figures=["figure9"], scale="smoke", shards=shards)
    assert made.shard_names("li_icl") == [f"{index}of{count}" for index in range(count)]


def identities(made: Plan, name: str) -> dict[str, Any]:
    training = {s: [made.training_identity(s, x) for x in made.shard_names(s)] for s in made.trainings}
    return {"training": training, "measuring": made.measurement_identity(name), "drawing": made.drawing_identity(name),
            "judging": made.judging_identity(name)}  # fmt: skip


def test_a_constant_of_the_training_changes_what_depends_on_it() -> None:
    before, after = (
        identities(plan(figures=["figure9"], scale="smoke", constants=c), "figure9")
        for c in ({}, {"li_icl": {"learning_rate": 0.3}})
    )
    assert {key for key in before if before[key] != after[key]} == {
        "training",
        "measuring",
        "drawing",
    }  # note: its margin
    assert not set(before["training"]["li_icl"]) & set(after["training"]["li_icl"])


def test_a_constant_of_the_test_trains_nothing_again() -> None:
    before, after = (
        identities(plan(figures=["figure9"], scale="smoke", constants=c), "figure9")
        for c in ({}, {"li_icl": {"prompts": 9}})
    )
    assert before["training"] == after["training"]
    assert before["measuring"] != after["measuring"]


def test_a_constant_of_another_system_touches_nothing() -> None:
    both = ["figure9", "figure12"]
    before, after = (plan(figures=both, constants=c) for c in ({}, {"li_icl_gpt2": {"learning_rate": 0.3}}))
    assert before.measurement_identity("figure9") == after.measurement_identity("figure9")
    assert before.drawing_identity("figure9") == after.drawing_identity("figure9")
    assert after.training_constants("li_icl") == after.measurement_constants("figure9") == "{}"
    assert before.measurement_identity("figure12") != after.measurement_identity("figure12")


def test_a_job_is_given_the_constants_that_it_depends_on() -> None:
    made = plan(figures=["figure9"], constants={"li_icl": {"prompts": 9, "learning_rate": 0.3}})
    assert made.training_constants("li_icl") == '{"li_icl":{"learning_rate":0.3}}'
    assert made.measurement_constants("figure9") == '{"li_icl":{"prompts":9,"learning_rate":0.3}}'


def test_a_corrected_published_curve_is_drawn_and_judged_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    before = identities(plan(figures=["figure9"]), "figure9")
    original = published_curves.load

    def corrected(name: str) -> pd.DataFrame | None:
        curve = original(name)
        return None if curve is None else curve.assign(y=curve["y"] + 1e-6)

    monkeypatch.setattr(published_curves, "load", corrected)
    after = identities(plan(figures=["figure9"]), "figure9")
    assert {key for key in before if before[key] != after[key]} == {"drawing", "judging"}


def test_the_default_spelt_out_changes_no_value() -> None:
    rate = plan(figures=["figure9"]).sweep("li_icl").configs[0].learning_rate
    before, after = (plan(figures=["figure9"], constants=c) for c in ({}, {"li_icl": {"learning_rate": rate}}))
    assert before.training_identity("li_icl", "0of2") == after.training_identity("li_icl", "0of2")


def test_one_name_for_two_trainings_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise one figure would read the weights that another's constants gave."""
    module = discovery.figure("figure8")
    original = module.sweeps

    def other(scale: str) -> list[Sweep]:
        return [dataclasses.replace(s, snapshots=(*s.snapshots, s.snapshots[-1] + 1)) for s in original(scale)]

    monkeypatch.setattr(module, "sweeps", other)
    with pytest.raises(ConstantError, match="sweep li_icl: figure8 and figure9 mean different trainings by this name"):
        plan(figures=["figure8", "figure9"])


def test_every_entry_of_the_hashes_is_defined() -> None:
    """code_hash raises for an entry that is not; here for every figure and system."""
    for name in list(discovery.figures()):
        for part in ("sweeps", "measure", "draw", "check"):
            assert defines(f"icl.experiments.{name}", part), f"{name} has no {part}"
    made = plan(figures=FIGURES)
    for name in FIGURES:
        identities(made, name)
    for system in {sweep.system for _, sweep in made.trainings.values()}:
        assert plan.training_code(system)


def test_the_note_says_scale_reductions_and_changes() -> None:
    note = plan(figures=["figure9"], scale="smoke", constants={"li_icl": {"learning_rate": 0.3}}).note("figure9")
    for word in ("smoke scale, 2 seeds", "reduced: 2 of 10 seeds", "learning_rate = 0.3"):
        assert word in note


# -- what Snakemake plans ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dot(shared_workflow: Workflow) -> str:
    """One plan of all figures with three shards."""
    done = shared_workflow("--dag", "dot", *FIGURES, "--config", "scale=smoke", "shards=3")
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def graph(dot: str) -> dict[str, list[tuple[str, dict[str, str]]]]:
    """Target -> the jobs of its chain as (rule, wildcards)."""
    labels = dict(re.findall(r'^\s*(\d+)\[label = "([^"]*)"', dot, flags=re.MULTILINE))
    above = defaultdict(set)
    for source, target in re.findall(r"^\s*(\d+) -> (\d+)", dot, flags=re.MULTILINE):
        above[target].add(source)

    def job(number: str) -> tuple[str, dict[str, str]]:
        rule, *wildcards = labels[number].split("\\n")
        return rule, dict(wildcard.split(": ") for wildcard in wildcards)

    def chain(number: str) -> set[str]:
        return {number}.union(*(chain(n) for n in above[number]))

    return {rule: [job(n) for n in sorted(chain(number))] for number, rule in labels.items() if rule in FIGURES}


@pytest.mark.parametrize("name", FIGURES)
def test_a_target_plans_its_own_chain_only(graph: dict[str, list[tuple[str, dict[str, str]]]], name: str) -> None:
    made = plan(figures=FIGURES, scale="smoke", shards=3)
    chain = graph[name]
    trained = {f"results/smoke/runs/{w['sweep']}/{w['shard']}.safetensors" for rule, w in chain if rule == "train"}
    assert trained == set(made.run_files(name))
    others = sorted(rule for rule, _ in chain if rule != "train")
    drawing = ["draw_with_overlay" if has_reference(name) else "draw"] + ["animate"] * figures.is_animated(name)
    assert others == sorted([name, "check", "measure", *drawing])
    assert [w["figure"] for rule, w in chain if rule == "measure"] == [name]


def test_shared_sweeps_are_trained_once(dot: str) -> None:
    labels = re.findall(r'label = "(train[^"]*)"', dot)
    assert len(labels) == len(set(labels)) > 0


def test_every_figure_has_a_target_with_a_line(shared_workflow: Workflow) -> None:
    listed = shared_workflow("--list").stdout
    for name in FIGURES:
        (line,) = re.findall(rf"^{name} \((.*)\)$", listed, flags=re.MULTILINE)
        assert line == figures.summary(name)
        assert 20 < len(line) < 150
    for name in ("figures", "verdicts", "compare", "report", "report_now", "verify"):
        assert re.search(rf"^{name} \(.{{20,}}\)$", listed, flags=re.MULTILINE), name


def test_compare_asks_for_the_other_results(shared_workflow: Workflow) -> None:
    done = shared_workflow("-n", "compare", "--config", "scale=smoke")
    assert done.returncode == 1
    assert "name the other results by --config against=<results folder>" in done.stdout
    given = shared_workflow("-n", "compare", "--config", "scale=smoke", "against=a 'folder'")
    assert given.returncode == 0, given.stdout


def test_the_report_can_be_made_of_nothing(workflow: Workflow) -> None:
    """It says what is missing; with everything asked for, everything is planned."""
    done = workflow("report_now", "--cores", "1", "--config", "scale=smoke")
    assert f"0 of {len(FIGURES)} figures" in done.stdout
    page = (workflow.folder / "results/smoke/report/report.html").read_text(encoding="utf-8")
    for name in FIGURES:
        assert f"<code>snakemake {name} --config scale=smoke</code> makes it" in page
    planned = workflow("-n", "report", "--config", "scale=smoke").stdout
    assert set(re.findall(r"^check +(\d+)", planned, flags=re.MULTILINE)) == {str(len(FIGURES))}


def test_an_alias_is_a_target(shared_workflow: Workflow) -> None:
    done = shared_workflow("--dag", "dot", "attention", "--config", "scale=smoke", "aliases={attention: figure9}")
    assert done.returncode == 0, done.stdout
    assert 'label = "measure\\nfigure: figure9' in done.stdout


def test_lint_is_clean(shared_workflow: Workflow) -> None:
    done = shared_workflow("--lint")
    assert (done.returncode, "in a good condition" in done.stdout) == (0, True), done.stdout


def test_profiles_are_safe() -> None:
    """Job arrays delete good outputs and rule-level retries multiply (SLURM plugin); greedy scheduling costs less."""
    profiles = sorted((ROOT / "profiles").glob("*/*.yaml"))
    assert ROOT / "profiles/default/config.yaml" in profiles
    for path in profiles:
        settings = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert not [key for key in settings if "array" in key or "batch" in key], path
        assert settings["scheduler"] == "greedy", path
    default = yaml.safe_load((ROOT / "profiles/default/config.yaml").read_text(encoding="utf-8"))
    assert default["cores"] == 2
    assert default["rerun-incomplete"] is True
    assert not [key for key in default if "retries" in key or "restart" in key]


def test_rules_have_no_retries_checkpoints_or_inline_code() -> None:
    for path in [ROOT / "Snakefile", *(ROOT / "workflow").rglob("*.smk")]:
        text = path.read_text(encoding="utf-8")
        assert not re.findall(r"^\s*(?:retries|run|checkpoint|cache)\b.*:", text, flags=re.MULTILINE), path


# -- what Snakemake makes ----------------------------------------------------------------------------------------------


def equal(a: pd.DataFrame, b: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(a, b, check_exact=True)


def test_shards_give_the_same_table() -> None:
    """One shard and one per run, bit for bit."""
    sweep = plan(figures=["figure9"], scale="smoke").sweep("li_icl")
    # A tenth of the smoke training is enough to tell runs apart.
    short = dataclasses.replace(sweep, snapshots=sweep.snapshots[:5])
    whole = train(short)
    parts = [train(short.shard(index, 2)) for index in range(2)]
    merged = runs.merge(short, parts)
    assert (merged.losses == whole.losses).all()
    assert not (whole.losses[0] == whole.losses[1]).any()
    for name, w in whole.weights.items():
        assert (merged.weights[name] == w).all(), name


def test_the_workflow_makes_a_figure_and_then_has_nothing_to_do(workflow: Workflow, figure9_results: Path) -> None:
    """With three shards asked for and two workers; the table equals the one that this process measured."""
    done = workflow("figure9", "--config", "scale=smoke", "shards=3")
    assert done.returncode == 0, done.stdout
    for word in ("figures/smoke/figure9_overlay.png", "results/smoke/verdicts/figure9.json", "A-P1b"):
        assert word in done.stdout
    made, about = table.read(workflow.folder / "results/smoke/tables/figure9.parquet")
    expected, also = table.read(figure9_results / "results/smoke/tables/figure9.parquet")
    equal(made, expected)
    assert about["identity"] == also["identity"]
    for name in ("figure9.png", "figure9.pdf", "figure9_overlay.png", "figure9_overlay.pdf"):
        assert (workflow.folder / "figures/smoke" / name).stat().st_size > 1000

    files = ["results/smoke/verdicts/figure9.json", "figures/smoke/figure9.png", "figures/smoke/figure9_overlay.pdf"]
    again = workflow(*files, "--config", "scale=smoke", "shards=3")
    assert "Nothing to be done" in again.stdout
    verified = workflow("verify", "--config", "scale=smoke", "shards=3")
    assert "4 files checked, 0 problems" in verified.stdout, verified.stdout

    changed = workflow("-n", *files, "--config", "scale=smoke", "shards=3", "constants={li_icl: {prompts: 50}}")
    planned = set(re.findall(r"^rule (\w+):", changed.stdout, flags=re.MULTILINE))
    assert planned == {"measure", "check", "draw_with_overlay"}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "runs_of", "rtol"), [("zheng_heatmap", [3, 3], 0), ("ahn_minimiser", [4], 1e-12)])
def test_any_number_of_shards_gives_the_same_table(tmp_path: Path, name: str, runs_of: list[int], rtol: float) -> None:
    """Through the workflow, with one job for all runs, several, one for each run, and more than there are runs.

    Bit by bit, but for ahn_minimiser: its matrices have 36 numbers, so that not every run's start on 64 bytes, a
    product sums in another order there, and the last bits differ (by 1e-15).
    """
    file, tables = f"results/smoke/tables/{name}.parquet", []
    for shards in (1, 2, 3, 50):
        copy = Workflow(tmp_path / str(shards))
        done = copy(file, "--config", "scale=smoke", f"shards={shards}")
        assert done.returncode == 0, done.stdout
        made = sorted(copy.folder.glob("results/smoke/runs/*/*.safetensors"))
        assert len(made) == sum(min(shards, count) for count in runs_of)
        tables.append(table.read(copy.folder / file)[0])
        shutil.rmtree(copy.folder)
    for other in tables[1:]:
        pd.testing.assert_frame_equal(other, tables[0], check_exact=rtol == 0, rtol=rtol, atol=rtol)
