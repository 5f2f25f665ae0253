"""Two estimates of prediction over truth against T: a mean of ratios and least squares (Zheng et
al., Prop. 4.1).
"""

import numpy as np

from icl.drawing import own_style
from icl.evidence.intervals import log_slope
from icl.figure import (
    Axis,
    Figure,
    Picture,
    Rows,
    Runs,
    Sweep,
    Table,
    Trained,
    facts,
    join,
    plotting,
    rows,
)
from icl.models.autoregressive import config as layer
from icl.models.autoregressive import theory, trainings

LENGTHS = np.array([20, 50, 100, 200, 500, 1000])
LATE = LENGTHS >= 100
# T = 20 learns most slowly; after this number of epochs its ab is within 1e-5 of its limit.
STEPS = {"paper": 2000, "laptop": 2000, "smoke": 300}
SEEDS = {"paper": 20, "laptop": 20, "smoke": 2}
FRESH = {"paper": 10000, "laptop": 10000, "smoke": 200}
# Laws of the first token; in the first two |u_j| takes one value besides 0.
LAWS = {"sparse": "Example 4.1", "signs": "signs", "uniform": "uniform", "gaussian": "Gaussian"}
VALUES = np.linspace(0, 2, 41)


def sweeps(scale: str) -> list[Sweep]:
    """Full blocks over T from the larger starts, and a and b for every law; seeds determine
    fresh sequences.
    """
    test, steps, lengths = layer.Evaluation(sequences=FRESH[scale]), STEPS[scale], LENGTHS.tolist()
    _, *larger = trainings.STARTS.values()
    scalars = {
        "start": larger[:1],
        "gradient_estimator": ["population_scalar"],
        "seed": range(SEEDS[scale]),
    }
    return [
        trainings.training(
            "zheng_ratio",
            "gaussian",
            (0, trainings.EPOCHS, steps),
            test,
            length=lengths,
            start=larger,
        ),
        *(
            trainings.training(
                f"zheng_ratio_{law}", law, (0, steps), test, length=lengths, **scalars
            )
            for law in LAWS
        ),
    ]


