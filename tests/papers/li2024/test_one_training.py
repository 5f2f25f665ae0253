"""One training is drawn, that of the inferred seed, and claims ignore runs that have not learnt."""

import dataclasses
import math
from collections.abc import Callable
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from icl.core import discovery
from icl.core.config import grid
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import SUMMARY_SEED, join
from icl.core.training import train
from icl.drawing import plotting
from icl.evidence import ledger
from icl.evidence.errors import GROUPS
from icl.evidence.intervals import BAND
from icl.papers.li2024 import decoder, one_layer, one_training, stacked_layers
from icl.papers.li2024.one_training import Choice, alone, chosen, held_out_loss
from icl.pipeline import figures

LOSSES = hnp.arrays(
    np.float64, st.integers(1, 12), elements=st.sampled_from([0.0, 1e-6, 0.05, 0.1, 0.3, math.inf, math.nan])
)
ONE_LAYER = ("figure8", "figure9", "figure10", "figure11", "figure14", "figure15", "figure27", "figure28")


@cache
def trained(name: str) -> Runs:
    """Four runs of the shared one-layer training, all of which learn, with the test constants of a figure."""
    (sweep,) = discovery.figure(name).sweeps("smoke")
    configs = grid(one_layer.Config, seed=range(4))
    small = dataclasses.replace(sweep, configs=configs, test=one_layer.Test())
    return dataclasses.replace(_trained(small), sweep=dataclasses.replace(sweep, configs=configs))


@cache
def _trained(sweep: Sweep) -> Runs:
    return train(sweep)


def measured(name: str, runs: Runs) -> pd.DataFrame:
    return figures.measure(name, {runs.sweep.name: runs}, "smoke")


def changed(runs: Runs, run: int, change: Callable[[torch.Tensor], torch.Tensor]) -> Runs:
    """The runs, with the read-out of one run changed."""
    a = runs.weights["a"].clone()
    a[run] = change(a[run])
    return dataclasses.replace(runs, weights={**runs.weights, "a": a})


def reordered(runs: Runs, order: list[int]) -> Runs:
    configs = tuple(runs.sweep.configs[run] for run in order)
    weights = {name: w[order] for name, w in runs.weights.items()}
    return Runs(dataclasses.replace(runs.sweep, configs=configs), weights, runs.losses[order])


# The rule


@given(LOSSES, st.data())
def test_the_choice_does_not_depend_on_the_order_of_runs(losses: np.ndarray, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(losses))))
    seeds = list(range(len(losses)))
    again = chosen(losses[order], [seeds[run] for run in order])
    assert order[again] == chosen(losses, seeds)


@given(LOSSES)
def test_the_chosen_run_has_the_least_finite_loss(losses: np.ndarray) -> None:
    best = losses[chosen(losses, range(len(losses)))]
    if np.isfinite(losses).any():
        assert best == np.nanmin(losses)


@given(LOSSES)
def test_a_run_that_diverged_has_not_learnt(losses: np.ndarray) -> None:
    learnt = one_training.has_learnt(losses)
    assert not learnt[~np.isfinite(losses)].any()
    if learnt.any():
        assert learnt[chosen(losses, range(len(losses)))]


def test_the_condition_of_the_claims_is_that_a_run_has_learnt() -> None:
    conditions = {
        (bound.observable, bound.at_most)
        for claim in ledger.of_paper("li2024").claims
        for bound in claim.conditions
        if bound.observable.startswith(one_training.HELD_OUT_LOSS)
    }
    assert {at_most for _, at_most in conditions} == {one_training.LEARNT}


@pytest.mark.parametrize("model", [one_layer, stacked_layers, decoder])
def test_the_held_out_loss_of_a_run_does_not_depend_on_the_others(model: object) -> None:
    """The loss of a run that diverged is NaN."""
    system = discovery.system(model.SYSTEM)  # type: ignore[attr-defined]
    runs = train(Sweep("test", system.SYSTEM, grid(system.Config, seed=range(3)), (0, 2), system.Test()))
    losses = held_out_loss(runs)
    assert losses.shape == (3,) and ((losses > 0.3) & (losses < 2)).all()
    np.testing.assert_allclose(held_out_loss(reordered(runs, [2, 0])), losses[[2, 0]], rtol=1e-5)
    broken = {name: w.clone() for name, w in runs.weights.items()}
    for w in broken.values():
        w[1] = math.nan
    again = held_out_loss(dataclasses.replace(runs, weights=broken))
    assert math.isnan(again[1])
    np.testing.assert_allclose(again[[0, 2]], losses[[0, 2]], rtol=1e-6)


def test_the_held_out_loss_does_not_depend_on_the_training_set() -> None:
    """A run trained on a finite set gets the same new prompts as any other run of its seed."""
    configs = grid(one_layer.Config, seed=range(2))
    runs = train(Sweep("test", one_layer.SYSTEM, configs, (0, 2), one_layer.Test()))
    finite = tuple(dataclasses.replace(config, training_prompts=256, batch=64) for config in configs)
    again = dataclasses.replace(runs, sweep=dataclasses.replace(runs.sweep, configs=finite))
    np.testing.assert_array_equal(held_out_loss(again), held_out_loss(runs))


# Figures and claims


