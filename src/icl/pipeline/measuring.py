"""From runs to a figure's table: the figure's measure, summaries over runs, and a check against the ledger."""

from collections.abc import Collection, Mapping

from icl.core import discovery
from icl.core.runs import Runs
from icl.core.table import Table, TableError, validate
from icl.evidence.intervals import summarise
from icl.evidence.judging import EXACT


def measure(
    name: str, runs: Mapping[str, Runs], scale: str, declared: Mapping[str, str], medians: Collection[str] = ()
) -> Table:
    """The figure's table: the rows of single runs and their summaries over seeds.

    declared : the observables that the ledger declares, observable -> statistic
    medians : curves that are summarised by the median

    Raises TableError if the declared and the measured observables differ, or if one is computed and not the other.
    """
    table = summarise(name, scale, discovery.figure(name).measure(runs, scale), medians)
    validate(table)
    check_declared(table, declared)
    return table


def check_declared(table: Table, declared: Mapping[str, str]) -> None:
    """Compare the facts of a table with those that the ledger declares.

    Raises TableError for the first one that is missing on either side, or computed on one side only.
    """
    facts = table.runs[table.runs["panel"] == ""]
    computed = facts.groupby("observable", sort=False)["seed"].agg(lambda seeds: bool(seeds.isna().all())).to_dict()
    for observable in [*computed, *declared]:
        name = f"{table.figure}: observable {observable!r}"
        if observable not in declared:
            raise TableError(f"{name} is filled by measure, but claims.yaml does not declare it")
        if observable not in computed:
            raise TableError(f"{name} is declared in claims.yaml, but measure does not fill it")
        if computed[observable] != (declared[observable] == EXACT):
            measured = "computed" if computed[observable] else "measured over runs"
            raise TableError(f"{name} is declared as {declared[observable]}, but {measured}")