def ratios(config: layer.Config, ab: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    """y_{T-1,j} / x_{T,j} and x_{T,j} on fresh sequences for blocks a I and b I, complex (count, d)
    each.

    y_j / x_j = ab [u_j^2 + (1 / n) sum_{r != j} u_r^2 D_n(w_r / w_j)], D_n(z) = z + ... + z^n, n =
    T - 2.
    """
    w, u = layer.drawn(config, "evaluate", count)
    n, off, phase = config.length - 2, ~np.eye(config.dimension, dtype=bool), np.angle(w)
    turn = (phase[:, None] - phase[:, :, None])[:, off]  # z_jr = w_r / w_j
    z, series = np.exp(1j * turn), np.full((count, *off.shape), n, dtype=complex)
    series[:, off] = z * (np.exp(1j * n * turn) - 1) / (z - 1)
    return ab / n * (series @ (u**2)[..., None])[..., 0], w ** (config.length - 1) * u


def estimates(config: layer.Config, ab: float, count: int) -> tuple[float, float, float, float]:
    """Of predictions y of x on fresh sequences: the ratio of the paper's code, the real part of the
    mean of y / (x + 1e-5); <y, x> / |x|^2; |y - x|^2 / |x|^2; and the contribution of the
    off-diagonal entries of the learnt W to y_j / x_j over that of its diagonal.
    """
    ratio, x = ratios(config, ab, count)
    square, diagonal = abs(x) ** 2, ab * layer.drawn(config, "evaluate", count)[1] ** 2
    mean = (ratio * x / (x + 1e-5)).mean().real
    error = (abs(ratio - 1) ** 2 * square).sum() / square.sum()
    off_diagonal = np.sqrt((abs(ratio - diagonal) ** 2).mean() / (diagonal**2).mean())
    return mean, (ratio * square).sum().real / square.sum(), error, off_diagonal


def measure(runs: Trained, scale: str) -> Rows:
    """Both ratios at the limit of training and for trained layers on fresh sequences, and their
    distribution.
    """
    parts, claimed = (
        [*_limits(runs["zheng_ratio"]), *_distribution(runs["zheng_ratio_gaussian"])],
        {},
    )
    for law in LAWS:
        drawn = runs[f"zheng_ratio_{law}"]
        configs, count, ab = (
            drawn.sweep.configs,
            drawn.sweep.test.sequences,
            trainings.products(drawn)[:, -1],
        )
        seeds, x = drawn.sweep.seeds[: len(configs) // len(LENGTHS)], LENGTHS[:, None]
        found = np.array(
            [estimates(config, end, count) for config, end in zip(configs, ab, strict=True)]
        )
        means, squares, errors, shares = found.T.reshape(4, len(LENGTHS), -1)
        distances = abs(ab / [theory.limit(config) for config in configs] - 1).reshape(errors.shape)
        parts.append(rows("relative error", seeds, errors, x=x, panel="error", series=law))
        # In Example 4.1 the prediction is exact, so that errors are rounding.
        if law != "sparse":
            claimed[f"relative error, T = 1000, {law}"] = errors[-1]
            claimed[f"relative distance of ab from its limit, T = 1000, {law}"] = distances[-1]
        if law in ("signs", "uniform"):
            claimed[f"slope of the relative error against T, {law}"] = _slopes(errors)
        if law == "gaussian":
            claimed["mean of ratios on fresh sequences, T = 1000"] = means[-1]
            claimed["off-diagonal over diagonal part, T = 1000"] = shares[-1]
            claimed["slope of the off-diagonal part against T"] = _slopes(shares)
            parts.append(rows("ratio", seeds, means, x=x, panel="ratio", series="mean of ratios"))
            parts.append(rows("ratio", seeds, squares, x=x, panel="ratio", series="least squares"))
    return join([*parts, facts(seeds, claimed)])


def _slopes(values: np.ndarray) -> list[float]:
    return [log_slope(LENGTHS[LATE], of_seed) for of_seed in values[LATE].T]


def _limits(trained: Runs) -> list[Rows]:
    """Return the limits of both ratios, also for infinite T; distances from 1 of 5 sigma^2 ab,
    five times the ratio.
    """
    configs, epoch, parts = (
        trained.sweep.configs[::2],
        trained.sweep.snapshots.index(trainings.EPOCHS),
        [],
    )  # one per T
    limits, power, fourth = (
        np.array([theory.limit(c) for c in configs]),
        configs[0].moment(2),
        configs[0].moment(4),
    )
    for name, factor in (("mean of ratios", power), ("least squares", fourth / power)):
        ends = LENGTHS[[0, -1]]
        parts.append(rows("limit", None, limits * factor, x=LENGTHS, panel="ratio", series=name))
        parts.append(
            rows("asymptote", None, factor / (5 * power), x=ends, panel="ratio", series=name)
        )
    distances = (
        abs(5 * power * trainings.products(trained) - 1).reshape(len(LENGTHS), 2, -1).max(axis=1)
    )
    claimed = {
        "largest |5 ratio - 1| at epoch 200, T = 100": distances[LENGTHS == 100, epoch],
        "largest |5 sigma^2 ab - 1| at the end, T = 1000": distances[LENGTHS == 1000, -1],
    }
    return [*parts, facts(None, claimed)]


def _distribution(drawn: Runs) -> list[Rows]:
    """Shares of coordinates and of squared length with a ratio below each value, at T = 1000."""
    parts = []
    for config, ab in zip(drawn.sweep.configs, trainings.products(drawn)[:, -1], strict=True):
        if config.length == 1000:
            ratio, x = ratios(config, ab, drawn.sweep.test.sequences)
            below = ratio.real[..., None] <= VALUES
            for name, weight in (
                ("mean of ratios", np.ones(x.shape)),
                ("least squares", abs(x) ** 2),
            ):
                share = (weight[..., None] * below).sum(axis=(0, 1)) / weight.sum()
                parts.append(
                    rows("share below", config.seed, share, x=VALUES, panel="spread", series=name)
                )
    return parts


RATIOS = own_style.styles(
    {"least squares": r"$\langle y,x\rangle/|x|^2$", "mean of ratios": "$y_j/x_j$"}, markers=True
)
# The same two weights: by squared length and by coordinate.
SHARES = [
    style._replace(label=label, marker="")
    for style, label in zip(RATIOS, ("by $|x|^2$", "by $j$"), strict=True)
]


@plotting.under_defaults
def draw(table: Table) -> Picture:
    """Draw both ratios over T, the distribution of ratios, and the error for four laws of the
    first token.
    """
    title = "Prediction over truth: two estimates, their distribution, and the error"
    picture, panels = own_style.panels(["ratio", "spread", "error"], 3, title, (330, 280))
    ratio, spread, error = panels.values()
    plotting.curves(
        ratio,
        table,
        [style._replace(line="none") for style in RATIOS],
        "ratio",
        band=plotting.pale,
        markersize=5,
    )
    for style in RATIOS:
        plotting.curves(ratio, table, [style._replace(label="")], "limit", marker="", linewidth=1.5)
        dashed = table.curve("ratio", style.series, "asymptote")
        ratio.plot(dashed["x"], dashed["value"], color="0.5", linewidth=1)
        spread.axvline(float(dashed["value"].iloc[0]), color="0.5", linewidth=1)
    plotting.curves(spread, table, SHARES, "share below", band=plotting.pale, **own_style.LINE)
    plotting.curves(
        error,
        table,
        own_style.styles(LAWS, markers=True),
        "relative error",
        markersize=5,
        linewidth=1.5,
    )
    ticks = LENGTHS.tolist()
    length = Axis("Sequence length $T$", (17, 1200), ticks, [str(tick) for tick in ticks], log=True)
    plotting.frame(ratio, length, Axis("Prediction over truth", (0, 0.8)), own_style.FONT)
    plotting.frame(
        spread, Axis("$y_j/x_j$", (0, 2)), Axis("Share below", (0, 1.02)), own_style.FONT
    )
    plotting.frame(
        error, length, Axis(r"$\mathrm{E}|y-x|^2/\mathrm{E}|x|^2$", (-0.02, 0.6)), own_style.FONT
    )
    for axes in panels.values():
        axes.minorticks_off()
        own_style.name_curves(axes)
    return picture


FIGURES = (Figure("zheng_ratio_estimators", sweeps, measure, draw),)
