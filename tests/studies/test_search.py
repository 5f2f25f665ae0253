"""The search for unpublished constants: its distance, batches, resuming, and held-out figures."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from icl.core import table
from icl.core.config import ConstantError
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.training import train
from icl.evidence import distance, published_curves, sensitivity
from icl.pipeline import figures, provenance
from studies import outcome, search, space, spaces
from studies.__main__ import run_search
from studies.search import identity, kept, measured, plan, proposals, run, train_together, trials, with_seeds
from studies.space import Axis, Space

SYSTEMS = list(spaces.spaces())
# 16 coordinates and 8 neurons: every run's matrices start on 64 bytes, as at the papers' sizes (see conftest.py).
TINY = {"prompts": 20, "batch": 2, "irrelevant_patterns": 6, "label_dimension": 4, "neurons": 8, "context_length": 5}
Rows = list[dict[str, Any]]


def shortened(sweep: Sweep) -> Runs:
    """A training with a twentieth of the steps, so that a search takes seconds."""
    runs = train(dataclasses.replace(sweep, snapshots=tuple(step // 20 for step in sweep.snapshots)))
    return Runs(sweep, runs.weights, runs.losses)


@pytest.fixture(autouse=True, scope="module")
def short_trainings() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "train", shortened)
        yield


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[Sweep]:
    """The sweeps that are trained, in order."""
    found: list[Sweep] = []

    def keep(sweep: Sweep) -> Runs:
        found.append(sweep)
        return shortened(sweep)

    monkeypatch.setattr(search, "train", keep)
    return found


def tiny(**changes: Any) -> Space:
    """Two axes of the one-layer model and figure 9, with trials of a fraction of a second."""
    made = Space(
        system="li_icl",
        axes=(
            Axis("attention_start", "for a test", low=0.1, high=0.4),
            Axis("learning_rate", "for a test", low=1e-4, high=3e-3, log=True),
        ),
        fitted=("figure9",),
        held_out=("figure15",),
        judged=("figure9", "figure8"),
        together=("attention_start", "learning_rate"),
        amounts={"": TINY},
        trials=6,
        batch=3,
        seeds=2,
        finalists=1,
        settled_seeds=2,
        values=2,
    )
    return dataclasses.replace(made, **changes)


@pytest.mark.parametrize("name", [name for system in SYSTEMS for name in spaces.of(system).fitted])
def test_every_fitted_figure_is_at_no_distance_from_its_own_numbers(name: str) -> None:
    published = published_curves.load(name)
    assert published is not None
    scatter = (published["kind"] == "scatter").to_numpy()
    observables = published["observable"].where(published["observable"] != "", "error")
    ours = published.assign(
        x=published["x"].astype(float), value=published["y"], colour=published["c"], observable=observables,
        seed=np.where(scatter, 0, -1), statistic=np.where(scatter, "run", "mean"),
    )  # fmt: skip
    assert distance.of_figure(ours, published).whole == pytest.approx(0, abs=1e-9)


# What is searched


@pytest.mark.parametrize("system", SYSTEMS)
def test_held_out_figures_are_never_fitted(system: str) -> None:
    searched = spaces.of(system)
    assert not set(searched.fitted) & set(space.NEVER_FITTED)
    assert set(searched.held_out) <= set(space.NEVER_FITTED)
    assert all(published_curves.path(name) for name in searched.fitted)
    assert not any(published_curves.path(name) for name in space.NEVER_FITTED)


def test_a_space_that_fits_a_held_out_figure_cannot_be_made() -> None:
    with pytest.raises(ConstantError, match="figure15 must never be fitted"):
        tiny(fitted=("figure9", "figure15"))


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_defaults_lie_in_justified_ranges(system: str) -> None:
    searched = spaces.of(system)
    defaults = searched.defaults()
    for axis in searched.axes:
        assert axis.holds(defaults[axis.name]), (axis.name, defaults[axis.name], axis.words())
        assert len(axis.reason) >= 20, axis.name


@pytest.mark.parametrize("system", [system for system in SYSTEMS if outcome.rows(system)])
def test_slices_go_through_the_defaults(system: str) -> None:
    searched, rows = spaces.of(system), list(outcome.rows(system))
    assert outcome.chosen(searched, rows) == searched.defaults()
    assert search.current(searched, rows) == rows


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_packaged_rows_used_trial_seeds_only(system: str) -> None:
    for row in outcome.rows(system):
        assert min(map(int, row["seeds"].split())) >= 100


def test_an_axis_of_some_figures_has_their_value_and_moves_in_them_only() -> None:
    noise = Axis("noise", "for a test", low=0.0, high=1.0, figures=("figure14", "figure27"))
    searched = tiny(axes=(noise, Axis("coefficient_sum", "for a test", low=0.5, high=1.4)), amounts={})
    drawn = {name: figures.sweeps(name, "smoke", {})["li_icl"].test for name in ("figure9", "figure14")}
    assert searched.defaults()["noise"] == drawn["figure14"].noise != drawn["figure9"].noise
    found = plan(searched, {"noise": 0.125, "coefficient_sum": 0.75}, list(drawn), "smoke", [100, 101])
    assert found is not None
    moved = [found[name]["li_icl"].test for name in drawn]
    assert [(test.noise, test.coefficient_sum) for test in moved] == [(drawn["figure9"].noise, 0.75), (0.125, 0.75)]
    with pytest.raises(ConstantError, match="figure9, figure14 have different values"):
        tiny(axes=(dataclasses.replace(noise, figures=("figure9", "figure14")),)).defaults()


def test_an_axis_rounds_to_two_digits_and_spans_its_range() -> None:
    axis = Axis("learning_rate", "for a test", low=0.1, high=10.0, log=True)
    assert axis.rounded(1.2345) == 1.2 and axis.rounded(99.0) == 10.0
    assert axis.values(3) == [0.1, 1.0, 10.0]
    assert axis.values(3, also=1.5) == [0.1, 1.0, 1.5, 10.0]
    whole = Axis("batch", "for a test", low=10, high=400, log=True, whole=True)
    assert all(type(value) is int for value in whole.values(4))
    assert Axis("law", "for a test", choices=("a", "b")).values(7, also="b") == ["a", "b"]


# Trials


def test_points_trained_together_equal_points_trained_alone() -> None:
    searched = tiny()
    points = [{"attention_start": 0.2, "learning_rate": 5e-4}, {"attention_start": 0.3, "learning_rate": 1.5e-3}]
    plans = [plan(searched, point, ["figure9"], "smoke", [100, 101]) for point in points]
    sweeps = [found["figure9"]["li_icl"] for found in plans if found]
    for runs, sweep in zip(train_together(sweeps, searched.together), sweeps, strict=True):
        alone = shortened(sweep)
        assert runs.sweep == sweep
        assert all(torch.equal(runs.weights[name], alone.weights[name]) for name in alone.weights)
        np.testing.assert_array_equal(runs.losses, alone.losses)
    both = measured(searched, plans, "smoke")
    for found, of_point in zip(both, plans, strict=True):
        (alone_table,) = measured(searched, [of_point], "smoke")
        assert found is not None and alone_table is not None
        pd.testing.assert_frame_equal(found["figure9"], alone_table["figure9"], check_exact=True)


def test_sweeps_of_other_lengths_train_together_and_keep_their_own_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "train", train)
    base = with_seeds(figures.sweeps("figure9", "smoke", {"li_icl": TINY})["li_icl"], [100, 101])
    sweeps = [dataclasses.replace(base, snapshots=snapshots) for snapshots in ((0, 4, 8), (0, 3, 5))]
    for runs, sweep in zip(train_together(sweeps, ()), sweeps, strict=True):
        alone = train(sweep)
        assert all(torch.equal(runs.weights[name], alone.weights[name]) for name in alone.weights)
        np.testing.assert_array_equal(runs.losses, alone.losses)


def test_sweeps_of_other_shapes_train_separately(trained: list[Sweep]) -> None:
    searched = tiny()
    batches = [dataclasses.replace(searched, amounts={"": {**TINY, "batch": size}}) for size in (4, 4, 6)]
    plans = [plan(one, one.defaults(), ["figure9"], "smoke", [100, 101]) for one in batches]
    train_together([found["figure9"]["li_icl"] for found in plans if found], searched.together)
    assert sorted(len(sweep.configs) for sweep in trained) == [2, 4]


def test_equal_trainings_of_a_batch_are_done_once(trained: list[Sweep]) -> None:
    searched = tiny()
    plans = [plan(searched, searched.defaults(), ["figure9"], "smoke", [100, 101]) for _ in range(3)]
    tables = measured(searched, plans, "smoke")
    assert [len(sweep.configs) for sweep in trained] == [2] and len(tables) == 3


def test_only_trainings_of_the_previous_batch_are_reused(trained: list[Sweep]) -> None:
    searched = tiny(together=())
    wanted = [
        {"stage": "slice", "axis": str(index), "point": searched.defaults() | {"learning_rate": rate}}
        for index, rate in enumerate([5e-4, 5e-4, 1.5e-3, 5e-4])
    ]
    batches = list(search._missing(searched, "smoke", [], wanted, (), {}))
    assert [len(rows) for rows in batches] == [1, 1, 1, 1]
    assert [sweep.configs[0].learning_rate for sweep in trained] == [5e-4, 1.5e-3, 5e-4]
    first, again, _, anew = (without_time([row | {"axis": ""}]) for (row,) in batches)
    assert first == again == anew


def test_trials_run_on_the_given_seeds_only() -> None:
    sweep = figures.sweeps("figure9", "laptop", {})["li_icl"]
    assert with_seeds(sweep, [100, 101, 102]).seeds == [100, 101, 102]


def test_refused_constants_are_far_away_and_do_not_stop_the_search() -> None:
    searched = tiny(axes=(Axis("task_shifts", "beyond what there is, for a test", low=1, high=50, whole=True),))
    (row,) = trials(searched, [{"task_shifts": 40}], "smoke", [100, 101], stage="search")
    assert (row["state"], row["figure9"]) == ("refused", distance.FAR)


def test_a_training_that_diverges_is_far_away_and_does_not_stop_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "train", train)
    points = [{"learning_rate": 1e100}, {"learning_rate": 5e-4}]
    searched = tiny(axes=tiny().axes[1:], amounts={"": {**TINY, "optimiser": "sgd"}})
    rows = trials(searched, points, "smoke", [100, 101], stage="search", figures=["figure8"])
    assert [row["state"] for row in rows] == ["diverged", "complete"]
    assert rows[0]["figure9"] == distance.FAR > rows[1]["figure9"]
    assert [any(name.startswith("claim") for name in row) for row in rows] == [False, True]


# The search


def without_time(rows: Rows) -> Rows:
    return [{name: value for name, value in row.items() if name != "cpu_seconds"} for row in rows]


@pytest.fixture(scope="module")
def unbroken() -> list[Rows]:
    return list(run(tiny(), "smoke"))


def test_the_first_trial_is_that_of_the_defaults_and_all_are_in_range(unbroken: list[Rows]) -> None:
    searched, rows = tiny(), outcome.stage(unbroken[-1], "search")
    assert {axis.name: rows[0][f"constant {axis.name}"] for axis in searched.axes} == searched.defaults()
    assert len(rows) == searched.trials
    assert all(axis.holds(row[f"constant {axis.name}"]) for axis in searched.axes for row in rows)
    assert len({row["constant learning_rate"] for row in rows}) == len(rows)


def test_an_interrupted_search_gives_the_same_rows(unbroken: list[Rows], tmp_path: Path) -> None:
    searched = tiny()
    path, expected = tmp_path / "kept.parquet", identity(searched, "smoke")
    # After the first batch of the search, and in the middle of the slices.
    for stop in (0, len(unbroken) - 3):
        table.write_plain(path, search.frame(unbroken[stop]), provenance.about(identity=expected))
        rows = kept(searched, expected, *table.read_plain(path))
        *_, last = run(searched, "smoke", rows)
        assert without_time(last) == without_time(unbroken[-1])


def test_the_command_also_writes_its_rows_as_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(spaces, "of", lambda system: tiny(smoke=TINY))
    run_search("li_icl", "smoke", 0)
    folder, searched = tmp_path / "results" / "smoke" / "studies", search.small(tiny(smoke=TINY))
    text = (folder / "li_icl.csv").read_text(encoding="utf-8")
    rows = kept(searched, identity(searched, "smoke"), *table.read_plain(folder / "li_icl.parquet"))
    assert [row["stage"] for row in rows].count("search") == searched.trials
    assert outcome.as_text(rows) == text
    assert outcome.chosen(searched, outcome.from_text(searched, text)) == searched.defaults()


def test_rows_of_another_space_are_not_used(unbroken: list[Rows]) -> None:
    rows = search.frame(unbroken[-1])
    assert kept(tiny(), identity(tiny(), "smoke"), rows, {"identity": "another"}) == []
    assert identity(tiny(), "smoke") != identity(tiny(seeds=3), "smoke")
    assert identity(tiny(trials=9), "smoke") == identity(tiny(), "smoke")


def test_slices_through_another_point_are_repeated(unbroken: list[Rows]) -> None:
    rows = unbroken[-1]
    assert search.current(tiny(), rows) == rows
    moved = [row | {"constant learning_rate": 0.123} if row["stage"] == "slice" else row for row in rows]
    # Only the slice along the rate still contains the defaults.
    assert {row["axis"] for row in search.current(tiny(), moved) if row["stage"] == "slice"} == {"learning_rate"}


def test_an_axis_that_is_not_searched_moves_in_its_slice_only() -> None:
    fixed = Axis("context_length", "for a test, apart from the search", choices=(5, 6), searched=False)
    searched = tiny(
        axes=(*tiny().axes, fixed), trials=2, batch=2, finalists=0, amounts={"": {"prompts": 20, "batch": 2}}
    )
    found = [point["context_length"] for point in proposals(searched, [], 4)]
    assert set(found) == {searched.defaults()["context_length"]}
    assert fixed.values(2) == [5, 6]


def test_proposals_depend_on_the_rows_before_and_on_no_global_state() -> None:
    searched = tiny()
    rows = [
        {"stage": "search", "joint": joint, "constant attention_start": start, "constant learning_rate": rate}
        for joint, start, rate in ((1.0, 0.2, 5e-4), (2.0, 0.3, 1e-3), (3.0, 0.4, 2e-3))
    ]
    first = proposals(searched, rows, 3)
    np.random.default_rng(1).random(3)
    assert proposals(searched, rows, 3) == first
    assert proposals(searched, rows[:2], 3) != first


def test_points_of_one_batch_agree_in_shared_constants() -> None:
    searched = tiny(shared=("learning_rate",))
    rows = [{"stage": "search", "joint": 1.0, "constant attention_start": 0.2, "constant learning_rate": 5e-4}]
    for before, rate in (([], searched.defaults()["learning_rate"]), (rows, None)):
        points = proposals(searched, before, 3)
        assert len({point["attention_start"] for point in points}) == 3
        assert {point["learning_rate"] for point in points} == {rate or points[0]["learning_rate"]}


@pytest.mark.slow
def test_the_search_recovers_known_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    """The published curves come from our model: at its constants the distance is zero, which the search approaches."""
    searched = tiny(trials=48, batch=8, finalists=0, values=2)
    planted = {"attention_start": 0.3, "learning_rate": 6e-4}
    (tables,) = measured(searched, [plan(searched, planted, ["figure9"], "smoke", [100, 101])], "smoke")
    assert tables is not None
    ours = tables["figure9"]
    summary = ours[(ours["seed"] == -1) & (ours["observable"] == "attention weight")]
    published = summary.assign(y=summary["value"], c=np.nan, kind="line", scale="linear", reading=0.003)
    monkeypatch.setattr(published_curves, "load", lambda name: published)
    (row,) = trials(searched, [planted], "smoke", [100, 101], stage="search")
    assert row["figure9"] == pytest.approx(0, abs=1e-9)
    found = [rows for rows in run(searched, "smoke") if rows[-1]["stage"] == "search"][-1]
    least = search.best(found, "search")[0]
    assert least["joint"] < found[0]["joint"] / 2
    assert least["constant attention_start"] == pytest.approx(0.3, abs=0.05)


# Results


@pytest.fixture
def by_hand() -> tuple[Space, Rows]:
    searched = tiny(axes=(Axis("learning_rate", "for a test", low=0.1, high=3.0, log=True),))
    slices = [(0.1, 1.5, "contradicted", 100.0), (1.5, 1.0, "supported", 5.0), (3.0, 1.1, "inconclusive", 6.0)]
    rows: Rows = [
        {"stage": "slice", "axis": "" if rate == 1.5 else "learning_rate", "seeds": "110 111", "state": "complete",
         "joint": joint, "constant learning_rate": rate, "figure9": far, "figure9 level": far, "figure9 shape": 0.0,
         "figure9 order": 0.0, "claim A-P1b": said, "claim A-F15": "supported", "cpu_seconds": 1.0}
        for rate, joint, said, far in slices
    ]  # fmt: skip
    search = [{**rows[0], "stage": "search", "axis": "", "constant learning_rate": rate, "joint": joint,
               "seeds": "100 101"}
              for rate, joint in ((1.5, 1.2), (0.2, 2.5), (0.15, 2.0))]  # fmt: skip
    return searched, search + rows


def test_strips_from_rows(by_hand: tuple[Space, Rows]) -> None:
    found = outcome.strips(*by_hand)
    assert found["A-P1b"] == [
        sensitivity.Strip(
            "li_icl", "learning_rate", ((0.1, "contradicted"), (1.5, "supported"), (3.0, "inconclusive")), 1.5
        )
    ]
    assert found["A-P1b"][0].flips
    assert not found["A-F15"][0].flips


def test_a_claim_that_only_loses_its_support_is_not_called_fragile(by_hand: tuple[Space, Rows]) -> None:
    searched, rows = by_hand
    softer = [row | {"claim A-P1b": "inconclusive"} if row["constant learning_rate"] == 0.1 else row for row in rows]
    assert not outcome.strips(searched, softer)["A-P1b"][0].flips


def test_values_that_the_figures_rule_out_make_no_claim_fragile(by_hand: tuple[Space, Rows]) -> None:
    searched, rows = by_hand
    # One and a half is less than twice the chosen point's distance in logarithms; three is more.
    far = [row | {"joint": 3.0} if row["constant learning_rate"] == 0.1 else row for row in rows]
    (strip,) = outcome.strips(searched, far)["A-P1b"]
    assert strip.ruled_out == (0.1,) and not strip.flips


def test_rows_are_restored_from_text(unbroken: list[Rows]) -> None:
    searched, rows = tiny(), unbroken[-1]
    again = outcome.from_text(searched, outcome.as_text(rows))
    for ours, theirs in zip(again, rows, strict=True):
        assert set(ours) == {name for name, value in theirs.items() if value == value}
        for name, value in ours.items():
            exact = isinstance(value, str) or name.startswith("constant ")
            assert value == (theirs[name] if exact else pytest.approx(theirs[name], rel=1e-5))


def test_the_package_has_the_results_of_the_searches() -> None:
    kept = json.loads(sensitivity.FILE.read_text(encoding="utf-8"))
    assert kept == json.loads(json.dumps(outcome.changing()))
