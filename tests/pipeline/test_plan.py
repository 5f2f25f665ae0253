"""The plan and its results: every target has its own chain, trainings are shared, and shards change no values."""

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

from icl.core import discovery, runs, table
from icl.core.config import FIRST_SEED, ConstantError
from icl.core.sweep import Sweep
from icl.core.training import train
from icl.evidence import ledger
from icl.pipeline import figures
from icl.pipeline.plan import Plan, check_reach, requested_figures

PLAN = Plan("smoke")
FIGURES = PLAN.figures


def plan(**changes: Any) -> Plan:
    return Plan.of({"scale": "smoke", "shards": 2, "constants": {}, "variant": "", "first_seed": FIRST_SEED} | changes)


# -- the plan, without Snakemake ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", ["paper", "laptop", "smoke"])
def test_every_figure_is_planned_at_every_scale(scale: str) -> None:
    made = plan(scale=scale)
    needed = {name for figure in FIGURES for name in figures.sweeps(figure, scale, {})}
    assert set(made.trainings) == needed
    for name in FIGURES:
        assert all(file.startswith(f"results/{scale}/runs/") for file in made.run_files(name))


def test_figures_that_share_a_sweep_share_its_files() -> None:
    assert PLAN.run_files("figure8") == PLAN.run_files("figure9") == PLAN.run_files("figure14")


@pytest.mark.parametrize(("shards", "count"), [(1, 1), (2, 2), (3, 2), (10000, 2)])
def test_there_are_never_more_shards_than_runs(shards: int, count: int) -> None:
    made = Plan("smoke", shards)
    assert made.shard_names("li_icl") == [f"{index}of{count}" for index in range(count)]


def identities(made: Plan, name: str) -> dict[str, Any]:
    training = [made.training_identity(sweep, shard) for sweep, shard in made.shards_of(name)]
    return {"train": training, "measure": made.measurement_identity(name), "draw": made.drawing_identity(name),
            "check": made.judging_identity(name)}  # fmt: skip


@pytest.mark.parametrize(
    ("constants", "due"),
    [
        ({"li_icl": {"relevant_fraction": 0.6}}, {"train", "measure", "draw"}),  # the note is in the pictures' files
        ({"li_icl": {"prompts": 9}}, {"measure", "draw"}),
        ({"li_icl_gpt2": {"relevant_fraction": 0.6}}, set()),
    ],
)
def test_a_constant_changes_what_depends_on_it(constants: dict[str, Any], due: set[str]) -> None:
    before, after = identities(PLAN, "figure9"), identities(plan(constants=constants), "figure9")
    assert {key for key in before if before[key] != after[key]} == due
    assert not ("train" in due and set(before["train"]) & set(after["train"]))


def test_a_job_gets_the_constants_that_it_depends_on() -> None:
    both = {"li_icl": {"prompts": 9, "relevant_fraction": 0.6}, "li_icl_gpt2": {"batch": 9}}
    made = plan(constants=both)
    assert made.constants_of("figure9") == {"li_icl": both["li_icl"]}
    assert made.training("li_icl", "0of2")["common"]["relevant_fraction"] == 0.6


def test_one_name_for_two_trainings_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise one figure would read weights of another figure's constants."""
    original, find = discovery.figure("figure8"), discovery.figure

    def other(scale: str) -> list[Sweep]:
        return [dataclasses.replace(s, snapshots=(*s.snapshots, s.snapshots[-1] + 1)) for s in original.sweeps(scale)]

    changed = dataclasses.replace(original, sweeps=other)
    monkeypatch.setattr(discovery, "figure", lambda name: changed if name == "figure8" else find(name))
    with pytest.raises(ConstantError, match="sweep li_icl: figure8 and figure9 use this name for different trainings"):
        plan()


def test_a_request_doubles_with_each_attempt() -> None:
    assert [PLAN.request("mem_mb", attempt, "li_icl") for attempt in (1, 2, 3)] == [
        factor * PLAN.request("mem_mb", 1, "li_icl") for factor in (1, 2, 4)
    ]
    assert PLAN.request("runtime", 1) > 0


# -- variants ----------------------------------------------------------------------------------------------------------

CHANGED = {"li_icl": {"relevant_fraction": 0.6}}


def test_changed_constants_have_their_own_folder() -> None:
    named, unnamed = plan(constants=CHANGED, variant="sparse"), plan(constants=CHANGED)
    assert (PLAN.folder, named.folder) == ("smoke", "smoke@sparse")
    assert re.fullmatch(r"smoke@[0-9a-f]{8}", unnamed.folder)
    assert unnamed.folder != plan(constants={"li_icl": {"relevant_fraction": 0.7}}).folder
    for made in (named, unnamed):
        assert not set(made.chain("figure9")) & set(PLAN.chain("figure9"))
        assert all(made.folder in path for path in made.chain("figure9"))


