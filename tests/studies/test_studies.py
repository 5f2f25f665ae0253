"""The searches for unpublished constants: their spaces, trials, interruptions and record, and
the drawn seed.
"""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icl.core.config import canonical
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.evidence import distance, published_curves
from icl.evidence.sensitivity import DRAWS, FILE, Drawn, Search, Searched
from icl.pipeline import figures
from icl.pipeline.config import FIRST_SEED
from studies import search, sensitivity, settings
from studies.__main__ import draw_settings, search_model
from studies.drawn import distances, other_seeds
from studies.space import FOLDER, Axis, Space, record, spaces

RECORDS = {path.stem: record(path) for path in FOLDER.glob("*.csv")}
# 16 coordinates and 8 neurons: every run's matrices start on 64 bytes, as at the papers' sizes (see
# conftest.py).
TINY = {"prompts": 20, "batch": 2, "irrelevant_patterns": 6, "label_dimension": 4}
TINY |= {"neurons": 8, "context_length": 5}
START = Axis(reason="for a test", low=0.1, high=0.4)
RATE = Axis(reason="for a test", low=1e-4, high=3e-3, log=True)


def tiny(**changes: Any) -> Space:
    """Two constants of the one-layer model and figure 9, with trials of a fraction of a second."""
    axes = {"attention_start": START, "learning_rate": RATE}
    about: dict[str, Any] = {"model": "li_icl", "axes": axes, "amounts": {"others": TINY}}
    about |= {"fitted": ("figure9",), "held_out": ("figure15",), "judged": ("figure9",)}
    about |= {"trials": 3, "finalists": 1, "settled_seeds": 2, "values": 2}
    return Space(**about | changes)


# What is searched


@pytest.mark.parametrize("space", spaces().values(), ids=spaces())
def test_no_space_fits_a_held_out_figure_or_lacks_the_value_in_use(space: Space) -> None:
    assert all(published_curves.path(name) for name in space.fitted)
    assert not any(published_curves.path(name) for name in space.held_out)
    for name, value in space.defaults().items():
        axis = space.axes[name]
        assert value in axis.choices if axis.choices else axis.low <= value <= axis.high, name


@pytest.mark.parametrize("name", RECORDS)
def test_the_recorded_slices_go_through_the_values_in_use(name: str) -> None:
    trials = RECORDS[name]
    defaults = spaces()[name].defaults()
    (centre,) = trials[(trials["stage"] == "slice") & (trials["axis"] == "")].to_dict("records")
    assert {constant: centre[f"constant {constant}"] for constant in defaults} == defaults
    assert min(int(seed) for seeds in trials["seeds"] for seed in seeds.split()) >= 100


def test_an_axis_of_some_figures_has_their_value_and_moves_in_them_only() -> None:
    noise = Axis(reason="for a test", low=0.0, high=1.0, figures=("figure14", "figure27"))
    space = tiny(axes={"noise": noise, "attention_start": START})
    point = {"noise": 0.1, "attention_start": 0.2}
    test = figures.sweeps("figure14", "smoke", {})["li_icl_sgd_figures"].test
    assert space.defaults()["noise"] == test.noise > 0
    assert space.moved_in("figure14", point) == point
    assert space.moved_in("figure9", point) == {"attention_start": 0.2}


def test_a_list_of_numbers_is_one_cell_of_a_record_and_a_list_in_a_training() -> None:
    space = spaces()["cheng_functional"]
    assert space.defaults()["deviations"] in space.axes["deviations"].choices
    for text in space.axes["deviations"].choices:
        sweeps = search.planned(space, "smoke", "cheng_heads", {"deviations": text})
        configs = [config for sweep in sweeps.values() for config in sweep.configs]
        assert {canonical(config.deviations) for config in configs} == {text}


def test_a_fixed_training_keeps_its_constants_and_has_no_say_in_the_values_in_use() -> None:
    rate = Axis(reason="for a test", low=0.5, high=3.0, figures=("icl_theorems",))
    space = tiny(axes={"learning_rate": rate}, fixed=("li_icl",))
    usual = figures.sweeps("icl_theorems", "smoke", {"li_icl": TINY})
    assert space.defaults() == {"learning_rate": usual["li_icl_sgd"].configs[0].learning_rate}
    moved = search.planned(space, "smoke", "icl_theorems", {"learning_rate": 3.0})
    assert moved["li_icl"] == usual["li_icl"]
    assert {config.learning_rate for config in moved["li_icl_sgd"].configs} == {3.0}


