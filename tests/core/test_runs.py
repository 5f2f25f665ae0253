"""Weights on disk: what was written, ours and of the requested constants, or refused by name."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import refused
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from icl.core import runs
from icl.core.runs import Runs, RunsError
from icl.core.state import load_state, save_state
from icl.core.sweep import Sweep
from icl.core.training import start, train
from tests.stopped import same

Maker = Callable[..., Sweep]


def artificial(sweep: Sweep) -> Runs:
    """Return runs whose numbers identify the seed, and their weights also the snapshot."""
    first = 100.0 * np.array(sweep.seeds)[:, None]
    steps = len(sweep.snapshots)
    weights = torch.from_numpy(first + np.arange(steps * 6)).reshape(-1, steps, 2, 3)
    losses = first + np.arange(sweep.snapshots[-1])
    return Runs(sweep, {"W": weights, "a": weights[..., 0].float()}, losses)


def test_what_is_written_is_read(tmp_path: Path, small_sweep: Maker) -> None:
    path = tmp_path / "runs" / "0of1.safetensors"
    made = artificial(small_sweep())
    runs.save(path, made, {"fingerprint": "abc"})
    assert same(runs.load(path, small_sweep()), made)
    about = {"fingerprint": "abc", "format": runs.FORMAT, "sweep": small_sweep().compact()}
    assert runs.metadata(path) == about
    assert runs.is_current(path, "abc")
    assert not runs.is_current(path, "other")
    assert not runs.is_current(tmp_path / "none", "abc")
    assert torch.equal(made.at(3)["W"], made.weights["W"][:, 1])
    assert torch.equal(made.last()["a"], made.weights["a"][:, 2])
    with pytest.raises(ValueError, match=r"small has no snapshot at step 4: \(0, 3, 8\)"):
        made.at(4)


WIDE = {"W": torch.zeros(2, 3, 2, 3)}
SHAPES = "does not hold the 3 runs x 3 snapshots of its own sweep"
OTHER_RUNS = "holds runs with other constants or another shard, not those of small"
Write = Callable[[Path, Runs], object]


def stored(change: Callable[[Runs], Runs]) -> Write:
    return lambda path, made: runs.save(path, change(made), {})


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (stored(lambda made: replace(made, sweep=made.sweep.override({"batch": 5}))), OTHER_RUNS),
        (stored(lambda made: artificial(made.sweep.shard(0, 2))), OTHER_RUNS),
        (
            stored(lambda made: replace(made, sweep=replace(made.sweep, name="x"))),
            "holds runs of the sweep x, not those of small",
        ),
        (stored(lambda made: replace(made, weights=made.weights | WIDE)), SHAPES),
        (stored(lambda made: replace(made, weights={})), SHAPES),
        (stored(lambda made: replace(made, losses=made.losses[:, 1:])), SHAPES),
        (
            stored(lambda made: replace(made, weights={"W": made.weights["W"].int()})),
            "its weights or losses are of another type",
        ),
        (lambda path, made: None, "cannot be read as weights"),
        (lambda path, made: save_file(WIDE, path), "was not written by this package"),
        (lambda path, made: save_file(WIDE, path, {"icl": '{"format": "icl-runs"}'}), "is damaged"),
        (
            lambda path, made: save_state(path, start(made.sweep), "abc"),
            "holds runs of the sweep None",
        ),
    ],
)
def test_other_files_are_refused_by_name(
    write: Write, words: str, tmp_path: Path, small_sweep: Maker
) -> None:
    path = tmp_path / "0of1.safetensors"
    write(path, artificial(small_sweep()))
    with refused(path, words, RunsError):
        runs.load(path, small_sweep())


@given(count=st.integers(1, 13), data=st.data())
def test_merged_shards_are_in_the_original_order(
    small_sweep: Maker, count: int, data: st.DataObject
) -> None:
    whole = artificial(small_sweep(seeds=count))
    shards = data.draw(st.integers(1, count))
    parts = [artificial(whole.sweep.shard(index, shards)) for index in range(shards)]
    assert same(runs.merge(whole.sweep, parts), whole)
    # Training does not depend on the test; the merged runs have the requested one.
    asked = whole.sweep.override({"prompts": 5})
    assert runs.merge(asked, parts).sweep == asked
    others = whole.sweep.override({"batch": 5})
    replaced = [*parts[:-1], artificial(others.shard(shards - 1, shards))]
    refusal = r"small, shard \d+ of \d+: trained with other constants; run again"
    for wrong in (replaced, *([parts[::-1], parts[1:]] if shards > 1 else [])):
        with pytest.raises(RunsError, match=refusal):
            runs.merge(whole.sweep, wrong)
    with pytest.raises(RunsError, match="runs of small: no weights file was given"):
        runs.merge(whole.sweep, [])


def test_files_are_sorted_into_sweeps_by_their_folder(tmp_path: Path, small_sweep: Maker) -> None:
    sweeps = {name: small_sweep(seeds=4, name=name) for name in ("one", "two")}
    paths = [tmp_path / name / f"{index}of2.safetensors" for name in sweeps for index in range(2)]
    for path in paths:
        sweep = sweeps[path.parent.name]
        runs.save(path, artificial(sweep.shard(int(path.name[0]), 2)), {})
    loaded = runs.load_all(sweeps, paths)
    assert all(same(loaded[name], artificial(sweep)) for name, sweep in sweeps.items())


def test_states_of_other_constants_or_code_are_not_restored(
    tmp_path: Path, small_sweep: Maker
) -> None:
    path = tmp_path / "0of1.state.safetensors"
    assert load_state(path, "abc") is None
    save_state(path, start(small_sweep()), "abc")
    assert load_state(path, "abc") is not None
    assert load_state(path, "other") is None
    runs.write_tensors(path, WIDE, {"format": runs.FORMAT, "fingerprint": "abc"})
    assert load_state(path, "abc") is None


def test_diverged_runs_are_named_and_change_no_other(small_sweep: Maker) -> None:
    """Patterns of norm 1e200 make two runs infinite at once; another diverges at its last step."""
    four = train(small_sweep(seeds=2, pattern_norm=[2.0, 1e200]))
    sound = train(small_sweep(seeds=2, pattern_norm=2.0))
    assert runs.diverged(sound) == []
    for index, line in enumerate(found := runs.diverged(four)):
        assert line.startswith(f"sweep small, run {index + 2} (seed {index}, ")
        assert re.search(r"pattern_norm = 1e\+200.*\): not finite", line)
    assert len(found) == 2
    for name, w in sound.weights.items():
        assert torch.equal(four.weights[name][:2], w), name
    sound.weights["W_O"][1, -1] = torch.inf
    (line,) = runs.diverged(sound)
    assert line.startswith("sweep small, run 1 (seed 1")
    assert line.endswith("not finite from step 8 on")
