"""Bad input stops before any job runs, with one line that names the key, the value or the file, and the remedy."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from conftest import ROOT, Workflow
from safetensors.torch import save_file

from icl.core import discovery
from icl.core.config import FIRST_SEED, ConstantError, canonical
from icl.evidence import ledger
from icl.pipeline.plan import Plan, check_config

SCHEMA = ROOT / "workflow/config.schema.yaml"
DEFAULT: dict[str, Any] = {
    "scale": "smoke", "shards": 1, "constants": {}, "variant": "", "against": "", "only": "", "first_seed": FIRST_SEED,
}  # fmt: skip

# the config -> the words in the message: key, value, what is allowed
REFUSED: list[tuple[dict[str, Any], list[str]]] = [
    ({"scale": "huge"}, ["config scale", "'huge'", "paper", "laptop", "smoke"]),
    ({"scael": "smoke"}, ["config", "scael"]),
    ({"shards": 0}, ["config shards", "0", "minimum"]),
    ({"shards": "two"}, ["config shards", "'two'", "integer"]),
    ({"shards": 10**24}, ["config shards", "maximum"]),
    ({"variant": 5}, ["config variant", "5", "string"]),
    ({"variant": "../x"}, ["config variant", "'../x'"]),
    ({"variant": "x\n"}, ["config variant"]),
    ({"variant": "fast"}, ["variant = 'fast'", "none is given"]),
    ({"constants": "li_icl:{batch:3}"}, ["'li_icl:{batch:3}'", "a space after each colon"]),
    ({"constants": {"li_icl": {"batch:3": ""}}}, ["'batch:3'", "a space after each colon"]),
    ({"constants": {"li_icl": 3}}, ["{'li_icl': 3}", "{model: {constant: value}}"]),
    ({"constants": {"li_ilc": {"batch": "3"}}}, ["li_ilc", "no such model", "li_icl"]),
]
# constant and value of li_icl as text, because Snakemake passes nested values as text
REFUSED += [
    ({"constants": {"li_icl": {name: value}}}, words)
    for name, value, words in (
        ("relevant_fraction", "1.2", ["relevant_fraction (alpha) = 1.2", "above 0 and at most 1"]),
        ("relevant_fraction", "0", ["relevant_fraction (alpha) = 0.0", "above 0 and at most 1"]),
        ("relevant_patterns", "7", ["relevant_patterns (M_1) = 7", "even"]),
        ("batch", "-3", ["batch (B) = -3", "at least 1"]),
        ("batch", "12.5", ["batch (B) = 12.5", "a whole number, at least 1"]),
        ("batch", "1_0", ["batch (B) = '1_0'", "a whole number"]),
        ("batch", "１２", ["batch (B) = '１２'", "a whole number"]),
        ("batch", "999999999999999999999999", ["batch (B) = 999999999999999999999999", "below 2^53"]),
        ("pattern_norm", "fast", ["pattern_norm (beta) = 'fast'", "a number, above 0"]),
        ("pattern_norm", "nan", ["pattern_norm (beta) = nan", "finite, above 0"]),
        ("pattern_nrom", "0.3", ["li_icl.pattern_nrom", "no such constant; did you mean", "pattern_norm"]),
        ("seed", "3", ["seed = 3", "no such constant"]),
    )
]


@pytest.mark.parametrize(("given", "words"), REFUSED, ids=lambda part: str(part)[:60])
def test_a_bad_config_is_refused_in_one_line(given: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConstantError) as error:
        check_config(DEFAULT | given, SCHEMA)
        Plan.of(DEFAULT | given)
    for word in words:
        assert word in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("text", "number"), [("0.3", 0.3), ("3e-1", 0.3), ("1", 1.0), (0.3, 0.3), ("+.5", 0.5)])
def test_text_and_numbers_mean_the_same(text: object, number: float) -> None:
    made = Plan.of(DEFAULT | {"constants": {"li_icl": {"relevant_fraction": text}}})
    assert made.sweep("li_icl").configs[0].relevant_fraction == number


def test_dates_may_be_quoted_or_not(tmp_path: Path) -> None:
    held = discovery.PAPERS / "li2024" / "claims.yaml"
    (tmp_path / "li2024").mkdir()
    text = held.read_text(encoding="utf-8")
    bare = tmp_path / "li2024" / "claims.yaml"
    bare.write_text(re.sub(r'(date: )"([-\d]+)"', r"\1\2", text), encoding="utf-8")
    assert bare.read_text(encoding="utf-8") != text
    assert ledger.read(bare) == ledger.read(held)


def test_an_alias_of_another_figure_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    held = ledger.of_paper("li2024")
    for alias in ("figure8", "twice"):
        targets = {
            name: ledger.Target(name, "A line.", aliases=(alias,)) if name in ("figure9", "figure10") else target
            for name, target in held.targets.items()
        }
        made = ledger.Ledger(held.paper, held.title, held.cite, targets, held.claims)
        ledger.aliases.cache_clear()
        with monkeypatch.context() as patch:
            patch.setattr(ledger, "papers", lambda made=made: (made,))
            with pytest.raises(ledger.LedgerError, match=f"alias {alias} of figure.*: is the name of another figure"):
                ledger.aliases()
    ledger.aliases.cache_clear()


# -- through Snakemake -------------------------------------------------------------------------------------------------


def refusal(workflow: Workflow, *arguments: str) -> str:
    """The last line of Snakemake's refusal, which comes before any result and without a traceback."""

    def there() -> list[Path]:
        return sorted(p for p in workflow.folder.rglob("*") if not {".snakemake", "__pycache__"} & set(p.parts))

    before = there()
    done = workflow(*arguments)
    assert done.returncode != 0, done.stdout
    for word in ("Traceback", "rule train", 'File "', "WorkflowError"):
        assert word not in done.stdout, done.stdout
    assert there() == before
    return done.stdout.strip().splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (["figure9", "--config", "scale=huge"], ["config scale: 'huge'"]),
        (["figure9", "--config", "constants={li_icl: {batch: 1_0}}"], ["batch (B) = '1_0': must be a whole number"]),
        (["figure12", "--config", "constants={li_icl: {batch: 9}}"], ["li_icl.batch = 9: changes nothing in figure12"]),
        (["figure99"], ["target 'figure99': no such target; try", "figure9"]),
        (["figüre9"], ["target 'figüre9': no such target; try", "figure9"]),
        (["results/paper/tables/figure9.parquet", "--config", "scale=smoke"], ["is not in smoke", "scale=paper"]),
        (["figures/smoke@x/figure9.png", "--config", "scale=smoke"], ["is not in smoke, the folder of this config"]),
        (["compare"], ["compare: name the other results by --config against=<results folder>"]),
    ],
    ids=lambda part: " ".join(part)[:60],
)
def test_bad_words_stop_the_workflow_in_one_line(shared_workflow: Workflow, typed: list[str], words: list[str]) -> None:
    """This is not a dry run: if the input was accepted, a training would start."""
    line = refusal(shared_workflow, *typed)
    for word in words:
        assert word in line


