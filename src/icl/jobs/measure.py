"""From runs to a figure's table: measure, summaries over runs, and a check against the ledger."""

import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from icl.core import provenance, runs, table
from icl.core.files import file_digest
from icl.core.runs import Runs
from icl.core.table import Table, TableError, chosen, validate
from icl.evidence.intervals import summarise
from icl.evidence.significance import EXACT

if TYPE_CHECKING:
    from icl.figure import Figure
    from icl.pipeline.plan import Plan


def run(plan: "Plan", name: str) -> None:
    """Measure the weights of a figure's sweeps and write its table; see `measured`."""
    weights = [Path(path) for path in plan.run_files(name)]
    sweeps = plan.sweeps(name)
    trained = runs.load_all(sweeps, weights)
    diverged = [line for of_sweep in trained.values() for line in runs.diverged(of_sweep)]
    print("\n".join(diverged), end="\n" if diverged else "")
    about = provenance.about(
        fingerprint=plan.measurement_fingerprint(name),
        inputs={path.as_posix(): file_digest(path) for path in weights},
        sweeps=[sweep.plain() for sweep in sweeps.values()],
        diverged=diverged,
    )
    made = measured(plan.figure(name), trained, plan.scale, plan.size(name), *plan.declared(name))
    table.write(Path(plan.table_file(name)), made, about | {"cpu_seconds": time.process_time()})


def measured(
    figure: "Figure",
    trained: Mapping[str, Runs],
    scale: str,
    size: str,
    declared: Mapping[str, str],
    medians: Collection[str] = (),
) -> Table:
    """Return the figure's table: the rows of single runs and their summaries over seeds.

    size : the scale whose sizes the figure has at this scale
    declared : the observables that the ledger declares, observable -> statistic
    medians : curves that are summarised by the median

    Raises TableError if the declared and the measured observables differ, or if one is computed and
    not the other.
    """
    made = summarise(figure.name, scale, figure.measure(trained, size), medians)
    validate(made)
    facts = chosen(made.runs, panel="")
    by_name = facts.groupby("observable", sort=False)["seed"]
    computed = {str(name): bool(seeds.isna().all()) for name, seeds in by_name}
    for observable in [*computed, *declared]:
        name = f"{figure.name}: observable {observable!r}"
        if observable not in declared:
            raise TableError(f"{name} is filled by measure, but claims.yaml does not declare it")
        if observable not in computed:
            raise TableError(f"{name} is declared in claims.yaml, but measure does not fill it")
        if computed[observable] != (declared[observable] == EXACT):
            found = "computed" if computed[observable] else "measured over runs"
            raise TableError(f"{name} is declared as {declared[observable]}, but {found}")
    return made