def test_a_variant_shows_its_changes_and_the_full_command() -> None:
    made = plan(constants=CHANGED, variant="sparse")
    assert made.command("figure9") == (
        'snakemake figure9 --config scale=smoke variant=sparse constants=\'{"li_icl":{"relevant_fraction":0.6}}\''
    )
    assert Plan.of(made.plain()) == made
    for word in ("smoke scale, one of 2 seeds", "reduced: 2 of 20 seeds", "relevant_fraction = 0.6"):
        assert word in made.note("figure9")


def test_a_name_without_constants_is_refused() -> None:
    with pytest.raises(ConstantError, match="variant = 'fast': names a set of constants, but none is given"):
        plan(variant="fast")


# -- other seeds -------------------------------------------------------------------------------------------------------


def test_other_seeds_change_only_the_seeds_of_the_trainings() -> None:
    made = plan(first_seed=2000)
    assert made.trainings.keys() == PLAN.trainings.keys()
    for name, (_, sweep) in made.trainings.items():
        usual = PLAN.sweep(name)
        assert sweep.seeds == ([2000 - FIRST_SEED + seed for seed in usual.seeds] if usual.is_random else usual.seeds)
        same = [dataclasses.replace(config, seed=0) for config in sweep.configs]
        assert same == [dataclasses.replace(config, seed=0) for config in usual.configs]


def test_other_seeds_have_their_own_folders_and_commands() -> None:
    made, changed = plan(first_seed=2000), plan(first_seed=2000, constants=CHANGED, variant="sparse")
    assert [PLAN.folder, made.folder, changed.folder] == ["smoke", "smoke@from.2000", "smoke@sparse@from.2000"]
    assert made.command("figure9") == "snakemake figure9 --config scale=smoke first_seed=2000"
    assert made.note("figure9") == PLAN.note("figure9") + "; seeds from 2000 on"
    assert PLAN.is_default and not made.is_default
    assert Plan.of(made.plain()) == made
    assert made.measurement_identity("figure9") != PLAN.measurement_identity("figure9")


def test_the_note_says_why_a_run_is_drawn_where_its_seed_was_trained() -> None:
    of_scale = {scale: plan(scale=scale).note("figure8") for scale in ("laptop", "smoke")}
    nearest = {scale: "nearest to the published figures" in note for scale, note in of_scale.items()}
    assert nearest == {"laptop": True, "smoke": False}


def test_the_first_seed_of_the_config_is_that_of_the_plan() -> None:
    config = yaml.safe_load((ROOT / "workflow/config.yaml").read_text(encoding="utf-8"))
    assert config["first_seed"] == Plan("smoke").first_seed


def test_constants_without_effect_are_refused() -> None:
    """Constants of another model, or with their present value."""
    check_reach(plan(constants=CHANGED), ["figure9"])
    check_reach(plan(constants=CHANGED), ["figure9", "figure12"])
    check_reach(plan(constants={"li_icl_gpt2": {"batch": 9}}), [])
    default = plan(constants={"li_icl": {"relevant_fraction": 0.8}})
    for made, name in ((plan(constants=CHANGED), "figure12"), (default, "figure9")):
        with pytest.raises(ConstantError, match=f"constant li_icl.relevant_fraction = .*: changes nothing in {name}"):
            check_reach(made, [name])


def varied_by_a_figure() -> tuple[str, str, str, Any]:
    """A figure, a model, a constant with a value: this figure's sweeps of the model vary it and others do not."""
    for name in FIGURES:
        for sweep in PLAN.sweeps(name).values():
            shared = [other for _, other in PLAN.trainings.values() if other.system == sweep.system]
            for constant in vars(sweep.configs[0]):
                own = [other for other in PLAN.sweeps(name).values() if other.system == sweep.system]
                if all(s.varied(constant) for s in own) and not all(s.varied(constant) for s in shared):
                    return name, sweep.system, constant, sweep.varied(constant)[0]
    raise LookupError("no figure varies a constant that others hold")


def test_a_constant_that_the_figure_varies_is_refused() -> None:
    name, system, constant, value = varied_by_a_figure()
    with pytest.raises(ConstantError, match=f"constant {system}.{constant} = .*: changes nothing in {name}"):
        check_reach(plan(constants={system: {constant: value}}), [name])


def test_figures_are_found_in_a_command_line() -> None:
    words = ["figure9", "-n", "--config", "scale=smoke", "results/smoke/tables/figure12.parquet", "figure9_overlay"]
    assert requested_figures([*words, "figures/smoke/figure17_overlay.png", "figure8_runs", "verdicts"]) == [
        "figure9",
        "figure12",
        "figure17",
        "figure8",
    ]


