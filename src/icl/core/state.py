"""Checkpoints of unfinished trainings, from which they continue with the same values."""

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

from icl.core.files import WriteError
from icl.core.lazy import torch
from icl.core.runs import FORMAT, RunsError, read_tensors, write_tensors


@dataclass
class State:
    """All that continues a training with the same values, and the CPU seconds before."""

    step: int
    params: "dict[str, torch.Tensor]"
    optimiser: "dict[str, torch.Tensor]"
    snapshots: "dict[str, torch.Tensor]"
    losses: np.ndarray
    cpu_before: float = 0.0

    @property
    def cpu_seconds(self) -> float:
        """The CPU seconds of the training so far, over all its processes."""
        return self.cpu_before + time.process_time()


def save_state(path: Path, state: State, fingerprint: str) -> None:
    """Save the state of an unfinished training with the `fingerprint` of its code and constants."""
    groups = {"params": state.params, "optimiser": state.optimiser, "snapshots": state.snapshots}
    tensors = {f"{group}/{n}": t for group, part in groups.items() for n, t in part.items()}
    tensors["losses"] = torch.from_numpy(state.losses)
    about = {
        "format": FORMAT,
        "fingerprint": fingerprint,
        "step": state.step,
        "cpu_seconds": state.cpu_seconds,
    }
    # A file does not keep the order of the weights, which a sum over all of them follows.
    write_tensors(path, tensors, about | {"order": list(tensors)})


def load_state(path: Path, fingerprint: str) -> State | None:
    """Return the saved state, or None if it is missing, damaged or of another fingerprint."""
    parts: dict[str, dict[str, Any]] = {"params": {}, "optimiser": {}, "snapshots": {}}
    try:
        tensors, about = read_tensors(path)
        losses = tensors.pop("losses").numpy()
        for name in about["order"]:
            group, _, rest = name.partition("/")
            if group in parts:
                parts[group][rest] = tensors[name]
        state = State(about["step"], losses=losses, cpu_before=about["cpu_seconds"], **parts)
    except (RunsError, KeyError):
        return None
    return state if about.get("fingerprint") == fingerprint else None


PROGRESS = "ICL_PROGRESS"
"""The environment variable with the number of a file descriptor where a job shows its progress,
besides its log.
"""
FIRST_LINE = 5.0
"""Seconds until a training first says how far it is."""


def progress(name: str, steps: int) -> Callable[[State], None]:
    """Return a callback that says how far a training is: on stdout, which is a job's log, and on
    the descriptor in ICL_PROGRESS, which is the terminal or the log of the workflow.

    The first line comes after FIRST_LINE seconds, each of the next after twice the time, at most a
    minute.
    """
    number = os.environ.get(PROGRESS, "")
    streams = [sys.stdout]
    if number.isdecimal() and os.path.exists(f"/dev/fd/{number}"):
        streams.append(os.fdopen(int(number), "w", closefd=False))
    began = last = time.monotonic()
    pause = FIRST_LINE
    first = -1

    def show(state: State) -> None:
        nonlocal began, last, pause, first
        now = time.monotonic()
        if first < 0:
            first = state.step
            began = now
        if now - last < pause or state.step == first:
            return
        left = timedelta(seconds=round((now - began) / (state.step - first) * (steps - state.step)))
        for stream in streams:
            # Training goes on with a full disk, and without its terminal.
            with suppress(OSError):
                reached = f"step {state.step:,} of {steps:,}, {state.step / steps:.0%}"
                print(f"{name}: {reached}, {left} left", file=stream, flush=True)
        last = now
        pause = min(2 * pause, 60.0)

    return show


def watched(
    name: str, steps: int, path: Path, fingerprint: str, seconds: float
) -> Callable[[State], None]:
    """Return a callback for `train` that shows progress, saves the state every `seconds` seconds,
    and ends the training after SIGTERM (a time limit, a killed job) or SIGINT (Ctrl-C).

    From now on these signals wait for the end of a step; a second one ends the process at once.
    After a signal the state is saved, and SystemExit raised with the shell's status for it.
    """
    received: list[int] = []
    show = progress(name, steps)
    last = time.monotonic()

    def note(number: int, frame: Any) -> None:
        received.append(number)
        signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGTERM, signal.SIGINT):
        # A shell's background job ignores SIGINT, and must continue to.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, note)

    def after_step(state: State) -> None:
        nonlocal last
        show(state)
        if time.monotonic() - last >= seconds:
            # Training goes on with a full disk: there may be room again for the weights.
            with suppress(WriteError):
                save_state(path, state, fingerprint)
            last = time.monotonic()
        if received:
            save_state(path, state, fingerprint)
            ended_by = signal.Signals(received[0]).name
            print(f"{ended_by} at step {state.step}: the state is saved", flush=True)
            raise SystemExit(128 + received[0])

    return after_step
