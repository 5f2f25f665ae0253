"""Whether results on disk were made by the present code, constants and data, and from each other.

Every result names what it was made by (its identity) and from (digests of its inputs). A figure holds if each link of
this chain does, from the weights to the picture.
"""

from collections.abc import Iterator
from pathlib import Path

from icl.core import runs, sealed, sweep, table
from icl.core.files import file_digest
from icl.core.runs import RunsError
from icl.core.sealed import SealedError
from icl.core.table import TableError
from icl.pipeline.plan import Plan

AGAIN = "delete it and run again"


def figure(plan: Plan, name: str) -> Iterator[str]:
    """One line per broken link of a figure's chain: the file, what is wrong with it and what to do."""
    missing = [path for path in plan.chain(name) if not Path(path).is_file()]
    if missing:
        yield from (f"{path}: is missing; run again" for path in missing)
        return
    try:
        yield from _weights(plan, name)
        yield from _table(plan, name)
        yield from _verdicts(plan, name)
        yield from _pictures(plan, name)
    except (RunsError, TableError, SealedError) as error:
        yield str(error)


def _weights(plan: Plan, name: str) -> Iterator[str]:
    for sweep_name in plan.sweeps(name):
        for shard in plan.shard_names(sweep_name):
            path = Path(plan.results) / "runs" / sweep_name / f"{shard}.safetensors"
            tensors, about = runs.read_tensors(path)
            if about.get("identity") != plan.training_identity(sweep_name, shard):
                yield f"{path}: was trained by other code or constants; {AGAIN}"
                continue
            made = runs.Runs(sweep.from_compact(about["sweep"]), {}, tensors["losses"].numpy())
            beside = path.with_suffix(".parquet")
            if not table.read_plain(beside)[0].equals(runs.trajectory(made)):
                yield f"{beside}: holds other losses than the weights beside it; {AGAIN}"


def _table(plan: Plan, name: str) -> Iterator[str]:
    path = Path(plan.table_file(name))
    _, about = table.read(path, name, plan.scale)
    if about.get("identity") != plan.measurement_identity(name):
        yield f"{path}: was measured by other code, constants or published data; {AGAIN}"
    for file, digest in about.get("inputs", {}).items():
        if not Path(file).is_file() or file_digest(Path(file)) != digest:
            yield f"{path}: was measured from other contents of {file}; {AGAIN}"
    if set(about.get("inputs", {})) != {*plan.run_files(name), *plan.measured_published(name)}:
        yield f"{path}: was measured from other files; {AGAIN}"


def _verdicts(plan: Plan, name: str) -> Iterator[str]:
    path = Path(plan.verdict_file(name))
    kept = sealed.read(path, "verdicts")
    yield from _made_from_table(plan, name, path, kept, plan.judging_identity(name), "judged")


def _pictures(plan: Plan, name: str) -> Iterator[str]:
    path = Path(plan.record_file(name))
    kept = sealed.read(path, "drawing")
    yield from _made_from_table(plan, name, path, kept, plan.drawing_identity(name), "drawn")
    for picture in plan.pictures(name):
        if kept.get("pictures", {}).get(picture) != file_digest(Path(picture)):
            yield f"{picture}: differs from what was drawn; {AGAIN}"


def _made_from_table(
    plan: Plan, name: str, path: Path, kept: dict[str, object], identity: str, made: str
) -> Iterator[str]:
    if (kept.get("figure"), kept.get("folder")) != (name, plan.folder):
        yield f"{path}: is of {kept.get('figure')}, {kept.get('folder')}, not of {name}, {plan.folder}; {AGAIN}"
    elif kept.get("identity") != identity:
        yield f"{path}: was {made} by other code, bounds or published data; {AGAIN}"
    elif kept.get("table") != file_digest(Path(plan.table_file(name))):
        yield f"{path}: was {made} from another table; {AGAIN}"
