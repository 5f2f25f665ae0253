"""From runs to a figure's table: the figure's measure, summaries over runs, and a check against the ledger."""

from collections.abc import Collection, Mapping

import pandas as pd

from icl.core import discovery
from icl.core.runs import Runs
from icl.core.table import SUMMARY_SEED, TableError, validate
from icl.evidence.intervals import summarise
from icl.evidence.significance import INTERVALS


def measure(
    name: str,
    runs: Mapping[str, Runs],
    scale: str,
    declared: Mapping[str, str],
    medians: Collection[str] = (),
) -> pd.DataFrame:
    """The figure's table: the rows of single runs and their summaries over seeds.

    declared : the observables that the ledger declares, observable -> statistic
    medians : curves that are summarised by the median

    Raises TableError if the declared and the measured observables or their statistics differ.
    """
    rows = discovery.figure(name).measure(runs, scale).assign(figure=name, scale=scale)
    random = {observable: statistic for observable, statistic in declared.items() if statistic in INTERVALS}
    table = summarise(rows, dict.fromkeys(medians, "median") | random)
    validate(table, name)
    check_declared(name, table, declared)
    return table


def check_declared(name: str, table: pd.DataFrame, declared: Mapping[str, str]) -> None:
    """Compare the observables outside of a table's panels with those that the ledger declares.

    Raises TableError for the first one that is missing on either side or has another statistic.
    """
    facts = table[table["panel"] == ""]
    summaries = facts[facts["seed"] == SUMMARY_SEED]
    filled = dict(zip(summaries["observable"], summaries["statistic"], strict=True))
    for observable in facts["observable"].unique():
        if observable not in declared:
            raise TableError(
                f"{name}: observable {observable!r} is filled by measure, but claims.yaml does not declare it"
            )
    for observable, statistic in declared.items():
        if observable not in set(facts["observable"]):
            raise TableError(
                f"{name}: observable {observable!r} is declared in claims.yaml, but measure does not fill it"
            )
        if filled.get(observable, statistic) != statistic:
            raise TableError(
                f"{name}: observable {observable!r} is declared as {statistic}, but summarised as {filled[observable]}"
            )