@pytest.mark.slow
def test_a_folder_with_braces_is_refused_in_one_line(tmp_path: Path) -> None:
    folder = Workflow(tmp_path / "a{b}c")
    assert refusal(folder, "figure9").endswith("a{b}c: Snakemake takes braces for wildcards; rename the folder")


@pytest.mark.slow
def test_two_targets_of_one_name_are_refused_in_one_line(workflow: Workflow) -> None:
    """An alias equals the name of a rule."""
    rules = workflow.folder / "workflow/rules/figures.smk"
    rules.write_text(rules.read_text().replace("in PLAN.targets(name):", 'in [*PLAN.targets(name), "verify"]:'))
    assert refusal(workflow, "figure9") == "target verify: two targets have this name; rename the figure or alias"


@pytest.mark.slow
def test_snakemake_without_the_package_is_refused_in_one_line(
    workflow: Workflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in another environment: the package cannot be imported here."""
    (workflow.folder / "icl.py").write_text("raise ModuleNotFoundError('No module named icl', name='icl')\n")
    monkeypatch.setenv("PYTHONPATH", str(workflow.folder))
    line = refusal(workflow, "figure9")
    assert line == f"{sys.executable}: has no module icl; run `make env`, then .venv/bin/snakemake"


@pytest.fixture
def read_only(workflow: Workflow) -> Iterator[Workflow]:
    """A workflow with its results on a read-only disk."""
    results = workflow.folder / "results"
    results.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", str(results)], capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no disk can be mounted here: {done.stderr.decode().strip()}")
    yield workflow
    subprocess.run(["umount", "--lazy", str(results)], check=True)


@pytest.mark.slow
def test_results_that_cannot_be_written_are_named(read_only: Workflow) -> None:
    done = read_only("figure9", "--config", "scale=smoke")
    assert done.returncode != 0
    assert "folder results: cannot be written" in done.stdout
    assert "Traceback" not in done.stdout


# -- damaged and foreign results ---------------------------------------------------------------------------------------

PLAN = Plan("smoke")
TABLE, (FIRST, SECOND) = PLAN.table_file("figure9"), PLAN.run_files("figure9")


def half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def foreign_table(path: Path) -> None:
    pd.DataFrame({"x": [1.0], "value": [2.0]}).to_parquet(path)


def foreign_weights(path: Path) -> None:
    save_file({"W_Q": torch.zeros(2, 2)}, path)


def other_shard(path: Path) -> None:
    shutil.copy(path.with_name("0of2.safetensors"), path)


@pytest.mark.parametrize(
    ("spoilt", "spoil", "script", "words"),
    [
        pytest.param(TABLE, half, "draw", "cannot be read as parquet", marks=pytest.mark.slow),
        (TABLE, foreign_table, "check", "was not written by this package"),
        pytest.param(SECOND, half, "measure", "cannot be read as weights", marks=pytest.mark.slow),
        pytest.param(SECOND, foreign_weights, "measure", "was not written by this package", marks=pytest.mark.slow),
        (SECOND, other_shard, "measure", "holds runs with other constants or another shard, not those of li_icl"),
    ],
)
def test_a_script_names_the_file_in_one_line_and_writes_nothing(
    tmp_path: Path, figure9_results: Path, spoilt: str, spoil: Callable[[Path], None], script: str, words: str
) -> None:
    shutil.copytree(figure9_results / "results", tmp_path / "results")
    spoil(tmp_path / spoilt)
    figure = ["--module", PLAN.module("figure9"), "--figure", "figure9"]
    read = ["--scale", "smoke", "--folder", PLAN.folder, "--identity", "abc", "--table", TABLE]
    read += ["--measured", PLAN.measurement_identity("figure9")]
    arguments = {
        "draw": [*figure, *read, "--note", "n", "--pictures", "made/a.png", "--record", "made/a.json"],
        "check": ["--figure", "figure9", *read, "--questions", "[]", "--verdicts", "made/figure9.json"],
        "measure": [*figure, "--scale", "smoke", "--first-seed", str(FIRST_SEED),
                    "--constants", "{}", "--identity", "abc", "--observables",
                    canonical(PLAN.observables("figure9")), "--table", "made/a.parquet", "--runs", FIRST, SECOND],
    }  # fmt: skip
    command = [sys.executable, str(ROOT / f"scripts/{script}.py"), *arguments[script]]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith(f"{spoilt}: {words}") and line.endswith("delete it and run again")
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("name", ["figure99", "_li_icl", "os.path", "", "li2024.figure9"])
def test_an_unknown_figure_is_refused_with_similar_names(name: str) -> None:
    assert discovery.figure("figure9")
    with pytest.raises(discovery.UnknownName, match=r"no such figure; try .*figure9"):
        discovery.figure(name)
