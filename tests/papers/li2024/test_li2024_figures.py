"""Pruning in the figures of the one-layer model."""

import dataclasses
import itertools

import numpy as np
import pandas as pd
import pytest
import torch

from icl.core.config import grid
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.training import train
from icl.drawing import plotting
from icl.papers.li2024 import figure15, one_layer
from icl.papers.li2024 import one_layer_evaluation as evaluation
from icl.papers.li2024.pruning import random_masks, trained_pruning


@pytest.fixture(scope="module")
def together() -> Runs:
    configs = grid(one_layer.Config, seed=range(4))
    return train(Sweep("test", one_layer.SYSTEM, configs, (0, 12), one_layer.Test(prompts=50)))


def test_pruning_equals_setting_the_row_to_zero(together: Runs) -> None:
    pruning = trained_pruning(together, together.sweep.test)
    weights = {n: w.clone() for n, w in together.last().items()}
    mask = pruning.smallest(20)
    weights["W_O"][torch.from_numpy(mask)] = 0
    logits = evaluation.contributions(weights, pruning.prompts, together.sweep.test.context_length_test).sum(dim=-1)
    pruned = pruning.without(mask)
    np.testing.assert_allclose(pruned["hinge loss"], evaluation.hinge(logits, pruning.prompts), rtol=1e-12)
    unpruned = pruning.without(pruning.smallest(0))
    assert (np.abs(unpruned["hinge loss"] - pruned["hinge loss"]) > 1e-9).all()
    # Without neurons F = 0: every answer is wrong and the hinge loss is 1.
    empty = pruning.without(pruning.smallest(64))
    assert (empty["classification error"] == 1).all()
    assert (empty["hinge loss"] == 1).all()


def test_pruned_neurons_are_the_smallest_or_the_largest(together: Runs) -> None:
    pruning = trained_pruning(together, together.sweep.test)
    for count in (0, 1, 13, 64):
        small, large = pruning.smallest(count), pruning.largest(count)
        assert (small.sum(axis=1) == count).all()
        assert (large.sum(axis=1) == count).all()
        for norms, low, high in zip(pruning.norms, small, large, strict=True):
            assert norms[low].max(initial=0) <= norms[~low].min(initial=np.inf)
            assert norms[high].min(initial=np.inf) >= norms[~high].max(initial=0)
    per_run = pruning.smallest(np.array([1, 2, 3, 4]))
    assert per_run.sum(axis=1).tolist() == [1, 2, 3, 4]


def test_random_pruning_masks_are_nested_and_differ_between_runs_and_draws() -> None:
    masks = [random_masks([0, 1], 64, count, draw=0) for count in (0, 6, 26, 64)]
    assert [mask.sum(axis=1).tolist() for mask in masks] == [[c, c] for c in (0, 6, 26, 64)]
    for fewer, more in itertools.pairwise(masks):
        assert (fewer <= more).all()
    assert not np.array_equal(masks[1][0], masks[1][1])
    assert not np.array_equal(masks[1], random_masks([0, 1], 64, 6, draw=1))


def test_the_drawn_curves_of_figure_15_start_together_and_the_table_keeps_its_values(together: Runs) -> None:
    (sweep,) = figure15.sweeps("smoke")
    # After 12 steps F is small, so only its sign can be right.
    shared = dataclasses.replace(together.sweep, test=dataclasses.replace(sweep.test, answer_margin=0.0))
    table = figure15.measure({sweep.name: dataclasses.replace(together, sweep=shared)}, "smoke")
    before = table.copy()
    axes = figure15.draw(table).axes[0]
    pd.testing.assert_frame_equal(table, before)
    drawn = {line.get_gid(): line.get_ydata() for line in axes.lines}
    own = {
        series: plotting.summary(table, "main", series, "classification error")["value"].to_numpy()
        for series in figure15.FRACTIONS
    }
    assert len({values[0] for values in own.values()}) > 1
    for series, values in own.items():
        assert drawn[series][0] == own["alpha'=0.6"][0]
        np.testing.assert_array_equal(drawn[series][1:], values[1:])
