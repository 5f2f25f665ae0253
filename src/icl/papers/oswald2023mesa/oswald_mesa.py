"""Test loss over training, and mean squared error against sequence length (von Oswald et al. 2023, talk p31 B and C).

Both figures compare linear attention and the mesa layer, from the same trainings, with gradient descent or RevAlg-1.
"""

from dataclasses import replace
from functools import partial

import numpy as np

from icl.evidence.errors import mean_curve
from icl.figure import Axis, Figure, Picture, Rows, Runs, Style, Sweep, Table, Trained, grid, join, plotting, rows
from icl.papers.oswald2023mesa import evaluation
from icl.papers.oswald2023mesa.layers import Layer, Maps, linear_layer, mesa_layer, products
from icl.papers.oswald2023mesa.one_layer import SYSTEM, Config, Test, evaluation_sequences

SEEDS = {"paper": 10, "laptop": 10, "smoke": 2}
BATCH = {"paper": 256, "laptop": 256, "smoke": 4}
# The published curves have a point every 100 steps until 3400. At the smoke scale points are one step apart but drawn
# 100 apart.
POINTS, APART = 35, 100
EVERY = {"paper": 100, "laptop": 100, "smoke": 1}
# The points at which RevAlg-1 is taken from linear-SA, after 2500 steps, and from which on it is compared.
REV_ALG, CLOSE = 25, 15
# Test sequences of the loss, 30 batches: with 10, as in the paper's code, the untrained loss has an error of 0.01. For
# Mesa, whose loss varies little between sequences and is expensive, those 10 suffice.
LOSS_SEQUENCES, MESA_SEQUENCES = 7680, 2560
# Test sequences of the errors by position, 100 batches: one gives the error at the last position only to 0.1. Five
# batches per run are in the band, as in the paper's code.
LENGTH_SEQUENCES, BAND_BATCHES = 25600, 5
# Sequences of twice the training length, on which errors are either small or far above that of the prediction 0.
LONGER_SEQUENCES = 1280


def sweeps(scale: str, sequences: int) -> list[Sweep]:
    """The trainings of linear-SA and Mesa, tested on `sequences` fresh sequences per seed (16 at the smoke scale)."""
    shared = {"batch": [BATCH[scale]], "seed": range(SEEDS[scale])}
    configs = {
        "linear": grid(Config, **shared),
        "mesa": grid(Config, layer=["mesa"], heads=[4], learning_rate=[2e-3], decay=[0.1], **shared),
    }
    test = Test(sequences=16 if scale == "smoke" else sequences)
    snapshots = tuple(range(0, EVERY[scale] * POINTS, EVERY[scale]))
    return [Sweep(f"oswald_mesa_{layer}", SYSTEM, own, snapshots, test) for layer, own in configs.items()]


def maps_at(linear: Runs, run: int, point: int) -> Maps:
    """The products of one trained linear layer at a snapshot."""
    return products({name: w[run, point] for name, w in linear.weights.items()})


def mesa_at(mesa: Runs, run: int, point: int) -> Layer:
    """One trained mesa layer at a snapshot."""
    return mesa_layer({name: w[run, point] for name, w in mesa.weights.items()})


# The loss over training


def measure_loss(runs: Trained, scale: str) -> Rows:
    """Losses at every snapshot of every seed, and the values that the claims bound."""
    linear, mesa = runs["oswald_mesa_linear"], runs["oswald_mesa_mesa"]
    parts = []
    for run, config in enumerate(linear.sweep.configs):
        losses = linear_losses(linear, run)
        x = evaluation_sequences(config, mesa.sweep.test)[:MESA_SEQUENCES]
        layers = [mesa_at(mesa, run, point) for point in range(len(mesa.sweep.snapshots))]
        losses["Mesa"] = np.array([evaluation.mean_loss(layer, x, mesa.sweep.configs[run]) for layer in layers])
        for name, values in losses.items():
            steps = APART * np.arange(len(values))
            parts.append(rows("loss", config.seed, values, x=steps, panel="main", series=name))
        trained = losses["linear-SA"]
        distance = abs(losses["Interpolation"] - trained)[CLOSE:].max()
        parts.append(rows("loss of RevAlg-1 over linear-SA", config.seed, losses["RevAlg-1"][-1] / trained[-1]))
        parts.append(rows("largest |Interpolation - linear-SA| from step 1500", config.seed, distance))
    return join(parts)


def linear_losses(linear: Runs, run: int) -> dict[str, np.ndarray]:
    """Losses of RevAlg-1, Interpolation and linear-SA at every snapshot."""
    config, points = linear.sweep.configs[run], len(linear.sweep.snapshots)
    x = evaluation_sequences(config, linear.sweep.test)

    def loss(maps: Maps) -> float:
        return evaluation.mean_loss(linear_layer(maps), x, config)

    trained = [maps_at(linear, run, point) for point in range(points)]
    rev_alg = evaluation.rev_alg(trained[REV_ALG])
    return {
        "RevAlg-1": np.full(points, loss(rev_alg)),
        "Interpolation": np.array([loss(evaluation.interpolated(each, rev_alg)) for each in trained]),
        "linear-SA": np.array([loss(each) for each in trained]),
    }


