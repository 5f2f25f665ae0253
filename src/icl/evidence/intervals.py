"""Intervals over seeds, computed once, in the table."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from icl.core.table import GROUP, SUMMARY_SEED, conform, join
from icl.evidence.significance import INTERVALS

# Drawn bands are mean +- 2 population standard deviations, the width of the published bands (inferred from the
# digitised bands, whose squared widths are sums of four squares of the error's step).
BAND = 2.0


# Replaces NaN in keys, because NaN is unequal to itself.
_NOWHERE = -1e300


def summarise(runs: pd.DataFrame, statistics: Mapping[str, str] | None = None) -> pd.DataFrame:
    """The rows of single runs followed by one summary row per coordinate and observable.

    The interval is over runs. The drawn band is over groups of test prompts if the table has such rows, else over runs.
    A coordinate with only one run gets no summary, and one with a NaN gets NaN: missing values are never averaged away.

    statistics : observable -> mean, median or share; the default is the mean
    """
    key = ["figure", "scale", "panel", "series", "x", "observable", "colour"]
    summaries = []
    single = runs[runs["statistic"] == "run"]
    grouped = {
        labels: group["value"].to_numpy()
        for labels, group in runs[runs["statistic"] == GROUP].fillna({"x": _NOWHERE, "colour": _NOWHERE}).groupby(key)
    }
    for labels, group in single[single.duplicated(key, keep=False)].groupby(key, dropna=False, sort=False):
        values = group["value"].to_numpy()
        named = dict(zip(key, labels, strict=True))
        statistic = (statistics or {}).get(str(named["observable"]), "mean")
        value, low, high = INTERVALS[statistic](values)
        place = tuple(_NOWHERE if label != label else label for label in labels)
        band = BAND * float(np.std(grouped.get(place, values)))
        summaries.append(
            named | {"seed": SUMMARY_SEED, "value": value, "statistic": statistic, "count": len(values),
                     "band_low": value - band, "band_high": value + band, "low": low, "high": high}
        )  # fmt: skip
    return join([runs, conform(pd.DataFrame(summaries))] if summaries else [runs])


def exact(runs: pd.DataFrame) -> pd.DataFrame:
    """The rows of runs without randomness, one per coordinate and observable, followed by their summaries with the
    statistic "exact", whose intervals have zero width.
    """
    return _with_copies(runs, "exact", runs["value"])


def lone(runs: pd.DataFrame) -> pd.DataFrame:
    """The rows of single random runs, followed by summaries without an interval: they can be drawn but not judged."""
    return _with_copies(runs, "single", float("nan"))


def _with_copies(runs: pd.DataFrame, statistic: str, bound: Any) -> pd.DataFrame:
    bounds = {name: bound for name in ("band_low", "band_high", "low", "high")}
    return join([runs, runs.assign(seed=SUMMARY_SEED, statistic=statistic, count=1, **bounds)])


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
    """The smallest context length with an error below `enough`: (lengths, runs) -> (runs,), NaN if there is none."""
    below = errors < enough
    return np.where(below.any(axis=0), np.array(lengths)[below.argmax(axis=0)], np.nan)


def first_step_below(losses: np.ndarray, target: float, window: int) -> np.ndarray:
    """The first step at which the mean of the last `window` losses is below `target`: (runs, steps) -> (runs,).

    NaN for a run that never is.
    """
    means = np.lib.stride_tricks.sliding_window_view(losses, window, axis=-1).mean(axis=-1)
    below = means < target
    return np.where(below.any(axis=-1), below.argmax(axis=-1) + window, np.nan)


# The bands of Garg et al. 2022 are 5 % and 95 % of the means of 1000 resamples.
RESAMPLES = 1000
TAIL = 0.05


def bootstrap_weights(source: np.random.Generator, runs: int, prompts: int, resamples: int = RESAMPLES) -> np.ndarray:
    """The weight of each prompt of each run in each resample, float32 (runs, resamples, prompts).

    The weights of a resample sum to 1. Runs are drawn with replacement, and so are the prompts of each: with one run
    this is the ordinary bootstrap over prompts, with several the band also contains the variation between runs. All
    curves use the same weights, so curves on the same prompts move together.
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
