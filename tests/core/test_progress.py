"""Lines for somebody who watches a training, and silence for everybody else."""

import io
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from icl import __main__ as cli
from icl.core import progress, runs
from icl.core.progress import Progress
from icl.core.runs import State

ROOT = Path(__file__).resolve().parents[2]


def state(step: int) -> State:
    return State(step, {}, {}, {}, np.zeros((1, 1)))


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def watched(times: dict[int, float], stream: Any, **more: Any) -> Progress:
    """A training of 1000 steps, seen at these steps and times."""
    clock = Clock()
    one = Progress("garg 0of2", 1000, stream, clock=clock, **more)
    for step, clock.now in times.items():
        one(state(step))
    return one


def test_a_line_names_the_step_the_rate_and_the_time_left() -> None:
    out = io.StringIO()
    watched({1: 0, 100: 20, 151: 30, 200: 50, 451: 60}, out)
    assert out.getvalue().splitlines() == [
        "garg 0of2: step 151 of 1000, 5 steps/s, 02:49 left",
        # 300 steps in the 30 s since the line before
        "garg 0of2: step 451 of 1000, 10 steps/s, 00:54 left",
    ]


def test_short_trainings_are_silent() -> None:
    out = io.StringIO()
    watched({1: 0, 500: 29.9, 1000: 29.99}, out)
    assert out.getvalue() == ""


def test_a_resumed_training_counts_its_own_steps_only() -> None:
    out = io.StringIO()
    watched({700: 0, 760: 30}, out)
    assert out.getvalue() == "garg 0of2: step 760 of 1000, 2 steps/s, 02:00 left\n"


def test_slow_steps_are_told_in_seconds_per_step() -> None:
    assert progress.line("x", 10, 500_000, 0.01) == "x: step 10 of 500000, 100 s/step, 13888:36:40 left"


def test_a_terminal_that_was_closed_ends_the_lines_and_not_the_training() -> None:
    class Closed(io.StringIO):
        lines = 0

        def write(self, text: str) -> int:
            self.lines += 1
            raise OSError(5, "Input/output error")

    out = Closed()
    watched({1: 0, 100: 30, 200: 60, 300: 90}, out)
    assert out.lines == 1


def kept(folder: Path, shard: str, step: int, steps: int, log: str, began: float, now: float) -> None:
    """A state and a log of the sweep garg, as a job leaves them that began and kept its state at these times."""
    path, text = folder / f"runs/garg/{shard}.state.safetensors", folder / f"logs/train/garg.{shard}.log"
    runs.save_state(path, State(step, {}, {}, {}, np.zeros((2, steps))), "identity")
    text.parent.mkdir(parents=True, exist_ok=True)
    text.write_text(log, encoding="utf-8")
    os.utime(path, (now, now))
    os.utime(text, (began, began))


def test_kept_states_tell_how_far_their_trainings_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "results/paper"
    (tmp_path / "workflow").symlink_to(ROOT / "workflow")
    arguments = ["progress", "--scale", "paper", "--root", str(tmp_path)]
    assert cli.main(arguments) == 0
    assert capsys.readouterr().out == "no training of the paper scale has kept a state\n"
    kept(folder, "0of4", 400, 1000, "garg, shard 0of4: from step 100 to 1000\n", began=50, now=200)
    # Resumed, and nothing kept since; a job that left no log; a file that is no state.
    kept(folder, "1of4", 300, 1000, "garg, shard 1of4: from step 300 to 1000\n", began=300, now=200)
    kept(folder, "2of4", 500, 1000, "", began=50, now=200)
    (folder / "runs/garg/3of4.state.safetensors").write_bytes(b"none")
    assert cli.main(arguments) == 0
    assert capsys.readouterr().out.splitlines() == [
        "garg 0of4: step 400 of 1000, 2 steps/s, 05:00 left",
        "garg 1of4: step 300 of 1000",
        "garg 2of4: step 500 of 1000",
    ]
    assert cli.main([*arguments, "--json"]) == 0
    first = json.loads(capsys.readouterr().out)[0]
    assert first == {"sweep": "garg", "shard": "0of4", "step": 400, "steps": 1000, "rate": 2.0}


# What stderr and descriptor 9 are, and whether anybody sees something.
WRITES = "from icl.core.progress import terminal\nt = terminal()\nprint('seen', file=t, flush=True) if t else None"


def seen(arguments: str, lent: str | None) -> tuple[str, str]:
    """Call WRITES in a shell with a terminal of its own as descriptor 7: what the terminal and the pipes get."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")} | ({"ICL_TERMINAL": lent} if lent else {})
    try:
        done = subprocess.run(
            ["bash", "-c", f"{sys.executable} -c \"$0\" {arguments.format(theirs)}", WRITES],
            env=environment, pass_fds=[theirs], capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        os.set_blocking(ours, False)
        try:
            shown = os.read(ours, 1000).decode()
        except BlockingIOError:
            shown = ""
    finally:
        os.close(ours)
        os.close(theirs)
    return shown, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "lent", "expected"),
    [
        ("2>&{0}", None, True),  # called by hand
        ("9>&{0}", "9", True),  # a job of the workflow, whose own streams go to a log
        ("9>&{0}", None, False),  # a descriptor that nobody lent
        ("9>&1", "9", False),  # a workflow without a terminal
        ("", "9", False),  # lent and closed since
        ("", "", False),
        ("", "none", False),
    ],
)
def test_only_terminals_are_written_to(arguments: str, lent: str | None, expected: bool) -> None:
    shown, piped = seen(arguments, lent)
    assert (shown.strip() == "seen") is expected
    assert piped == ""


@pytest.mark.slow
def test_the_workflow_lends_its_terminal(workflow: Any) -> None:
    """Snakemake in a terminal shows a job's progress beside its own lines, and the job's log stays as it was."""
    script = workflow.folder / "scripts/train.py"
    text, watched = script.read_text(encoding="utf-8"), "from icl.core.progress import watched\n"
    assert text.count(watched) == 1
    # Every line at once instead of every half minute.
    soon = "import functools\nfrom icl import progress\n"
    soon += "progress.Progress = functools.partial(progress.Progress, seconds=0)\n"
    script.write_text(text.replace(watched, soon + watched), encoding="utf-8")
    target = "results/smoke/runs/li_icl/0of2.safetensors"
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "snakemake", target, "--config", "scale=smoke"], cwd=workflow.folder,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 10_000):
            shown += part
    except OSError:
        # That is how a terminal says that nobody writes to it any more.
        pass
    os.close(ours)
    assert process.wait(timeout=120) == 0
    assert re.search(rb"li_icl 0of2: step \d+ of \d+, [\d.]+ steps/s, [\d:]+ left", shown), shown
    assert "steps/s" not in (workflow.folder / "results/smoke/logs/train/li_icl.0of2.log").read_text()
