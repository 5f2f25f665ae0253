"""The curves of a table: summaries over a figure's runs, with bands and intervals, made once."""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pandas as pd

from icl.core.table import CURVES, POINT, RUNS, SINGLE, Table, TableError
from icl.evidence.significance import INTERVALS

BAND = 2.0
"""Half-width of the drawn bands in population standard deviations, that of the published bands
(inferred from the digitised bands, whose squared widths are sums of four squares of the error's
step).
"""
PLACE = ["panel", "series", "x", "observable"]


def summarise(
    figure: str, scale: str, measured: pd.DataFrame, medians: Collection[str] = ()
) -> Table:
    """Both tables of a figure from its measured rows.

    A curve has the mean over the runs at a coordinate, its 95 % interval and a band of two standard
    deviations; for observables in `medians`, the median and a band between the quartiles. A NaN is
    never averaged away. Facts, points of a scatter and finished curves are not summarised.

    Raises TableError for two values of one run at one coordinate.
    """
    finished = ~measured["statistic"].isin(["", POINT])
    runs = measured.loc[~finished, list(RUNS)].reset_index(drop=True)
    parts = [measured.loc[finished, list(CURVES)]]
    drawn = set(measured.loc[finished, PLACE].itertuples(index=False, name=None))
    summarised = measured[
        (measured["statistic"] == "") & (measured["panel"] != "") & measured["colour"].isna()
    ]
    if repeated := int(summarised.duplicated([*PLACE, "seed"]).sum()):
        raise TableError(f"{figure}: {repeated} rows repeat {[*PLACE, 'seed']}")
    curves = [
        dict(zip(PLACE, place, strict=True)) | _summary(group, str(place[3]) in medians)
        for place, group in summarised.groupby(PLACE, sort=False, dropna=False)
        if place not in drawn
    ]
    if curves:
        parts.append(pd.DataFrame(curves).reindex(columns=list(CURVES)).astype(CURVES))
    return Table(figure, scale, runs, pd.concat(parts, ignore_index=True))


def _summary(group: pd.DataFrame, median: bool) -> dict[str, Any]:
    """Return a curve's value at one coordinate with its statistic, count, band and interval."""
    values = group["value"].to_numpy()
    count = len(group)
    if count == 1:
        is_exact = bool(group["seed"].isna().all())
        statistic = "exact" if is_exact else SINGLE
        count = int(group["count"].iloc[0])
        value = values[0]
        low = high = value if is_exact else np.nan
        band = low, high
    else:
        statistic = "median" if median else "mean"
        value, low, high = INTERVALS[statistic](values)
        width = BAND * float(np.std(values))
        band = np.quantile(values, [0.25, 0.75]) if median else (value - width, value + width)
    about = {"value": value, "statistic": statistic, "count": count, "low": low, "high": high}
    return about | dict(zip(("band_low", "band_high"), band, strict=True))


def log_slope(x: np.ndarray, y: np.ndarray) -> float:
    """Least-squares slope of log y against log x; NaN if any y is not positive and finite."""
    if not (np.isfinite(y).all() and (y > 0).all()):
        return float("nan")
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def kendall(x: np.ndarray, y: np.ndarray) -> float:
    """Kendall's tau-b between two sequences; 0 if either is constant."""
    from scipy import stats

    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0
    return float(stats.kendalltau(x, y).statistic)


def least_length(errors: np.ndarray, lengths: Sequence[int], enough: float) -> np.ndarray:
    """Return the smallest context length with error below `enough`, NaN if none: (lengths, runs) ->
    (runs,).
    """
    below = errors < enough
    return np.where(below.any(axis=0), np.array(lengths)[below.argmax(axis=0)], np.nan)


def first_step_below(losses: np.ndarray, target: float, window: int) -> np.ndarray:
    """Return the first step at which the mean of the last `window` losses is below `target`, NaN if
    none: (runs, steps) -> (runs,).
    """
    means = np.lib.stride_tricks.sliding_window_view(losses, window, axis=-1).mean(axis=-1)
    below = means < target
    return np.where(below.any(axis=-1), below.argmax(axis=-1) + window, np.nan)


# The bands of Garg et al. 2022 are 5 % and 95 % of the means of 1000 resamples.
RESAMPLES = 1000
TAIL = 0.05


def bootstrap_weights(
    source: np.random.Generator, runs: int, prompts: int, resamples: int = RESAMPLES
) -> np.ndarray:
    """Return the weight of each prompt of each run in each resample, float32 (runs, resamples,
    prompts).

    The weights of a resample sum to 1. Runs are drawn with replacement, and so are the prompts of
    each: with one run this is the bootstrap over prompts, with several the band also has the
    variation between runs. All curves use the same weights, so curves on the same prompts move
    together.
    """
    drawn = source.multinomial(runs, np.full(runs, 1 / runs), resamples)
    out = np.empty((runs, resamples, prompts), dtype=np.float32)
    for run in range(runs):
        out[run] = source.multinomial(prompts * drawn[:, run], np.full(prompts, 1 / prompts))
    out /= runs * prompts
    return out


def percentiles(values: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """5 % and 95 % of the resampled means of values (runs, prompts, points): (points,) each."""
    means = sum(of_run @ part for of_run, part in zip(weights, values, strict=True))
    low, high = np.quantile(means, [TAIL, 1 - TAIL], axis=0)
    return low, high
