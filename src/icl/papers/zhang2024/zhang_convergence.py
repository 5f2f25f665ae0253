"""How W^PV and W^KQ of one linear self-attention layer reach equation 4.1 of Zhang et al. (talk page 23)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from icl.core.config import grid
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.papers.zhang2024 import linear_attention as system
from icl.papers.zhang2024 import trainings
from icl.papers.zhang2024.trainings import SEEDS, SKEWED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SPECTRA = {"isotropic": "", "skewed": SKEWED}
COMMON: Mapping[str, list[Any]] = {"context_length": [10], "initial_scale": [0.3]}
SETTLED = {"isotropic": 20.0, "skewed": 600.0}


def sweeps(scale: str) -> list[Sweep]:
    """The flow in logarithmic time for two covariances, from random starts, and training on literal prompts."""
    steps = {"paper": 140, "laptop": 140, "smoke": 34}[scale]
    log_time: dict[str, list[Any]] = {"rate": [0.01], "growth": [{"smoke": 0.5}.get(scale, 0.1)], **COMMON}
    last = {"paper": 500, "laptop": 500, "smoke": 20}[scale]
    seeds, spectra = range(SEEDS[scale]), list(SPECTRA.values())
    flow = grid(system.Config, **log_time, eigenvalues=spectra)
    starts = grid(system.Config, **log_time, eigenvalues=[SKEWED], start=["gaussian"], seed=seeds)
    prompts = grid(
        system.Config, **COMMON, engine=["sampled"], start=["gaussian"], rate=[0.02], prompts=[256], seed=seeds
    )
    often = sorted({0, *np.unique(np.geomspace(1, last, 25).round().astype(int)).tolist()})
    return [
        Sweep("zhang_flow", "zhang_lsa", flow, tuple(range(steps + 1)), system.Test()),
        Sweep("zhang_starts", "zhang_lsa", starts, tuple(range(steps + 1)), system.Test()),
        Sweep("zhang_prompts", "zhang_lsa", prompts, tuple(often), system.Test()),
    ]


def relative(found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Frobenius distances over the norm of what is wanted, (snapshots, a, b) -> (snapshots,)."""
    distances: np.ndarray = np.linalg.norm(found - wanted, axis=(-2, -1)) / np.linalg.norm(wanted)
    return distances


def distances(runs: Runs, run: int) -> dict[str, np.ndarray]:
    """Of both matrices and of c U to equation 4.1, and the excess loss of U and c, at every snapshot."""
    config, (u, c) = runs.sweep.configs[run], system.moving(runs.weights)
    end, (value, key_query) = system.limit(config), matrices(runs, run)
    wanted_value, wanted_key_query = (w.numpy() for w in system.matrices(end))
    own = system.Blocks(u[run], c[run])
    return {
        "W^KQ": relative(key_query, wanted_key_query),
        "W^PV": relative(value, wanted_value),
        "c U": relative(own.c[:, None, None] * own.u, end.c * end.u),
        "excess loss": system.population_loss(own, config) - system.population_loss(end, config),
    }


def matrices(runs: Runs, run: int) -> tuple[np.ndarray, np.ndarray]:
    """W^PV and W^KQ at every snapshot, (snapshots, d + 1, d + 1) each."""
    if "U" not in runs.weights:
        return runs.weights["W_PV"][run].numpy(), runs.weights["W_KQ"][run].numpy()
    u, c = system.moving(runs.weights)
    value, key_query = system.matrices(system.Blocks(u[run], c[run]))
    return value.numpy(), key_query.numpy()


def clock(runs: Runs, run: int) -> np.ndarray:
    """t at the snapshots."""
    times = system.times(runs.sweep.configs[run], runs.sweep.snapshots[-1])
    return times[list(runs.sweep.snapshots)]


