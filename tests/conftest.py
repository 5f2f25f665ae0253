"""Shared fixtures: sweeps that train in milliseconds, small disks, and copies of the workflow."""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from icl.pipeline import kernels

# As in the jobs of the workflow, whose weights tests compare with those trained in the process of
# the test; before numpy is loaded.
kernels.choose()

from icl.core.config import grid
from icl.core.files import ReadError
from icl.core.sweep import Sweep
from icl.core.table import Table

if TYPE_CHECKING:
    from icl.pipeline.plan import Plan

ROOT = Path(__file__).resolve().parents[1]
WORKFLOW = ("Snakefile", "workflow", "profiles", "environment.yml")
BEGIN = time.monotonic()

# Set before torch is loaded. At the size of the tests more threads do not help, and pytest has a
# worker per core.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Tests must not fail because the machine is busy, and must be the same in every run.
settings.register_profile("icl", deadline=None, derandomize=True, database=None)
settings.load_profile("icl")
# A shell starts its background jobs with SIGINT ignored, and the processes that tests interrupt
# would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--minutes",
        type=float,
        default=float("inf"),
        help="skip tests that would begin later than this",
    )
    parser.addoption("--shuffle-files", metavar="SEED", help="run the test files in random order")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if seed := config.getoption("--shuffle-files"):
        files = sorted({item.path for item in items})
        random.Random(seed).shuffle(files)
        items.sort(key=lambda item: files.index(item.path))


def pytest_runtest_setup(item: pytest.Item) -> None:
    minutes = item.config.getoption("--minutes")
    if time.monotonic() - BEGIN > 60 * minutes:
        pytest.skip(f"left after {minutes:g} minutes")


@pytest.fixture(scope="session")
def small_sweep() -> Callable[..., Sweep]:
    """Make one-layer sweeps that train in milliseconds; keywords are axes or constants."""
    from icl.papers.li2024 import one_layer

    def make(
        seeds: int = 3,
        snapshots: tuple[int, ...] = (0, 3, 8),
        name: str = "small",
        **constants: Any,
    ) -> Sweep:
        # With 16 coordinates and 8 neurons every run's matrices are aligned to 64 bytes, as at the
        # papers' sizes. Otherwise matrix products sum in another order, and results differ in the
        # last bits.
        small: dict[str, Any] = {"relevant_patterns": 6, "irrelevant_patterns": 6, "neurons": 8}
        small |= {"label_dimension": 4, "context_length": 5, "batch": 8} | constants
        axes = {key: value if isinstance(value, list) else [value] for key, value in small.items()}
        configs = grid(one_layer.Config, **axes, seed=range(seeds))
        return Sweep(name, one_layer.MODEL, configs, snapshots, one_layer.Evaluation(prompts=4))

    return make


@pytest.fixture
def small_table() -> Table:
    """Return a table with a fact of three runs, and a curve over them."""
    from icl.core import table
    from icl.evidence.intervals import summarise

    parts = [table.rows("slope", range(3), [1.0, 2.0, 3.0])]
    for x in (2, 4):
        errors = [0.1, 0.2, 0.3 + x]
        parts.append(table.rows("error", range(3), errors, panel="main", series="ours", x=x))
    return summarise("figure0", "laptop", table.join(parts))


@pytest.fixture(scope="session")
def published_table() -> Callable[[str], Table]:
    """Make the table of a figure whose values are the published ones; a scatter's are of run 0."""
    from icl.core import table
    from icl.evidence import errors, intervals, published_curves

    def make(figure: str) -> Table:
        found = published_curves.load(figure)
        assert found is not None
        names = {"y": "value", "c": "colour", "y_lo": "band_low", "y_hi": "band_high"}
        cells = found.rename(columns=names)[["panel", "series", "x", "observable", *names.values()]]
        scatter = found["kind"] == "scatter"
        cells["observable"] = cells["observable"].replace("", table.ERROR)
        for edge in ("band_low", "band_high"):
            cells[edge] = cells[edge].fillna(cells["value"])
        cells = cells.assign(
            statistic=["point" if one else "mean" for one in scatter],
            seed=[0 if one else None for one in scatter],
            x=cells["x"].astype(float),
            count=10,
        )
        parts = [table.conform(cells)]
        parts += [errors.drawn_run([0], 0)] if scatter.any() else []
        return intervals.summarise(figure, "paper", table.join(parts))

    return make


