"""Weights on disk: what was written, ours and of the requested constants, or refused by name."""

import dataclasses
import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from icl.core import runs, state
from icl.core.runs import Runs, RunsError
from icl.core.state import State
from icl.core.sweep import Sweep
from icl.core.training import train
from tests.stopped import same

Maker = Callable[..., Sweep]


def artificial(sweep: Sweep) -> Runs:
    """Return runs whose weights identify run and snapshot."""
    shape = (len(sweep.configs), len(sweep.snapshots))
    weights = torch.arange(shape[0] * shape[1] * 6, dtype=torch.float64).reshape(*shape, 2, 3)
    losses = np.arange(float(shape[0] * sweep.snapshots[-1])).reshape(shape[0], -1)
    return Runs(sweep, {"W": weights, "a": weights[..., 0].float()}, losses)


def part(whole: Runs, index: int, count: int) -> Runs:
    weights = {name: w[index::count] for name, w in whole.weights.items()}
    return Runs(whole.sweep.shard(index, count), weights, whole.losses[index::count])


def test_what_is_written_is_read(tmp_path: Path, small_sweep: Maker) -> None:
    path, made = tmp_path / "runs" / "0of1.safetensors", artificial(small_sweep())
    runs.save(path, made, {"fingerprint": "abc"})
    assert same(runs.load(path, small_sweep()), made)
    assert runs.metadata(path) == {
        "fingerprint": "abc",
        "format": runs.FORMAT,
        "sweep": small_sweep().compact(),
    }
    assert [runs.is_current(one, "abc") for one in (path, tmp_path / "none")] == [True, False]
    assert not runs.is_current(path, "other")
    assert torch.equal(made.at(3)["W"], made.weights["W"][:, 1]) and torch.equal(
        made.last()["a"], made.at(8)["a"]
    )
    with pytest.raises(ValueError, match=r"small has no snapshot at step 4: \(0, 3, 8\)"):
        made.at(4)


def rewritten(path: Path, **metadata: str) -> None:
    """Replace the metadata of a safetensors file."""
    whole = path.read_bytes()
    (length,) = struct.unpack("<Q", whole[:8])
    header = json.loads(whole[8 : 8 + length]) | {"__metadata__": metadata}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + whole[8 + length :])