WHOLE = Axis(reason="for a test", low=10, high=400, whole=True)


@given(st.floats(1e-9, 1e9), st.sampled_from([START, RATE, WHOLE]))
def test_values_lie_in_the_range_and_have_two_digits(value: float, axis: Axis) -> None:
    near = axis.rounded(value)
    assert axis.low <= near <= axis.high
    assert axis.rounded(near) == near == float(f"{near:.2g}")


# Trials


def test_a_trial_at_the_constants_of_the_published_curves_has_no_distance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    space = tiny()
    point = {"attention_start": 0.3, "learning_rate": 6e-4}
    (table,) = search.measured(space, "smoke", point, ["figure9"], search.SEARCH_SEEDS).values()
    curve = table.curves[table.curves["observable"] == "attention weight"]
    published = curve.assign(y=curve["value"], c=np.nan, kind="line", scale="linear", reading=0.003)
    monkeypatch.setattr(published_curves, "load", lambda name: published)
    row = search.trial(space, "smoke", "search", "", point)
    assert (row["state"], row["seeds"]) == ("complete", "100 101")
    assert row["joint"] == pytest.approx(0, abs=1e-9)
    other = search.trial(space, "smoke", "search", "", point | {"attention_start": 0.1})
    assert other["joint"] > 1


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("rate", "state"), [(-1.0, "refused"), (1e100, "diverged")])
def test_invalid_constants_and_diverging_runs_are_far_away_and_do_not_stop(
    rate: float, state: str
) -> None:
    space = tiny(axes={"learning_rate": RATE}, amounts={"others": TINY | {"optimiser": "sgd"}})
    row = search.trial(space, "smoke", "slice", "", {"learning_rate": rate})
    assert (row["state"], row["figure9"]) == (state, distance.FAR)
    assert not any(name.startswith("claim") for name in row)


