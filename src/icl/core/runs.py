"""Trained weights at snapshots, run axis first, and their files."""

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from icl.core.config import canonical
from icl.core.files import AGAIN, FOREIGN, Part, ReadError, intact, reading, stamped, write_aside
from icl.core.lazy import torch
from icl.core.sweep import Sweep

FORMAT = "icl-runs"


class RunsError(ReadError):
    """A weights file is damaged, foreign or of other constants."""


@dataclass(frozen=True)
class Runs:
    """The result of training one sweep.

    weights : name -> tensor (runs, snapshots, ...)
    losses : training loss before each step, float64 (runs, steps)
    """

    sweep: Sweep
    weights: "dict[str, torch.Tensor]"
    losses: np.ndarray

    def at(self, step: int) -> "dict[str, torch.Tensor]":
        """Return the weights after `step` steps: name -> tensor (runs, ...).

        Raises ValueError without a snapshot there.
        """
        if step not in self.sweep.snapshots:
            raise ValueError(
                f"sweep {self.sweep.name} has no snapshot at step {step}: {self.sweep.snapshots}"
            )
        index = self.sweep.snapshots.index(step)
        return {name: w[:, index] for name, w in self.weights.items()}

    def last(self) -> "dict[str, torch.Tensor]":
        return self.at(self.sweep.snapshots[-1])

    def alone(self, index: int, test: Any = None) -> "Runs":
        """One of the runs, with another test if one is given."""
        config = self.sweep.configs[index]
        tested = self.sweep.test if test is None else test
        return Runs(
            dataclasses.replace(self.sweep, configs=(config,), test=tested),
            {name: w[index : index + 1] for name, w in self.weights.items()},
            self.losses[index : index + 1],
        )


def _parts(arrays: Mapping[str, np.ndarray]) -> Iterator[Part]:
    """Yield every tensor's name, type, shape and bytes."""
    for name, array in sorted(arrays.items()):
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        yield [name, f"torch.{array.dtype}", list(array.shape)], data


def write_tensors(path: Path, tensors: "dict[str, torch.Tensor]", about: dict[str, Any]) -> None:
    """Write tensors atomically as safetensors, with `about` and a checksum as metadata."""
    from safetensors.torch import save

    plain = {n: t.detach().contiguous().cpu() for n, t in tensors.items()}
    # In one entry, because safetensors writes several in arbitrary order, and equal runs should
    # give equal files.
    entries = {"icl": canonical(stamped(about, _parts({n: t.numpy() for n, t in plain.items()})))}
    with write_aside(path) as aside:
        # save_file would write to its own temporary file, which a kill would leave behind.
        aside.write_bytes(save(plain, entries))


def read_tensors(path: Path) -> "tuple[dict[str, torch.Tensor], dict[str, Any]]":
    """Return the tensors of a file and its metadata; raises RunsError as `read_arrays` does."""
    arrays, about = read_arrays(path)
    # Copies, because the order of summation in a matrix product depends on the alignment in memory.
    return {name: torch.from_numpy(array).clone() for name, array in arrays.items()}, about


