"""The search for unpublished constants, and the sensitivity of distances and claims to them.

A *trial* is one point of a model's space (studies.space): its figures are trained and measured by their own modules,
on trial seeds, and compared with the published numbers (icl.evidence.distance). Points of one batch train as one tensor
program. Every trial is one row of one table, in four stages:

    search   batches proposed by Optuna's tree-structured Parzen estimator from all previous rows; the first point is
             the current defaults
    final    the best points of the search again, with new seeds, to avoid selection by chance
    probe    points near the defaults that were chosen to answer a question
    slice    the defaults of the system, and each constant moved alone through its range, with the outcome of every
             claim: one set of runs for the profile of the distance and for the sensitivity of the claims

A batch depends only on the previous rows and its number, so an interrupted search continues from the table as if it had
not stopped. We choose constants by hand, as defaults of the system, from the results of the final stage.
"""

import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from icl.core.config import ConstantError, canonical, digest
from icl.core.runs import Runs
from icl.core.streams import stream
from icl.core.sweep import Sweep
from icl.core.table import SUMMARY_SEED
from icl.core.training import train
from icl.evidence import distance, published_curves
from icl.evidence.distance import Distance
from icl.pipeline import figures as figure_tables
from studies import outcome
from studies.space import Point, Reading, Space

TRIAL_SEED, SETTLED_SEED = 100, 110
"""The first seeds of the search and of the other stages; none is a development seed (0 to 9, or 0 to 19)."""

STARTUP = 0.25
"""The share of the search that is drawn at random from the ranges."""

Row = dict[str, Any]
Wanted = dict[str, Any]
"""The stage, the axis and the point of a trial."""


def identity(space: Space, scale: str) -> str:
    """The hash that all rows of a table share: of axes, figures and amounts, but not of the system's defaults."""
    axes = [[axis.name, axis.words(), axis.searched, axis.figures] for axis in space.axes]
    amounts = {name: dict(point) for name, point in space.amounts.items()}
    sizes = [dict(space.floors), space.seeds, space.settled_seeds]
    return digest([scale, axes, space.fitted, space.judged, amounts, *sizes])


def small(space: Space) -> Space:
    """The space with a few tiny trials, two axes and two figures, for tests."""
    return replace(
        space, axes=space.axes[:2], trials=4, batch=2, seeds=2, finalists=1, settled_seeds=2, values=2,
        amounts={"": space.smoke}, fitted=space.fitted[:2], judged=space.fitted[:2], probes={}, readings={},
    )  # fmt: skip


def run(space: Space, scale: str, rows: Sequence[Row] = ()) -> Iterator[list[Row]]:
    """Continue a search from `rows`; yields all rows after every batch, and finally the complete rows."""
    known = list(rows)
    for stage in (_search, _settled):
        for more in stage(space, scale, known):
            known = known + more
            yield known
    yield known


def _search(space: Space, scale: str, rows: list[Row]) -> Iterator[list[Row]]:
    done = [row for row in rows if row["stage"] == "search"]
    while len(done) < space.trials:
        count = min(space.batch, space.trials - len(done))
        points = proposals(space, done, count)
        more = trials(space, points, scale, range(TRIAL_SEED, TRIAL_SEED + space.seeds), stage="search")
        done += more
        yield more


def _settled(space: Space, scale: str, rows: list[Row]) -> Iterator[list[Row]]:
    trained: dict[str, Runs] = {}
    for wanted, figures in (
        (_finalists(space, rows), space.fitted),
        (_probes(space), space.judged),
        (_slices(space), space.judged),
    ):
        yield from _missing(space, scale, rows, wanted, figures, trained)


def _finalists(space: Space, rows: list[Row]) -> list[Wanted]:
    points = [_point(space, row) for row in best(rows, "search")]
    distinct = {canonical(point): point for point in points}.values()
    return [{"stage": "final", "point": point, "axis": ""} for point in distinct][: space.finalists]


def _probes(space: Space) -> list[Wanted]:
    centre = space.defaults()
    return [{"stage": "probe", "point": centre | dict(p), "axis": name} for name, p in space.probes.items()]


