"""Random sequences of faults: a command prints the verdict of the current sources and data, or names a file and fails.

A sequence edits, kills, deletes, swaps and damages at random, and repeats the same command after each fault. Its
output is compared with that of a fresh folder with the same sources and data. ICL_FAULT_SEQUENCES sets the number
of sequences; each has its own seed, which a failure prints.
"""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from conftest import ROOT, Workflow

pytestmark = pytest.mark.slow

FIGURE, PAPER = "oswald_gd_steps", "oswald2023"
SEQUENCES = int(os.environ.get("ICL_FAULT_SEQUENCES", "1"))
FAULTS_EACH = 3
CONSTANTS = ("", "constants={oswald_gd: {half_width: 0.7}}")
NEGATED = """

_measure = measure


def measure(runs, scale):
    return _measure(runs, scale).assign(value=lambda table: -table["value"])
"""


class Folder:
    """A copy of the source tree with its own package, for faults."""

    def __init__(self, path: Path) -> None:
        self.workflow = Workflow(path)
        self.path = path
        shutil.copytree(ROOT / "src", path / "src", ignore=shutil.ignore_patterns("*.egg-info"))
        self.module = path / f"src/icl/papers/{PAPER}/{FIGURE}.py"
        self.published = path / f"src/icl/papers/{PAPER}/published/{FIGURE}.csv"
        self.negated = self.doubled = False
        self.constants = ""
        self.original = self.published.read_text(encoding="utf-8")

    @property
    def state(self) -> tuple[bool, bool, str]:
        return self.negated, self.doubled, self.constants

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {"PYTHONPATH": str(self.path / "src")}

    @property
    def arguments(self) -> list[str]:
        config = ["scale=smoke", "shards=1", *([self.constants] if self.constants else [])]
        return [sys.executable, "-m", "snakemake", FIGURE, "--cores", "2", "--config", *config]

    def start(self) -> "subprocess.Popen[str]":
        subprocess.run([sys.executable, "scripts/unlock.py"], cwd=self.path, env=self.environment, check=True,
                       stdout=subprocess.DEVNULL)  # fmt: skip
        return subprocess.Popen(
            self.arguments, cwd=self.path, env=self.environment, text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def run(self) -> tuple[int, str]:
        process = self.start()
        output, _ = process.communicate(timeout=600)
        return process.returncode, output

    def verifies(self) -> bool:
        config = f'{{"scale": "smoke", "shards": 1, "variant": "", "first_seed": 1000, "constants": {self._plain()}}}'
        done = subprocess.run([sys.executable, "scripts/verify.py", "--config", config], cwd=self.path,
                              env=self.environment, check=False, capture_output=True)  # fmt: skip
        return done.returncode == 0

    def _plain(self) -> str:
        return '{"oswald_gd": {"half_width": 0.7}}' if self.constants else "{}"

    def set_sources(self, negated: bool, doubled: bool) -> None:
        text = self.module.read_text(encoding="utf-8").removesuffix(NEGATED)
        self.module.write_text(text + (NEGATED if negated else ""), encoding="utf-8")
        lines = self.original.splitlines(keepends=True)
        if doubled:
            lines = [double(line) for line in lines]
        self.published.write_text("".join(lines), encoding="utf-8")
        self.negated, self.doubled = negated, doubled

    def take_over(self, finished: "Folder") -> None:
        """Take the results of a folder in the same state, with their times and Snakemake's metadata."""
        for name in ("results", "figures", ".snakemake"):
            shutil.copytree(finished.path / name, self.path / name, dirs_exist_ok=True)

    def results(self) -> list[Path]:
        """The figure's results in every variant."""
        found = [*self.path.glob("results/smoke*/**/*"), *self.path.glob("figures/smoke*/*")]
        kinds = {".safetensors", ".parquet", ".json", ".png"}
        return sorted(path for path in found if path.suffix in kinds and not path.name.startswith("."))


def double(line: str) -> str:
    """A line of the published numbers with y doubled; header lines are unchanged."""
    cells = line.split(",")
    if line.startswith("#") or len(cells) < 5 or not re.fullmatch(r"-?[\d.e-]+", cells[4]):
        return line
    return ",".join([*cells[:4], repr(2 * float(cells[4])), *cells[5:]])


def verdict(output: str) -> str:
    """The printed verdicts, without the paths of a variant."""
    return output.split("verdicts  ", 1)[-1].split("\n\n", 1)[-1].split("\n[", 1)[0].strip()


# Faults


def edit_source(folder: Folder, source: random.Random) -> None:
    folder.set_sources(not folder.negated, folder.doubled)


def edit_published(folder: Folder, source: random.Random) -> None:
    folder.set_sources(folder.negated, not folder.doubled)


def change_constant(folder: Folder, source: random.Random) -> None:
    folder.constants = next(words for words in CONSTANTS if words != folder.constants)


def same_again(folder: Folder, source: random.Random) -> None:
    """Changes nothing."""


def delete_files(folder: Folder, source: random.Random) -> None:
    files = folder.results()
    for path in source.sample(files, min(len(files), source.choice((1, 1, 2)))):
        path.unlink()


def flip_byte(folder: Folder, source: random.Random) -> None:
    if files := folder.results():
        path = source.choice(files)
        data = bytearray(path.read_bytes())
        data[source.randrange(len(data))] ^= 1 << source.randrange(8)
        path.write_bytes(data)


def swap_file(folder: Folder, source: random.Random) -> None:
    """Replaces a file by one of the other variant, or of another kind with the same suffix."""
    if files := folder.results():
        path = source.choice(files)
        others = [other for other in files if other.suffix == path.suffix and other != path]
        if others:
            shutil.copyfile(source.choice(others), path)


def kill_job(folder: Folder, source: random.Random) -> None:
    """Kills the first job, then the run."""
    folder.set_sources(not folder.negated, folder.doubled)
    process = folder.start()
    stop = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < stop:
        for child in descendants(process.pid):
            if any("scripts/" in word and "unlock" not in word for word in child[1]):
                os.kill(child[0], signal.SIGKILL)
                process.communicate(timeout=120)
                return
        time.sleep(0.02)
    process.communicate(timeout=120)


def kill_group(folder: Folder, source: random.Random) -> None:
    """Kills all processes after a random time."""
    folder.set_sources(folder.negated, not folder.doubled)
    process = folder.start()
    time.sleep(source.uniform(1, 12))
    pids = [pid for pid, _ in descendants(process.pid)]
    for pid in (process.pid, *pids):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.communicate(timeout=60)


def descendants(process: int) -> Iterator[tuple[int, list[str]]]:
    try:
        for child in psutil.Process(process).children(recursive=True):
            try:
                yield child.pid, child.cmdline()
            except psutil.Error:
                continue
    except psutil.Error:
        return


FAULTS: tuple[Callable[[Folder, random.Random], None], ...] = (
    edit_source, edit_published, change_constant, same_again, delete_files, flip_byte, swap_file, kill_job, kill_group,
)  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    folder = Folder(tmp_path_factory.mktemp("finished") / "copy")
    assert folder.run()[0] == 0
    return folder


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Callable[[tuple[bool, bool, str]], str]:
    """The output of a fresh folder in this state, computed once."""
    known: dict[tuple[bool, bool, str], str] = {}

    def of(state: tuple[bool, bool, str]) -> str:
        if state not in known:
            fresh = Folder(tmp_path_factory.mktemp("fresh") / "copy")
            fresh.set_sources(*state[:2])
            fresh.constants = state[2]
            code, output = fresh.run()
            assert code == 0, output
            known[state] = verdict(output)
        return known[state]

    return of


@pytest.mark.parametrize("seed", range(SEQUENCES))
def test_no_sequence_of_faults_prints_a_stale_verdict(
    seed: int, tmp_path: Path, finished: Folder, expected: Callable[[tuple[bool, bool, str]], str]
) -> None:
    source, folder = random.Random(seed), Folder(tmp_path / "copy")
    folder.take_over(finished)
    for fault in source.choices(FAULTS, k=FAULTS_EACH):
        fault(folder, source)
        said = f"seed {seed}, after {fault.__name__}"
        # The message of a reader names its file; the user deletes it and repeats the command.
        for _ in range(6):
            code, output = folder.run()
            if code == 0:
                break
            named = set(re.findall(r"(?:results|figures)/smoke[^\s:;,'\"]*\.(?:safetensors|parquet|json|png)", output))
            assert named, f"{said}: failed without naming a file\n{output}"
            assert not folder.verifies(), f"{said}: the command failed, but verify found nothing\n{output}"
            for name in named:
                (folder.path / name).unlink(missing_ok=True)
        assert code == 0, f"{said}: the remedy did not work\n{output}"
        assert verdict(output) == expected(folder.state), said
        assert folder.verifies(), f"{said}: verify disagrees"
