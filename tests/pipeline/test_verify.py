"""Every link from weights to pictures is checked: changed, swapped or missing files are named with the remedy."""

import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from icl.core import runs, sealed, table
from icl.pipeline import verify
from icl.pipeline.plan import Plan

PLAN = Plan("smoke")
WEIGHTS, TRAJECTORY = "results/smoke/runs/li_icl/0of2.safetensors", "results/smoke/runs/li_icl/0of2.parquet"
TABLE, VERDICTS = PLAN.table_file("figure9"), PLAN.verdict_file("figure9")
RECORD, PICTURE = PLAN.record_file("figure9"), PLAN.pictures("figure9")[0]
CHAIN = PLAN.chain("figure9")


@pytest.fixture
def made(figure9_made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with all results of figure 9, as the working folder."""
    shutil.copytree(figure9_made, tmp_path / "made")
    monkeypatch.chdir(tmp_path / "made")
    return tmp_path / "made"


def problems() -> list[str]:
    return list(verify.figure(PLAN, "figure9"))


def test_results_of_the_workflow_pass(made: Path) -> None:
    assert problems() == []


@pytest.mark.parametrize("lost", list(itertools.combinations(CHAIN, 2)), ids=", ".join)
def test_lost_files_are_named(made: Path, lost: tuple[str, str]) -> None:
    for path in lost:
        Path(path).unlink()
    found = " ".join(problems())
    assert all(path in found for path in lost)


@pytest.mark.parametrize("path", CHAIN)
@pytest.mark.parametrize("share", [0.02, 0.5, 0.98])
def test_a_flipped_byte_is_detected_or_has_no_effect(made: Path, path: str, share: float) -> None:
    """In a trajectory it may lie in an unused part; all other files have a digest elsewhere."""
    before = table.read_plain(Path(TRAJECTORY))[0]
    data = bytearray(Path(path).read_bytes())
    data[int(share * len(data))] ^= 1
    Path(path).write_bytes(data)
    found = problems()
    assert found or (path.endswith("of2.parquet") and table.read_plain(Path(TRAJECTORY))[0].equals(before))
    assert all("delete it and run again" in line and "\n" not in line for line in found)


def resealed(path: str, kind: str, **changes: object) -> None:
    """A rewritten record with a correct checksum."""
    sealed.write(Path(path), kind, sealed.read(Path(path), kind) | changes)


def other_losses() -> None:
    sweep = PLAN.sweep("li_icl").shard(0, 2)
    kept, about = runs.load(Path(WEIGHTS), sweep), runs.metadata(Path(WEIGHTS))
    kept.losses[0, 3] += 1e-12
    runs.save(Path(WEIGHTS), kept, about)


def of_other_code() -> None:
    sweep = PLAN.sweep("li_icl").shard(0, 2)
    runs.save(Path(WEIGHTS), runs.load(Path(WEIGHTS), sweep), runs.metadata(Path(WEIGHTS)) | {"identity": "0" * 16})


def with_table(change: Callable[[pd.DataFrame], pd.DataFrame], **about: object) -> None:
    frame, kept = table.read(Path(TABLE))
    table.write(Path(TABLE), change(frame), kept | about)


def swapped_shards() -> None:
    other = WEIGHTS.replace("0of2", "1of2")
    held = Path(other).read_bytes()
    shutil.copy(WEIGHTS, other)
    Path(WEIGHTS).write_bytes(held)


@pytest.mark.parametrize(
    ("spoil", "line"),
    [
        (other_losses, f"{TRAJECTORY}: holds other losses than the weights beside it"),
        (of_other_code, f"{WEIGHTS}: was trained by other code or constants"),
        (swapped_shards, f"{WEIGHTS}: was trained by other code or constants"),
        (lambda: with_table(lambda t: t.assign(figure="figure8")), f"{TABLE}: holds figure figure8, not figure9"),
        (lambda: with_table(lambda t: t.assign(scale="laptop")), f"{TABLE}: holds scale laptop, not smoke"),
        (lambda: with_table(lambda t: t, identity="0"), f"{TABLE}: was measured by other code or constants"),
        (lambda: with_table(lambda t: t, inputs={}), f"{TABLE}: was measured from other files"),
        (lambda: with_table(lambda t: t.assign(value=t["value"] + 1e-9)), f"{VERDICTS}: was judged from another table"),
        (lambda: resealed(VERDICTS, "verdicts", figure="figure8"), f"{VERDICTS}: is of figure8, smoke, not of figure9"),
        (lambda: resealed(VERDICTS, "verdicts", folder="smoke@x"), f"{VERDICTS}: is of figure9, smoke@x, not of"),
        (lambda: resealed(VERDICTS, "verdicts", identity="0"), f"{VERDICTS}: was judged by other code, bounds"),
        (lambda: resealed(RECORD, "drawing", table="0"), f"{RECORD}: was drawn from another table"),
        (lambda: shutil.copy(RECORD, VERDICTS), f"{VERDICTS}: is no file of verdicts"),
        (lambda: shutil.copy(PLAN.pictures("figure9")[1], PICTURE), f"{PICTURE}: differs from what was drawn"),
    ],
)
def test_swapped_or_rewritten_files_are_named(made: Path, spoil: Callable[[], object], line: str) -> None:
    spoil()
    (found,) = [problem for problem in problems() if problem.startswith(line)]
    assert found.endswith("; delete it and run again")


def test_a_shard_is_read_once_for_all_figures(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    original = runs.read_arrays
    monkeypatch.setattr(runs, "read_arrays", lambda path: read.append(path.name) or original(path))
    list(verify.figures(PLAN, ["figure8", "figure9", "figure10"]))
    assert sorted(read) == ["0of2.safetensors", "1of2.safetensors"]


def test_an_altered_digit_of_a_verdict_is_not_read(made: Path) -> None:
    text = Path(VERDICTS).read_text()
    estimate = json.loads(text)["verdicts"][0]["parts"][0]["estimate"]
    Path(VERDICTS).write_text(text.replace(str(estimate), str(estimate + 0.25)))
    with pytest.raises(sealed.SealedError, match=f"{VERDICTS}: is damaged"):
        sealed.read(Path(VERDICTS), "verdicts")


def test_results_have_their_provenance(made: Path) -> None:
    about = table.read(Path(TABLE))[1]
    assert {"python", "versions", "revision", "clean", "identity", "inputs", "sweeps"} <= set(about)
    assert {"torch", "numpy", "icl", "snakemake"} <= set(about["versions"])
