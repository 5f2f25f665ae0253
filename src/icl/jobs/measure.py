"""From runs to a figure's table: the figure's measure, summaries over runs, and a check against the ledger."""

import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from icl.core import discovery, provenance, runs, table
from icl.core.files import file_digest
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import Table, TableError, validate
from icl.evidence.intervals import summarise
from icl.evidence.significance import EXACT


def measure(
    figure: str,
    scale: str,
    size: str,
    sweeps: Mapping[str, Sweep],
    weights: Sequence[Path],
    declared: Mapping[str, str],
    medians: Collection[str],
    output: Path,
    fingerprint: str,
) -> None:
    """Measure the weights of a figure's sweeps and write its table; see `measured`."""
    trained = runs.load_all(sweeps, weights)
    diverged = [line for of_sweep in trained.values() for line in runs.diverged(of_sweep)]
    print("\n".join(diverged), end="\n" if diverged else "")
    about = provenance.about(
        fingerprint=fingerprint,
        inputs={path.as_posix(): file_digest(path) for path in weights},
        sweeps=[sweep.plain() for sweep in sweeps.values()],
        diverged=diverged,
    )
    made = measured(figure, trained, scale, size, declared, medians)
    table.write(output, made, about | {"cpu_seconds": time.process_time()})


def measured(
    figure: str, trained: Mapping[str, Runs], scale: str, size: str, declared: Mapping[str, str],
    medians: Collection[str] = (),
) -> Table:  # fmt: skip
    """Return the figure's table: the rows of single runs and their summaries over seeds.

    size : the scale whose sizes the figure has at this scale
    declared : the observables that the ledger declares, observable -> statistic
    medians : curves that are summarised by the median

    Raises TableError if the declared and the measured observables differ, or if one is computed and not the other.
    """
    made = summarise(figure, scale, discovery.figure(figure).measure(trained, size), medians)
    validate(made)
    facts = made.runs[made.runs["panel"] == ""]
    by_name = facts.groupby("observable", sort=False)["seed"]
    computed = {str(name): bool(seeds.isna().all()) for name, seeds in by_name}
    for observable in [*computed, *declared]:
        name = f"{figure}: observable {observable!r}"
        if observable not in declared:
            raise TableError(f"{name} is filled by measure, but claims.yaml does not declare it")
        if observable not in computed:
            raise TableError(f"{name} is declared in claims.yaml, but measure does not fill it")
        if computed[observable] != (declared[observable] == EXACT):
            found = "computed" if computed[observable] else "measured over runs"
            raise TableError(f"{name} is declared as {declared[observable]}, but {found}")
    return made