def refused(
    path: Path, words: str = "", kind: type[ReadError] = ReadError
) -> "pytest.RaisesExc[ReadError]":
    """Expect that a file is refused in one line with its name, these words and the remedy."""
    words = re.escape(f"{path}: {words}")
    return pytest.raises(kind, match=rf"^{words}.*; delete it and run again\Z")


@contextmanager
def handlers_restored() -> Iterator[None]:
    """Restore the handlers of the signals that a training catches from its start on."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[Path]:
    """Yield a small separate disk; skips if mounting is not permitted."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", options, "none", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"no small disk can be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


class Workflow:
    """A copy of the workflow, run from the command line, with its own package if copied."""

    def __init__(self, folder: Path, copied: tuple[str, ...] = WORKFLOW) -> None:
        self.folder = folder
        ignored = shutil.ignore_patterns("*.egg-info", "__pycache__")
        for name in copied:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, folder / name, ignore=ignored)
            else:
                shutil.copy2(ROOT / name, folder / name)

    def __call__(self, *arguments: str, timeout: float = 600) -> subprocess.CompletedProcess[str]:
        """Run Snakemake; stdout and stderr are merged."""
        return self.run([sys.executable, "-m", "snakemake", *arguments], timeout)

    def run(self, command: list[str], timeout: float = 600) -> subprocess.CompletedProcess[str]:
        process = self.start(command)
        try:
            output, _ = process.communicate(timeout=timeout)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        return subprocess.CompletedProcess(command, process.returncode, output)

    def start(self, command: list[str], **environment: str) -> "subprocess.Popen[str]":
        source = self.folder / "src"
        own = {"PYTHONDONTWRITEBYTECODE": "1"}
        own |= {"PYTHONPATH": str(source)} if source.is_dir() else {}
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=os.environ | own | environment,
            text=True,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )


@pytest.fixture
def workflow(tmp_path: Path) -> Workflow:
    return Workflow(tmp_path / "copy")


@pytest.fixture(scope="module")
def shared_workflow(tmp_path_factory: pytest.TempPathFactory) -> Workflow:
    """Return a shared copy for tests that do not change it (dry runs, listings)."""
    return Workflow(tmp_path_factory.mktemp("workflow") / "copy")


def make_figure9(folder: Path, plan: "Plan") -> Path:
    """Make all results of figure 9 in a folder, and nothing else; return the folder."""
    from icl.pipeline.run import run

    with pytest.MonkeyPatch.context() as patch, handlers_restored():
        patch.chdir(folder)
        for sweep, shard in plan.shards_of("figure9"):
            run(plan, "train", f"figure9/{sweep}/{shard}")
        for kind in ("measure", "judge", "draw"):
            run(plan, kind, "figure9")
    return folder


@pytest.fixture(scope="session")
def figure9_made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with all results of figure 9 at the smoke scale, to be copied."""
    from icl.pipeline.plan import Plan

    return make_figure9(tmp_path_factory.mktemp("figure9"), Plan("smoke"))


@pytest.fixture
def figure9(figure9_made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what is found of figures 9 and 12 in a working folder that has figure 9 alone."""
    from icl.pipeline.plan import Plan
    from icl.report import results

    plan = Plan("smoke")
    shutil.copytree(figure9_made, tmp_path, dirs_exist_ok=True)
    for name, seconds in (("train/li_icl.0of1", 4.0), ("measure/figure9", 3.0)):
        path = tmp_path / f"{plan.results}/benchmarks/{name}.tsv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"s\tcpu_time\tmax_rss\n1\t{seconds}\t400\n")
    # The gallery takes results of the default settings, which another run of the suite changes.
    monkeypatch.setattr(kernels, "ONE_ORDER", kernels.chosen())
    monkeypatch.chdir(tmp_path)
    return results.on_disk(plan, ["figure9", "figure12"])
