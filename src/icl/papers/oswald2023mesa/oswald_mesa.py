"""Test loss over training, and mean squared error against sequence length (von Oswald et al. 2023,
talk p31 B and C).

Both figures compare linear attention and the mesa layer, from the same trainings, with gradient
descent or RevAlg-1.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from icl.core.lazy import Tensor, torch
from icl.drawing import own_style
from icl.evidence.errors import mean_curve
from icl.figure import (
    Axis,
    Figure,
    Picture,
    Rows,
    Runs,
    Style,
    Sweep,
    Table,
    Trained,
    grid,
    join,
    plotting,
    rows,
)
from icl.models.optimisers import Params
from icl.papers.oswald2023mesa.layers import Layer, Maps, linear_layer, mesa_layer, products, tokens
from icl.papers.oswald2023mesa.one_layer import (
    MODEL,
    PART_SIZE,
    Config,
    Evaluation,
    evaluation_sequences,
)

SEEDS = {"paper": 10, "laptop": 5, "smoke": 2}
# With a quarter of the batch, the losses after training are larger by 0.001 (Mesa) and 0.008 (trial
# seed 100).
BATCH = {"paper": 256, "laptop": 64, "smoke": 4}
# The published curves have a point every 100 steps until 3400. At the smoke scale points are one
# step apart but drawn 100 apart.
POINTS, APART = 35, 100
EVERY = {"paper": 100, "laptop": 100, "smoke": 1}
# The points at which RevAlg-1 is taken from linear-SA, after 2500 steps, and from which on it is
# compared.
REV_ALG, CLOSE = 25, 15
# Test sequences of the loss, 30 batches: with 10, as in the paper's code, the untrained loss has an
# error of 0.01. For Mesa, whose loss varies little between sequences and is expensive, those 10
# suffice.
LOSS_SEQUENCES, MESA_SEQUENCES = 7680, 2560
# Test sequences of the errors by position, 100 batches: one gives the error at the last position
# only to 0.1. Five batches per run are in the band, of 256 sequences each, as in the paper's code.
LENGTH_SEQUENCES, BAND_BATCHES, BAND_SIZE = 25600, 5, 256
# Other scales have fewer sequences by this factor.
FEWER = {"paper": 1, "laptop": 4, "smoke": 400}
# Sequences of twice the training length, on which errors are either small or far above that of the
# prediction 0.
LONGER_SEQUENCES = 1280


def sweeps(scale: str, sequences: int) -> list[Sweep]:
    """Return the trainings of linear-SA and Mesa, tested on `sequences` fresh ones per seed at
    the paper scale.
    """
    shared = {"batch": [BATCH[scale]], "seed": range(SEEDS[scale])}
    configs = {
        "linear": grid(Config, **shared),
        "mesa": grid(
            Config, layer=["mesa"], heads=[4], learning_rate=[2e-3], decay=[0.1], **shared
        ),
    }
    test = Evaluation(sequences=sequences // FEWER[scale])
    snapshots = tuple(range(0, EVERY[scale] * POINTS, EVERY[scale]))
    return [
        Sweep(f"oswald_mesa_{layer}", MODEL, own, snapshots, test) for layer, own in configs.items()
    ]


def weights_at(runs: Runs, run: int, point: int) -> Params:
    """Return the weights of one run at a snapshot."""
    return {name: w[run, point] for name, w in runs.weights.items()}


def gradient_descent(config: Config, step_size: float) -> Maps:
    """One step of gradient descent from W = 0, y_t = step_size sum_{s <= t} x_s (x_{s-1} . x_t),
    as one linear head.
    """
    d = config.dimension
    maps = Maps(torch.zeros(1, 2 * d, 2 * d), torch.zeros(1, d, 2 * d))
    maps.key_query[0, d:, :d] = torch.eye(d)
    maps.value[0, :, :d] = step_size * torch.eye(d)
    return maps


def rev_alg(maps: Maps) -> Maps:
    """RevAlg-1: every d x d block of the maps is replaced by its mean diagonal, 12 numbers for
    two heads.
    """
    d, unit = maps.value.shape[-2], torch.eye(maps.value.shape[-2], dtype=maps.value.dtype)
    blocks = (matrix.reshape(len(matrix), -1, d, matrix.shape[-1] // d, d) for matrix in maps)
    return Maps(
        *(torch.kron(each.diagonal(dim1=2, dim2=4).mean(dim=-1), unit[None]) for each in blocks)
    )


def interpolated(one: Maps, other: Maps) -> Maps:
    """Return the mean of two layers, map by map."""
    return Maps(*((a + b) / 2 for a, b in zip(one, other, strict=True)))


def position_errors(layer: Layer, x: Tensor, config: Config) -> Tensor:
    """1/2 |x_{t+1} - y_t|^2 by position, averaged over batches of the band's size, (batches, T)."""
    means = []
    for batch in torch.split(x, BAND_SIZE):
        y = torch.cat([layer(tokens(part)) for part in torch.split(batch, PART_SIZE)])
        error = y.clamp(-config.output_clip, config.output_clip) - batch[:, 1:]
        means.append(error.square().sum(dim=-1).mean(dim=0) / 2)
    return torch.stack(means)


