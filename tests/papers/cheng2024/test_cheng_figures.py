"""Diverged trainings in the figures of Cheng et al. count as untrained."""

import numpy as np
import pytest

from icl.papers.cheng2024 import evaluation, scalar_oracle, trainings
from icl.papers.cheng2024 import kernel_attention as system
from icl.papers.cheng2024.kernel_attention import Config
from icl.papers.cheng2024.scalar_oracle import Point

COUNT = 50


def test_a_diverged_training_has_the_loss_of_the_prediction_0() -> None:
    """A model with r = 0 predicts 0."""
    sound, failed = Point("relu", "exp", 3, 6, 0), Point("relu", "exp", 3, 6, 1)
    losses = trainings.counted({sound: -1.0, failed: float("nan")}, COUNT)
    assert losses[sound] == -1.0
    config = Config(kernel="exp", labels="relu", context_length=6, seed=1)
    weights = system.weights_of(system.init([config]), 0, config)
    zero = weights | {"rate": 0 * weights["rate"]}
    assert losses[failed] == pytest.approx(np.log(evaluation.errors(zero, config, COUNT).mean()))


@pytest.mark.parametrize("law", trainings.LAWS)
def test_the_loss_of_the_prediction_0_is_about_the_variance_of_a_label(law: str) -> None:
    """k(u, u) is exp(1/2) for the kernel exp(<u, v>/2), 1 for the linear one, and above 1 for |K| of relu."""
    least = {"half_exp": 0.5}.get(law, 0.0)
    assert scalar_oracle.untrained(law, 6, 0, 4000) == pytest.approx(least, abs=0.15)
