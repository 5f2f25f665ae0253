"""Helpers for tests of interrupted trainings."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
import torch

from icl.core.runs import Runs
from icl.core.state import State, load_state, save_state
from icl.core.training import train


class Stopped(Exception):
    """Ends a training at a step."""


def assert_goes_on_bit_for_bit(trained: Runs, stops: Iterable[int], path: Path) -> None:
    """Assert that a training, stopped at some steps and resumed from its state, ends with the same bits."""
    for stop in stops:

        def keep(state: State, stop: int = stop) -> None:
            if state.step == stop:
                save_state(path, state, "identity")
                raise Stopped

        with pytest.raises(Stopped):
            train(trained.sweep, load_state(path, "identity"), keep=keep)
    ended = train(trained.sweep, load_state(path, "identity"))
    assert np.array_equal(ended.losses, trained.losses)
    for name, w in trained.weights.items():
        assert torch.equal(ended.weights[name], w), name
