"""Weights on disk: intact, ours and of the requested constants, or refused by name."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from icl.core import runs, state
from icl.core.runs import Runs, RunsError
from icl.core.state import Keeper, State
from icl.core.sweep import Sweep

Maker = Callable[..., Sweep]


def trained(sweep: Sweep) -> Runs:
    """Runs with artificial weights that identify run and snapshot."""
    shape = (len(sweep.configs), len(sweep.snapshots))
    weights = torch.arange(shape[0] * shape[1] * 6, dtype=torch.float64).reshape(*shape, 2, 3)
    losses = np.arange(float(shape[0] * sweep.snapshots[-1])).reshape(shape[0], -1)
    return Runs(sweep, {"W": weights, "a": weights[..., 0].float()}, losses)


def part(whole: Runs, index: int, count: int) -> Runs:
    weights = {name: w[index::count] for name, w in whole.weights.items()}
    return Runs(whole.sweep.shard(index, count), weights, whole.losses[index::count])


def equal(a: Runs, b: Runs) -> None:
    assert a.sweep == b.sweep
    assert list(a.weights) == list(b.weights)
    for name, w in a.weights.items():
        assert w.dtype == b.weights[name].dtype
        assert torch.equal(w, b.weights[name])
    assert (a.losses == b.losses).all()


@pytest.fixture
def stored(tmp_path: Path, small_sweep: Maker) -> Path:
    path = tmp_path / "runs" / "small" / "0of1.safetensors"
    runs.save(path, trained(small_sweep()), {"identity": "abc"})
    return path


def refused(path: Path, sweep: Sweep, *words: str) -> None:
    with pytest.raises(RunsError) as error:
        runs.load(path, sweep)
    for word in (str(path), *words):
        assert word in str(error.value)


# -- what is written is what is read -----------------------------------------------------------------------------------


def test_round_trip(stored: Path, small_sweep: Maker) -> None:
    equal(runs.load(stored, small_sweep()), trained(small_sweep()))
    about = runs.metadata(stored)
    assert about["identity"] == "abc"
    assert about["sweep"] == small_sweep().compact()


def test_snapshots_are_selected_by_step(small_sweep: Maker) -> None:
    made = trained(small_sweep())
    assert torch.equal(made.at(3)["W"], made.weights["W"][:, 1])
    assert torch.equal(made.last()["W"], made.weights["W"][:, 2])
    with pytest.raises(ValueError, match=r"small has no snapshot at step 4: \(0, 3, 8\)"):
        made.at(4)


# -- damaged and foreign files are named -------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.3, 0.999])
def test_a_truncated_file_is_named(stored: Path, share: float, small_sweep: Maker) -> None:
    whole = stored.read_bytes()
    stored.write_bytes(whole[: int(share * len(whole))])
    refused(stored, small_sweep(), "cannot be read as weights", "delete it and run again")


def test_a_missing_file_is_named(tmp_path: Path, small_sweep: Maker) -> None:
    refused(tmp_path / "none.safetensors", small_sweep(), "cannot be read as weights")


def test_a_pickle_is_not_unpickled(tmp_path: Path, small_sweep: Maker) -> None:
    torch.save({"W": torch.zeros(2)}, tmp_path / "0of1.safetensors")
    refused(tmp_path / "0of1.safetensors", small_sweep(), "cannot be read as weights")


def test_foreign_weights_are_named(tmp_path: Path, small_sweep: Maker) -> None:
    save_file({"W": torch.zeros(2)}, tmp_path / "0of1.safetensors")
    refused(tmp_path / "0of1.safetensors", small_sweep(), "was not written by this package")


def test_weights_of_other_constants_or_another_sweep_are_named(stored: Path, small_sweep: Maker) -> None:
    refused(stored, small_sweep(batch=5), "holds runs with other constants or another shard", "delete it and run again")
    refused(stored, small_sweep().shard(0, 2), "with other constants or another shard")
    refused(stored, small_sweep(name="large"), "of the sweep small, not those of large")


@pytest.mark.parametrize("tensors", [{"W": torch.zeros(2, 3, 2, 3)}, {"W": torch.zeros(3, 2, 2, 3)}])
def test_weights_that_lack_runs_are_named(stored: Path, small_sweep: Maker, tensors: dict[str, torch.Tensor]) -> None:
    made = trained(small_sweep())
    runs.save(stored, replace(made, weights=made.weights | tensors), {})
    refused(stored, small_sweep(), "does not hold the 3 runs x 3 snapshots of its own sweep")
    runs.save(stored, replace(made, losses=made.losses[:, 1:]), {})
    refused(stored, small_sweep(), "does not hold the 3 runs x 3 snapshots of its own sweep")


# -- shards ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "seeds"), [(1, 1), (1, 5), (2, 5), (3, 5), (5, 5), (12, 13)])
def test_merged_shards_are_in_the_original_order(small_sweep: Maker, count: int, seeds: int) -> None:
    whole = trained(small_sweep(seeds=seeds))
    equal(runs.merge(whole.sweep, [part(whole, index, count) for index in range(count)]), whole)


def test_shards_in_another_order_are_refused(small_sweep: Maker) -> None:
    whole = trained(small_sweep(seeds=4))
    with pytest.raises(RunsError, match="runs of small, shard 0 of 2: trained with other constants"):
        runs.merge(whole.sweep, [part(whole, 1, 2), part(whole, 0, 2)])


@pytest.mark.parametrize("change", [{"relevant_fraction": 0.5}, {"batch": 5}])
def test_shards_of_other_constants_are_refused(small_sweep: Maker, change: dict[str, Any]) -> None:
    whole = trained(small_sweep(seeds=4))
    other = trained(small_sweep(seeds=4).override(change))
    with pytest.raises(RunsError, match="runs of small, shard 1 of 2: trained with other constants; run again"):
        runs.merge(whole.sweep, [part(whole, 0, 2), part(other, 1, 2)])


def test_shards_with_another_test_are_accepted(small_sweep: Maker) -> None:
    """The test's constants do not affect training; the merged runs have the requested ones."""
    whole = trained(small_sweep())
    asked = replace(whole.sweep, test=replace(whole.sweep.test, prompts=5))
    assert runs.merge(asked, [whole]).sweep.test.prompts == 5


