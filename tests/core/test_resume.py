"""A training that was stopped and resumed ends with the same bits as an uninterrupted one."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from icl.core import discovery, runs
from icl.core.config import canonical, grid
from icl.core.runs import Runs
from icl.core.state import State, load_state, save_state
from icl.core.sweep import Sweep
from icl.core.training import train
from icl.papers.li2024 import decoder

ROOT = Path(__file__).resolve().parents[2]
Maker = Callable[..., Sweep]


def equal(a: Runs, b: Runs) -> None:
    """Bit for bit."""
    assert sorted(a.weights) == sorted(b.weights)
    for name, w in a.weights.items():
        assert torch.isfinite(w).all(), name
        assert torch.equal(w, b.weights[name]), name
    assert np.array_equal(a.losses, b.losses)


class Stopped(Exception):
    """Simulates the loss of the machine."""


def stopped_after(step: int, path: Path) -> Callable[[State], None]:
    """Saves the state of `step` and stops there."""

    def keep(state: State) -> None:
        if state.step == step:
            save_state(path, state, "identity")
            raise Stopped

    return keep


def broken_and_resumed(sweep: Sweep, steps: list[int], path: Path) -> Runs:
    for step in steps:
        with pytest.raises(Stopped):
            train(sweep, load_state(path, "identity"), keep=stopped_after(step, path))
    return train(sweep, load_state(path, "identity"))


@pytest.mark.parametrize("steps", [[step] for step in range(1, 9)] + [[1, 4, 7]])
def test_sgd_resumes_with_the_same_values(small_sweep: Maker, tmp_path: Path, steps: list[int]) -> None:
    """Snapshots are at steps 0, 3 and 8; the test stops before, at and after them."""
    equal(broken_and_resumed(small_sweep(), steps, tmp_path / "state.safetensors"), train(small_sweep()))


@pytest.mark.parametrize("steps", [[1], [3], [2, 4]])
def test_adam_resumes_with_the_same_values(tmp_path: Path, steps: list[int]) -> None:
    """Its moments are part of the state; without them the steps would differ."""
    constants = {"layers": [1], "width": [4], "mlp_width": [4], "batch": [3]}
    sweep = Sweep("tiny", "li_icl_gpt2", grid(decoder.Config, **constants, seed=range(2)), (0, 2, 5),
                  decoder.Test())  # fmt: skip
    equal(broken_and_resumed(sweep, steps, tmp_path / "state.safetensors"), train(sweep))


def test_the_state_is_needed(small_sweep: Maker, tmp_path: Path) -> None:
    """Control: a state with a weight off by four bits ends differently, so the comparison above can fail."""
    path = tmp_path / "state.safetensors"
    with pytest.raises(Stopped):
        train(small_sweep(), keep=stopped_after(4, path))
    state = load_state(path, "identity")
    assert state is not None
    state.params["W_O"][0, 0, 0] *= 1 + 2**-50
    assert not torch.equal(train(small_sweep(), state).last()["W_O"], train(small_sweep()).last()["W_O"])


@pytest.mark.parametrize("count", [2, 3])
def test_a_run_alone_equals_the_run_in_a_batch(small_sweep: Maker, count: int) -> None:
    whole = train(small_sweep())
    shards = [train(small_sweep().shard(index, count)) for index in range(count)]
    equal(runs.merge(small_sweep(), shards), whole)


def test_a_diverging_neighbour_changes_nothing(small_sweep: Maker) -> None:
    """Patterns of norm 1e200 make the second run infinite and NaN at once."""
    pair = train(small_sweep(seeds=1, pattern_norm=[2.0, 1e200]))
    alone = train(small_sweep(seeds=1, pattern_norm=2.0))
    assert not torch.isfinite(pair.last()["W_O"][1]).all()
    for name, w in alone.weights.items():
        assert torch.equal(pair.weights[name][:1], w), name


def test_a_diverged_run_is_named(small_sweep: Maker) -> None:
    pair = train(small_sweep(seeds=2, pattern_norm=[2.0, 1e200]))
    lines = runs.diverged(pair)
    assert len(lines) == 2
    for line, index in zip(lines, (2, 3), strict=True):
        assert line.startswith(f"sweep small, run {index} (seed {index - 2}, ")
        assert "pattern_norm = 1e+200" in line and "not finite from step" in line
    assert runs.diverged(train(small_sweep(pattern_norm=2.0))) == []


def test_a_run_that_diverged_at_its_last_step_is_named(small_sweep: Maker) -> None:
    whole = train(small_sweep())
    whole.weights["W_O"][1, -1] = torch.inf
    (line,) = runs.diverged(whole)
    assert "run 1 (seed 1" in line
    assert line.endswith("not finite from step 8 on")


# -- through the script, killed ----------------------------------------------------------------------------------------


def test_the_cpu_time_of_a_resumed_training_adds_up(small_sweep: Maker, tmp_path: Path) -> None:
    path, spent = tmp_path / "0of1.state.safetensors", []
    for step in (2, 4):
        with pytest.raises(Stopped):
            train(small_sweep(), load_state(path, "identity"), keep=stopped_after(step, path))
        spent.append(runs.metadata(path)["cpu_seconds"])
    # Both parts are of this process, so that the second contains the first once more.
    assert spent[1] >= 2 * spent[0] > 0


class Script:
    """scripts/train.py on one shard of the shared training at the smoke scale, long enough to receive a signal."""

    def __init__(self, folder: Path, keep_seconds: float = 0.05) -> None:
        self.weights, self.log = folder / "0of2.safetensors", folder / "log"
        self.state = self.weights.with_suffix(".state.safetensors")
        (sweep,) = discovery.figure("figure9").sweeps("smoke")
        self.sweep = sweep.override({"batch": 192}).shard(0, 2)
        self.command = [
            sys.executable, "scripts/train.py", "--module", discovery.systems()["li_icl"],
            "--sweep", canonical(self.sweep.compact()), "--shard", "0of2", "--identity", "abc",
            "--weights", str(self.weights), "--trajectory", str(folder / "0of2.parquet"),
            "--keep-seconds", str(keep_seconds),
        ]  # fmt: skip

    def start(self) -> subprocess.Popen[bytes]:
        with self.log.open("w") as log:
            return subprocess.Popen(self.command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)

    def finish(self) -> None:
        assert self.start().wait(timeout=120) == 0, self.log.read_text()

    def hit(self, number: signal.Signals) -> int:
        """Send the training a signal after it has saved a later state; returns the exit status."""
        goal = self.kept() + 20
        process = self.start()
        until = time.monotonic() + 60
        while self.kept() < goal:
            assert process.poll() is None and time.monotonic() < until, self.log.read_text()
            time.sleep(0.01)
        os.kill(process.pid, number)
        return process.wait(timeout=60)

    def wait_for(self, words: str, process: "subprocess.Popen[bytes]") -> None:
        """Wait until the log contains these words."""
        until = time.monotonic() + 60
        while words not in self.log.read_text():
            assert process.poll() is None and time.monotonic() < until, self.log.read_text()
            time.sleep(0.01)

    def kept(self) -> int:
        """The step of the saved state."""
        return int(runs.metadata(self.state)["step"]) if self.state.exists() else 0

    def from_step(self) -> int:
        (step,) = re.findall(r"li_icl, shard 0of2: from step (\d+) to \d+", self.log.read_text())
        return int(step)


@pytest.mark.slow
def test_a_killed_training_resumes_from_its_last_state(tmp_path: Path) -> None:
    unbroken, broken = Script(tmp_path / "unbroken"), Script(tmp_path / "broken")
    for script in (unbroken, broken):
        script.weights.parent.mkdir()
    unbroken.finish()
    assert unbroken.from_step() == 0

    assert broken.hit(signal.SIGKILL) == -signal.SIGKILL
    assert not broken.weights.exists()
    assert broken.from_step() == 0

    assert broken.hit(signal.SIGINT) != 0
    assert not broken.weights.exists()
    first = broken.from_step()
    assert first > 0

    broken.finish()
    assert broken.from_step() > first
    equal(*(runs.load(script.weights, script.sweep) for script in (broken, unbroken)))
    assert not broken.state.exists()
    assert not unbroken.state.exists()
    # Three processes, of which each imports torch.
    spent = [runs.metadata(script.weights)["cpu_seconds"] for script in (unbroken, broken)]
    assert spent[1] > spent[0]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_the_state_of_the_current_step(tmp_path: Path, number: signal.Signals) -> None:
    """At arbitrary moments, and with states saved only by the signal, as with a cluster's time limit."""
    unbroken, broken = Script(tmp_path / "unbroken"), Script(tmp_path / "broken", keep_seconds=3600)
    for script in (unbroken, broken):
        script.weights.parent.mkdir()
    unbroken.finish()
    steps = [0]
    for moment in np.random.default_rng(0).uniform(0, 0.25, size=4):
        process = broken.start()
        broken.wait_for("from step", process)
        time.sleep(moment)
        os.kill(process.pid, number)
        assert process.wait(timeout=60) == 128 + number, broken.log.read_text()
        assert broken.from_step() == steps[-1]
        steps.append(broken.kept())
        assert f"{number.name} at step {steps[-1]}: the state is kept" in broken.log.read_text()
    assert steps == sorted(steps) and steps[-1] > steps[1]
    assert not broken.weights.exists()
    broken.finish()
    assert broken.from_step() == steps[-1]
    equal(*(runs.load(script.weights, script.sweep) for script in (broken, unbroken)))
    assert not broken.state.exists()


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    """In a separate process, because a signal handler stays installed."""
    text = (
        "import os, signal; from pathlib import Path; from icl.core.state import Stopper\n"
        "stopper = Stopper(Path('x'), 'id'); stopper.listen()\n"
        "os.kill(os.getpid(), signal.SIGTERM); print(stopper.number, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGTERM); print('still here')"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, "15\n")


def test_a_background_job_still_ignores_ctrl_c() -> None:
    text = (
        "import signal; from pathlib import Path; from icl.core.state import Stopper\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN); Stopper(Path('x'), 'id').listen()\n"
        "print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "True\n"


@pytest.mark.slow
def test_a_workflow_resumes_after_ctrl_c(workflow: Callable[..., "subprocess.CompletedProcess[str]"]) -> None:
    folder: Path = workflow.folder  # type: ignore[attr-defined]
    arguments = ["results/smoke@many/tables/figure9.parquet", "--config", "scale=smoke", "variant=many",
                 "constants={li_icl: {batch: 512}}"]  # fmt: skip
    command = [sys.executable, "-m", "snakemake", *arguments]
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, cwd=folder, start_new_session=True, **silent)
    logs, until = folder / "results/smoke@many/logs/train", time.monotonic() + 120
    while not any("from step" in log.read_text() for log in logs.glob("*.log")):
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does on Ctrl-C
    assert process.wait(timeout=60) != 0
    assert not list((folder / "results/smoke@many").rglob("[!.]*of2.safetensors"))
    again = workflow(*arguments)
    assert again.returncode == 0, again.stdout
    assert (folder / "results/smoke@many/tables/figure9.parquet").exists()
