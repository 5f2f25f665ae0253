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
from icl.pipeline.plan import KINDS, Plan
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
    for name in ("results", "figures"):
        shutil.copytree(in_two_shards / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)


def problems() -> list[str]:
    found = list(verify.figures(PLAN, ["figure9"]))
    assert all(line.endswith("run again") and "\n" not in line for line in found)
    return found


def test_results_of_the_jobs_pass_and_have_their_provenance() -> None:
    assert problems() == []
    known = "python versions revision clean fingerprint arithmetic cpu_seconds"
    of_table = table.read(TABLE)[1]
    assert {"inputs", "sweeps"} <= set(of_table)
    for about in (of_table, runs.metadata(WEIGHTS)):
        assert set(known.split()) <= set(about)
        assert {"torch", "numpy", "icl", "snakemake"} <= set(about["versions"])


def test_lost_and_damaged_files_are_named() -> None:
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


# Each rewrites a file with a right checksum.


def reseal(path: Path, kind: str, **changes: object) -> None:
    records.write(path, kind, records.read(path, kind) | changes)


def rejudge() -> None:
    first, *others = records.read(VERDICTS, "verdicts")["verdicts"]
    rerecord(verdicts=[first | {"outcome": "supported"}, *others])


def retable(changes: dict[str, Any] | None = None, **about: object) -> None:
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


def rerecord(**changes: object) -> None:
    reseal(VERDICTS, "verdicts", **changes)


@pytest.mark.parametrize(
    ("spoil", "path", "words"),
    [
        (lambda: reweigh(fingerprint="0"), WEIGHTS, "was trained by other code or constants"),
        (lambda: reweigh(cpu_seconds=0), TABLE, f"was measured from another version of {WEIGHTS}"),
        (lambda: swap(WEIGHTS, OTHER), OTHER, "was trained by other code or constants"),
        (lambda: retable({"figure": "figure8"}), TABLE, "holds figure figure8, not figure9"),
        (lambda: retable({"scale": "laptop"}), TABLE, "holds scale laptop, not smoke"),
        (lambda: retable(fingerprint="0"), TABLE, "was measured by other code or constants"),
        (lambda: retable(inputs={}), TABLE, "was measured from other files"),
        (revalue, VERDICTS, "was made from another table"),
        (lambda: rerecord(figure="figure8"), VERDICTS, "is of figure8, smoke, not of figure9"),
        (lambda: rerecord(folder="smoke@x"), VERDICTS, "is of figure9, smoke@x, not of figure9"),
        (lambda: rerecord(fingerprint="0"), VERDICTS, "was made by other code, bounds or"),
        (lambda: reseal(RECORD, "drawing", fingerprint="0"), RECORD, "was made by other code"),
        (lambda: reseal(RECORD, "drawing", table="0"), RECORD, "was made from another table"),
        (rejudge, VERDICTS, "differs from what its table gives"),
        (lambda: shutil.copy(RECORD, VERDICTS), VERDICTS, "is no file of verdicts"),
        (lambda: shutil.copy(PRINT, PICTURE), PICTURE, "differs from what was drawn"),
    ],
)
def test_swapped_stale_and_rewritten_files_are_named(
    spoil: Callable[[], object], path: Path, words: str
) -> None:
    spoil()
    (found,) = [problem for problem in problems() if problem.startswith(f"{path}: {words}")]
    assert found.endswith("; delete it and run again")


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_file_is_named_before_and_after_a_job(kind: str) -> None:
    """A folder or a link to no file, in place of a result or of what a training keeps beside it."""
    name = "figure9/li_icl/0of2" if kind == "train" else "figure9"
    places = [Path(file) for file in PLAN.outputs(kind, name)]
    assert kind != "train" or {WEIGHTS, *runs.beside(WEIGHTS)} == set(places)
    for place in places:
        place.unlink(missing_ok=True)
        for what, spoil, mend in (
            ("folder", Path.mkdir, Path.rmdir),
            ("link to no file", lambda path: path.symlink_to("nowhere"), Path.unlink),
        ):
            spoil(place)
            line = f"{place}: is a {what}; move it away and run again"
            with pytest.raises(Problem, match=re.escape(line)):
                run(PLAN, kind, name)
            if str(place) in CHAIN:
                assert line in problems() and line in results.on_disk(PLAN, ["figure9"]).problems
            mend(place)


def test_a_shard_is_read_once_for_all_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []
    original = runs.read_arrays
    monkeypatch.setattr(runs, "read_arrays", lambda path: read.append(path) or original(path))
    list(verify.figures(PLAN, ["figure8", "figure9", "figure10"]))
    assert sorted(read) == [WEIGHTS, OTHER]


@pytest.mark.parametrize(
    ("kind", "spoilt", "spoil", "words"),
    [
        ("judge", TABLE, lambda: retable(fingerprint="0"), "was measured by other code"),
        ("draw", TABLE, lambda: os.truncate(TABLE, 999), "cannot be read as parquet"),
        ("measure", OTHER, lambda: shutil.copy(WEIGHTS, OTHER), "holds runs with other constants"),
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
