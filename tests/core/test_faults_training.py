"""A training that is killed at any moment and run again ends with the bits of an uninterrupted one."""

import multiprocessing
import os
import runpy
import sys
import time
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import numpy as np
import pytest

from icl.core import discovery, runs, state, table
from icl.core.config import canonical
from tests.bitwise import same

ROOT = Path(__file__).resolve().parents[2]
# One server imports torch once; every training is forked from it.
SERVER = multiprocessing.get_context("forkserver")


def script(arguments: list[str], log: Path) -> None:
    """The same as `python scripts/train.py ... > log 2>&1`, in a process that has already imported everything."""
    os.chdir(ROOT)
    with log.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.argv = ["train.py", *arguments]
    runpy.run_path("scripts/train.py", run_name="__main__")


class Training:
    """One shard of a training at the smoke scale that saves its state at every step."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder, self.weights, self.trajectory = folder, folder / "0of2.safetensors", folder / "0of2.parquet"
        self.state = folder / "0of2.state.safetensors"
        self.sweep = next(s for s in discovery.figure("icl_rates").sweeps("smoke") if s.name == "li_icl_alpha").shard(
            0, 2
        )
        self.arguments = [
            "--module", discovery.systems()[self.sweep.system], "--sweep", canonical(self.sweep.compact()),
            "--shard", "0of2", "--identity", "abc", "--keep-seconds", "0.01",
            "--weights", str(self.weights), "--trajectory", str(self.trajectory),
        ]  # fmt: skip

    def start(self) -> ForkServerProcess:
        process = SERVER.Process(target=script, args=(self.arguments, self.folder / "log"))
        process.start()
        return process

    def finish(self) -> None:
        process = self.start()
        process.join(120)
        assert process.exitcode == 0, (self.folder / "log").read_text()

    def killed_after(self, seconds: float, *, of_first_state: bool) -> None:
        """Kills the training so long after its start, or after its first saved state; possibly after its end."""
        process = self.start()
        while of_first_state and process.is_alive() and not self.state.exists():
            time.sleep(0.001)
        process.join(seconds)
        process.kill()
        process.join(60)

    def kept(self) -> str:
        """The files after a kill: each is complete or missing."""
        if self.trajectory.exists():
            table.read_plain(self.trajectory)
        if self.weights.exists():
            runs.load(self.weights, self.sweep)
            return "weights"
        if self.state.exists():
            assert state.load_state(self.state, "abc") is not None
            return "state"
        return "nothing"


def ended_alike(a: Training, b: Training) -> None:
    """Equal bit for bit, and no files left over."""
    assert same(runs.load(a.weights, a.sweep), runs.load(b.weights, b.sweep))
    assert table.read_plain(a.trajectory)[0].equals(table.read_plain(b.trajectory)[0])
    left = [".0of2.finished.safetensors", "0of2.parquet", "0of2.safetensors", "log"]
    assert sorted(os.listdir(a.folder)) == sorted(os.listdir(b.folder)) == left


@pytest.mark.slow
def test_a_training_killed_at_a_random_moment_ends_as_an_uninterrupted_one(
    tmp_path: Path, trials: Callable[[int, str], None]
) -> None:
    """SIGKILL at 50 moments from the start to shortly after the end, each followed by another run.

    Half of the moments count from the first saved state, so that a machine whose speed varies cannot miss them.
    """
    SERVER.set_forkserver_preload(
        ["icl.core.training", "icl.papers.li2024.one_layer", "icl.pipeline.provenance", "torch", "pyarrow.parquet"]
    )
    unbroken = Training(tmp_path / "unbroken")
    unbroken.finish()
    began = time.monotonic()
    (again := Training(tmp_path / "again")).finish()
    seconds = time.monotonic() - began
    ended_alike(again, unbroken)
    kept = []
    for number, share in enumerate(np.random.default_rng(0).uniform(0, 1.1, 50)):
        broken = Training(tmp_path / str(number))
        after_state = number % 2 == 1
        broken.killed_after(seconds * share * (0.3 if after_state else 1), of_first_state=after_state)
        kept.append(broken.kept())
        broken.finish()
        ended_alike(broken, unbroken)
    # The test is void unless some moments were during the training.
    assert kept.count("state") >= 10
    counts = ", ".join(f"{kept.count(what)} left {what}" for what in ("nothing", "state", "weights"))
    trials(len(kept), f"SIGKILLs of a training ({counts})")
