"""The identity of a job depends on every byte that the job reads or imports, and on nothing else."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st

from icl.core import discovery
from icl.evidence import ledger
from icl.pipeline import identity
from icl.pipeline.plan import Plan

PLAN = Plan("smoke")
KINDS = ("train", "measure", "draw", "check")


def module_of(kind: str, figure: str) -> list[str]:
    """The modules that a job of a figure loads by name; the training is that of its first sweep."""
    if kind == "train":
        return [PLAN.system_module(next(iter(PLAN.sweeps(figure))))]
    return [] if kind == "check" else [PLAN.module(figure)]


def identity_of(kind: str, figure: str) -> str:
    """The identity that Snakemake compares to decide if the job is due."""
    sweep = next(iter(PLAN.sweeps(figure)))
    by_kind: dict[str, Callable[[], str]] = {
        "train": lambda: PLAN.training_identity(sweep, PLAN.shard_names(sweep)[0]),
        "measure": lambda: PLAN.measurement_identity(figure),
        "draw": lambda: PLAN.drawing_identity(figure),
        "check": lambda: PLAN.judging_identity(figure),
    }
    return by_kind[kind]()


def read_by(kind: str, figure: str) -> set[Path]:
    """Every file of the repository that the job imports or reads, except results."""
    published = [] if kind in ("train", "measure") else PLAN.published_files(figure)
    return {*identity.files(kind, *module_of(kind, figure)), *map(Path, published)}


def restart() -> None:
    """Clear the caches of file contents."""
    for held in (identity._code, ledger.of_paper, ledger.papers, ledger.aliases):
        held.cache_clear()
    # Paths, not contents.
    PLAN.__dict__.pop("_published", None)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of the sources, which the plan reads instead of ours."""
    root = tmp_path_factory.mktemp("tree")
    for name in ("src", "scripts"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        patch.setattr(identity, "PACKAGE", root / "src/icl")
        patch.setattr(discovery, "PAPERS", root / "src/icl/papers")
        restart()
        yield root
    restart()


@cache
def sources(root: Path) -> list[Path]:
    """All files of the copy except the ledgers, of which only parts matter."""
    return [path for path in sorted(root.rglob("*")) if path.is_file() and path.name != "claims.yaml"]


@settings(max_examples=150)
@given(kind=st.sampled_from(KINDS), figure=st.sampled_from(PLAN.figures), own=st.booleans(), data=st.data())
def test_a_byte_changes_the_identity_of_the_jobs_that_read_it_and_of_no_other(
    tree: Path, kind: str, figure: str, own: bool, data: st.DataObject
) -> None:
    read = {tree / path for path in read_by(kind, figure)}
    assert read <= set(sources(tree))
    path = data.draw(st.sampled_from([path for path in sources(tree) if (path in read) is own]))
    whole = path.read_bytes()
    place = data.draw(st.integers(0, max(len(whole) - 1, 0)))
    before = identity_of(kind, figure)
    changed = bytearray(whole or b" ")
    changed[place] ^= data.draw(st.integers(1, 255))
    try:
        path.write_bytes(changed)
        identity._code.cache_clear()
        assert (identity_of(kind, figure) != before) is own, path
    finally:
        path.write_bytes(whole)
        identity._code.cache_clear()


PROBE = """
from icl.pipeline import identity
from icl.pipeline.plan import Plan
plan = Plan("smoke")
print(plan.training_identity("li_icl", "0of2"))
print(*identity.files("train", plan.system_module("li_icl")))
"""


def test_a_new_import_counts_and_the_folder_does_not(tmp_path: Path) -> None:
    """In a separate process, which imports the package from the copy."""

    def probe() -> list[str]:
        environment = os.environ | {"PYTHONPATH": str(tmp_path / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-c", PROBE]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    for name in ("src", "scripts"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    name, files = probe()
    assert name == PLAN.training_identity("li_icl", "0of2")
    added = tmp_path / "src/icl/tasks/linear_dynamics.py"
    assert str(tmp_path / "src/icl/core/streams.py") in files and str(added) not in files
    with (tmp_path / "src/icl/papers/li2024/prompts.py").open("a") as prompts:
        prompts.write("\n\ndef late() -> None:\n    from icl.tasks import linear_dynamics as _\n")
    again, files = probe()
    assert again != name and str(added) in files


# -- the ledger --------------------------------------------------------------------------------------------------------


def edit(tree: Path, change: Callable[[dict[str, Any]], object]) -> set[str]:
    """The jobs of figure 9 that are due after an edit of its paper's ledger."""
    path = tree / "src/icl/papers/li2024/claims.yaml"
    whole = path.read_bytes()
    before = {kind: identity_of(kind, "figure9") for kind in KINDS}
    try:
        data = yaml.safe_load(whole)
        change(data)
        path.write_text(yaml.safe_dump(data, allow_unicode=True), encoding="utf-8")
        restart()
        return {kind for kind in KINDS if identity_of(kind, "figure9") != before[kind]}
    finally:
        path.write_bytes(whole)
        restart()


def claim(data: dict[str, Any]) -> dict[str, Any]:
    """The first claim of figure 9."""
    return next(claim for claim in data["claims"] if claim["figure"] == "figure9")


@pytest.mark.parametrize(
    ("change", "due"),
    [
        (lambda data: claim(data).update(says="Otherwise.", tested="Another word.", not_shown="Nothing."), set()),
        (
            lambda data: data["figures"]["figure9"].update(caption="Another.", summary="Another.", aliases=["nine"]),
            set(),
        ),
        (lambda data: claim(data)["bounds"][0].update(at_least=-123.0), {"check"}),
        (lambda data: data["figures"]["figure9"].update(observables={"another": "mean"}), {"measure"}),
        (lambda data: data["figures"]["figure8"].update(observables={"another": "mean"}), set()),
    ],
    ids=["statement", "caption", "bound", "observable", "of another figure"],
)
def test_an_edit_of_the_ledger_makes_due_what_depends_on_it(
    tree: Path, change: Callable[[dict[str, Any]], object], due: set[str]
) -> None:
    assert edit(tree, change) == due