def least_squares_loss(config: Config) -> np.ndarray:
    """d/6 (1 - t/d) for t < d and then 0, the loss of least squares after t noiseless pairs, (T,).

    Least squares is exact on the span of the t states seen. The direction of the next state is
    random, so the fraction 1 - t/d of its mean square lies outside; E |x|^2 / 2 = d/6 for x ~ U(-1,
    1)^d.
    """
    seen = np.arange(config.length)
    return config.dimension / 6 * np.maximum(1 - seen / config.dimension, 0)


# The loss over training


def measure_loss(runs: Trained, scale: str) -> Rows:
    """Losses at every snapshot of every seed, and the values that the claims bound."""
    linear, mesa = runs["oswald_mesa_linear"], runs["oswald_mesa_mesa"]
    parts = []
    for run, config in enumerate(linear.sweep.configs):
        losses = linear_losses(linear, run)
        x = evaluation_sequences(config, mesa.sweep.test)[:MESA_SEQUENCES]
        layers = [
            mesa_layer(weights_at(mesa, run, point)) for point in range(len(mesa.sweep.snapshots))
        ]
        means = [position_errors(layer, x, mesa.sweep.configs[run]).mean() for layer in layers]
        losses["Mesa"] = np.array(means, dtype=float)
        for name, values in losses.items():
            steps = APART * np.arange(len(values))
            parts.append(rows("loss", config.seed, values, x=steps, panel="main", series=name))
        trained = losses["linear-SA"]
        distance = abs(losses["Interpolation"] - trained)[CLOSE:].max()
        parts.append(
            rows(
                "loss of RevAlg-1 over linear-SA", config.seed, losses["RevAlg-1"][-1] / trained[-1]
            )
        )
        parts.append(
            rows("largest |Interpolation - linear-SA| from step 1500", config.seed, distance)
        )
    return join(parts)


def linear_losses(linear: Runs, run: int) -> dict[str, np.ndarray]:
    """Losses of RevAlg-1, Interpolation and linear-SA at every snapshot."""
    config, points = linear.sweep.configs[run], len(linear.sweep.snapshots)
    x = evaluation_sequences(config, linear.sweep.test)

    def loss(maps: Maps) -> float:
        return float(position_errors(linear_layer(maps), x, config).mean())

    trained = [products(weights_at(linear, run, point)) for point in range(points)]
    few = rev_alg(trained[REV_ALG])
    return {
        "RevAlg-1": np.full(points, loss(few)),
        "Interpolation": np.array([loss(interpolated(each, few)) for each in trained]),
        "linear-SA": np.array([loss(each) for each in trained]),
    }


# Errors by position


def measure_length(runs: Trained, scale: str) -> Rows:
    """Errors by position at the end of training, and the values that the claims bound."""
    sweep = runs["oswald_mesa_linear"].sweep
    longer = [replace(config, length=2 * config.length) for config in sweep.configs]
    fewer = replace(sweep.test, sequences=min(sweep.test.sequences, LONGER_SEQUENCES))
    errors = errors_by_series(runs, sweep.configs, sweep.test)
    mse, beyond = (
        {name: of_runs.mean(axis=1) for name, of_runs in each.items()}
        for each in (errors, errors_by_series(runs, longer, fewer))
    )
    mesa, config = mse["Mesa"], sweep.configs[0]
    from_descent = abs(mse["linear-SA"] - mse["GD_exact-1"])
    bounded = {
        "largest |linear-SA - GD|, t < 40": from_descent[:, :40],
        "largest |linear-SA - GD|, t >= 40": from_descent[:, 40:],
        "largest |Mesa - least squares|, t <= 9": abs(mesa - least_squares_loss(config))[:, :10],
        "MSE of Mesa at t = 10": mesa[:, 10:11],
        "largest MSE of Mesa, t >= 15": mesa[:, 15:],
        "largest MSE of Mesa beyond the training length": beyond["Mesa"][:, config.length :],
        "MSE of linear-SA at twice the training length": beyond["linear-SA"][:, -1:],
    }
    # A length may be too short for some positions.
    parts = [
        rows(name, sweep.seeds, e.max(axis=1) if e.size else np.nan) for name, e in bounded.items()
    ]
    for name, of_runs in errors.items():
        groups = of_runs[:, :BAND_BATCHES].reshape(-1, config.length).T
        x = np.arange(config.length)
        parts += mean_curve("MSE", sweep.seeds, mse[name].T, groups, panel="main", series=name, x=x)
    return join(parts)


