"""Check that results on disk were made by the current code, constants and data, and from each
other.

Every result records its fingerprint (code and constants) and digests of its inputs. A figure is
verified if every link of this chain holds, from the weights to the picture.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from icl.core import records, runs, table
from icl.core.config import canonical
from icl.core.files import AGAIN, file_digest
from icl.core.problem import Problem
from icl.pipeline import places
from icl.pipeline.plan import Plan


def figures(plan: Plan, names: Iterable[str]) -> Iterator[str]:
    """One line per broken link in the chains of figures: the file, what is wrong, what to do."""
    names = list(names)
    trainings = dict.fromkeys(pair for name in names for pair in plan.shards_of(name))
    parts = [_weights(plan, *pair) for pair in trainings]
    parts += [part(plan, name) for name in names for part in (_table, _verdicts, _pictures)]
    for lines in parts:
        try:
            yield from lines
        except Problem as problem:
            yield str(problem)


def _need(*paths: str) -> None:
    """Raise Problem if any of these files is missing, or is no file."""
    if lines := places.taken(map(Path, paths)):
        raise Problem(lines[0])
    if missing := [path for path in paths if not Path(path).is_file()]:
        raise Problem(f"{', '.join(missing)}: missing; run again")


def _weights(plan: Plan, sweep: str, shard: str) -> Iterator[str]:
    path = plan.weights_file(sweep, shard)
    _need(path)
    recorded = runs.read_arrays(Path(path))[1].get("fingerprint")
    if recorded != plan.training_fingerprint(plan.shard(sweep, shard)):
        yield f"{path}: was trained by other code or constants, or in another arithmetic; {AGAIN}"


def _table(plan: Plan, name: str) -> Iterator[str]:
    path = plan.table_file(name)
    _need(path)
    _, about = table.read(Path(path), name, plan.scale, plan.measurement_fingerprint(name))
    inputs = about.get("inputs", {})
    for file, digest in inputs.items():
        if not Path(file).is_file() or file_digest(Path(file)) != digest:
            yield f"{path}: was measured from another version of {file}; {AGAIN}"
    if set(inputs) != set(plan.run_files(name)):
        other = "other files, such as those of another number of shards"
        yield f"{path}: was measured from {other}; {AGAIN}"


def _verdicts(plan: Plan, name: str) -> Iterator[str]:
    path = plan.verdict_file(name)
    source = Path(plan.table_file(name))
    _need(path)
    record = records.read(Path(path), "verdicts")
    lines = list(_made_from_table(plan, name, path, record, plan.judging_fingerprint(name)))
    yield from lines
    if not lines and source.is_file():
        # A checksum can be computed again, so what is printed is judged again.
        from icl.jobs.judge import judged

        made = table.read(source, name, plan.scale, plan.measurement_fingerprint(name))
        again = judged(plan.claims(name), *made, plan.published_file(name))
        if canonical(again) != canonical({key: record.get(key) for key in again}):
            yield f"{path}: differs from what its table gives; {AGAIN}"


def _pictures(plan: Plan, name: str) -> Iterator[str]:
    path = plan.record_file(name)
    pictures = plan.pictures(name)
    _need(path, *pictures)
    record = records.read(Path(path), "drawing")
    yield from _made_from_table(plan, name, path, record, plan.drawing_fingerprint(name))
    for picture in pictures:
        if record.get("pictures", {}).get(picture) != file_digest(Path(picture)):
            yield f"{picture}: differs from what was drawn; {AGAIN}"


def _made_from_table(
    plan: Plan, name: str, path: str, record: dict[str, object], fingerprint: str
) -> Iterator[str]:
    source = Path(plan.table_file(name))
    if (record.get("figure"), record.get("folder")) != (name, plan.folder):
        recorded = f"{record.get('figure')}, {record.get('folder')}"
        yield f"{path}: is of {recorded}, not of {name}, {plan.folder}; {AGAIN}"
    elif record.get("fingerprint") != fingerprint:
        yield f"{path}: was made by other code, bounds or published data; {AGAIN}"
    elif source.is_file() and record.get("table") != file_digest(source):
        yield f"{path}: was made from another table; {AGAIN}"
