"""Every target has its own chain, trainings are shared, and a changed config its own folder."""

import re
import shutil
from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest
import yaml
from conftest import ROOT, Workflow

from icl.core import folders
from icl.core.config import SCALES, ConstantError
from icl.evidence import ledger
from icl.pipeline import figures
from icl.pipeline.config import FIRST_SEED
from icl.pipeline.plan import Plan, check_reach, requested_figures

PLAN = Plan("smoke")
FIGURES = PLAN.figures
CHANGED = {"li_icl": {"relevant_fraction": 0.6}}
CONFIG = yaml.safe_load((ROOT / "workflow/config.yaml").read_text("utf-8"))


def plan(**changes: Any) -> Plan:
    return Plan.of(CONFIG | {"scale": "smoke"} | changes)


@pytest.mark.parametrize("scale", SCALES)
def test_every_figure_is_planned_at_every_scale(scale: str) -> None:
    made = plan(scale=scale)
    planned = [name for figure in FIGURES for name in figures.sweeps(figure, scale, {})]
    assert set(made.trainings) == set(planned)
    for name in FIGURES:
        assert all(file.startswith(f"results/{scale}/runs/") for file in made.run_files(name))
        assert set(made.chain(name)) == {*made.run_files(name), *made.own_files(name)}
        assert made.note(name).full.startswith(f"{scale} scale, ")
    own = [path for name in FIGURES for path in made.own_files(name)]
    assert len(own) == len(set(own))
    assert PLAN.run_files("figure8") == PLAN.run_files("figure9") == PLAN.run_files("figure10")
    # Never more shards than runs, and by default one, but two of a model whose runs take long.
    two = ["0of2", "1of2"]
    for shards, names in ((0, ["0of1"]), (1, ["0of1"]), (2, two), (3, two), (10000, two)):
        assert plan(shards=shards).shard_names(PLAN.sweep("li_icl")) == names
    assert PLAN.shard_names(PLAN.sweep("li_icl_gpt2")) == two


def test_the_workstation_has_the_sizes_that_a_figure_names() -> None:
    """Those of another scale, or, for Garg et al., the published prompts for a smaller model."""
    made = {scale: plan(scale=scale) for scale in SCALES}
    for name in FIGURES:
        size = ledger.target(name).workstation
        assert made["workstation"].sweeps(name) == made[size].sweeps(name)
        assert size in ("paper", "laptop") or name.startswith("garg_")
    ours, papers = (made[scale].sweep("garg").configs[0] for scale in ("workstation", "paper"))
    for constant in ("dimension", "points", "first_dimension", "first_points", "batch"):
        assert getattr(ours, constant) == getattr(papers, constant)


def test_changed_constants_and_seeds_have_their_own_folder_command_and_note() -> None:
    named = plan(constants=CHANGED, variant="few")
    unnamed = plan(constants=CHANGED)
    seeds = plan(first_seed=2000)
    both = plan(constants=CHANGED, variant="few", first_seed=2000)
    three = plan(seeds=3)
    assert (PLAN.folder, named.folder, seeds.folder) == ("smoke", "smoke@few", "smoke@from.2000")
    assert three.folder == "smoke@seeds.3"
    assert both.folder == "smoke@few@from.2000"
    assert re.fullmatch(r"smoke@[0-9a-f]{8}", unnamed.folder)
    assert unnamed.folder != plan(constants={"li_icl": {"relevant_fraction": 0.7}}).folder
    assert both.command("figure9") == (
        "snakemake figure9 --config scale=smoke first_seed=2000 variant=few"
        ' constants=\'{"li_icl":{"relevant_fraction":0.6}}\''
    )
    assert three.command("figure9") == "snakemake figure9 --config scale=smoke seeds=3"
    note = r"smoke scale, .*relevant_fraction = 0\.6; seeds from 2000 on$"
    assert re.match(note, both.note("figure9").full)
    assert "one of 3 seeds" in three.note("figure9").full
    for made in (named, unnamed, seeds, both, three):
        assert Plan.of(CONFIG | made.plain()) == made
        assert all(made.folder in path.split("/") for path in made.chain("figure9"))


@pytest.mark.parametrize("scale", SCALES)
def test_other_seeds_keep_the_settings_and_the_order_of_runs(scale: str) -> None:
    """Measurements rely on this order: seeds vary fastest."""
    assert PLAN.first_seed == FIRST_SEED == CONFIG["first_seed"]
    one_seed = plan(scale=scale, seeds=1)
    later = plan(scale=scale, first_seed=2000)
    for name, (_, sweep) in plan(scale=scale).trainings.items():
        seeds = sorted(set(sweep.seeds))
        shift = 2000 - FIRST_SEED if sweep.is_random else 0
        assert later.sweep(name).seeds == [seed + shift for seed in sweep.seeds]
        for same in (sweep, later.sweep(name)):
            assert figures.with_seeds(same, seeds).configs == sweep.configs, name
        first = sweep.configs[:: len(seeds)] if sweep.is_random else sweep.configs
        assert one_seed.sweep(name).configs == first


def test_one_name_for_two_trainings_is_refused() -> None:
    """Otherwise one figure would read weights of another figure's constants."""
    made = plan()
    sweeps = made.sweeps("figure8")
    sweeps["li_icl"] = replace(sweeps["li_icl"], snapshots=(0, 10**6))
    refusal = "sweep li_icl: figure8 and figure9 use it for different trainings"
    with pytest.raises(ConstantError, match=refusal):
        made.trainings  # noqa: B018


