"""Bad input stops before any job runs, and says which key, which value and what is allowed; damage is never drawn."""

import os
import shutil
import time
from pathlib import Path

import pandas as pd
import pytest
import torch
from conftest import Workflow
from safetensors.torch import save_file

from icl.core.config import ConstantError
from icl.pipeline.plan import Plan

# -- on the command line -----------------------------------------------------------------------------------------------

# what is typed -> the words that the message must hold: key, value, what is allowed
REFUSED = {
    "constants={li_icl: {relevant_fraction: 1.2}}": ["relevant_fraction (alpha) = 1.2", "above 0 and at most 1"],
    "constants={li_icl: {relevant_fraction: 0}}": ["relevant_fraction (alpha) = 0.0", "above 0 and at most 1"],
    "constants={li_icl: {coefficient_sum: 1.5}}": ["coefficient_sum (S_1) = 1.5", "at most 1.41421"],
    "constants={li_icl: {relevant_patterns: 7}}": ["relevant_patterns (M_1) = 7", "even"],
    "constants={li_icl: {batch: -3}}": ["batch (B) = -3", "at least 1"],
    "constants={li_icl: {batch: 12.5}}": ["batch (B) = 12.5", "a whole number, at least 1"],
    "constants={li_icl: {learning_rate: fast}}": ["learning_rate (eta) = 'fast'", "a number, above 0"],
    "constants={li_icl: {learning_rate: nan}}": ["learning_rate (eta) = nan", "finite, above 0"],
    "constants={li_icl: {raet: 0.3}}": ["raet = 0.3", "li_icl has no such constant; it has", "learning_rate"],
    "constants={li_icl: {seed: 3}}": ["seed = 3", "no such constant"],
    "constants={li_ilc: {learning_rate: 0.3}}": ["li_ilc", "no such system; there are"],
    "trials={li_ilc: 5}": ["calibration of 'li_ilc': there is none; there are", "li_icl"],
    "trials={li_icl: 0}": ["trials", "'0' does not match"],
    "shards=0": ["shards", "0", "minimum", "1"],
    "shards=two": ["shards", "two", "integer"],
    "scale=huge": ["scale", "'huge'", "paper", "laptop", "smoke"],
    "scael=smoke": ["scael", "scale"],
    "figures=[figure99]": ["figure 'figure99'", "there are", "figure9"],
    "figures=[../figure9]": ["figures", "../figure9"],
    "aliases={picture: figure99}": ["alias picture = 'figure99'", "must be a figure", "figure9"],
}
# Enough to see the way from the command line to the message; the others differ in Plan.of only.
COMMON = {next(iter(REFUSED)), "constants={li_icl: {raet: 0.3}}", "shards=0", "scale=huge", "figures=[figure99]"}


def check(workflow: Workflow, *arguments: str) -> str:
    """Snakemake refuses before it runs or makes anything; its message."""
    before = sorted(
        p for p in workflow.folder.rglob("*") if ".snakemake" not in p.parts and "__pycache__" not in p.parts
    )
    done = workflow(*arguments)
    after = sorted(
        p for p in workflow.folder.rglob("*") if ".snakemake" not in p.parts and "__pycache__" not in p.parts
    )
    assert done.returncode != 0, done.stdout
    assert "Traceback (most recent call last)" not in done.stdout
    assert "rule train" not in done.stdout
    assert before == after
    return done.stdout


@pytest.mark.parametrize(
    "typed", [t if t in COMMON else pytest.param(t, marks=pytest.mark.slow) for t in REFUSED], ids=lambda typed: typed
)
def test_bad_config_stops_without_a_job(shared_workflow: Workflow, typed: str) -> None:
    """Not a dry run: had the input passed, a training would start."""
    message = check(shared_workflow, "figure9", "--config", typed)
    for word in REFUSED[typed]:
        assert word in message


def test_an_unknown_target_stops_without_a_job(shared_workflow: Workflow) -> None:
    message = check(shared_workflow, "figure99")
    assert "target 'figure99': there is none of this name; there are " in message
    assert "figure9, figure9_overlay" in message


def test_a_good_constant_is_taken(shared_workflow: Workflow) -> None:
    """The same road with good input plans a training: the refusals above are not refusals of everything."""
    done = shared_workflow(
        "-n", "figure9", "--config", "scale=smoke", "constants={li_icl: {learning_rate: 0.3, batch: 64}}"
    )
    assert done.returncode == 0, done.stdout
    assert "rule train" in done.stdout


# -- the same messages, without Snakemake ------------------------------------------------------------------------------