@pytest.mark.parametrize(
    ("fitted", "spoilt", "judged"), [(True, 1, False), (False, 1, True), (False, 2, False)]
)
def test_few_diverged_runs_count_in_the_verdicts_where_nothing_is_fitted(
    fitted: bool, spoilt: int, judged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three runs."""
    train = search.trained

    def trained(sweep: Sweep) -> Runs:
        runs = train(sweep)
        for weights in runs.weights.values():
            weights[:spoilt, -1] = np.nan
        return runs

    monkeypatch.setattr(search, "trained", trained)
    space = tiny(settled_seeds=3, fitted=("figure9",) if fitted else ())
    row = search.trial(space, "smoke", "slice", "", space.defaults())
    search._trained.cache_clear()
    assert row["state"] == ("complete" if judged else "diverged")
    assert ("claim A-P1b" in row) == judged


def test_an_interrupted_search_gives_the_same_rows(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(spaces(), "li_icl", tiny())
    path = tmp_path / "results/smoke/studies/li_icl.csv"
    search_model("li_icl", "smoke")
    rows = record(path)
    assert rows["stage"].tolist() == [*["search"] * 3, "final", *["slice"] * 5]
    assert rows.loc[0, "constant learning_rate"] == tiny().defaults()["learning_rate"]
    for kept in (2, 6, len(rows)):
        rows[:kept].to_csv(path, index=False)
        search_model("li_icl", "smoke")
        same, expected = (one.drop(columns="cpu_seconds") for one in (record(path), rows))
        pd.testing.assert_frame_equal(same, expected)


def test_the_package_has_the_results_of_the_recorded_slices() -> None:
    assert FILE.read_text("utf-8") == sensitivity.as_json()


def test_a_value_that_the_figures_rule_out_is_not_decisive() -> None:
    slices = [(0.1, 0.5, "contradicted"), (1.5, 0.0, "supported"), (3.0, 0.9, "contradicted")]
    columns = ["constant learning_rate", "joint", "claim A"]
    trials = pd.DataFrame(slices, columns=columns).assign(
        **{"claim B": "supported", "stage": "slice", "seeds": "110 111"},
        axis=["learning_rate", "", "learning_rate"],
    )
    found = sensitivity.searches(tiny(axes={"learning_rate": RATE}), trials)
    outcomes = [(rate, said) for rate, _, said in slices]
    moved = Search("li_icl", "learning_rate", outcomes, 1.5, [3.0])
    tried = ["learning_rate"]
    assert found == {
        "A": Searched("supported", 2, [moved], tried),
        "B": Searched("supported", 2, [], tried),
    }
    assert moved.is_decisive


# Random constants


@given(st.integers(140, 10**6))
def test_random_constants_lie_in_their_ranges_and_follow_from_the_seed(seed: int) -> None:
    space = tiny()
    found = settings.point(space, "smoke", seed)
    assert found == settings.point(space, "smoke", seed) != settings.point(space, "smoke", seed + 1)
    assert all(axis.low <= found[name] <= axis.high for name, axis in space.axes.items())


def test_constants_that_a_figure_refuses_are_drawn_again() -> None:
    half_refused = Axis(reason="for a test", choices=(-1.0, 1e-3))
    space = tiny(axes={"learning_rate": half_refused})
    points = [settings.point(space, "smoke", seed) for seed in settings.SEEDS[:10]]
    assert points == [{"learning_rate": 1e-3}] * 10


def test_interrupted_draws_give_the_same_rows_of_what_the_claims_bound(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(spaces(), "li_icl", space := tiny())
    monkeypatch.setattr(settings, "SEEDS", range(140, 143))
    path = tmp_path / "results/smoke/settings/li_icl.csv"
    draw_settings("li_icl", "smoke")
    rows = record(path)
    assert rows["seed"].tolist() == [140, 141, 142]
    constants = settings.point(space, "smoke", 141)
    runs = {
        key: search.trained(figures.with_seeds(sweep, [141]))
        for key, sweep in figures.sweeps("figure9", "smoke", {"li_icl": constants}).items()
    }
    alone = figures.measure("figure9", runs, "smoke").fact("attention at the end")
    assert alone == {141: pytest.approx(rows["figure9: attention at the end"][1])}
    rows[:1].to_csv(path, index=False)
    draw_settings("li_icl", "smoke")
    same, expected = (one.drop(columns="cpu_seconds") for one in (record(path), rows))
    pd.testing.assert_frame_equal(same, expected)


def test_a_claim_is_judged_over_the_draws_that_train_and_meet_its_conditions() -> None:
    rows = pd.DataFrame({"seed": settings.SEEDS, "figure9: state": "complete"})
    for name in settings.observables("figure9"):
        rows[f"figure9: {name}"] = 0.0
    end = "figure9: attention at the end"
    rows[end] = 0.99
    (claim,) = settings.claims("figure9")
    rows["figure9: attention at the start"] = 0.4

    def outcome() -> Drawn:
        return settings.outcomes(tiny(), rows)[claim.id]

    assert outcome() == Drawn("supported", 40, 40, 40)
    rows.loc[:7, end] = 0.1
    assert outcome()[1:] == (40, 40, 32)
    (condition,) = {one.observable for one in claim.conditions}
    rows.loc[:5, f"figure9: {condition}"] = 1e3
    assert outcome()[1:] == (40, 34, 32)
    rows.loc[6:7, "figure9: state"] = "diverged"
    assert outcome() == Drawn("supported", 40, 32, 32)
    rows[end] = 0.1
    assert outcome() == Drawn("contradicted", 40, 32, 0)


def test_the_package_has_the_results_of_the_recorded_draws() -> None:
    assert DRAWS.read_text("utf-8") == settings.as_json(settings.recorded())


# The drawn run


def test_the_drawn_run_is_chosen_by_the_figure_measured_on_each_run_alone(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = distances(["figure9"], "smoke")
    (sweep,) = figures.sweeps("figure9", "smoke", {}, FIRST_SEED).values()
    assert list(found.index) == sweep.seeds
    measured = figures.measure("figure9", {sweep.name: search.trained(sweep.shard(1, 2))}, "smoke")
    expected = distance.of_figure(measured, published_curves.load("figure9")).whole
    # A run alone and in a batch may differ in the last digits.
    assert found["figure9"].iloc[1] == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(found["joint"], np.log1p(found["figure9"]))


def test_runs_of_other_seeds_have_the_distances_of_the_gallery() -> None:
    parts = list(other_seeds("li_icl", "smoke", range(200, 211)))
    assert [len(part) for part in parts] == [10, 1]
    (sweep,) = figures.sweeps("figure9", "smoke", {}).values()
    runs = {sweep.name: search.trained(figures.with_seeds(sweep, [210]))}
    table = figures.measure("figure9", runs, "smoke")
    (expected,) = published_curves.distances(table, published_curves.load("figure9"))
    found = parts[1].loc[210, "figure9 main absolute difference"]
    # A run alone and in a batch may differ in the last digits.
    assert found == pytest.approx(expected["median"], rel=1e-6)
