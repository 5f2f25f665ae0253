"""Shared fixtures: sweeps that train in milliseconds, and copies of the workflow to run in."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from icl.core.config import grid
from icl.core.sweep import Sweep
from icl.core.table import Table

ROOT = Path(__file__).resolve().parents[1]
FUZZED: Counter[str] = Counter()
WORKFLOW = ("Snakefile", "workflow", "scripts", "profiles", "environment.yml")

# Set before torch is loaded. At the size of the tests more threads do not help, and pytest has a worker per core.
os.environ["OMP_NUM_THREADS"] = "1"
# Tests must not fail because the machine is busy, and must be the same in every run.
settings.register_profile("icl", deadline=None, derandomize=True, database=None)
settings.load_profile("icl")
# A shell starts its background jobs with SIGINT ignored, and the processes that tests interrupt would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


BEGIN = time.monotonic()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--minutes", type=float, default=float("inf"), help="skip tests that would begin later than this")
    parser.addoption("--shuffle-files", metavar="SEED", help="run the test files in random order")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the files in a random order (see --shuffle-files), the same one in every process."""
    if seed := config.getoption("--shuffle-files"):
        files = sorted({item.path for item in items})
        random.Random(seed).shuffle(files)
        items.sort(key=lambda item: files.index(item.path))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that would begin too late (see --minutes)."""
    minutes = item.config.getoption("--minutes")
    if time.monotonic() - BEGIN > 60 * minutes:
        pytest.skip(f"left after {minutes:g} minutes")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect the number of inputs that the tests of the readers generated, also in other processes."""
    if report.when == "teardown":
        FUZZED.update({name: int(str(n)) for name, n in report.user_properties if name.startswith("fuzz ")})


@pytest.fixture
def trials(record_property: Callable[[str, object], None]) -> Callable[[int, str], None]:
    """A function that reports the number and kind of faults of a test, for the end of the test report."""

    def say(count: int, kind: str) -> None:
        assert count > 0
        record_property("trials", f"{count:6d} {kind}")

    return say


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """List the numbers of trials, also with captured output and several processes."""
    if FUZZED:
        words = f"{FUZZED['fuzz inputs']} generated inputs were read, {FUZZED['fuzz taken']} were accepted"
        terminalreporter.write_line(words)
    lines = [
        f"{value}   {report.nodeid.split('::')[-1]}, {report.duration:.0f} s"
        for outcome in ("passed", "failed")
        for report in terminalreporter.getreports(outcome)
        for name, value in report.user_properties
        if name == "trials" and report.when == "call"
    ]
    if lines:
        terminalreporter.section("faults tried")
        terminalreporter.write_line("\n".join(lines))


@pytest.fixture
def small_sweep() -> Callable[..., Sweep]:
    """Make sweeps of the one-layer model that train in milliseconds; keywords are axes or constants."""
    from icl.papers.li2024 import one_layer

    def make(seeds: int = 3, snapshots: tuple[int, ...] = (0, 3, 8), name: str = "small", **constants: Any) -> Sweep:
        # With 16 coordinates and 8 neurons every run's matrices are aligned to 64 bytes, as at the papers' sizes.
        # Otherwise matrix products sum in another order, and results differ in the last bits.
        small = {"relevant_patterns": 6, "irrelevant_patterns": 6, "label_dimension": 4, "neurons": 8}
        small |= {"context_length": 5, "batch": 8} | constants
        axes = {key: value if isinstance(value, list | tuple) else [value] for key, value in small.items()}
        return Sweep(
            name, "li_icl", grid(one_layer.Config, **axes, seed=range(seeds)), snapshots, one_layer.Test(prompts=4)
        )

    return make


@pytest.fixture
def small_table() -> Table:
    """A valid table of six rows and their summary."""
    from icl.core import table
    from icl.evidence.intervals import summarise

    made = table.join(
        [table.rows("error", [0, 1, 2], [0.1, 0.2, 0.3 + n], panel="main", series="ours", x=n) for n in (2, 4)]
    )
    return summarise("figure0", "laptop", made)


class Workflow:
    """A copy of the workflow in a separate folder, run from the command line."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for name in WORKFLOW:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(source, folder / name)

    def __call__(self, *arguments: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        """Run Snakemake; stdout and stderr are merged."""
        return self.run([sys.executable, "-m", "snakemake", *arguments], timeout)

    def script(self, name: str, *arguments: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        """Run one of scripts/."""
        return self.run([sys.executable, f"scripts/{name}.py", *arguments], timeout)

    def run(self, command: list[str], timeout: float) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(
            command, cwd=self.folder, env=environment, timeout=timeout, text=True, check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip


@pytest.fixture
def workflow(tmp_path: Path) -> Workflow:
    """A fresh copy of the workflow."""
    return Workflow(tmp_path / "copy")


@pytest.fixture(scope="module")
def shared_workflow(tmp_path_factory: pytest.TempPathFactory) -> Workflow:
    """A shared copy for tests that do not change it (dry runs, listings)."""
    return Workflow(tmp_path_factory.mktemp("workflow") / "copy")


@pytest.fixture(scope="session")
def figure9_results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with weights, table and verdicts of figure 9 at the smoke scale. Copy it before changing it."""
    from icl.pipeline.plan import Plan
    from icl.pipeline.run import run

    folder, plan = tmp_path_factory.mktemp("figure9"), Plan("smoke")
    with contextlib.chdir(folder):
        for sweep, shard in plan.shards_of("figure9"):
            run(plan, "train", f"figure9/{sweep}/{shard}")
        for kind in ("measure", "check"):
            run(plan, kind, "figure9")
    return folder


@pytest.fixture(scope="session")
def figure9_made(figure9_results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all results of figure 9 at the smoke scale, and nothing else."""
    from icl.pipeline.plan import Plan
    from icl.pipeline.run import run

    folder, plan = tmp_path_factory.mktemp("made"), Plan("smoke")
    shutil.copytree(figure9_results, folder, dirs_exist_ok=True)
    with contextlib.chdir(folder):
        run(plan, "draw", "figure9")
    for name, seconds in (("train/li_icl.0of2", 1.5), ("train/li_icl.1of2", 2.5), ("measure/figure9", 3.0)):
        path = folder / f"{plan.results}/benchmarks/{name}.tsv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"s\tcpu_time\tmax_rss\n1\t{seconds}\t400\n")
    return folder


@pytest.fixture
def figure9(figure9_made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What is found of figures 9 and 12 at the smoke scale in the working folder, which has figure 9 alone."""
    from icl.pipeline.plan import Plan
    from icl.report import results

    shutil.copytree(figure9_made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return results.on_disk(Plan("smoke"), ["figure9", "figure12"])
