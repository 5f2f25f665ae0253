"""Checkpoints of unfinished trainings, from which they continue with the same values."""

import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from icl.core.files import WriteError
from icl.core.lazy import torch
from icl.core.runs import FORMAT, RunsError, read_tensors, write_tensors


@dataclass
class State:
    """Everything needed to continue a training with the same values, and the CPU seconds of the processes before."""

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


@dataclass
class Keeper:
    """Saves the state of a training every `seconds` seconds; `train` calls it after every step."""

    path: Path
    identity: str
    seconds: float
    last: float = field(default_factory=time.monotonic)

    def __call__(self, state: State) -> None:
        """Save the state if the time has passed."""
        if time.monotonic() - self.last >= self.seconds:
            # Training goes on with a full disk: there may be room again when the weights are written.
            with suppress(WriteError):
                save_state(self.path, state, self.identity)
            self.last = time.monotonic()


@dataclass
class Stopper:
    """Saves the state and ends the training after a signal; `train` calls it after every step."""

    path: Path
    identity: str
    number: int = 0

    def listen(self) -> None:
        """From now on, note SIGTERM (a cluster's time limit, a killed job) and SIGINT (Ctrl-C) instead of ending."""
        for number in (signal.SIGTERM, signal.SIGINT):
            # A shell's background job ignores SIGINT, and must continue to.
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._note)

    def _note(self, number: int, frame: Any) -> None:
        self.number = number
        # A second signal ends the process at once.
        signal.signal(number, signal.SIG_DFL)

    def __call__(self, state: State) -> None:
        """After a signal, save the state and raise SystemExit with the shell's status for that signal."""
        if self.number:
            save_state(self.path, state, self.identity)
            print(f"{signal.Signals(self.number).name} at step {state.step}: the state is kept", flush=True)
            raise SystemExit(128 + self.number)


def save_state(path: Path, state: State, identity: str) -> None:
    """Save the state of an unfinished training with the `identity` of its code and constants."""
    groups = {"params": state.params, "optimiser": state.optimiser, "snapshots": state.snapshots}
    tensors = {f"{group}/{n}": t for group, part in groups.items() for n, t in part.items()}
    tensors["losses"] = torch.from_numpy(state.losses)
    about = {"format": FORMAT, "step": state.step, "identity": identity, "cpu_seconds": state.cpu_seconds}
    write_tensors(path, tensors, about)


def load_state(path: Path, identity: str) -> State | None:
    """The saved state, or None if it is missing, damaged or of another identity: training then starts again."""
    if not path.exists():
        return None
    try:
        tensors, about = read_tensors(path)
    except RunsError:
        return None
    if about.get("identity") != identity:
        return None
    parts: dict[str, dict[str, Any]] = {"params": {}, "optimiser": {}, "snapshots": {}}
    try:
        for name, tensor in tensors.items():
            group, _, rest = name.partition("/")
            if rest:
                parts[group][rest] = tensor
        losses = tensors["losses"].numpy().copy()
        return State(about["step"], losses=losses, cpu_before=about["cpu_seconds"], **parts)
    except KeyError:
        return None


def kept_step(path: Path) -> tuple[int, int]:
    """The step of a saved state and the last step of its training, without reading the weights.

    Raises RunsError if the file is damaged.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            return int(json.loads(file.metadata()["icl"])["step"]), int(file.get_slice("losses").get_shape()[1])
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise RunsError(f"{path}: cannot be read as the state of a training ({error})") from error


def forget_state(path: Path) -> None:
    """Remove the saved state of a complete training."""
    if path.exists():
        os.remove(path)


PROGRESS = "ICL_PROGRESS"
"""The environment variable with the number of a file descriptor where a job may show its progress."""


def progress(name: str, steps: int) -> Callable[[State], None]:
    """A callback that shows a progress bar if stderr, or the descriptor in ICL_PROGRESS, is a terminal."""
    from tqdm import tqdm

    number = os.environ.get(PROGRESS, "2")
    shown = number.isdecimal() and os.path.exists(f"/dev/fd/{number}") and os.isatty(int(number))
    stream = os.fdopen(int(number), "w", closefd=False) if shown else None
    bar = tqdm(total=steps, desc=name, unit="step", file=stream, disable=stream is None, mininterval=5, leave=False)

    def show(state: State) -> None:
        bar.update(state.step - bar.n)

    return show


def watched(name: str, steps: int, kept: Path, identity: str, seconds: float) -> Callable[[State], None]:
    """A callback for `train` that saves states, shows progress and ends the training after a signal.

    From now on SIGTERM and SIGINT wait for the end of a step.
    """
    stopper = Stopper(kept, identity)
    stopper.listen()
    parts = Keeper(kept, identity, seconds), progress(name, steps), stopper

    def call(state: State) -> None:
        for part in parts:
            part(state)

    return call


def unfinished(folder: Path) -> list[dict[str, Any]]:
    """The unfinished trainings with a saved state below results/<folder>: sweep, shard, step, steps."""
    trainings = []
    for path in sorted(folder.glob("runs/*/[!.]*.state.safetensors")):
        # A damaged state belongs to a training that has ended since, or will start again.
        with suppress(RunsError):
            step, steps = kept_step(path)
            shard = path.name.split(".")[0]
            trainings.append({"sweep": path.parent.name, "shard": shard, "step": step, "steps": steps})
    return trainings
