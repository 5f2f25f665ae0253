"""The seed of the published pictures of Li et al.: of the runs of a model, the nearest to its
fitted figures.

A published picture shows one training. Its seed is an unpublished constant like the others, one per
model, and applies to all figures of the model, also to those without published numbers.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from icl import registry
from icl.core.runs import Runs, is_current, load_all
from icl.core.sweep import Sweep
from icl.evidence import distance, published_curves
from icl.pipeline import figures
from icl.pipeline.config import FIRST_SEED
from icl.pipeline.plan import Plan
from studies.search import trained
from studies.space import spaces

TOGETHER = 10
"""Runs trained at a time."""


def other_seeds(model: str, scale: str, seeds: Sequence[int]) -> Iterator[pd.DataFrame]:
    """Yield the gallery's distances of runs with other seeds from the fitted figures of a model,
    TOGETHER at a time: a row per seed, a column per figure, panel and unit.
    """
    for first in range(0, len(seeds), TOGETHER):
        part = seeds[first : first + TOGETHER]
        found: dict[int, dict[str, float]] = {seed: {} for seed in part}
        for name in spaces()[model].fitted:
            (sweep,) = figures.sweeps(name, scale, {}, FIRST_SEED).values()
            runs, published = trained(figures.with_seeds(sweep, part)), published_curves.load(name)
            for index, seed in enumerate(part):
                table = figures.measure(name, {sweep.name: runs.alone(index)}, scale)
                for row in published_curves.distances(table, published):
                    found[seed][f"{name} {row['panel']} {row['unit']}"] = row["median"]
        yield pd.DataFrame.from_dict(found, orient="index").rename_axis("seed")


def distances(names: Iterable[str], scale: str) -> pd.DataFrame:
    """Return every run's distance from each figure, and the joint one: a row per seed."""
    columns: dict[str, dict[int, float]] = {}
    for name in names:
        (sweep,) = figures.sweeps(name, scale, {}, FIRST_SEED).values()
        runs, columns[name] = _runs(sweep, scale), {}
        for index, seed in enumerate(sweep.seeds):
            table = figures.measure(name, {sweep.name: runs.alone(index)}, scale)
            columns[name][seed] = distance.of_figure(table, published_curves.load(name)).whole
    whole = pd.DataFrame(columns)
    return whole.assign(joint=np.log1p(whole).mean(axis=1)).rename_axis("seed")


def _runs(sweep: Sweep, scale: str) -> Runs:
    """Return the runs as `make` stored them for the sweep's figures, or new ones if their code or
    constants are not the current ones.
    """
    plan = Plan(scale)
    shards = {
        Path(plan.weights_file(sweep.name, shard)): plan.shard(sweep.name, shard)
        for shard in plan.shard_names(sweep)
    }
    if all(is_current(path, plan.training_fingerprint(one)) for path, one in shards.items()):
        return load_all({sweep.name: sweep}, [*shards])[sweep.name]
    return trained(sweep)


def report(model: str, scale: str) -> str:
    """Return the distances as text, nearest run first, and the seed that the figures draw."""
    fitted = spaces()[model].fitted
    found = distances(fitted, scale).sort_values("joint")
    (drawn,) = {
        sweep.test.drawn_seed for name in fitted for sweep in registry.figure(name).sweeps(scale)
    }
    listed = found.to_string(float_format="{:.2f}".format)
    return f"{listed}\n{model}: nearest {found.index[0]}, drawn {drawn}"
