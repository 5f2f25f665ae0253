"""Trainings that are stopped and resumed, and the bitwise equality of runs."""

from collections.abc import Iterable
from pathlib import Path

import pytest
import torch

from icl.core.runs import Runs
from icl.core.state import State, load_state, save_state
from icl.core.sweep import Sweep
from icl.core.training import train


def same(a: Runs, b: Runs) -> bool:
    """Return whether two runs have the same sweep, weights, types and losses, bit for bit."""
    return (
        a.sweep == b.sweep
        and sorted(a.weights) == sorted(b.weights)
        and all(
            torch.equal(w, b.weights[n]) and w.dtype == b.weights[n].dtype
            for n, w in a.weights.items()
        )
        and a.losses.tobytes() == b.losses.tobytes()
    )


class Stopped(Exception):
    """Ends a training at a step."""


def train_until(sweep: Sweep, step: int, path: Path) -> None:
    """Train from the saved state, if there is one, to a step; save the state there and stop."""

    def after_step(state: State) -> None:
        if state.step == step:
            save_state(path, state, "fingerprint")
            raise Stopped

    with pytest.raises(Stopped):
        train(sweep, load_state(path, "fingerprint"), after_step=after_step)


def assert_goes_on_bit_for_bit(trained: Runs, stops: Iterable[int], path: Path) -> None:
    """Assert that a training, stopped at some steps and resumed from its state, ends with the
    same bits.
    """
    for stop in stops:
        train_until(trained.sweep, stop, path)
    assert same(train(trained.sweep, load_state(path, "fingerprint")), trained)
