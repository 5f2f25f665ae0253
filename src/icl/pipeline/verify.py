"""Check that results on disk were made by the current code, constants and data, and from each other.

Every result records its identity (code and constants) and the digests of its inputs. A figure is verified if every link
of this chain holds, from the weights to the picture.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from icl.core import runs, sealed, table
from icl.core.files import file_digest
from icl.core.problem import Problem
from icl.core.sweep import from_compact
from icl.pipeline.plan import Plan

AGAIN = "delete it and run again"


def figures(plan: Plan, names: Iterable[str]) -> Iterator[str]:
    """One line per broken link in the chains of these figures: the file, what is wrong with it and what to do."""
    names = list(names)
    for sweep, shard in dict.fromkeys(pair for name in names for pair in plan.shards_of(name)):
        yield from _with_problems(_weights(plan, sweep, shard))
    for name in names:
        for part in (_table, _verdicts, _pictures):
            yield from _with_problems(part(plan, name))


def figure(plan: Plan, name: str) -> Iterator[str]:
    """The same for one figure."""
    return figures(plan, [name])


def _with_problems(lines: Iterator[str]) -> Iterator[str]:
    """The lines, and the message of a Problem that ends them."""
    try:
        yield from lines
    except Problem as problem:
        yield str(problem)


def _need(*paths: str) -> None:
    """Raise Problem if any of these files is missing."""
    if missing := [path for path in paths if not Path(path).is_file()]:
        raise Problem(f"{', '.join(missing)}: missing; run again")


def _weights(plan: Plan, sweep: str, shard: str) -> Iterator[str]:
    path = Path(plan.weights_file(sweep, shard))
    beside = path.with_suffix(".parquet")
    _need(str(path), str(beside))
    arrays, about = runs.read_arrays(path)
    if about.get("identity") != plan.training_identity(sweep, shard):
        yield f"{path}: was trained by other code or constants; {AGAIN}"
        return
    trained = runs.Runs(from_compact(about["sweep"]), {}, arrays["losses"])
    if not table.read_plain(beside)[0].equals(runs.trajectory(trained)):
        yield f"{beside}: holds other losses than the weights beside it; {AGAIN}"


def _table(plan: Plan, name: str) -> Iterator[str]:
    path = Path(plan.table_file(name))
    _need(str(path))
    _, about = table.read(path, name, plan.scale, plan.measurement_identity(name))
    for file, digest in about.get("inputs", {}).items():
        if not Path(file).is_file() or file_digest(Path(file)) != digest:
            yield f"{path}: was measured from another version of {file}; {AGAIN}"
    if set(about.get("inputs", {})) != set(plan.run_files(name)):
        yield f"{path}: was measured from other files; {AGAIN}"


def _verdicts(plan: Plan, name: str) -> Iterator[str]:
    path = Path(plan.verdict_file(name))
    _need(str(path))
    record = sealed.read(path, "verdicts")
    yield from _made_from_table(plan, name, path, record, plan.judging_identity(name), "judged")


def _pictures(plan: Plan, name: str) -> Iterator[str]:
    path, drawn = Path(plan.record_file(name)), [*plan.pictures(name), plan.print_file(name)]
    _need(str(path), *drawn)
    record = sealed.read(path, "drawing")
    yield from _made_from_table(plan, name, path, record, plan.drawing_identity(name), "drawn")
    for picture in drawn:
        if record.get("pictures", {}).get(picture) != file_digest(Path(picture)):
            yield f"{picture}: differs from what was drawn; {AGAIN}"


def _made_from_table(
    plan: Plan, name: str, path: Path, record: dict[str, object], identity: str, made: str
) -> Iterator[str]:
    if (record.get("figure"), record.get("folder")) != (name, plan.folder):
        yield f"{path}: is of {record.get('figure')}, {record.get('folder')}, not of {name}, {plan.folder}; {AGAIN}"
    elif record.get("identity") != identity:
        yield f"{path}: was {made} by other code, bounds or published data; {AGAIN}"
    elif Path(plan.table_file(name)).is_file() and record.get("table") != file_digest(Path(plan.table_file(name))):
        yield f"{path}: was {made} from another table; {AGAIN}"
