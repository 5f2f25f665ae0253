"""A training, stopped at any moment and resumed, ends with the bits of an uninterrupted one."""

import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import numpy as np
import pytest
import torch

from icl.core import runs, state
from icl.core.state import load_state
from icl.core.sweep import Sweep
from icl.core.training import train
from icl.jobs.train import train as job
from icl.pipeline.plan import Plan
from tests.stopped import assert_goes_on_bit_for_bit, same, train_until

Maker = Callable[..., Sweep]


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_a_resumed_training_has_the_same_values(
    optimiser: str, small_sweep: Maker, tmp_path: Path
) -> None:
    trained = train(small_sweep(optimiser=optimiser))
    for number, stops in enumerate([*([step] for step in range(1, 9)), [1, 4, 7], [2, 3]]):
        assert_goes_on_bit_for_bit(trained, stops, tmp_path / str(number))


def test_every_bit_of_the_state_counts_and_cpu_time_adds_up(
    small_sweep: Maker, tmp_path: Path
) -> None:
    path = tmp_path / "state.safetensors"
    spent = []
    for step in (2, 4):
        train_until(small_sweep(), step, path)
        spent.append(runs.metadata(path)["cpu_seconds"])
    # Both parts are of this process, so that the second contains the first once more.
    assert spent[1] >= 2 * spent[0] > 0
    found = load_state(path, "fingerprint")
    assert found is not None
    found.params["W_O"][0, 0, 0] *= 1 + 2**-50
    assert not same(train(small_sweep(), found), train(small_sweep()))


def test_shards_have_the_values_of_the_whole(small_sweep: Maker) -> None:
    whole = train(small_sweep())
    assert all(torch.isfinite(w).all() for w in whole.weights.values())
    for count in (1, 2, 3):
        shards = [train(small_sweep().shard(index, count)) for index in range(count)]
        assert same(runs.merge(small_sweep(), shards), whole)


# One server imports everything once; every training is forked from it.
SERVER = multiprocessing.get_context("forkserver")


def in_process(folder: Path) -> None:
    """Run the job of one shard that saves its state at every step; its output goes to a log."""
    with (folder / "log").open("w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    shard = Plan("smoke").shard("li_icl_alpha", "0of2")
    job(shard, folder / "0of2.safetensors", "abc", seconds=0.001)


class Training:
    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder, self.sweep = folder, Plan("smoke").shard("li_icl_alpha", "0of2")
        self.weights, self.state = folder / "0of2.safetensors", folder / "0of2.state.safetensors"

    def start(self) -> ForkServerProcess:
        process = SERVER.Process(target=in_process, args=(self.folder,))
        process.start()
        return process

    def finish(self) -> float:
        """Run the job to its end; returns the seconds."""
        began = time.monotonic()
        process = self.start()
        process.join(300)
        assert process.exitcode == 0, (self.folder / "log").read_text()
        return time.monotonic() - began

    def hit(self, number: signal.Signals, seconds: float) -> int | None:
        """Send a signal so long after the first saved state; returns the exit status. What is left
        is complete.
        """
        process = self.start()
        while process.is_alive() and not self.state.exists():
            time.sleep(0.001)
        process.join(seconds)
        if process.is_alive() and process.pid:
            os.kill(process.pid, number)
        process.join(60)
        if process.exitcode == 128 + number:
            step = runs.metadata(self.state)["step"]
            said = f"{number.name} at step {step}: the state is saved"
            assert said in (self.folder / "log").read_text()
        if self.weights.exists():
            runs.load(self.weights, self.sweep)
        else:
            assert load_state(self.state, "abc") is not None
        return process.exitcode


@pytest.mark.slow
def test_a_job_that_gets_a_signal_at_a_random_moment_ends_as_an_uninterrupted_one(
    tmp_path: Path,
) -> None:
    SERVER.set_forkserver_preload(
        ["icl.jobs.train", "icl.papers.li2024.one_layer", "icl.pipeline.plan", "torch"]
    )
    unbroken = Training(tmp_path / "unbroken")
    unbroken.finish()
    seconds = Training(tmp_path / "again").finish()
    expected = runs.load(unbroken.weights, unbroken.sweep)
    ends: Counter[int | None] = Counter()
    for trial, share in enumerate(np.random.default_rng(0).uniform(0, 0.7, 24)):
        broken = Training(tmp_path / str(trial))
        number = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)[trial % 3]
        ends[broken.hit(number, seconds * share)] += 1
        broken.finish()
        assert same(runs.load(broken.weights, broken.sweep), expected)
        files = [".0of2.finished.safetensors", "0of2.safetensors", "log"]
        assert sorted(os.listdir(broken.folder)) == files
    # The test is void unless some signals arrived during the training.
    during = (-signal.SIGKILL, 128 + signal.SIGTERM, 128 + signal.SIGINT)
    assert min(ends[status] for status in during) >= 2, ends


SIGNALS = """
import os, signal
from pathlib import Path
from icl.core.state import watched
signal.signal(signal.SIGINT, signal.SIG_IGN)
watched("t", 9, Path("x"), "id", 1)
print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN, flush=True)
os.kill(os.getpid(), signal.SIGTERM)
print("waits for the end of the step", flush=True)
os.kill(os.getpid(), signal.SIGTERM)
print("still here")
"""


def test_a_second_signal_ends_a_job_at_once_and_a_background_job_ignores_ctrl_c() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SIGNALS], capture_output=True, text=True, timeout=120, check=False
    )
    said = "True\nwaits for the end of the step\n"
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, said), done.stderr


@pytest.mark.parametrize(
    ("lent", "expected"),
    [
        ("", False),  # called by hand
        ("{0}", True),  # a job of the workflow
        ("999", False),  # a descriptor that is not open
    ],
)
def test_progress_is_shown_in_the_log_and_where_the_workflow_prints(
    lent: str,
    expected: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A training that continues measures its own speed."""
    monkeypatch.setattr(state, "FIRST_LINE", 0.01)
    with (tmp_path / "workflow").open("w") as workflow:
        monkeypatch.setenv(state.PROGRESS, lent.format(workflow.fileno()))
        show = state.progress("seen", 1000)
        for step in (100, 101, 300):
            time.sleep(0.05)
            show(state.State(step, {}, {}, {}, np.empty(0)))
    first, second = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"seen: step 101 of 1,000, 10%, 0:\d\d:\d\d left", first)
    assert re.fullmatch(r"seen: step 300 of 1,000, 30%, 0:\d\d:\d\d left", second)
    assert ("seen: step 300" in (tmp_path / "workflow").read_text()) is expected
