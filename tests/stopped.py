"""Trainings that are stopped and resumed."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from icl.core.runs import Runs
from icl.core.state import State, load_state, save_state
from icl.core.training import train
from tests.bitwise import same


class Stopped(Exception):
    """Ends a training at a step."""


def assert_goes_on_bit_for_bit(trained: Runs, stops: Iterable[int], path: Path) -> None:
    """Assert that a training, stopped at some steps and resumed from its state, ends with the same bits."""
    for stop in stops:

        def after_step(state: State, stop: int = stop) -> None:
            if state.step == stop:
                save_state(path, state, "identity")
                raise Stopped

        with pytest.raises(Stopped):
            train(trained.sweep, load_state(path, "identity"), after_step=after_step)
    assert same(train(trained.sweep, load_state(path, "identity")), trained)
