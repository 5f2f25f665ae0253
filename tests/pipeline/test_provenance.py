"""Results are checked against their own metadata: whatever was changed since is reported, by name."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import safetensors.torch
from safetensors import safe_open

from icl.core import runs, table
from icl.core.config import canonical
from icl.pipeline import provenance

ROOT = Path(__file__).resolve().parents[2]
WEIGHTS, TRAJECTORY = "runs/li_icl/0of2.safetensors", "runs/li_icl/0of2.parquet"
TABLE, VERDICTS = "tables/figure9.parquet", "verdicts/figure9.json"


@pytest.fixture
def results(figure9_results: Path, tmp_path: Path) -> Path:
    shutil.copytree(figure9_results / "results", tmp_path / "results")
    return tmp_path / "results" / "smoke"


def problems(results: Path) -> list[str]:
    return [problem.replace(f"{results}/", "") for problem in provenance.verify(results)[0]]


def flip(path: Path, place: int) -> None:
    """Turns one bit of one byte."""
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def with_metadata(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """The same tensors under changed metadata, in the format that has no checksum."""
    with safe_open(path, framework="pt") as file:
        about = json.loads(file.metadata()["icl"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    change(about)
    about["format"] = runs.UNSEALED
    del about["sha256"]
    safetensors.torch.save_file(tensors, path, {"icl": canonical(about)})


def test_clean_results_pass(results: Path) -> None:
    assert provenance.verify(results) == ([], 4)


def test_clean_results_pass_from_anywhere(results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path / "results")
    assert provenance.verify(Path("smoke")) == ([], 4)


def test_an_empty_folder_has_nothing_to_check(tmp_path: Path) -> None:
    assert provenance.verify(tmp_path) == ([], 0)


def test_unfinished_files_are_no_results(results: Path) -> None:
    shutil.copy(results / WEIGHTS, results / "runs/li_icl/0of2.state.safetensors")
    (results / "runs/li_icl/.0of2.123.safetensors").write_bytes(b"half")
    assert provenance.verify(results) == ([], 4)


def test_a_flipped_byte_in_weights(results: Path) -> None:
    """In the last number: it still decodes, but the file knows its content, and the table its inputs."""
    flip(results / WEIGHTS, -8)
    found = problems(results)
    assert any(p.startswith(f"{WEIGHTS}: is damaged") for p in found)
    assert f"{TABLE}: its input results/smoke/{WEIGHTS} has changed since" in found


def test_other_losses_in_the_weights(results: Path) -> None:
    """Written anew, so that the file's own checksum agrees."""
    path = results / WEIGHTS
    kept, about = runs.load(path), runs.metadata(path)
    kept.losses[0, 3] += 1e-12
    runs.save(path, kept, about)
    assert f"{WEIGHTS}: the trajectory 0of2.parquet beside it holds other losses" in problems(results)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_flipped_byte_in_a_table(results: Path, share: float) -> None:
    path = results / TABLE
    flip(path, int(share * path.stat().st_size))
    assert problems(results)
    assert all(TABLE in problem for problem in problems(results))


def test_a_table_that_was_written_again_with_another_value(results: Path) -> None:
    frame, about = table.read(results / TABLE)
    frame.loc[0, "value"] += 1e-9
    table.write(results / TABLE, frame, about)
    assert problems(results) == [f"{VERDICTS}: its input {TABLE} has changed since"]


def test_a_changed_verdict(results: Path) -> None:
    text = (results / VERDICTS).read_text()
    assert '"outcome": "inconclusive"' in text
    (results / VERDICTS).write_text(text.replace('"outcome": "inconclusive"', '"outcome": "supported"', 1))
    assert problems(results) == [f"{VERDICTS}: says something else than its table and the source give now"]


def test_another_constant_in_the_metadata_of_weights(results: Path) -> None:
    with_metadata(results / WEIGHTS, lambda about: about["sweep"]["configs"][0].update(learning_rate=0.3))
    assert f"{WEIGHTS}: was trained by other code or constants than its metadata and the source give now" in problems(
        results
    )


def test_another_identity_in_the_metadata_of_weights(results: Path) -> None:
    """As after an edit of the code that trains."""
    with_metadata(results / WEIGHTS, lambda about: about.update(identity="0" * 16))
    assert any("was trained by other code" in problem for problem in problems(results))


def test_a_constant_that_this_version_does_not_have(results: Path) -> None:
    with_metadata(results / WEIGHTS, lambda about: about["sweep"]["configs"][0].update(learning_rate=0.3))
    assert any(p.startswith(WEIGHTS) and "learning_rate" in p for p in problems(results))


def test_another_constant_in_the_metadata_of_a_table(results: Path) -> None:
    frame, about = table.read(results / TABLE)
    about["sweeps"][0]["test"]["prompts"] += 1
    table.write(results / TABLE, frame, about)
    assert f"{TABLE}: was measured by other code or constants than its metadata and the source give now" in problems(
        results
    )


def test_a_table_of_another_figure(results: Path) -> None:
    frame, about = table.read(results / TABLE)
    table.write(results / TABLE, frame.assign(figure="figure8"), about)
    assert f"{TABLE}: holds rows of figure8" in problems(results)


@pytest.mark.parametrize(
    ("gone", "problem"),
    [
        (WEIGHTS, f"{TABLE}: its input results/smoke/{WEIGHTS} is gone"),
        (TRAJECTORY, f"{WEIGHTS}: the trajectory 0of2.parquet beside it is gone"),
        (TABLE, f"{VERDICTS}: its input {TABLE} is gone"),
    ],
)
def test_a_missing_input(results: Path, gone: str, problem: str) -> None:
    (results / gone).unlink()
    assert problem in problems(results)


@pytest.mark.parametrize("name", [WEIGHTS, TRAJECTORY, TABLE, VERDICTS])
def test_damage_is_reported_and_the_rest_still_checked(results: Path, name: str) -> None:
    path = results / name
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert any(name in problem for problem in problems(results))
    assert provenance.verify(results)[1] == 4


def test_foreign_files_are_reported(results: Path) -> None:
    pd.DataFrame({"x": [1.0]}).to_parquet(results / TABLE)
    (results / VERDICTS).write_text('{"figure": "figure9"}')
    found = problems(results)
    assert any(p.startswith(TABLE) and "was not written by this package" in p for p in found)
    assert any(p.startswith(VERDICTS) and "is not a file of verdicts" in p for p in found)


def test_verdicts_of_an_unknown_figure(results: Path) -> None:
    for name in (TABLE, VERDICTS):
        (results / name).rename(results / name.replace("figure9", "figure99"))
    found = problems(results)
    assert any(p.startswith("tables/figure99.parquet") and "icl.experiments.figure99" in p for p in found)
    assert any(p.startswith("verdicts/figure99.json") and "icl.experiments.figure99" in p for p in found)


def test_the_script_exits_with_1_and_says_why(results: Path) -> None:
    def verify() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(ROOT / "scripts" / "verify.py"), "--results", str(results)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)

    (results / TRAJECTORY).unlink()
    bad = verify()
    assert (bad.returncode, "4 files checked, 1 problems" in bad.stdout) == (1, True)


def test_results_say_where_they_come_from(results: Path) -> None:
    about = table.read(results / TABLE)[1]
    assert {"python", "versions", "revision", "clean", "identity", "inputs", "sweeps"} <= set(about)
    assert {"torch", "numpy", "icl", "snakemake"} <= set(about["versions"])
    assert len(about["inputs"]) == 2