def _slices(space: Space) -> list[Wanted]:
    centre = space.defaults()
    wanted: list[Wanted] = [{"stage": "slice", "point": centre, "axis": ""}]
    for axis in space.axes:
        for value in axis.values(space.values, also=centre[axis.name]):
            if value != centre[axis.name]:
                wanted.append({"stage": "slice", "point": {**centre, axis.name: value}, "axis": axis.name})
    return wanted


def _missing(
    space: Space,
    scale: str,
    rows: list[Row],
    wanted: Sequence[Wanted],
    figures: Sequence[str],
    trained: dict[str, Runs],
) -> Iterator[list[Row]]:
    """The wanted trials without a row, in batches (of one trial if nothing can train together).

    trained : see `measured`
    """
    known = {(row["stage"], row["axis"], canonical(_point(space, row))) for row in rows}
    left = [one for one in wanted if (one["stage"], one["axis"], canonical(dict(one["point"]))) not in known]
    size = space.batch if space.together else 1
    seeds = range(SETTLED_SEED, SETTLED_SEED + space.settled_seeds)
    for start in range(0, len(left), size):
        part = left[start : start + size]
        points, stage = [one["point"] for one in part], part[0]["stage"]
        moved = [name for name in figures if any(space.moves(one["axis"], name) for one in part)]
        new = trials(space, points, scale, seeds, stage=stage, figures=moved, trained=trained)
        yield [row | {"axis": one["axis"]} for row, one in zip(new, part, strict=True)]


def current(space: Space, rows: Iterable[Row]) -> list[Row]:
    """The rows without slices and probes from other points than the current defaults."""
    centre = space.defaults()

    def is_current(row: Row) -> bool:
        free = space.probes.get(row["axis"], ()) if row["stage"] == "probe" else (row["axis"],)
        return all(row[f"constant {name}"] == centre[name] for name in centre if name not in free)

    return [row for row in rows if row["stage"] in ("search", "final") or is_current(row)]


def best(rows: Iterable[Row], stage: str) -> list[Row]:
    """The trials of a stage in order of their distance."""
    return sorted((row for row in rows if row["stage"] == stage), key=lambda row: float(row["joint"]))


def _point(space: Space, row: Row) -> dict[str, Any]:
    return {axis.name: row[f"constant {axis.name}"] for axis in space.axes}


def frame(rows: Sequence[Row]) -> pd.DataFrame:
    """The rows as a table; cells of columns that a stage lacks are empty."""
    return pd.DataFrame(list(rows))


def kept(space: Space, expected: str, table: pd.DataFrame, about: Mapping[str, Any]) -> list[Row]:
    """The rows of an interrupted run that are still valid; none if its space differs."""
    if about.get("identity") != expected:
        return []
    return current(space, outcome.typed(space, [dict(row) for _, row in table.astype(object).iterrows()]))


def progress(rows: Sequence[Row]) -> str:
    """The progress of the run, in one line."""
    nearest = "".join(f", nearest of the search {row['joint']:.4f}" for row in best(rows, "search")[:1])
    return f"{len(rows)} trials, {rows[-1]['stage']}{nearest}"


# Proposals


def proposals(space: Space, rows: Sequence[Row], count: int) -> list[dict[str, Any]]:
    """The next `count` points after the trials in `rows`; the very first point is the current defaults."""
    import optuna

    searched = [axis for axis in space.axes if axis.searched]
    distributions = {axis.name: _distribution(axis) for axis in searched}
    seed = int(stream(space.system, TRIAL_SEED, "calibration", len(rows)).integers(2**31))
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(
            seed=seed, multivariate=True, constant_liar=True, n_startup_trials=round(STARTUP * space.trials)
        )
        study = optuna.create_study(sampler=sampler)
        for row in rows:
            study.add_trial(
                optuna.trial.create_trial(
                    params={axis.name: row[f"constant {axis.name}"] for axis in searched},
                    distributions=distributions,
                    value=float(row["joint"]),
                )
            )
        proposed = [study.ask(distributions).params]
        if space.shared:
            first = proposed[0] if rows else space.defaults()
            fixed = {name: first[name] for name in space.shared if name in first}
            study.sampler = optuna.samplers.PartialFixedSampler(fixed, sampler)
        proposed += [study.ask(distributions).params for _ in range(count - 1)]
    optuna.logging.set_verbosity(verbosity)
    rounded = ({axis.name: axis.rounded(params[axis.name]) for axis in searched} for params in proposed)
    points = [space.defaults() | point for point in rounded]
    return points if rows else [space.defaults(), *points[1:]]


