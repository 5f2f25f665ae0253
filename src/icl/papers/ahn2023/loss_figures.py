"""Test losses of linear attention against gradient descent and least squares, over layers and over
examples.

The error of a stack with P is a polynomial in the Gram matrix, of degree 40 for L = 4. One prompt
in about ten thousand, with a largest eigenvalue near 4, can therefore outweigh all others in the
mean of a run. The figures show medians and quartiles over the runs and count the runs that end
above their baseline.

The baselines are gradient descents on R(w) = (1/2n) sum_i (<w, x_i> - y_i)^2: `GD` steps by -eta
grad R(w), `PGD` by -eta Sigma^-1 grad R(w).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from icl.core.lazy import torch
from icl.drawing import own_style
from icl.figure import (
    Axes,
    Figure,
    Picture,
    Rows,
    Style,
    Table,
    Trained,
    curves,
    facts,
    join,
    plotting,
    rows,
)
from icl.papers.ahn2023 import linear_attention as model
from icl.papers.ahn2023 import structured_stacks, trainings
from icl.papers.ahn2023.evaluation import (
    fresh_gram_matrices,
    fresh_losses,
    losses_on,
    selected_losses,
)
from icl.papers.ahn2023.gram_losses import Whitened
from icl.papers.ahn2023.linear_attention import Config, Evaluation

DEPTHS = (1, 2, 3, 4)
GRID = (0.008, 0.01, 0.02, 0.04, 0.08, 0.16)
GRIDS = {"GD": GRID, "PGD": (0.001, 0.002, 0.004, *GRID)}
"""The authors' coarse grids of step sizes, for the gradient summed (not averaged) over examples."""
STEPS_BY_LENGTH = 3

LABELS = {
    "GD": "gradient descent",
    "PGD": "preconditioned",
    "transformer": "transformer",
    "OLS": "least squares",
}
Losses = dict[str, np.ndarray]
"""Series -> losses of the runs."""


def steps(kind: str, step_size: float, depth: int, config: Config) -> Whitened:
    """`depth` equal steps as whitened weights with P = 0: A = -eta Sigma for `GD`, -eta I for
    `PGD`.
    """
    matrix = np.eye(config.dimension) if kind == "PGD" else model.covariance(config)
    a = torch.from_numpy(np.repeat(-step_size * matrix[None], depth, axis=0))
    return Whitened(torch.zeros_like(a), a)


def step_size(kind: str, depth: int, config: Config, count: int, *, on_grid: bool) -> float:
    """Return the step size of least loss on separate prompts, by a bounded search or on the
    authors' grid.
    """
    from scipy.optimize import minimize_scalar

    g = fresh_gram_matrices(config, count, "choose")

    def loss(size: float) -> float:
        return float(losses_on(steps(kind, size, depth, config), g, config))

    if on_grid:
        return min((size * config.context_length for size in GRIDS[kind]), key=loss)
    return minimize_scalar(loss, bounds=(0.01, 2.0), method="bounded", options={"xatol": 1e-3}).x


def as_published(configs: Sequence[Config]) -> list[Config]:
    """Return the published baselines see one example fewer than the transformer."""
    return [replace(config, context_length=config.context_length - 1) for config in configs]


def descents(depth: int, configs: Sequence[Config], test: Evaluation) -> Losses:
    """Losses of both descents, and as published (`official`), with one step size for all steps
    and seeds.
    """
    losses = {}
    for suffix, seen in (("", configs), (" official", as_published(configs))):
        for kind in GRIDS:
            size = step_size(kind, depth, seen[0], test.curve_prompts, on_grid=suffix != "")
            losses[kind + suffix] = fresh_losses(
                (steps(kind, size, depth, c) for c in seen), seen, test.prompts
            )
    return losses


def least_squares_loss(config: Config, count: int) -> float:
    """E |(I - G^+ G) w|^2, the loss of the minimum-norm solution in whitened coordinates with
    w ~ N(0, I).
    """
    g = fresh_gram_matrices(config, count)[0].permute(2, 0, 1).numpy()
    seen = np.linalg.pinv(g, rcond=1e-10, hermitian=True) @ g
    return float(np.square(np.eye(config.dimension) - seen).sum(axis=(1, 2)).mean())


def measure_layers(runs: Trained, scale: str) -> Rows:
    """Log losses on the same fresh prompts per seed, and the differences that the claims bound."""
    first = runs["ahn_sparse_1"].sweep
    configs, test, by_depth = first.configs, first.test, []
    # The best structured stacks are fitted to spectra of the first seed.
    spectra = structured_stacks.spectra(configs[0], test.spectra)
    trained = {name: selected_losses(of_sweep) for name, of_sweep in runs.items()}
    for depth in DEPTHS:
        by_depth.append(losses := descents(depth, configs, test))
        for kind, search in (
            ("sparse", structured_stacks.best_sparse),
            ("relaxed", structured_stacks.best_relaxed),
        ):
            best = [search(depth, spectra).blocks(configs[0].dimension)] * len(configs)
            losses[f"oracle {kind}"] = fresh_losses(best, configs, test.prompts)
        losses["sparse"] = trained[f"ahn_sparse_{depth}"]
        losses["relaxed"] = trained[f"ahn_free_{depth}"] if depth > 1 else losses["sparse"]
    # Series -> (depths, runs)
    log = {series: np.log([losses[series] for losses in by_depth]) for series in by_depth[0]}
    sparse, relaxed, pgd = log["sparse"], log["relaxed"], log["PGD"]
    failed = ~(relaxed < sparse)[1:] * 1.0
    bounded = {
        "least lead of the transformer over preconditioned GD": (pgd - sparse)[1:].min(axis=0),
        "least lead of preconditioned GD over GD": (log["GD"] - pgd)[1:].min(axis=0),
        "|transformer - preconditioned GD|, L = 1": abs(sparse - pgd)[0],
        "least gain per layer, sparse": (sparse[:-1] - sparse[1:]).min(axis=0),
        "least gain per layer, relaxed": (relaxed[:-1] - relaxed[1:]).min(axis=0),
    }
    for index, depth in enumerate(DEPTHS[:3]):
        bounded[f"|log loss - oracle|, L = {depth}"] = abs(sparse - log["oracle sparse"])[index]
    for index, depth in enumerate(DEPTHS[1:3], start=1):
        bounded[f"log loss, relaxed less sparse, L = {depth}"] = (relaxed - sparse)[index]
    x = np.array(DEPTHS)[:, None]
    counted = rows("failed", first.seeds, failed, x=x[1:], panel="depth", series="relaxed")
    return join(
        [curves("log loss", "depth", first.seeds, x, log), counted, facts(first.seeds, bounded)]
    )