def test_constants_without_effect_are_refused() -> None:
    """Those of another model, with their present value, or that the figure varies itself."""
    check_reach(plan(constants=CHANGED), ["figure9", "figure12"])
    check_reach(plan(constants={"li_icl_gpt2": {"batch": 9}}), [])
    check_reach(plan(constants={"li_icl_gpt2": {"width": 60, "heads": 5}}), ["figure12"])
    for constants, figure in (
        (CHANGED, "figure12"),
        ({"li_icl": {"relevant_fraction": 0.8}}, "figure9"),
        ({"ahn_linear": {"context_length": 2}}, "ahn_length"),
    ):
        with pytest.raises(ConstantError, match=f"constant .* = .*: changes nothing in {figure}$"):
            check_reach(plan(constants=constants), [figure])


def test_figures_are_found_in_a_command_line() -> None:
    typed = (
        "figure9 -n --config scale=smoke results/smoke/tables/figure12.parquet figure9_compared "
        "figures/smoke/figure17_compared.png figure8_compared verdicts"
    )
    assert requested_figures(["sander2024"]) == ["sander_coefficients"]
    assert requested_figures(typed.split()) == ["figure9", "figure12", "figure17", "figure8"]


def test_a_request_doubles_with_each_attempt() -> None:
    for resource in ("mem_mb", "runtime"):
        first, second, third = (PLAN.request(resource, attempt) for attempt in (1, 2, 3))
        assert 0 < first == second // 2 == third // 4


# What Snakemake plans


def test_a_target_plans_its_own_chain_only_and_trains_shared_sweeps_once(
    shared_workflow: Workflow,
) -> None:
    done = shared_workflow("--dag", "dot", *FIGURES, "--config", "scale=smoke", "shards=3")
    assert done.returncode == 0, done.stdout
    labels = dict(re.findall(r'(?m)^\s*(\d+)\[label = "([^"]*)"', done.stdout))
    above = defaultdict(set)
    for source, target in re.findall(r"(?m)^\s*(\d+) -> (\d+)", done.stdout):
        above[target].add(source)

    def chain(number: str) -> set[str]:
        return {number}.union(*(chain(other) for other in above[number]))

    made = Plan("smoke", 3)
    trained = [label for label in labels.values() if label.startswith("train")]
    assert len(trained) == len(set(trained)) > 0 and set(FIGURES) <= set(labels.values())
    for number, name in labels.items():
        if name in FIGURES:
            jobs = [labels[other].split("\\n") for other in chain(number)]
            shards = [sorted(words) for rule, *words in jobs if rule == "train"]
            pairs = made.shards_of(name)
            assert sorted(shards) == sorted([f"shard: {n}", f"sweep: {key}"] for key, n in pairs)
            others = {rule: words for rule, *words in jobs if rule != "train"}
            assert sorted(others) == sorted([name, "judge", "measure", f"draw_{name}"])
            assert others["measure"] == [f"figure: {name}"]


@pytest.mark.slow
def test_every_name_is_a_target_and_lint_is_clean(shared_workflow: Workflow) -> None:
    listed = dict(re.findall(r"(?m)^(\w+) \((.*)\)$", shared_workflow("--list").stdout))
    assert listed.items() >= {(name, ledger.target(name).summary) for name in FIGURES}
    names = {name for figure in FIGURES for name in PLAN.targets(figure)} | set(folders.papers())
    names |= set("figures verdicts compare report report_now verify gallery".split())
    assert names <= set(listed)
    done = shared_workflow("--lint")
    assert (done.returncode, "in a good condition" in done.stdout) == (0, True), done.stdout


# Profiles


def test_the_cluster_profile_sets_what_the_default_sets_and_its_options_name_rules() -> None:
    """It replaces profiles/default."""
    default = yaml.safe_load((ROOT / "profiles/default/config.yaml").read_text("utf-8"))
    text = (ROOT / "profiles/slurm/config.yaml").read_text("utf-8")
    slurm = yaml.safe_load(text)
    full = yaml.safe_load(re.sub(r"(?m)^#(?=\S|  )", "", text))
    assert default.pop("cores") == 2 and default["nolock"] and default.items() <= slurm.items()
    # A group would request as many cores as it has jobs, and retries outside the profile multiply
    # in the plugin's job.
    assert (slurm["cores"], slurm["retries"]) == (1, 2) and "retries" not in default
    assert set(full) - set(slurm) == {"set-resources", "groups", "group-components"}
    rules = "\n".join(path.read_text("utf-8") for path in (ROOT / "workflow/rules").glob("*.smk"))
    named = set(full["set-resources"]) | set(full["groups"])
    assert named <= set(re.findall(r"(?m)^rule (\w+)\b", rules))
    assert set(full["groups"].values()) == set(full["group-components"])


@pytest.mark.slow
def test_the_cluster_profile_plans_where_there_is_no_scheduler(shared_workflow: Workflow) -> None:
    words = ("figure12", "--workflow-profile", "profiles/slurm", "--config", "scale=smoke")
    if not shutil.which("sbatch"):
        told = shared_workflow(*words).stdout
        assert "there is no sbatch here" in told and "Traceback" not in told, told
    done = shared_workflow("-n", *words)
    assert done.returncode == 0, done.stdout
    assert re.search(r"(?m)^train +2$", done.stdout), done.stdout