def _distribution(axis: Any) -> Any:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if axis.choices:
        return CategoricalDistribution(axis.choices)
    if axis.whole:
        return IntDistribution(int(axis.low), int(axis.high), log=axis.log)
    return FloatDistribution(axis.low, axis.high, log=axis.log)


# Trials


def trials(
    space: Space,
    points: Sequence[Point],
    scale: str,
    seeds: Sequence[int],
    *,
    stage: str,
    figures: Sequence[str] | None = None,
    trained: dict[str, Runs] | None = None,
) -> list[Row]:
    """One row per point, from the fitted figures and `figures`.

    trained : see `measured`
    """
    start = time.process_time()
    names = space.fitted if figures is None else tuple(dict.fromkeys((*space.fitted, *figures)))
    plans = [plan(space, point, names, scale, seeds) for point in points]
    tables = measured(space, plans, scale, trained)
    seconds = (time.process_time() - start) / len(points)
    return [
        _row(space, point, of_point, list(seeds), stage, figures or ()) | {"cpu_seconds": round(seconds, 3)}
        for point, of_point in zip(points, tables, strict=True)
    ]


Plan = dict[str, dict[str, Sweep]]
"""Figure -> its sweeps."""


def plan(space: Space, point: Point, figures: Sequence[str], scale: str, seeds: Sequence[int]) -> Plan | None:
    """The sweeps of the figures at a point, on these seeds; None for invalid constants."""
    try:
        return {
            name: {
                key: with_seeds(sweep, seeds)
                for key, sweep in figure_tables.sweeps(
                    name, scale, {space.system: {**space.amounts_of(name), **space.moved_in(name, point)}}
                ).items()
            }
            for name in figures
        }
    except ConstantError:
        return None


def with_seeds(sweep: Sweep, seeds: Sequence[int]) -> Sweep:
    """The sweep with its first seeds replaced by `seeds`, without the runs of further seeds."""
    new = dict(zip(sorted(set(sweep.seeds)), seeds, strict=False))
    configs = tuple(replace(config, seed=new[config.seed]) for config in sweep.configs if config.seed in new)
    return replace(sweep, configs=configs)


def measured(
    space: Space, plans: Sequence[Plan | None], scale: str, trained: dict[str, Runs] | None = None
) -> list[dict[str, pd.DataFrame] | None]:
    """The tables of all figures of each plan: empty if a training diverged, None if the plan is None.

    Equal trainings are done once, as in the workflow.

    trained : the previous batch's trainings by digest, for reuse; replaced by those of this batch
    """
    trained = {} if trained is None else trained
    wanted = {
        digest(sweep.training()): sweep
        for of_point in plans
        for sweeps in (of_point or {}).values()
        for sweep in sweeps.values()
    }
    for key in trained.keys() - wanted.keys():
        del trained[key]
    new = [key for key in wanted if key not in trained]
    trained.update(zip(new, train_together([wanted[key] for key in new], space.together), strict=True))
    return [None if of_point is None else _tables(of_point, trained, scale) for of_point in plans]


def _tables(of_point: Plan, trained: Mapping[str, Runs], scale: str) -> dict[str, pd.DataFrame]:
    runs = {
        name: {key: replace(trained[digest(s.training())], sweep=s) for key, s in sweeps.items()}
        for name, sweeps in of_point.items()
    }
    weights = [w for of_figure in runs.values() for one in of_figure.values() for w in one.weights.values()]
    if not all(bool(w.isfinite().all()) for w in weights):
        return {}
    return {name: figure_tables.measure(name, of_figure, scale) for name, of_figure in runs.items()}