def at(time: float, times: np.ndarray, found: Mapping[str, np.ndarray]) -> float:
    """The larger distance of both matrices at the last snapshot before a time; NaN if training ended far from it."""
    if times[-1] < 0.9 * time:
        return float("nan")
    index = int(np.flatnonzero(times <= time)[-1])
    return float(max(found["W^KQ"][index], found["W^PV"][index]))


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Distances to equation 4.1 and excess losses over time, what is conserved, and the matrices at the end."""
    exact_runs = {"zhang_flow": runs["zhang_flow"]}
    return join([trainings.finished(exact_runs, _flow(runs["zhang_flow"])), *_random(runs)])


def _flow(runs: Runs) -> list[pd.DataFrame]:
    parts, balance, rises, excess = [], [], [], []
    u, c = system.moving(runs.weights)
    for run, case in enumerate(SPECTRA):
        found, times = distances(runs, run), clock(runs, run)
        parts += _curves(case, "flow", 0, times, found)
        parts.append(rows(f"distance at t = {SETTLED[case]:g}, {case}", 0, at(SETTLED[case], times, found)))
        balance.append(abs(c[run] ** 2 - np.sum(u[run] ** 2, axis=(-2, -1))).max())
        rises.append(np.diff(found["excess loss"]).max())
        excess.append(found["excess loss"].min())
    for which, square in zip(("W^PV", "W^KQ"), system.matrices(system.limit(runs.sweep.configs[0])), strict=True):
        parts.append(_square(f"{which}, equation 4.1", 0, square.numpy()))
    facts = {
        "largest |c^2 - |U|^2|": np.max(balance),
        "largest rise of the loss": np.max(rises),
        "least excess loss": np.min(excess),
    }
    return [*parts, *(rows(name, 0, value) for name, value in facts.items())]


def _random(runs: Mapping[str, Runs]) -> list[pd.DataFrame]:
    parts, starts, prompts = [], runs["zhang_starts"], runs["zhang_prompts"]
    for run, seed in enumerate(starts.sweep.seeds):
        late = at(2000.0, clock(starts, run), distances(starts, run))
        parts.append(rows("distance from random starts", seed, late))
    for run, seed in enumerate(prompts.sweep.seeds):
        found, (value, key_query) = distances(prompts, run), matrices(prompts, run)
        parts += _curves("isotropic", "prompts", seed, clock(prompts, run), found)
        rest_value, rest_key_query = value[-1].copy(), key_query[-1].copy()
        rest_value[-1, -1] = rest_key_query[:-1, :-1] = 0
        rest = [
            np.linalg.norm(rest) / np.linalg.norm(whole)
            for rest, whole in ((rest_value, value[-1]), (rest_key_query, key_query[-1]))
        ]
        parts += [
            rows("distance of c U, on prompts", seed, found["c U"][-1]),
            rows("norm of the blocks that should not move", seed, max(rest)),
            _square("W^PV, on prompts", seed, value[-1]),
            _square("W^KQ, on prompts", seed, key_query[-1]),
        ]
    return parts


def _curves(case: str, kind: str, seed: int, times: np.ndarray, found: Mapping[str, np.ndarray]) -> list[pd.DataFrame]:
    later = times > 0
    return [
        rows(
            "excess loss" if name == "excess loss" else "distance", seed, values[later], x=times[later],
            panel=f"{'loss' if name == 'excess loss' else 'distance'}, {case}", series=f"{name}, {kind}",
        )
        for name, values in found.items()
    ]  # fmt: skip


def _square(panel: str, seed: int, matrix: np.ndarray) -> pd.DataFrame:
    row, column = np.indices(matrix.shape)
    names = np.array([f"row {i + 1}" for i in range(len(matrix))])
    return rows("entry", seed, matrix, x=column + 1, panel=panel, series=names[row])


LINES = (
    Style("W^KQ, flow", r"$W^{KQ}$", "b"),
    Style("W^PV, flow", r"$W^{PV}$", "r"),
    Style("c U, flow", r"$c\,U$", "g", line="--"),
)
POINTS = (
    Style("W^KQ, prompts", r"$W^{KQ}$, prompts", "b", "x", ""),
    Style("W^PV, prompts", r"$W^{PV}$, prompts", "r", "o", ""),
    Style("c U, prompts", r"$c\,U$, prompts", "g", "d", ""),
)
LOSS = (Style("excess loss, flow", "flow", "k"),)
LOSS_POINTS = (Style("excess loss, prompts", "prompts", "m", "o", ""),)
SQUARES = ("W^PV, on prompts", "W^PV, equation 4.1", "W^KQ, on prompts", "W^KQ, equation 4.1")
TITLES = {"isotropic": r"$\Lambda=I$", "skewed": r"$\Lambda=\mathrm{diag}(2,1,0.5,0.25,0.1)$"}


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """Distances above, losses below, for two covariances; the matrices at the right."""
    figure, first = plotting.canvas((1030, 560), (75, 335, 35, 275), panel="distance, isotropic")
    for index, case in enumerate(SPECTRA):
        left, right = 75 + 300 * index, 335 + 300 * index
        above = first if index == 0 else plotting.add_panel(figure, (left, right, 35, 275), f"distance, {case}")
        below = plotting.add_panel(figure, (left, right, 305, 500), f"loss, {case}")
        sampled = case == "isotropic"
        _lines(above, table, LINES, POINTS if sampled else (), "distance")
        _lines(below, table, LOSS, LOSS_POINTS if sampled else (), "excess loss")
        last = table["x"][table["panel"] == above.get_label()].max()
        time = Axis("Time $t$", (0.01, last), log=True)
        plotting.frame(above, time, Axis("Distance to equation 4.1", (1e-10, 5), log=True), 12, ticks=10)
        plotting.frame(below, time, Axis(r"$L-\min L$", (1e-13, 10), log=True), 12, ticks=10)
        above.set_title(TITLES[case], fontsize=12)
        above.xaxis.label.set_visible(False)
        above.tick_params(labelbottom=False)
        for axes in (above, below):
            axes.yaxis.label.set_visible(index == 0)
            axes.tick_params(labelleft=index == 0)
        if sampled:
            plotting.legend(above, 9, "lower right", (0.98, 0.02), spacing=0.2)
            plotting.legend(below, 9, "lower right", (0.98, 0.02), spacing=0.2)
    for index, name in enumerate(SQUARES):
        _matrix(figure, table, index, name)
    return figure


def _lines(axes: Axes, table: pd.DataFrame, lines: Any, points: Any, observable: str) -> None:
    plotting.curves(axes, table, points, observable, band=observable == "distance")
    plotting.curves(axes, table, lines, observable)
    for line in axes.lines:
        line.set_markersize(4)


def _matrix(figure: Figure, table: pd.DataFrame, index: int, name: str) -> None:
    row, column = divmod(index, 2)
    left, top = 690 + 145 * column, 55 + 240 * row
    axes = plotting.add_panel(figure, (left, left + 125, top, top + 125), name)
    drawn = table[(table["panel"] == name) & (table["statistic"] != "run")].sort_values(["series", "x"])
    matrix = drawn["value"].to_numpy()
    size = round(len(matrix) ** 0.5)
    box = (0.5, size + 0.5, size + 0.5, 0.5)
    image = axes.imshow(matrix.reshape(size, size), vmin=-1.4, vmax=1.4, cmap="RdBu_r", extent=box)
    axes.set_title(name.replace("W^PV", "$W^{PV}$").replace("W^KQ", "$W^{KQ}$"), fontsize=10)
    ticks = range(1, size + 1)
    plotting.frame(axes, Axis("column", ticks=ticks), Axis("row", ticks=ticks), font=9, ticks=8)
    axes.yaxis.label.set_visible(column == 0)
    if index == len(SQUARES) - 1:
        figure.colorbar(image, cax=plotting.add_panel(figure, (972, 982, 55, 420), "<colorbar>"))