def test_a_missing_shard_is_refused(small_sweep: Maker) -> None:
    whole = trained(small_sweep(seeds=4))
    with pytest.raises(RunsError, match="other constants"):
        runs.merge(whole.sweep, [part(whole, 0, 2)])
    with pytest.raises(RunsError, match="runs of small: no weights file was given"):
        runs.merge(whole.sweep, [])


def test_load_all_sorts_files_by_their_folder(tmp_path: Path, small_sweep: Maker) -> None:
    sweeps = {
        name: small_sweep(seeds=4, name=name, relevant_fraction=share) for name, share in (("one", 0.1), ("two", 0.2))
    }
    paths = []
    for name, sweep in sweeps.items():
        for index in range(2):
            paths.append(tmp_path / name / f"{index}of2.safetensors")
            runs.save(paths[-1], part(trained(sweep), index, 2), {})
    loaded = runs.load_all(sweeps, paths)
    assert list(loaded) == ["one", "two"]
    for name, sweep in sweeps.items():
        equal(loaded[name], trained(sweep))


def test_the_trajectory_has_a_row_per_run_and_step(small_sweep: Maker) -> None:
    made = trained(small_sweep(seeds=2, relevant_fraction=[0.1, 0.2]))
    frame = runs.trajectory(made)
    assert len(frame) == 4 * 8
    row = frame[(frame["run"] == 3) & (frame["step"] == 5)].iloc[0]
    assert (row["seed"], row["loss"]) == (1, made.losses[3, 5])


# -- states ------------------------------------------------------------------------------------------------------------


def standing(step: int = 4) -> State:
    tensor = torch.arange(6.0, dtype=torch.float64).reshape(2, 3)
    losses = np.array([[0.1, np.nan]])
    moments = {"first/W": tensor + 1, "second/W": tensor + 2}
    return State(step, {"W": tensor}, moments, {"W": tensor[:, None] + 3}, losses)


def test_states_are_restored(tmp_path: Path) -> None:
    path = tmp_path / "0of1.state.safetensors"
    state.save_state(path, standing(), "abc")
    kept = state.load_state(path, "abc")
    assert kept is not None
    assert kept.step == 4
    for ours, theirs in ((kept.params, standing().params), (kept.optimiser, standing().optimiser),
                         (kept.snapshots, standing().snapshots)):  # fmt: skip
        assert list(ours) == list(theirs)
        assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert np.array_equal(kept.losses, standing().losses, equal_nan=True)
    assert kept.losses.flags.writeable  # training continues to write there


def test_states_of_other_constants_or_code_are_ignored(tmp_path: Path, stored: Path) -> None:
    path = tmp_path / "0of1.state.safetensors"
    assert state.load_state(path, "abc") is None
    state.save_state(path, standing(), "abc")
    assert state.load_state(path, "other") is None
    path.write_bytes(path.read_bytes()[:-5])
    assert state.load_state(path, "abc") is None
    state.forget_state(path)
    state.forget_state(path)
    assert not path.exists()


def test_a_state_is_not_taken_for_weights(tmp_path: Path, small_sweep: Maker) -> None:
    state.save_state(tmp_path / "0of1.safetensors", standing(), "abc")
    refused(tmp_path / "0of1.safetensors", small_sweep(), "holds runs of the sweep None")


def test_the_keeper_waits_between_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(state.time, "monotonic", lambda: now)
    keeper = Keeper(tmp_path / "state.safetensors", "abc", seconds=20, last=now)

    def kept_at(time: float, step: int) -> int | None:
        nonlocal now
        now = time
        keeper(standing(step))
        kept = state.load_state(keeper.path, "abc")
        return kept.step if kept else None

    assert [kept_at(*moment) for moment in ((110, 1), (119.9, 2), (120, 3), (125, 4), (141, 5))] == [
        None,
        None,
        3,
        3,
        5,
    ]