# Errors by position


def measure_length(runs: Trained, scale: str) -> Rows:
    """Errors by position at the end of training, by seed and batch, and the values that the claims bound."""
    linear = runs["oswald_mesa_linear"].sweep
    parts = []
    errors = [errors_by_series(runs, run, config, linear.test) for run, config in enumerate(linear.configs)]
    for run, (config, by_series) in enumerate(zip(linear.configs, errors, strict=True)):
        means = {name: by_batch.mean(axis=0) for name, by_batch in by_series.items()}
        bounded = bounded_errors(means, config) | errors_beyond(runs, run, config, linear.test)
        parts += [rows(name, config.seed, value) for name, value in bounded.items()]
    for name in errors[0]:
        values = np.stack([by_series[name].mean(axis=0) for by_series in errors], axis=-1)
        groups = np.concatenate([by_series[name][:BAND_BATCHES] for by_series in errors]).T
        parts += mean_curve("MSE", linear.seeds, values, groups, panel="main", series=name, x=np.arange(len(values)))
    return join(parts)


def errors_by_series(runs: Trained, run: int, config: Config, test: Test) -> dict[str, np.ndarray]:
    """Errors of every series on the same sequences of the length T in `config`, (batches, T)."""
    x = evaluation_sequences(config, test)
    layers = {
        "GD_exact-1": linear_layer(evaluation.gradient_descent(config, test.gd_step_size)),
        "Mesa": mesa_at(runs["oswald_mesa_mesa"], run, -1),
        "linear-SA": linear_layer(maps_at(runs["oswald_mesa_linear"], run, -1)),
    }
    return {name: evaluation.errors(layer, x, config).numpy() for name, layer in layers.items()}


def bounded_errors(mse: dict[str, np.ndarray], config: Config) -> dict[str, float]:
    """Largest errors at certain positions; NaN if the length is too short for them."""
    mesa = mse["Mesa"]
    values = {
        "largest |linear-SA - GD|, t < 40": abs(mse["linear-SA"] - mse["GD_exact-1"])[:40],
        "largest |Mesa - least squares|, t <= 9": abs(mesa - evaluation.least_squares_loss(config))[:10],
        "MSE of Mesa at t = 10": mesa[10:11],
        "largest MSE of Mesa, t >= 15": mesa[15:],
    }
    return {name: float(each.max()) if len(each) else float("nan") for name, each in values.items()}


def errors_beyond(runs: Trained, run: int, config: Config, test: Test) -> dict[str, float]:
    """Errors at positions beyond the training length, on sequences of twice that length."""
    longer = replace(config, length=2 * config.length)
    fewer = replace(test, sequences=min(test.sequences, LONGER_SEQUENCES))
    mse = {name: e.mean(axis=0)[config.length :] for name, e in errors_by_series(runs, run, longer, fewer).items()}
    return {
        "largest MSE of Mesa beyond the training length": float(mse["Mesa"].max()),
        "MSE of linear-SA at twice the training length": float(mse["linear-SA"][-1]),
    }


# Drawing

GD = Style("GD_exact-1", r"GD$_{exact}$-1", "#d75808")
MESA, LINEAR = Style("Mesa", "Mesa", "#be1286"), Style("linear-SA", "linear-SA", "#2d964d")
REV_ALG_1 = Style("RevAlg-1", "RevAlg-1", "#7160ab")
INTERPOLATION = Style("Interpolation", "Interpolation", "#d72422", line="--")
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


@plotting.published
def draw(table: Table, letter: str) -> Picture:
    """Draw a published panel, with bands of one standard deviation as published; those of the table are two."""
    observable, styles, x, y = PANELS[letter]
    figure, axes = plotting.canvas((440, 420), (95, 425, 25, 340))
    for style in styles:
        curve = table.curve("main", style.series, observable)
        half = (curve["band_high"] - curve["band_low"]) / 4
        low, high = curve["value"] - half, curve["value"] + half
        axes.fill_between(curve["x"], low, high, color=style.colour, alpha=0.3, linewidth=0)
    plotting.curves(axes, table, styles, observable)
    if letter == "C":
        axes.plot([0, 49], [0, 0], color="k", linestyle=":", linewidth=plotting.LINE_WIDTH, zorder=1)
    plotting.frame(axes, x, y, font=16, ticks=18)
    plotting.legend(axes, 12, "upper right", (0.98, 0.97), spacing=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.text(-0.26, 1.0, letter, fontsize=18, fontweight="bold", transform=axes.transAxes)
    return figure


FIGURES = (
    Figure("oswald_mesa_loss", partial(sweeps, sequences=LOSS_SEQUENCES), measure_loss, partial(draw, letter="B")),
    Figure(
        "oswald_mesa_length", partial(sweeps, sequences=LENGTH_SEQUENCES), measure_length, partial(draw, letter="C")
    ),
)
