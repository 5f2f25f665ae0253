"""Where an unfinished training stands, kept on disk so that it can go on as if it had not stopped."""

import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from icl.core.files import WriteError
from icl.core.lazy import lazy
from icl.core.runs import FORMAT, RunsError, read_tensors, write_tensors

if TYPE_CHECKING:
    import torch
else:
    torch = lazy("torch")


@dataclass
class State:
    """Where a training stands: everything needed to go on as if it had not stopped."""

    step: int
    params: "dict[str, torch.Tensor]"
    optimiser: "dict[str, torch.Tensor]"
    snapshots: "dict[str, torch.Tensor]"
    losses: np.ndarray


@dataclass
class Keeper:
    """Keeps the state of a training every so many seconds; `train` calls it after every step."""

    path: Path
    identity: str
    seconds: float
    last: float = field(default_factory=time.monotonic)

    def __call__(self, state: State) -> None:
        """Store the state if it is time."""
        if time.monotonic() - self.last >= self.seconds:
            # A full disk costs the state, not the training; it may have room again when the weights are written.
            with suppress(WriteError):
                save_state(self.path, state, self.identity)
            self.last = time.monotonic()


@dataclass
class Stopper:
    """Keeps the state of a training that is told to end, where it stands; `train` calls it after every step."""

    path: Path
    identity: str
    number: int = 0

    def listen(self) -> None:
        """Take note of SIGTERM (a cluster's time limit, a killed job) and SIGINT (Ctrl-C) instead of ending at once."""
        for number in (signal.SIGTERM, signal.SIGINT):
            # A shell's background job does not hear SIGINT, and should not begin to.
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._note)

    def _note(self, number: int, frame: Any) -> None:
        self.number = number
        # A second one ends it at once.
        signal.signal(number, signal.SIG_DFL)

    def __call__(self, state: State) -> None:
        """Keep the state and raise SystemExit, with the status that a shell gives, if a signal came."""
        if self.number:
            save_state(self.path, state, self.identity)
            print(f"{signal.Signals(self.number).name} at step {state.step}: the state is kept", flush=True)
            raise SystemExit(128 + self.number)


def save_state(path: Path, state: State, identity: str) -> None:
    """Keep the state of an unfinished training; `identity` says of which code and constants."""
    groups = {"params": state.params, "optimiser": state.optimiser, "snapshots": state.snapshots}
    tensors = {f"{group}/{n}": t for group, part in groups.items() for n, t in part.items()}
    tensors["losses"] = torch.from_numpy(state.losses)
    write_tensors(path, tensors, {"format": FORMAT, "step": state.step, "identity": identity})


def load_state(path: Path, identity: str) -> State | None:
    """The kept state, or None if there is none of this identity (or it is damaged: training then starts anew)."""
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
        return State(about["step"], losses=tensors["losses"].numpy().copy(), **parts)
    except KeyError:
        return None


def kept_step(path: Path) -> tuple[int, int]:
    """The step of a kept state, and the last step of its training; the weights are not read.

    Raises RunsError if the file is damaged.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            return int(json.loads(file.metadata()["icl"])["step"]), int(file.get_slice("losses").get_shape()[1])
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise RunsError(f"{path}: cannot be read as the state of a training ({error})") from error


def forget_state(path: Path) -> None:
    """Remove a kept state; training is complete."""
    if path.exists():
        os.remove(path)


PROGRESS = "ICL_PROGRESS"
"""The environment variable with the number of a file descriptor where a job may show its progress."""


def progress(name: str, steps: int) -> Callable[[State], None]:
    """Show a bar while training if stderr, or what ICL_PROGRESS names, is a terminal; nothing otherwise."""
    from tqdm import tqdm

    number = os.environ.get(PROGRESS, "2")
    shown = number.isdecimal() and os.path.exists(f"/dev/fd/{number}") and os.isatty(int(number))
    stream = os.fdopen(int(number), "w", closefd=False) if shown else None
    bar = tqdm(total=steps, desc=name, unit="step", file=stream, disable=stream is None, mininterval=5, leave=False)

    def show(state: State) -> None:
        bar.update(state.step - bar.n)

    return show


def watched(name: str, steps: int, kept: Path, identity: str, seconds: float) -> Callable[[State], None]:
    """What `train` calls after every step: it keeps states, shows progress, and ends where a signal asks for it.

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
    """The trainings below results/<folder> that have kept a state: sweep, shard, step, steps."""
    found = []
    for path in sorted(folder.glob("runs/*/[!.]*.state.safetensors")):
        # A damaged state belongs to a training that has ended since, or will begin anew.
        with suppress(RunsError):
            step, steps = kept_step(path)
            found.append({"sweep": path.parent.name, "shard": path.name.split(".")[0], "step": step, "steps": steps})
    return found