def errors_by_series(
    runs: Trained, configs: Sequence[Config], test: Evaluation
) -> dict[str, np.ndarray]:
    """Errors of every series on the same sequences of the length T in `configs`, (runs, batches,
    T).
    """
    errors: dict[str, list[np.ndarray]] = {"GD_exact-1": [], "Mesa": [], "linear-SA": []}
    for run, config in enumerate(configs):
        x = evaluation_sequences(config, test)
        mesa, linear = (
            weights_at(runs[f"oswald_mesa_{layer}"], run, -1) for layer in ("mesa", "linear")
        )
        gd = gradient_descent(config, test.gd_step_size)
        layers = (linear_layer(gd), mesa_layer(mesa), linear_layer(products(linear)))
        for of_series, layer in zip(errors.values(), layers, strict=True):
            of_series.append(position_errors(layer, x, config).numpy())
    return {name: np.stack(of_series) for name, of_series in errors.items()}


# Drawing

GD = Style("GD_exact-1", r"GD$_{exact}$-1", "#d75808")
# The published lines are solid but for one; dashes tell them apart in grey print.
_, DASHED, DOTTED, DASHED_AND_DOTTED, *_ = (line for *_, line in own_style.CYCLE)
MESA = Style("Mesa", "Mesa", "#be1286", line=DASHED_AND_DOTTED)
LINEAR = Style("linear-SA", "linear-SA", "#2d964d", line=DOTTED)
REV_ALG_1 = Style("RevAlg-1", "RevAlg-1", "#7160ab")
INTERPOLATION = Style("Interpolation", "Interpolation", "#d72422", line=DASHED)
# Letter of the panel -> observable, styles, x and y.
PANELS = {
    "B": (
        "loss",
        (REV_ALG_1, INTERPOLATION, MESA, LINEAR),
        Axis("Training steps", (-160, 3570), (0, 2000), ("1", "2000")),
        Axis("Test Loss", (-0.05, 1.6), (0, 0.5, 1, 1.5)),
    ),
    "C": (
        "MSE",
        (GD, MESA, LINEAR),
        Axis("Sequence length $t$", (0, 50), (0, 20, 40)),
        Axis("MSE", (-0.09, 1.8), (0, 0.5, 1, 1.5)),
    ),
}


@plotting.under_defaults
def draw(table: Table, letter: str) -> Picture:
    """Draw a published panel, with bands of one standard deviation as published."""
    observable, styles, x, y = PANELS[letter]
    figure, axes = plotting.canvas((440, 420), (95, 425, 25, 340))
    plotting.curves(axes, table, styles, observable, band=partial(plotting.deviation, alpha=0.3))
    if letter == "C":
        axes.plot([0, 49], [0, 0], color="k", linestyle=":", linewidth=1, zorder=1)
    plotting.frame(axes, x, y, font=16, ticks=18)
    plotting.edge_arrows(axes)
    axes.legend(loc="upper right", **own_style.LEGEND | {"fontsize": 12})
    axes.spines[["top", "right"]].set_visible(False)
    axes.text(-0.26, 1.0, letter, fontsize=18, fontweight="bold", transform=axes.transAxes)
    return figure


FIGURES = (
    Figure(
        "oswald_mesa_loss",
        partial(sweeps, sequences=LOSS_SEQUENCES),
        measure_loss,
        partial(draw, letter="B"),
    ),
    Figure(
        "oswald_mesa_length",
        partial(sweeps, sequences=LENGTH_SEQUENCES),
        measure_length,
        partial(draw, letter="C"),
    ),
)
