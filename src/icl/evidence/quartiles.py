"""Quartiles over runs, a band around the median that single failed trainings do not move."""

from collections.abc import Mapping

import pandas as pd

from icl.core.table import conform, join
from icl.evidence.intervals import lone

QUARTILES: Mapping[str, float] = {"lower quartile": 0.25, "upper quartile": 0.75}


def with_quartiles(runs: pd.DataFrame) -> pd.DataFrame:
    """Rows of single runs, followed by their lower and upper quartiles at every coordinate.

    The quartiles are separate observables, `<observable>, lower quartile` and `... upper quartile`; no claim uses them.
    """
    place = runs.groupby(["panel", "series", "x", "observable", "colour"], dropna=False, sort=False)
    seeds = place["seed"].first()
    edges = []
    for name, share in QUARTILES.items():
        edge = place["value"].quantile(share).rename("value").to_frame().assign(seed=seeds).reset_index()
        edges.append(conform(edge.assign(observable=edge["observable"] + f", {name}")))
    return join([runs, lone(join(edges))])
