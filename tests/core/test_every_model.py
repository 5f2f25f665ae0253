"""Runs of every model do not mix, whatever their order; the sweeps are those of the figures."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from icl import registry
from icl.core.sweep import Sweep
from icl.core.training import train
from tests.rounding import rounding

STEPS = 3
SWEEPS = [sweep for name in registry.figures() for sweep in registry.figure(name).sweeps("smoke")]


def trainings() -> Iterator[Sweep]:
    """One short training per model and kind of loss: the first sweep with a new set of choices."""
    seen = set()
    for sweep in SWEEPS:
        constants = sorted(vars(sweep.configs[0]).items())
        key = (sweep.model.name, *(one for one in constants if isinstance(one[1], str)))
        if key not in seen and sweep.snapshots[-1] > 0:
            seen.add(key)
            # The first, a middle and the last run differ in the seed or what is swept.
            count = len(sweep.configs)
            few = tuple(sweep.configs[index] for index in sorted({0, count // 2, count - 1}))
            yield replace(sweep, configs=few, snapshots=(0, min(STEPS, sweep.snapshots[-1])))


TRAININGS = list(trainings())
# A common bias of the keys does not change attention: its gradient is pure rounding, which Adam
# rescales.
UNDETERMINED = "keys.bias"


def test_every_model_is_trained_by_a_figure_and_has_all_parts() -> None:
    untrained = {sweep.model.name for sweep in SWEEPS if sweep.snapshots == (0,)}
    assert {sweep.model.name for sweep in TRAININGS} | untrained == set(registry.models())
    for model in registry.models().values():
        assert (model.loss is None) != (model.loss_and_gradient is None)


@pytest.mark.parametrize("sweep", TRAININGS, ids=lambda sweep: sweep.name)
def test_a_run_has_the_same_values_alone_and_in_a_batch(sweep: Sweep) -> None:
    """Equal up to the rounding of sums of some thousand terms, over a few steps."""
    together = train(sweep)
    for run, config in enumerate(sweep.configs):
        alone = train(replace(sweep, configs=(config,)))
        np.testing.assert_allclose(alone.losses[0], together.losses[run], rtol=1e-3, atol=1e-6)
        for name, w in alone.weights.items():
            if not name.endswith(UNDETERMINED):
                tolerance = rounding(w.dtype, 10_000) * max(float(w.abs().max()), 1e-30)
                torch.testing.assert_close(
                    w[0], together.weights[name][run], rtol=0, atol=tolerance, equal_nan=True
                )