def train_together(sweeps: Sequence[Sweep], together: Sequence[str]) -> list[Runs]:
    """Train all sweeps, with those that agree in all constants but `together` and the seed as one tensor program.

    The program trains for the steps of the longest sweep, and every sweep gets its own snapshots.
    """
    groups: dict[str, list[int]] = {}
    for index, sweep in enumerate(sweeps):
        groups.setdefault(_shape(sweep, together), []).append(index)
    done: dict[int, Runs] = {}
    for members in groups.values():
        joined = replace(
            sweeps[members[0]],
            configs=tuple(config for index in members for config in sweeps[index].configs),
            snapshots=tuple(sorted({step for index in members for step in sweeps[index].snapshots})),
        )
        runs, start = train(joined), 0
        for index in members:
            steps = sweeps[index].snapshots
            part, places = slice(start, start + len(sweeps[index].configs)), [joined.snapshots.index(s) for s in steps]
            weights = {name: w[part][:, places].clone() for name, w in runs.weights.items()}
            done[index], start = Runs(sweeps[index], weights, runs.losses[part, : steps[-1]]), part.stop
    return [done[index] for index in range(len(sweeps))]


def _shape(sweep: Sweep, together: Sequence[str]) -> str:
    free = {*together, "seed"}
    fixed = {
        canonical({name: value for name, value in config.items() if name not in free})
        for config in sweep.training()["configs"]
    }
    return canonical([sweep.system, sorted(fixed)])


def _row(
    space: Space,
    point: Point,
    tables: Mapping[str, pd.DataFrame] | None,
    seeds: list[int],
    stage: str,
    judged: Sequence[str],
) -> Row:
    """The row of a trial: constants, distances, readings and, for the figures in `judged`, outcomes."""
    row: Row = {"stage": stage, "axis": "", "seeds": " ".join(map(str, seeds)), "state": "complete"}
    row |= {f"constant {name}": value for name, value in point.items()}
    far = {name: distance_of(space, name, tables[name]) if tables else distance.NOWHERE for name in space.fitted}
    if tables is None:
        row["state"] = "refused"
    elif distance.NOWHERE in far.values():
        row["state"] = "diverged"
    row["joint"] = distance.joint(one.whole for one in far.values()) if far else 0.0
    for name, one in far.items():
        row[name] = one.whole
        row |= {f"{name} {part}": value for part, value in one._asdict().items()}
    for name, reading in space.readings.items():
        row[f"reading {name}"] = read(tables[reading.figure], reading) if tables else float("nan")
    for name in judged:
        for verdict in figure_tables.check(name, tables[name]) if tables else ():
            row[f"claim {verdict.claim}"] = verdict.outcome
    return row


def distance_of(space: Space, name: str, table: pd.DataFrame) -> Distance:
    """The distance of a figure's table from its published numbers."""
    return distance.of_figure(table, published_curves.published(name), space.floors.get(name, published_curves.FLOOR))


def read(table: pd.DataFrame, reading: Reading) -> float:
    """One summarised number of a table, or the median angle of a scatter at an epoch; NaN if there is none."""
    curve = _at(table[table["seed"] == SUMMARY_SEED], reading)
    if len(curve):
        return float(curve["value"].iloc[0])
    rows = table[(table["panel"] == reading.panel) & (table["series"] == reading.series)]
    cloud = rows[(rows["statistic"] == "run") & (rows["colour"] == reading.x)]
    return float(cloud["x"].median()) if len(cloud) else float("nan")


def _at(table: pd.DataFrame, reading: Reading) -> pd.DataFrame:
    """The rows of a table at a reading."""
    near = (table["x"] - reading.x).abs() < published_curves.X_TOLERANCE
    return table[(table["panel"] == reading.panel) & (table["series"] == reading.series) & near]