@pytest.mark.parametrize("name", ONE_LAYER)
def test_a_run_that_has_not_learnt_tests_no_claim(name: str) -> None:
    """With run 2 broken, the claims are judged on the other three; run 2 is still counted and shown."""
    broken = changed(trained(name), 2, torch.neg)
    table = measured(name, broken)
    for verdict in figures.check(name, table):
        (condition,) = verdict.conditions
        assert (condition.met, condition.runs) == (3, 4)
        assert {part.runs for part in verdict.parts} == {3}
    assert set(table.loc[table["panel"] == one_training.RUNS, "seed"]) == {0, 1, 2, 3}


def test_without_the_inferred_seed_the_run_of_least_held_out_loss_is_drawn() -> None:
    runs = trained("figure9")
    assert one_training.choice(runs).index == chosen(held_out_loss(runs), runs.sweep.seeds)
    assert one_training.choice(drawing(runs, 3)).index == 3


def drawing(runs: Runs, seed: int) -> Runs:
    """The runs, with another seed to draw."""
    test = dataclasses.replace(runs.sweep.test, drawn_seed=seed)
    return dataclasses.replace(runs, sweep=dataclasses.replace(runs.sweep, test=test))


@pytest.mark.parametrize("name", ["figure8", "figure10", "figure14", "figure27"])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_run_of_the_inferred_seed_is_drawn(name: str, seed: int) -> None:
    table = measured(name, drawing(trained(name), seed))
    assert list(table.loc[table["observable"] == one_training.DRAWN, "seed"]) == [seed]
    of_run = table[(table["panel"] == one_training.RUNS) & (table["seed"] == seed)]
    main = table[~table["panel"].isin(["", one_training.RUNS, one_training.DRAWN])]
    assert set(main.loc[main["statistic"] == "run", "seed"]) == {seed}
    drawn = main[(main["seed"] == SUMMARY_SEED) | ((main["statistic"] == "run") & (name == "figure10"))]
    key = ["series", "x", "observable", "colour"]
    left, right = (part.sort_values(key)[[*key, "value", "count"]].reset_index(drop=True) for part in (drawn, of_run))
    pd.testing.assert_frame_equal(left, right)


def test_a_run_alone_has_more_test_prompts_that_start_with_the_shared_ones() -> None:
    from icl.papers.li2024 import one_layer_evaluation as evaluation

    runs = trained("figure9")
    third = alone(runs, 2)
    assert third.sweep.seeds == [2] and third.sweep.test.prompts == GROUPS * runs.sweep.test.prompts
    few = evaluation.in_domain(runs.sweep.configs, runs.sweep.test)
    many = evaluation.in_domain(third.sweep.configs, third.sweep.test)
    assert torch.equal(many.tokens[0, : runs.sweep.test.prompts], few.tokens[2])
    for name, w in third.weights.items():
        assert torch.equal(w[0], runs.weights[name][2])


@given(hnp.arrays(np.bool_, (3, 1, 40)))
def test_the_band_is_that_of_four_groups_of_the_drawn_run(wrong: np.ndarray) -> None:
    pick = Choice([5, 7], np.array([0.5, 0.01]), 7)
    of_runs = np.zeros((3, 2, 10), dtype=bool)
    table = join(pick.error_lines(of_runs, wrong, panel="main", series="a", x=[0, 2, 4]))
    summaries = table[table["seed"] == SUMMARY_SEED]
    groups = wrong[:, 0].reshape(3, GROUPS, 10).mean(axis=-1)
    np.testing.assert_allclose(summaries["value"], wrong.mean(axis=(1, 2)))
    np.testing.assert_allclose(summaries["band_high"] - summaries["value"], BAND * groups.std(axis=-1), atol=1e-12)
    assert (summaries["count"] == 40).all() and (summaries["panel"] == "main").all()


# The picture of all runs


def test_runs_that_have_not_learnt_are_grey_and_named() -> None:
    from matplotlib.colors import same_color

    table = measured("figure9", changed(trained("figure9"), 1, torch.neg))
    picture = discovery.figure("figure9").draw_runs(table)
    count = next(text.get_text() for text in picture.texts if text.get_gid() == "count")
    assert count.startswith("3 of 4 runs learnt") and count.endswith("seed 1")
    drawn = table.loc[table["observable"] == one_training.DRAWN, "seed"].iloc[0]
    for axes in picture.axes:
        seed = int(str(axes.get_label()).removeprefix("seed "))
        assert ("not learnt" in axes.get_title()) == (seed == 1)
        assert ("drawn" in axes.get_title()) == (seed == drawn)
        lines = [line for line in axes.lines if line.get_gid() == "The same ODR"]
        assert [same_color(line.get_color(), "C0") for line in lines] == [seed != 1]
        points = table[(table["panel"] == "runs") & (table["seed"] == seed) & (table["series"] == "The same ODR")]
        np.testing.assert_array_equal(lines[0].get_xydata(), points[["x", "value"]].to_numpy())


def test_curves_of_runs_are_never_summarised() -> None:
    table = measured("figure14", trained("figure14"))
    assert (table.loc[table["panel"] == one_training.RUNS, "statistic"] == "point").all()
    rows = table[(table["panel"] == one_training.RUNS) & (table["series"] == "Mag.-based")]
    assert (plotting.resolution(rows) <= 1 / 40).all()