@pytest.mark.parametrize("typed", [typed for typed in REFUSED if typed.startswith("constants")])
def test_the_plan_refuses(typed: str) -> None:
    """Values as Snakemake hands them over: everything nested is text."""
    system, name, value = typed.removeprefix("constants={").rstrip("}").replace("{", "").split(": ")
    config = {"figures": ["figure9"], "scale": "smoke", "shards": 1, "constants": {system: {name: value}}}
    with pytest.raises(ConstantError) as error:
        Plan.of(config)
    for word in REFUSED[typed]:
        assert word in str(error.value)


@pytest.mark.parametrize(("text", "number"), [("0.3", 0.3), ("1e-1", 0.1), ("1", 1.0), (0.3, 0.3)])
def test_text_and_numbers_mean_the_same(text: object, number: float) -> None:
    config = {"figures": ["figure9"], "scale": "smoke", "shards": 1}
    plan = Plan.of({**config, "constants": {"li_icl": {"learning_rate": text}}})
    assert plan.sweep("li_icl").configs[0].learning_rate == number


@pytest.mark.parametrize("scale", ["huge", "", "Smoke"])
def test_an_unknown_scale_is_refused_by_the_plan_too(scale: str) -> None:
    with pytest.raises(ConstantError, match=f"scale = '{scale}': must be one of paper, laptop, smoke"):
        Plan.of({"figures": ["figure9"], "scale": scale, "shards": 1, "constants": {}})


@pytest.mark.parametrize("name", ["figure99", "_li_icl", "os.path", "", "figure9.draw"])
def test_an_unknown_figure_is_refused_by_the_plan_too(name: str) -> None:
    with pytest.raises(ConstantError, match=r"there is no module icl\.experiments"):
        Plan.of({"figures": [name], "scale": "smoke", "shards": 1, "constants": {}})


# -- damaged and foreign results ---------------------------------------------------------------------------------------

TABLE, WEIGHTS = "results/smoke/tables/figure9.parquet", "results/smoke/runs/li_icl/1of2.safetensors"


def half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def foreign_table(path: Path) -> None:
    pd.DataFrame({"x": [1.0], "value": [2.0]}).to_parquet(path)


def foreign_weights(path: Path) -> None:
    save_file({"W_Q": torch.zeros(2, 2)}, path)


@pytest.mark.parametrize(
    ("spoilt", "spoil", "script", "words"),
    [
        (TABLE, half, "draw", "cannot be read as parquet"),
        (TABLE, foreign_table, "check", "was not written by this package"),
        (WEIGHTS, half, "measure", "cannot be read as weights"),
        (WEIGHTS, foreign_weights, "measure", "was not written by this package"),
    ],
)
def test_a_script_names_the_file_and_makes_nothing(
    workflow: Workflow, figure9_results: Path, spoilt: str, spoil: object, script: str, words: str
) -> None:
    shutil.copytree(figure9_results / "results", workflow.folder / "results")
    spoil(workflow.folder / spoilt)  # type: ignore[operator]
    shards = [f"results/smoke/runs/li_icl/{index}of2.safetensors" for index in range(2)]
    arguments = {
        "draw": ["--figure", "figure9", "--note", "n", "--table", TABLE, "--pictures", "made/figure9.png"],
        "check": ["--figure", "figure9", "--table", TABLE, "--verdicts", "made/figure9.json"],
        "measure": ["--figure", "figure9", "--scale", "smoke", "--constants", "{}", "--identity", "abc",
                    "--table", "made/figure9.parquet", "--runs", *shards],
    }  # fmt: skip
    done = workflow.script(script, *arguments[script])
    assert done.returncode == 1
    assert f"{spoilt}: {words}" in done.stdout.splitlines()[-1]
    assert not (workflow.folder / "made").exists()


def test_a_truncated_table_is_named_by_the_workflow_and_never_drawn(workflow: Workflow, figure9_results: Path) -> None:
    """The table is newer than the weights, so Snakemake sees no reason to measure again."""
    shutil.copytree(figure9_results / "results", workflow.folder / "results")
    (workflow.folder / "results/smoke/verdicts/figure9.json").unlink()
    half(workflow.folder / TABLE)
    now = time.time()
    os.utime(workflow.folder / TABLE, (now, now))
    done = workflow("figure9", "--config", "scale=smoke")
    assert done.returncode != 0
    assert "rule train" not in done.stdout
    for job in ("draw", "check"):
        log = (workflow.folder / f"results/smoke/logs/{job}/figure9.log").read_text()
        assert f"{TABLE}: cannot be read as parquet" in log
    # show-failed-logs brings the message to the terminal.
    assert f"{TABLE}: cannot be read as parquet" in done.stdout
    assert not list((workflow.folder / "figures").rglob("*.p*"))
    assert not list((workflow.folder / "results/smoke").rglob("*.json"))