def read_arrays(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the tensors of a file as numpy arrays, and its metadata, without importing torch.

    Raises RunsError if the file is damaged or foreign.
    """
    from safetensors import safe_open

    with reading(path, "weights", RunsError):
        # framework="torch" would open the path a second time and mix two files if it was replaced
        # in between.
        with safe_open(path, framework="np") as file:
            about = json.loads((file.metadata() or {}).get("icl", "{}"))
            arrays = {name: file.get_tensor(name) for name in file.keys()}
        if about.get("format") != FORMAT:
            raise RunsError(f"{path}: {FOREIGN}")
        return arrays, intact(path, about, _parts(arrays), RunsError)


def save(path: Path, runs: Runs, about: dict[str, Any]) -> None:
    """Write runs atomically as safetensors, with their sweep and `about` as metadata."""
    tensors = {f"weights/{n}": w for n, w in runs.weights.items()} | {
        "losses": torch.from_numpy(runs.losses)
    }
    write_tensors(path, tensors, {**about, "format": FORMAT, "sweep": runs.sweep.compact()})


def load(path: Path, sweep: Sweep) -> Runs:
    """Read the weights of a sweep, or of one shard of it.

    Raises RunsError if the file is damaged, foreign, or of another sweep or other constants.
    """
    tensors, about = read_tensors(path)
    stored = about.get("sweep")
    if canonical(stored) != canonical(sweep.compact()):
        held = stored.get("name") if isinstance(stored, dict) else None
        others = "with other constants or another shard"
        what = others if held == sweep.name else f"of the sweep {held}"
        raise RunsError(f"{path}: holds runs {what}, not those of {sweep.name}; {AGAIN}")
    weights = {
        n.removeprefix("weights/"): t for n, t in tensors.items() if n.startswith("weights/")
    }
    losses = tensors.get("losses", torch.empty(0))
    count = len(sweep.configs)
    steps = len(sweep.snapshots)
    shapes = {tuple(w.shape[:2]) for w in weights.values()}
    wanted = {(count, steps)} if weights or sweep.model.optimiser else set()
    if shapes != wanted or tuple(losses.shape) != (count, sweep.snapshots[-1]):
        raise RunsError(
            f"{path}: does not hold the {count} runs x {steps} snapshots of its own sweep; {AGAIN}"
        )
    if losses.dtype != torch.float64 or not all(w.is_floating_point() for w in weights.values()):
        raise RunsError(f"{path}: its weights or losses are of another type; {AGAIN}")
    return Runs(sweep, weights, losses.numpy())


def beside(weights: Path) -> tuple[Path, Path]:
    """Return the files beside a shard's weights: a second name of finished ones, and a training's
    state.
    """
    finished = weights.with_name(f".{weights.stem}.finished.safetensors")
    return finished, weights.with_suffix(".state.safetensors")


def metadata(path: Path) -> dict[str, Any]:
    """Return the metadata of a weights file: sweep, versions, revision, CPU seconds."""
    return read_arrays(path)[1]


def is_current(path: Path, fingerprint: str) -> bool:
    """Return whether the file has intact weights of this fingerprint (code and constants)."""
    try:
        return metadata(path).get("fingerprint") == fingerprint
    except RunsError:
        return False


def merge(sweep: Sweep, shards: Sequence[Runs]) -> Runs:
    """Return the runs of `sweep` from its shards, in the order of shard(0, n) ... shard(n - 1, n).

    Raises RunsError if the shards are not those of `sweep`.
    """
    count = len(shards)
    if not shards:
        raise RunsError(f"runs of {sweep.name}: no weights file was given")
    for index, part in enumerate(shards):
        if part.sweep.trained() != sweep.shard(index, count).trained():
            shard = f"runs of {sweep.name}, shard {index} of {count}"
            raise RunsError(f"{shard}: trained with other constants; run again")
    numbers = np.arange(len(sweep.configs))
    order = np.argsort(np.concatenate([numbers[index::count] for index in range(count)]))
    weights = {
        n: torch.cat([p.weights[n] for p in shards])[torch.from_numpy(order)]
        for n in shards[0].weights
    }
    return Runs(sweep, weights, np.concatenate([p.losses for p in shards])[order])


def load_all(sweeps: Mapping[str, Sweep], paths: Sequence[Path]) -> dict[str, Runs]:
    """Return the runs of every sweep from <sweep>/<index>of<count>.safetensors, shards in order."""
    runs = {}
    for name, sweep in sweeps.items():
        files = [path for path in paths if path.parent.name == name]
        shards = [load(path, sweep.shard(index, len(files))) for index, path in enumerate(files)]
        runs[name] = merge(sweep, shards)
    return runs


def diverged(runs: Runs) -> list[str]:
    """One line per diverged run: its sweep, number, seed, step size, varied constants, and the
    step.
    """
    sweep = runs.sweep
    finite = np.ones((len(sweep.configs), len(sweep.snapshots)), dtype=bool)
    for w in runs.weights.values():
        finite &= torch.isfinite(w).reshape(*w.shape[:2], -1).all(dim=2).numpy()
    lines = []
    for index, config in enumerate(sweep.configs):
        # A step's loss is that of the weights before it; the last weights have none.
        steps = [*np.flatnonzero(~np.isfinite(runs.losses[index]))]
        steps += [*np.array(sweep.snapshots)[~finite[index]]]
        if steps:
            about = [f"seed {config.seed}"] + [
                f"{field.name} = {getattr(config, field.name)!r}"
                for field in dataclasses.fields(config)
                if field.name == "learning_rate" or sweep.varied(field.name)
            ]
            run = f"sweep {sweep.name}, run {index} ({', '.join(about)})"
            lines.append(f"{run}: not finite from step {min(steps)} on")
    return lines


def single(runs: Mapping[str, Runs]) -> Runs:
    """Return the runs of a figure with a single sweep.

    Raises ValueError if it has several.
    """
    if len(runs) != 1:
        raise ValueError(f"runs of {', '.join(runs)}: a figure with a single sweep was expected")
    return next(iter(runs.values()))
