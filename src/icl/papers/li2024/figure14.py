"""Figure 14: error under random and magnitude-based pruning of W_O, with the magnitudes of its neurons as bars."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from icl.core.lazy import Picture
from icl.core.runs import Runs, single
from icl.core.sweep import Sweep
from icl.core.table import Table
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.figure import Figure
from icl.papers.li2024 import one_layer_figures, one_training, runs_picture
from icl.papers.li2024.one_training import Choice
from icl.papers.li2024.pruning import COUNTS, Pruning, large_neurons, random_masks, trained_pruning


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the one-layer model, tested at alpha' = 0.6 as in the matching curve of figure 15."""
    return [one_layer_figures.shared_training(scale, one_layer_figures.PruningTest)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Errors under both orders of pruning, sorted row norms, and their gap."""
    trained, pick = one_layer_figures.trained(runs), one_training.choice(single(runs))
    pruning = trained_pruning(trained, trained.sweep.test)
    parts = [*_curves(trained, pruning, pick), *_bars(pruning, pick), *_norms(trained, pruning, pick)]
    return one_training.table(pick, parts)


class Pruned(NamedTuple):
    """Losses without a given number of neurons, name -> values (see Pruning.without)."""

    by_norm: dict[str, np.ndarray]
    at_random: dict[str, np.ndarray]


def _pruned(runs: Runs, pruning: Pruning) -> list[Pruned]:
    """Losses for each of COUNTS; at random the draws are the first axis: (draws, runs) and (draws, runs, prompts)."""
    seeds, neurons, draws = runs.sweep.seeds, pruning.norms.shape[1], one_layer_figures.SCHEDULE.random_prunings
    losses = []
    for count in COUNTS:
        by_norm = pruning.without(pruning.smallest(count))
        of_draws = [pruning.without(random_masks(seeds, neurons, count, draw)) for draw in range(draws)]
        losses.append(Pruned(by_norm, {name: np.stack([draw[name] for draw in of_draws]) for name in by_norm}))
    return losses


def _wrong(pruned: list[Pruned]) -> dict[str, np.ndarray]:
    """How often each answer is wrong, series -> (counts, runs, prompts); the baseline is unpruned."""
    by_norm = np.stack([losses.by_norm["wrong"] for losses in pruned])
    at_random = np.stack([losses.at_random["wrong"].mean(axis=0) for losses in pruned])
    return {"Mag.-based": by_norm, "Random": at_random, "baseline": by_norm[[0, 0]]}


def _curves(trained: Runs, pruning: Pruning, pick: Choice) -> Iterator[pd.DataFrame]:
    drawn, pruned = one_training.alone(trained, pick.index), _pruned(trained, pruning)
    of_drawn = _wrong(_pruned(drawn, trained_pruning(drawn, drawn.sweep.test)))
    for series, wrong in _wrong(pruned).items():
        xs = COUNTS if len(wrong) == len(COUNTS) else (COUNTS[0], COUNTS[-1])
        yield from pick.error_lines(wrong, of_drawn[series], panel="left axis", series=series, x=xs)
    from_20_percent = [
        losses for count, losses in zip(COUNTS, pruned, strict=True) if count >= 0.2 * pruning.norms.shape[1]
    ]
    for name in ("classification error", "hinge loss"):
        shares = [_wins(losses, name) for losses in from_20_percent]
        yield pick.claim(f"share of draws, {name}", np.mean(shares, axis=0))


def _wins(losses: Pruned, name: str) -> np.ndarray:
    """The share of random draws with a larger loss than without the smallest neurons; a tie is half a win: (runs,)."""
    less, equal = losses.by_norm[name] < losses.at_random[name], losses.by_norm[name] == losses.at_random[name]
    share: np.ndarray = (less + equal / 2).mean(axis=0)
    return share


def _bars(pruning: Pruning, pick: Choice) -> Iterator[pd.DataFrame]:
    ordered, indices = np.sort(pruning.norms, axis=-1), range(COUNTS[-1] + 1)
    labels = {"panel": "right axis", "series": "magnitude of neurons"}
    yield from pick.lines("neuron magnitude", ordered.T[list(indices)], x=indices, **labels)


def _norms(trained: Runs, pruning: Pruning, pick: Choice) -> Iterator[pd.DataFrame]:
    """The gap between small and large row norms of W_O, and the growth of the small ones."""
    ordered = np.sort(pruning.norms, axis=-1)
    small = ~large_neurons(pruning.norms)
    initial = trained.at(0)["W_O"].norm(dim=-1).numpy()
    growth = np.average(pruning.norms, axis=-1, weights=small) / np.average(initial, axis=-1, weights=small)
    yield pick.claim("largest ratio of neighbouring norms", (ordered[:, 1:] / ordered[:, :-1]).max(axis=-1))
    yield pick.claim("share of small neurons", small.mean(axis=-1))
    yield pick.claim("norm of small neurons over initial norm", growth)


STYLES = (
    Style("Random", "Random", "b", "x"),
    Style("Mag.-based", "Mag.-based", "r", "o"),
)


@plotting.published
def draw(table: Table) -> Picture:
    """The figure in the published style, from the drawn run; x counts pruned neurons, and the bars lie on top."""
    figure, axes = plotting.canvas((500, 500), (117.75, 392.22, 26.50, 416.72), panel="left axis")
    plotting.baseline(axes, table)
    plotting.error_curves(axes, table, STYLES, band=True)
    x = Axis("Pruning rate", (0, 26), (6, 13, 19, 26), ("10%", "20%", "30%", "40%"))
    y = Axis("Classification error", (1e-3, 0.2), log=True)
    plotting.frame(axes, x, y, font=22, ticks=18)
    plotting.legend(axes, 18, "upper left", (0.046, 1.008), spacing=0.441)
    right = plotting.bars(axes, table, "right axis", "magnitude of neurons", "neuron magnitude")
    plotting.frame(right, x, Axis("Magnitude of neurons", (0, 0.8), (0, 0.4, 0.8)), font=22)
    axes.tick_params(axis="x", labelsize=17.5)
    axes.xaxis.labelpad = 3.5
    return figure


FIGURES = (Figure("figure14", sweeps, measure, draw, runs_picture.of(draw, (plotting.BASELINE, *STYLES))),)
