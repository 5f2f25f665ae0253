"""One training is drawn, that of the inferred seed, and claims ignore runs that have not learnt."""

import math
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from icl import registry
from icl.core.config import grid
from icl.core.runs import Runs
from icl.core.table import Table
from icl.core.training import train
from icl.evidence import ledger
from icl.evidence.errors import GROUPS
from icl.papers.li2024 import decoder, evaluation, one_layer, record, stack
from icl.papers.li2024.record import held_out_loss
from icl.pipeline import figures
from tests.oracles.training import sweep_of
from tests.planted import with_weights
from tests.rounding import chained, rounding


@cache
def _trained() -> Runs:
    configs = grid(one_layer.Config, seed=range(4))
    return train(replace(sweep_of(one_layer, configs, range(0, 401, 20)), name="li_icl"))


def trained(name: str, **tested: Any) -> Runs:
    """Four runs of the one-layer training, all of which learn, with a figure's test constants."""
    (sweep,) = registry.figure(name).sweeps("smoke")
    return replace(_trained(), sweep=replace(_trained().sweep, test=replace(sweep.test, **tested)))


def measured(name: str, runs: Runs) -> Table:
    return figures.measure(name, {runs.sweep.name: runs}, "smoke")


@pytest.mark.parametrize(("order", "drawn"), [(1, 1), (-1, 3)])
def test_a_diverged_run_is_drawn_last_and_on_a_tie_the_smallest_seed(
    order: int, drawn: int
) -> None:
    """Without a read-out all losses are 1."""
    runs = trained("figure9", drawn_seed=99)
    a = torch.zeros_like(runs.weights["a"])
    a[0] = math.nan
    sweep = replace(runs.sweep, configs=runs.sweep.configs[::order])
    assert record.Record(replace(with_weights(runs, a=a), sweep=sweep)).drawn == drawn


def test_the_condition_of_the_claims_is_that_a_run_has_learnt() -> None:
    """Answers without knowledge cost 1, so that a loss of 0.1 is ignorance on one task in ten."""
    claims = ledger.of_paper("li2024").claims
    bounds = [bound for claim in claims for bound in claim.conditions]
    of_loss = {bound.at_most for bound in bounds if record.HELD_OUT_LOSS in bound.observable}
    assert of_loss == {0.1}


def test_held_out_prompts_are_never_trained_on() -> None:
    names = [name for name, key in registry.figures().items() if key == "li2024"]
    sweeps = [sweep for name in names for sweep in registry.figure(name).sweeps("paper")]
    assert record.HELD_OUT > max(sweep.snapshots[-1] for sweep in sweeps)


@pytest.mark.parametrize("model", [one_layer, stack, decoder])
def test_the_held_out_loss_of_a_run_does_not_depend_on_the_others(model: Any) -> None:
    """The loss of a run that diverged is NaN."""
    runs = train(sweep_of(model, grid(model.Config, seed=range(3)), (0, 2)))
    for w in runs.weights.values():
        w[1] = math.nan
    losses = held_out_loss(runs)
    assert ((losses > 0.3) & (losses < 2)).tolist() == [True, False, True] and math.isnan(losses[1])
    last = runs.last()
    tolerance = rounding(next(iter(last.values())).dtype, chained(last) + record.BATCH)
    np.testing.assert_allclose(held_out_loss(runs.alone(2)), losses[2:], rtol=tolerance)


@pytest.mark.parametrize(
    "name", ["figure8", "figure9", "figure10", "figure11", "figure14", "figure15", "figure27"]
)
def test_a_run_that_has_not_learnt_tests_no_claim(name: str) -> None:
    """With next to no read-out the loss of run 2 is 1. It is still counted and shown."""
    runs = trained(name)
    a = runs.weights["a"].clone()
    a[2] *= 1e-3
    table = measured(name, with_weights(runs, a=a))
    for verdict in figures.judge(name, table):
        (condition,) = verdict.conditions
        assert (condition.met, condition.runs) == (3, 4)
        assert {part.runs for part in verdict.parts} == {3}
    assert set(table.runs.loc[table.runs["panel"] != "", "seed"]) == {0, 1, 2, 3}


@pytest.mark.parametrize("name", ["figure8", "figure10", "figure14", "figure27"])
@pytest.mark.parametrize("inferred", [2, 99])
def test_the_run_of_the_inferred_seed_is_drawn_or_else_that_of_least_held_out_loss(
    name: str, inferred: int
) -> None:
    table = measured(name, trained(name, drawn_seed=inferred))
    losses = table.fact(record.HELD_OUT_LOSS)
    drawn = inferred if inferred in losses else min(losses, key=losses.__getitem__)
    assert table.drawn_seed == drawn
    curves = table.curves[table.curves["panel"] != ""]
    assert set(curves["seed"]) <= {drawn}
    for row in curves.itertuples():
        points = table.points(row.panel, row.series, row.observable)
        (value,) = points.loc[(points["seed"] == drawn) & (points["x"] == row.x), "value"]
        assert row.value == value


def test_the_drawn_run_has_more_test_prompts_and_a_band_its_last_snapshots_on_the_shared_ones() -> (
    None
):
    """The snapshots share every prompt, those of all runs, and differ in the weights alone."""
    of_figure = record.Record(trained("figure9", drawn_seed=2))
    runs = of_figure.runs
    drawn = of_figure.drawn_run()
    shared = evaluation.in_domain(runs.sweep).tokens
    many = evaluation.in_domain(drawn.sweep).tokens
    assert drawn.sweep.seeds == [2] and many.shape[1] == GROUPS * shared.shape[1]
    assert torch.equal(many[0, : shared.shape[1]], shared[2])
    assert all(torch.equal(w[0], runs.weights[name][2]) for name, w in drawn.weights.items())
    late = of_figure.checkpoints()
    for run, step in zip(late, runs.sweep.snapshots[-GROUPS:], strict=True):
        assert torch.equal(evaluation.in_domain(run.sweep).tokens[0], shared[2])
        assert all(torch.equal(w[0], runs.at(step)[name][2]) for name, w in run.last().items())
    assert not torch.equal(late[0].last()["W_Q"], late[-1].last()["W_Q"])
    assert not torch.equal(shared[1], shared[2])