WIDE = {"W": torch.zeros(2, 3, 2, 3)}
SHAPES = "does not hold the 3 runs x 3 snapshots of its own sweep"
CASES: dict[str, tuple[Callable[[Path, Runs], object], str]] = {
    "half a file": (
        lambda path, made: path.write_bytes(path.read_bytes()[:999]),
        "cannot be read as weights",
    ),
    "no file": (lambda path, made: path.unlink(), "cannot be read as weights"),
    "a pickle": (
        lambda path, made: torch.save({"W": torch.zeros(2)}, path),
        "cannot be read as weights",
    ),
    "foreign": (
        lambda path, made: save_file({"W": torch.zeros(2)}, path),
        "was not written by this package",
    ),
    "a list": (lambda path, made: rewritten(path, icl="[]"), "cannot be read as weights"),
    "deep": (lambda path, made: rewritten(path, icl="[" * 10000), "cannot be read as weights"),
    "long": (lambda path, made: rewritten(path, icl="1" * 5000), "cannot be read as weights"),
    "NaN": (
        lambda path, made: rewritten(path, icl='{"format": "icl-runs", "x": NaN}'),
        "cannot be read as weights",
    ),
    "no seal": (
        lambda path, made: rewritten(path, icl='{"format": "icl-runs", "sweep": {}}'),
        "is damaged",
    ),
    "a state": (
        lambda path, made: state.save_state(path, standing(), "abc"),
        "holds runs of the sweep None, not",
    ),
    "other constants": (
        lambda path, made: runs.save(
            path, Runs(made.sweep.override({"batch": 5}), made.weights, made.losses), {}
        ),
        "holds runs with other constants or another shard, not those of small",
    ),
    "a shard": (
        lambda path, made: runs.save(path, part(made, 0, 2), {}),
        "holds runs with other constants or another",
    ),
    "another sweep": (
        lambda path, made: runs.save(
            path, artificial(dataclasses.replace(made.sweep, name="x")), {}
        ),
        "holds runs of the sweep x, not those of small",
    ),
    "few runs": (
        lambda path, made: runs.save(path, Runs(made.sweep, made.weights | WIDE, made.losses), {}),
        SHAPES,
    ),
    "no weights": (
        lambda path, made: runs.save(path, Runs(made.sweep, {}, made.losses), {}),
        SHAPES,
    ),
    "few losses": (
        lambda path, made: runs.save(path, Runs(made.sweep, made.weights, made.losses[:, 1:]), {}),
        SHAPES,
    ),
    "integers": (
        lambda path, made: runs.save(
            path, Runs(made.sweep, {"W": made.weights["W"].int()}, made.losses), {}
        ),
        "its weights or losses are of another type",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_other_files_are_refused_by_name(case: str, tmp_path: Path, small_sweep: Maker) -> None:
    path, made = tmp_path / "0of1.safetensors", artificial(small_sweep())
    runs.save(path, made, {})
    spoil, words = CASES[case]
    spoil(path, made)
    with pytest.raises(RunsError) as error:
        runs.load(path, small_sweep())
    assert str(error.value).startswith(f"{path}: {words}")
    assert str(error.value).endswith("; delete it and run again") and "\n" not in str(error.value)


# Shards


@given(count=st.integers(1, 13), data=st.data())
def test_merged_shards_are_in_the_original_order(
    small_sweep: Maker, count: int, data: st.DataObject
) -> None:
    whole = artificial(small_sweep(seeds=count))
    shards = data.draw(st.integers(1, count))
    parts = [part(whole, index, shards) for index in range(shards)]
    assert same(runs.merge(whole.sweep, parts), whole)
    asked = dataclasses.replace(whole.sweep, test=dataclasses.replace(whole.sweep.test, prompts=5))
    # Training does not depend on the test; the merged runs have the requested one.
    assert runs.merge(asked, parts).sweep == asked
    other = part(artificial(small_sweep(seeds=count).override({"batch": 5})), shards - 1, shards)
    for wrong in ([*parts[:-1], other], *([parts[::-1], parts[1:]] if shards > 1 else [])):
        with pytest.raises(
            RunsError, match=r"small, shard \d+ of \d+: trained with other constants; run again"
        ):
            runs.merge(whole.sweep, wrong)
    with pytest.raises(RunsError, match="runs of small: no weights file was given"):
        runs.merge(whole.sweep, [])


def test_files_are_sorted_into_sweeps_by_their_folder(tmp_path: Path, small_sweep: Maker) -> None:
    sweeps = {
        name: small_sweep(seeds=4, name=name, batch=size) for name, size in (("one", 5), ("two", 6))
    }
    paths = [tmp_path / name / f"{index}of2.safetensors" for name in sweeps for index in range(2)]
    for path in paths:
        runs.save(path, part(artificial(sweeps[path.parent.name]), int(path.name[0]), 2), {})
    loaded = runs.load_all(sweeps, paths)
    assert all(same(loaded[name], artificial(sweep)) for name, sweep in sweeps.items())


# States


def standing(step: int = 4) -> State:
    tensor = torch.arange(6.0, dtype=torch.float64).reshape(2, 3)
    moments = {"first/W": tensor + 1, "second/W": tensor + 2}
    return State(
        step, {"W": tensor}, moments, {"W": tensor[:, None] + 3}, np.array([[0.1, np.nan]])
    )


def test_states_are_restored_unless_they_are_of_other_constants_or_code(tmp_path: Path) -> None:
    path, expected = tmp_path / "0of1.state.safetensors", standing()
    assert state.load_state(path, "abc") is None
    state.save_state(path, expected, "abc")
    found = state.load_state(path, "abc")
    assert found is not None and found.step == 4 and found.cpu_before > 0
    for group in ("params", "optimiser", "snapshots"):
        ours, theirs = getattr(found, group), getattr(expected, group)
        assert ours.keys() == theirs.keys() and all(
            torch.equal(ours[name], theirs[name]) for name in theirs
        )
    assert np.array_equal(found.losses, expected.losses, equal_nan=True)
    assert found.losses.flags.writeable  # training continues to write there
    assert state.load_state(path, "other") is None
    runs.write_tensors(
        path, {"else/W": torch.zeros(2)}, {"format": runs.FORMAT, "fingerprint": "abc"}
    )
    assert state.load_state(path, "abc") is None


# Diverged runs


def test_diverged_runs_are_named_and_change_no_other(small_sweep: Maker) -> None:
    """Patterns of norm 1e200 make two runs infinite and NaN at once; another diverges at its
    last step.
    """
    four, sound = (
        train(small_sweep(seeds=2, pattern_norm=[2.0, 1e200])),
        train(small_sweep(seeds=2, pattern_norm=2.0)),
    )
    assert runs.diverged(sound) == []
    for index, line in enumerate(runs.diverged(four)):
        assert line.startswith(f"sweep small, run {index + 2} (seed {index}, ")
        assert "pattern_norm = 1e+200" in line and "not finite from step" in line
    assert len(runs.diverged(four)) == 2
    for name, w in sound.weights.items():
        assert torch.equal(four.weights[name][:2], w), name
    sound.weights["W_O"][1, -1] = torch.inf
    (line,) = runs.diverged(sound)
    assert "run 1 (seed 1" in line and line.endswith("not finite from step 8 on")
