"""How far a long training is, for somebody who watches.

A job of the workflow writes to its log, where nobody wants a line every half minute. The workflow therefore lends its
jobs the terminal: its stderr under the number that ICL_TERMINAL gives. Where that is no terminal either (a cluster, a
pipe, a test), nothing is written; the kept states on disk then say as much (`python -m icl progress`).
"""

import os
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from icl.core.runs import Keeper, RunsError, State, Stopper, kept_step

LENT = "ICL_TERMINAL"


def terminal() -> TextIO | None:
    """Where somebody may watch: stderr or what the workflow has lent, or None if neither is a terminal."""
    if sys.stderr.isatty():
        return sys.stderr
    number = os.environ.get(LENT, "")
    try:
        if number.isdecimal() and os.isatty(int(number)):
            return os.fdopen(int(number), "w", closefd=False)
    except OSError:
        pass
    return None


@dataclass
class Progress:
    """Says every so many seconds how far a training is, how fast, and how long it will take.

    `train` calls it after every step. The first line comes after that time, so that short trainings are silent. The
    rate is that since the line before.
    """

    name: str
    steps: int
    stream: TextIO | None
    seconds: float = 30
    clock: Callable[[], float] = time.monotonic
    since: tuple[float, int] | None = None

    def __call__(self, state: State) -> None:
        """Write a line if it is time and somebody watches."""
        if self.stream is None:
            return
        now = self.clock()
        if self.since is None:
            self.since = now, state.step
        passed, done = now - self.since[0], state.step - self.since[1]
        if passed < self.seconds or not done:
            return
        self.since = now, state.step
        try:
            print(line(self.name, state.step, self.steps, done / passed), file=self.stream, flush=True)
        except OSError:
            # The terminal was closed; the training goes on.
            self.stream = None


def watched(name: str, steps: int, kept: Path, identity: str, seconds: float) -> Callable[[State], None]:
    """What `train` is to call after every step: it keeps states, says how far it is, and ends where it is told to.

    From now on SIGTERM and SIGINT wait for the end of a step.
    """
    stopper = Stopper(kept, identity)
    stopper.listen()
    parts = Keeper(kept, identity, seconds), Progress(name, steps, terminal()), stopper

    def call(state: State) -> None:
        for part in parts:
            part(state)

    return call


def line(name: str, step: int, steps: int, rate: float | None) -> str:
    """``garg 0of2: step 1200 of 7500, 6 steps/s, 17:30 left``, the time in minutes or hours, minutes, seconds."""
    if not rate:
        return f"{name}: step {step} of {steps}"
    from tqdm import tqdm

    left = tqdm.format_interval((steps - step) / rate)
    speed = f"{rate:.3g} steps/s" if rate >= 0.1 else f"{1 / rate:.3g} s/step"
    return f"{name}: step {step} of {steps}, {speed}, {left} left"


def unfinished(folder: Path) -> list[dict[str, Any]]:
    """The trainings below results/<scale> that have kept a state: sweep, shard, step, steps, rate.

    The rate is in steps per second since the job began, which its log tells; None if nothing was kept since.
    """
    found = []
    for path in sorted(folder.glob("runs/*/[!.]*.state.safetensors")):
        sweep, shard = path.parent.name, path.name.split(".")[0]
        try:
            step, steps = kept_step(path)
        except RunsError:
            # Its training has ended since, or will begin anew.
            continue
        rate = _rate(folder / "logs" / "train" / f"{sweep}.{shard}.log", step, path.stat().st_mtime)
        found.append({"sweep": sweep, "shard": shard, "step": step, "steps": steps, "rate": rate})
    return found


def _rate(log: Path, step: int, kept: float) -> float | None:
    try:
        began, text = log.stat().st_mtime, log.read_text(encoding="utf-8")
    except OSError:
        return None
    first = re.search(r"from step (\d+) to", text)
    done = step - int(first[1]) if first else 0
    return done / (kept - began) if done > 0 and kept > began else None
