"""Every link from weights to pictures is checked: changed, swapped or missing files are named
with the remedy.
"""

import itertools
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import make_figure9

from icl.core import records, runs, table
from icl.core.problem import Problem
from icl.pipeline import verify
from icl.pipeline.plan import Plan
from icl.pipeline.run import run
from icl.report import results

PLAN = Plan("smoke", shards=2)
WEIGHTS, OTHER = map(Path, PLAN.run_files("figure9"))
TABLE, VERDICTS, RECORD = (
    Path(of("figure9")) for of in (PLAN.table_file, PLAN.verdict_file, PLAN.record_file)
)
PICTURE, PRINT = map(Path, PLAN.pictures("figure9")[:2])
CHAIN = PLAN.chain("figure9")


@pytest.fixture(scope="module")
def in_two_shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_figure9(tmp_path_factory.mktemp("figure9"), PLAN)


@pytest.fixture(autouse=True)
def made(in_two_shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a folder with all results of figure 9, as the working folder."""
    for name in ("results", "figures"):
        shutil.copytree(in_two_shards / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)


def problems() -> list[str]:
    found = list(verify.figures(PLAN, ["figure9"]))
    assert all(line.endswith("run again") and "\n" not in line for line in found)
    return found


def test_results_of_the_jobs_pass_and_have_their_provenance() -> None:
    assert problems() == []
    about = table.read(TABLE)[1]
    assert {
        "python",
        "versions",
        "revision",
        "clean",
        "fingerprint",
        "inputs",
        "sweeps",
        "cpu_seconds",
    } <= set(about)
    assert {"torch", "numpy", "icl", "snakemake"} <= set(about["versions"])


def test_lost_and_damaged_files_are_named() -> None:
    """Every pair of lost files, and a flipped byte at four places of every file."""
    whole = {path: Path(path).read_bytes() for path in CHAIN}
    for lost in itertools.combinations(CHAIN, 2):
        for path in lost:
            Path(path).unlink()
        found = " ".join(problems())
        assert all(path in found for path in lost)
        for path in lost:
            Path(path).write_bytes(whole[path])
    for path, share in itertools.product(CHAIN, (0.02, 0.5, 0.8, 0.98)):
        data = bytearray(whole[path])
        data[int(share * len(data))] ^= 1
        Path(path).write_bytes(data)
        # Some bytes of a parquet file mean nothing, but the files made from it have its digest.
        assert problems(), (path, share)
        Path(path).write_bytes(whole[path])


def reseal(path: Path, kind: str, **changes: object) -> None:
    """Rewrite a record with a right checksum."""
    records.write(path, kind, records.read(path, kind) | changes)


def rejudge() -> None:
    first, *others = records.read(VERDICTS, "verdicts")["verdicts"]
    reseal(VERDICTS, "verdicts", verdicts=[first | {"outcome": "supported"}, *others])


def retable(changes: dict[str, Any] | None = None, **about: object) -> None:
    """Rewrite the table with other contents or another description."""
    made, described = table.read(TABLE)
    table.write(TABLE, replace(made, **(changes or {})), described | about)


def reweigh(**about: object) -> None:
    shard = PLAN.shard("li_icl", "0of2")
    runs.save(WEIGHTS, runs.load(WEIGHTS, shard), runs.metadata(WEIGHTS) | about)


def swap(one: Path, other: Path) -> None:
    held = other.read_bytes()
    shutil.copy(one, other)
    one.write_bytes(held)


def revalue() -> None:
    made = table.read(TABLE)[0].runs
    retable({"runs": made.assign(value=made["value"] + 1e-9)})


@pytest.mark.parametrize(
    ("spoil", "line"),
    [
        (lambda: reweigh(fingerprint="0"), f"{WEIGHTS}: was trained by other code or constants"),
        (
            lambda: reweigh(cpu_seconds=0),
            f"{TABLE}: was measured from another version of {WEIGHTS}",
        ),
        (lambda: swap(WEIGHTS, OTHER), f"{OTHER}: was trained by other code or constants"),
        (lambda: retable({"figure": "figure8"}), f"{TABLE}: holds figure figure8, not figure9"),
        (lambda: retable({"scale": "laptop"}), f"{TABLE}: holds scale laptop, not smoke"),
        (lambda: retable(fingerprint="0"), f"{TABLE}: was measured by other code or constants"),
        (lambda: retable(inputs={}), f"{TABLE}: was measured from other files"),
        (revalue, f"{VERDICTS}: was made from another table"),
        (
            lambda: reseal(VERDICTS, "verdicts", figure="figure8"),
            f"{VERDICTS}: is of figure8, smoke, not of figure9",
        ),
        (
            lambda: reseal(VERDICTS, "verdicts", folder="smoke@x"),
            f"{VERDICTS}: is of figure9, smoke@x, not of figure9",
        ),
        (
            lambda: reseal(VERDICTS, "verdicts", fingerprint="0"),
            f"{VERDICTS}: was made by other code, bounds or",
        ),
        (lambda: reseal(RECORD, "drawing", table="0"), f"{RECORD}: was made from another table"),
        (rejudge, f"{VERDICTS}: differs from what its table gives"),
        (
            lambda: VERDICTS.write_text(VERDICTS.read_text().replace("0.", "1.", 1)),
            f"{VERDICTS}: is damaged",
        ),
        (lambda: shutil.copy(RECORD, VERDICTS), f"{VERDICTS}: is no file of verdicts"),
        (lambda: shutil.copy(PRINT, PICTURE), f"{PICTURE}: differs from what was drawn"),
    ],
)
def test_swapped_stale_and_rewritten_files_are_named(
    spoil: Callable[[], object], line: str
) -> None:
    spoil()
    (found,) = [problem for problem in problems() if problem.startswith(line)]
    assert found.endswith("; delete it and run again")


@pytest.mark.parametrize("path", CHAIN)
def test_what_is_no_file_is_named_before_and_after_a_job(path: str) -> None:
    """A folder or a link to no file, in place of a result or of what a training keeps beside it."""
    first, *others = PLAN.shards_of("figure9")
    kinds = {
        str(WEIGHTS): f"train figure9/{'/'.join(first)}",
        str(OTHER): f"train figure9/{'/'.join(others[0])}",
        str(TABLE): "measure figure9",
        str(VERDICTS): "judge figure9",
    }
    kind, name = kinds.get(path, "draw figure9").split()
    kept = [
        Path(path).with_name(f".{Path(path).stem}.finished.safetensors"),
        Path(path).with_suffix(".state.safetensors"),
    ]
    for spoilt in [Path(path), *(kept if kind == "train" else [])]:
        for what, spoil in (
            ("a folder", Path.mkdir),
            ("a link to no file", lambda p: p.symlink_to("nowhere")),
        ):
            spoilt.unlink(missing_ok=True)
            spoil(spoilt)
            line = f"{spoilt}: is {what}; move it away and run again"
            with pytest.raises(Problem, match=re.escape(line)):
                run(PLAN, kind, name)
            if spoilt == Path(path):
                assert line in problems() and line in results.on_disk(PLAN, ["figure9"]).problems
            (Path.rmdir if spoilt.is_dir() else Path.unlink)(spoilt)


def test_a_shard_is_read_once_for_all_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []
    original = runs.read_arrays
    monkeypatch.setattr(runs, "read_arrays", lambda path: read.append(path) or original(path))
    list(verify.figures(PLAN, ["figure8", "figure9", "figure10"]))
    assert sorted(read) == [WEIGHTS, OTHER]


@pytest.mark.parametrize(
    ("kind", "spoilt", "spoil", "words"),
    [
        (
            "judge",
            TABLE,
            lambda: retable(fingerprint="0"),
            "was measured by other code or constants",
        ),
        (
            "draw",
            TABLE,
            lambda: TABLE.write_bytes(TABLE.read_bytes()[:999]),
            "cannot be read as parquet",
        ),
        (
            "measure",
            OTHER,
            lambda: shutil.copy(WEIGHTS, OTHER),
            "holds runs with other constants or another shard",
        ),
    ],
)
def test_a_job_names_its_bad_input_and_writes_nothing(
    kind: str, spoilt: Path, spoil: Callable[[], object], words: str
) -> None:
    spoil()
    before = {path: os.stat(path).st_mtime_ns for path in CHAIN}
    with pytest.raises(Problem, match=f"^{spoilt}: {words}.*; delete it and run again$"):
        run(PLAN, kind, "figure9")
    assert before == {path: os.stat(path).st_mtime_ns for path in CHAIN}