@plotting.under_defaults
def draw_layers(table: Table) -> Picture:
    """One panel, with the least losses of the predicted structure as marks."""
    labels = {
        "GD": LABELS["GD"],
        "PGD": LABELS["PGD"],
        "sparse": "transformer, $P=0$",
        "relaxed": "transformer",
    }
    picture, panels = own_style.panels(
        ["depth"], 1, "Test loss of $L$ layers and of $L$ steps", (560, 400)
    )
    axes, styles = panels["depth"], own_style.styles(labels)
    plotting.curves(axes, table, styles, "log loss", band=plotting.pale, **own_style.LINE)
    published_variants(axes, table, styles[:2], "log loss")
    least = [
        style._replace(series=f"oracle {style.series}", marker="x", line="none")
        for style in styles[2:]
    ]
    plotting.curves(axes, table, least, "log loss", markersize=7)
    failed = table.points("depth", "relaxed", "failed")["value"]
    note = (
        f"{failed.sum():.0f} of {len(failed)} trainings with free $P$ end above $P=0$; "
        f"crosses: least loss"
    )
    axes.set_xticks(DEPTHS)
    own_style.axis_labels(axes, "Layers or steps $L$", "log(test loss)", note)
    own_style.name_curves(axes, labels)
    return picture


def published_variants(axes: Axes, table: Table, styles: Sequence[Style], observable: str) -> None:
    """Draw the published variant of curves thin and pale."""
    for style in styles:
        variant = style._replace(series=f"{style.series} official")
        plotting.curves(
            axes, table, [variant], observable, band=plotting.pale, linewidth=1, alpha=0.5
        )


def measure_length(runs: Trained, scale: str) -> Rows:
    """Losses on the same fresh prompts per seed and number of examples, and the values that the
    claims bound.
    """
    by_length: dict[int, Losses] = {}
    for trained in runs.values():
        selected, test = selected_losses(trained), trained.sweep.test
        lengths = np.array([config.context_length for config in trained.sweep.configs])
        for n in np.unique(lengths).tolist():
            configs = [config for config in trained.sweep.configs if config.context_length == n]
            losses = descents(STEPS_BY_LENGTH, configs, test)
            for series, seen in (("OLS", configs), ("OLS official", as_published(configs))):
                losses[series] = np.array(
                    [least_squares_loss(config, test.prompts) for config in seen]
                )
            by_length[n] = losses | {"transformer": selected[lengths == n]}
    seeds, n = sorted({config.seed for config in configs}), np.array(list(by_length))
    # Series -> (lengths, runs)
    losses = {
        series: np.array([of_n[series] for of_n in by_length.values()])
        for series in by_length[n[0]]
    }
    transformer, descent = np.log(losses["transformer"]), np.log(losses["PGD"])
    failed = ~(losses["transformer"] < losses["PGD"]) * 1.0
    bounded = {
        "least lead of the transformer over preconditioned GD, n >= 4": (descent - transformer)[
            n >= 4
        ].min(axis=0),
        "least gain of the transformer per two examples": (transformer[:-1] - transformer[1:]).min(
            axis=0
        ),
    }
    x = n[:, None]
    counted = rows("failed", seeds, failed, x=x, panel="length", series="transformer")
    return join([curves("loss", "length", seeds, x, losses), counted, facts(seeds, bounded)])


@plotting.under_defaults
def draw_length(table: Table) -> Picture:
    """One panel with a logarithmic axis, below which least squares ends."""
    picture, panels = own_style.panels(
        ["length"], 1, "Test loss of three layers and of three steps", (560, 400)
    )
    axes, styles = panels["length"], own_style.styles(LABELS)
    plotting.curves(axes, table, styles, "loss", band=plotting.pale, **own_style.LINE)
    published_variants(
        axes, table, [style for style in styles if style.series != "transformer"], "loss"
    )
    failed = table.points("length", "transformer", "failed")["value"]
    note = f"{failed.sum():.0f} of {len(failed)} trainings end above preconditioned descent"
    axes.set(yscale="log", ylim=(5e-3, 6), xticks=range(2, 21, 2))
    own_style.axis_labels(axes, "Examples $n$", "Test loss", note)
    plotting.edge_arrows(axes)
    own_style.name_curves(axes, LABELS)
    return picture


SPARSE, RELAXED = (
    [f"ahn_sparse_{depth}" for depth in DEPTHS],
    [f"ahn_free_{depth}" for depth in DEPTHS[1:]],
)
FIGURES = (
    Figure("ahn_layers", trainings.sweeps(*SPARSE, *RELAXED), measure_layers, draw_layers),
    Figure(
        "ahn_length",
        trainings.sweeps("ahn_length_short", "ahn_length_long"),
        measure_length,
        draw_length,
    ),
)
