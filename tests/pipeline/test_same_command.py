"""After a loss, a swap or a failure, the same command ends with valid results, or names the file and fails."""

import itertools
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import Workflow

from icl.core import table
from icl.pipeline import identity, verify
from icl.pipeline.plan import Plan

pytestmark = pytest.mark.slow

PLAN = Plan("smoke")
COMMAND = ("figure9", "--config", "scale=smoke")
CHAIN = PLAN.chain("figure9")
# A printed verdict; the claim alone also appears in the command that judges it.
PRINTED = "A-P1b      INCONCLUSIVE"
TABLE, VERDICTS, (FIRST, SECOND) = PLAN.table_file("figure9"), PLAN.verdict_file("figure9"), PLAN.run_files("figure9")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Workflow:
    """A checkout in which the workflow has made figure 9. Copy it before changing it."""
    workflow = Workflow(tmp_path_factory.mktemp("finished") / "copy")
    done = workflow(*COMMAND, timeout=1800)
    assert done.returncode == 0, done.stdout
    return workflow


@pytest.fixture
def made(finished: Workflow, workflow: Workflow, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workflow]:
    """A copy of it, with times and Snakemake's metadata, as the working folder."""
    for name in ("results", "figures", ".snakemake"):
        shutil.copytree(finished.folder / name, workflow.folder / name)
    monkeypatch.chdir(workflow.folder)
    yield workflow
    identity._code.cache_clear()


def succeeds(workflow: Workflow) -> None:
    """The command prints the verdict, and all results are verified."""
    done = workflow(*COMMAND)
    assert done.returncode == 0, done.stdout
    assert PRINTED in done.stdout
    # A test may have edited the scripts of the copy.
    identity._code.cache_clear()
    assert list(verify.figure(PLAN, "figure9")) == []


def fails(workflow: Workflow, *words: str) -> None:
    """The command prints no verdict, but these words."""
    done = workflow(*COMMAND)
    assert done.returncode != 0
    assert PRINTED not in done.stdout
    for word in words:
        assert word in done.stdout, done.stdout


def test_deleted_files_are_made_again(made: Workflow) -> None:
    """Single files and some pairs of them, with the same values; see test_fault_sequences for longer sequences."""
    before = table.read(Path(TABLE))[0]
    pairs = list(itertools.combinations(CHAIN, 2))
    some = [pairs[index] for index in np.random.default_rng(0).permutation(len(pairs))[:3]]
    for lost in [*((path,) for path in CHAIN), *some]:
        for path in lost:
            Path(path).unlink()
        succeeds(made)
        pd.testing.assert_frame_equal(table.read(Path(TABLE))[0], before, check_exact=True)


def of_another_figure(figure: str, scale: str) -> None:
    frame, about = table.read(Path(TABLE))
    table.write(Path(TABLE), frame.assign(figure=figure, scale=scale), about)


def swapped_shards() -> None:
    held = Path(SECOND).read_bytes()
    shutil.copy(FIRST, SECOND)
    Path(FIRST).write_bytes(held)


def altered_digit() -> None:
    text = Path(VERDICTS).read_text()
    Path(VERDICTS).write_text(text.replace('"estimate": 0.', '"estimate": 1.', 1))


def flipped_byte() -> None:
    data = bytearray(Path(FIRST).read_bytes())
    data[-8] ^= 1
    Path(FIRST).write_bytes(data)


@pytest.mark.parametrize(
    ("spoil", "spoilt", "words"),
    [
        (lambda: of_another_figure("figure8", "smoke"), [TABLE], "holds figure figure8, not figure9"),
        (lambda: of_another_figure("figure9", "laptop"), [TABLE], "holds scale laptop, not smoke"),
        (swapped_shards, [FIRST, SECOND], ""),
        (altered_digit, [VERDICTS], "is damaged"),
        (flipped_byte, [FIRST], "is damaged"),
        (lambda: shutil.copy(PLAN.pictures("figure9")[1], PLAN.pictures("figure9")[0]), [PLAN.pictures("figure9")[0]],
         "differs from what was drawn"),
    ],
    ids=["figure", "scale", "shards", "digit", "byte", "picture"],
)  # fmt: skip
def test_a_swapped_file_is_refused_by_name_and_the_remedy_works(
    made: Workflow, spoil: Callable[[], object], spoilt: list[str], words: str
) -> None:
    times = {path: os.stat(path) for path in CHAIN}
    spoil()
    # If the file's time has changed, Snakemake makes the file again.
    for path, held in times.items():
        os.utime(path, ns=(held.st_atime_ns, held.st_mtime_ns))
    fails(made, spoilt[0], words, "delete it and run again")
    for path in spoilt:
        Path(path).unlink()
    succeeds(made)


@pytest.mark.parametrize("job", ["train", "measure", "draw", "check"])
def test_a_job_that_fails_leaves_no_old_verdict_behind(made: Workflow, job: str) -> None:
    """An edit makes the job due; it fails twice and then succeeds."""
    script = made.folder / f"scripts/{job}.py"
    stub = "import sys\nfrom pathlib import Path\nif Path('broken').exists():\n    sys.exit('fails on purpose')\n"
    script.write_text(stub + script.read_text(encoding="utf-8"), encoding="utf-8")
    Path("broken").touch()
    for _ in range(2):
        fails(made, "fails on purpose")
    Path("broken").unlink()
    succeeds(made)