# -- what Snakemake plans ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dot(shared_workflow: Workflow) -> str:
    """The plan of all figures with three shards."""
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
    made, chain = Plan("smoke", 3), graph[name]
    trained = {f"results/smoke/runs/{w['sweep']}/{w['shard']}.safetensors" for rule, w in chain if rule == "train"}
    assert trained == set(made.run_files(name))
    assert sorted(rule for rule, _ in chain if rule != "train") == sorted([name, "check", "measure", f"draw_{name}"])
    assert [w["figure"] for rule, w in chain if rule == "measure"] == [name]


def test_shared_sweeps_are_trained_once(dot: str) -> None:
    labels = re.findall(r'label = "(train[^"]*)"', dot)
    assert len(labels) == len(set(labels)) > 0


@pytest.mark.slow
def test_every_name_is_a_target(shared_workflow: Workflow) -> None:
    """Figures with their summaries, aliases, further pictures, and targets over all figures."""
    listed = dict(re.findall(r"^(\w+) \((.*)\)$", shared_workflow("--list").stdout, flags=re.MULTILINE))
    assert {name: listed[name] for name in FIGURES} == {name: ledger.target(name).summary for name in FIGURES}
    assert {name for figure in FIGURES for name in PLAN.targets(figure)} <= set(listed)
    assert {"figures", "verdicts", "compare", "report", "report_now", "verify", "gallery"} <= set(listed)


@pytest.mark.slow
def test_lint_is_clean(shared_workflow: Workflow) -> None:
    done = shared_workflow("--lint")
    assert (done.returncode, "in a good condition" in done.stdout) == (0, True), done.stdout


# -- what Snakemake makes ----------------------------------------------------------------------------------------------


def test_shards_give_the_same_table() -> None:
    """One shard and one per run, bit for bit."""
    sweep = PLAN.sweep("li_icl")
    # After a tenth of the smoke training, runs differ enough.
    short = dataclasses.replace(sweep, snapshots=sweep.snapshots[:5])
    whole = train(short)
    merged = runs.merge(short, [train(short.shard(index, 2)) for index in range(2)])
    assert (merged.losses == whole.losses).all()
    assert not (whole.losses[0] == whole.losses[1]).any()
    for name, w in whole.weights.items():
        assert (merged.weights[name] == w).all(), name


@pytest.mark.slow
def test_the_workflow_makes_a_figure_and_then_has_nothing_to_do(workflow: Workflow, figure9_results: Path) -> None:
    """With three shards; the table equals the one that this process measured."""
    config = ("--config", "scale=smoke", "shards=3")
    done = workflow("figure9", *config)
    assert done.returncode == 0, done.stdout
    for word in ("figures/smoke/figure9_overlay.png", "results/smoke/verdicts/figure9.json", "A-P1b"):
        assert word in done.stdout
    made, about = table.read(workflow.folder / PLAN.table_file("figure9"))
    expected, also = table.read(figure9_results / PLAN.table_file("figure9"))
    pd.testing.assert_frame_equal(made, expected, check_exact=True)
    assert about["identity"] == also["identity"]

    again = workflow("figure9", *config)
    assert set(re.findall(r"^(?:local)?rule (\w+):", again.stdout, flags=re.MULTILINE)) == {"figure9"}
    verified = workflow("verify", *config)
    assert "1 figures checked, 0 problems" in verified.stdout, verified.stdout
    # Another, empty folder; the results here stay.
    changed = workflow("-n", "figure9", *config, "constants={li_icl: {prompts: 50}}")
    planned = set(re.findall(r"^rule (\w+):", changed.stdout, flags=re.MULTILINE))
    assert {"train", "measure", "check"} <= planned


@pytest.mark.slow
@pytest.mark.parametrize(("name", "runs_of", "rtol"), [("zheng_heatmap", [3, 3], 0), ("ahn_minimiser", [4], 1e-12)])
def test_any_number_of_shards_gives_the_same_table(tmp_path: Path, name: str, runs_of: list[int], rtol: float) -> None:
    """Through the workflow, with one job for all runs, several, one per run, and more shards than runs.

    Equal bit for bit, except ahn_minimiser: its matrices have 36 numbers and are not all aligned to 64 bytes, so a
    product sums in another order and the last bits differ (by 1e-15).
    """
    file, tables = f"results/smoke/tables/{name}.parquet", []
    for shards in (1, 2, 50):
        copy = Workflow(tmp_path / str(shards))
        done = copy(file, "--config", "scale=smoke", f"shards={shards}")
        assert done.returncode == 0, done.stdout
        made = sorted(copy.folder.glob("results/smoke/runs/*/[!.]*.safetensors"))
        assert len(made) == sum(min(shards, count) for count in runs_of)
        tables.append(table.read(copy.folder / file)[0])
        shutil.rmtree(copy.folder)
    for other in tables[1:]:
        pd.testing.assert_frame_equal(other, tables[0], check_exact=rtol == 0, rtol=rtol, atol=rtol)
