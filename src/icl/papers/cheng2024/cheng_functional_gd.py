"""A trained layer of kernel attention against one functional gradient step, and many steps
against Bayes.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from icl.core.lazy import torch
from icl.drawing import own_style
from icl.figure import (
    Axes,
    Figure,
    Picture,
    Rows,
    Runs,
    Sweep,
    Table,
    Trained,
    grid,
    join,
    plotting,
    rows,
)
from icl.models.optimisers import Params
from icl.papers.cheng2024 import kernel_attention as model
from icl.papers.cheng2024 import prompts as tasks
from icl.papers.cheng2024 import trainings
from icl.papers.cheng2024.kernel_attention import Config
from icl.papers.cheng2024.trainings import KERNELS

# The trainings of a seed take two CPU seconds, so that there are more than in the other figures.
SEEDS = trainings.SEEDS | {"laptop": range(10, 20)}
# Steps, eta and the steps after which eta halves; the reduced scales were chosen on the seeds 100
# and 101.
TRAININGS = {
    "normalised": {"paper": (40000, 0.1, 0), "laptop": (650, 16.0, 90), "smoke": (10, 16.0, 0)},
    "adam": {"paper": (40000, 0.01, 5000), "laptop": (450, 0.15, 60), "smoke": (10, 0.15, 0)},
}
PROMPTS = {"paper": 4000, "laptop": 500, "smoke": 10}
TESTED = {"paper": 30000, "laptop": 2000, "smoke": 20}
DRAWN = 10
# Labels and context lengths of the exact part: kernels that are covariances, with fewer examples
# than their rank.
CONVERGING = {"linear": 3, "exp": 6, "half_exp": 6, "comb": 6}
CONTEXTS, DEPTH = 100, 400


def sweeps(scale: str) -> list[Sweep]:
    """Trainings of full matrices by both optimisers, and of the best scalars."""
    common = {"kernel": KERNELS, "labels": ["half_exp"], "layers": [1], "seed": SEEDS[scale]}
    trained, test = [], model.Evaluation(TESTED[scale])
    for optimiser, scales in TRAININGS.items():
        steps, rate, halving = scales[scale]
        configs = grid(
            Config, **common, parametrisation=["matrices"], prompts=[PROMPTS[scale]], resample=[10],
            optimiser=[optimiser], learning_rate=[rate], halving=[halving],
        )  # fmt: skip
        snapshots = tuple(sorted({steps * k // DRAWN for k in range(DRAWN + 1)}))
        trained.append(Sweep(f"cheng_trained_{optimiser}", model.MODEL, configs, snapshots, test))
    best = grid(Config, prompts=[TESTED[scale]], **common)
    return [*trained, Sweep("cheng_best_step", model.MODEL, best, (0, 20), test)]


# Panel -> what it shows over training.
SHOWN = {"loss": "log loss", "answers": "relative difference", "metric": "anisotropy"}


def measure(runs: Trained, scale: str) -> Rows:
    """Return the layer against its nearest step over training, the best step, and the steps
    towards Bayes.
    """
    seeds, _ = trainings.seeds_and_prompts(runs)
    best, parts = trainings.final_losses({"best": runs["cheng_best_step"]}), list(towards_bayes())
    for optimiser in TRAININGS:
        trained = runs[f"cheng_trained_{optimiser}"]
        x = np.array(trained.sweep.snapshots)[:, None] / trained.sweep.snapshots[-1]
        for setting, values in trainings.by_setting({optimiser: trained}, over_training).items():
            series = f"{setting.kernel} {optimiser}"
            for (panel, observable), of_seeds in zip(SHOWN.items(), values.T, strict=True):
                parts.append(rows(observable, seeds, of_seeds, x=x, panel=panel, series=series))
            if optimiser == "normalised":
                loss, difference, _ = values[:, -1].T
                parts.append(
                    rows(f"difference from a functional step, {setting.kernel}", seeds, difference)
                )
                parts.append(
                    rows(
                        f"log loss over the best step's, {setting.kernel}",
                        seeds,
                        loss - best[setting],
                    )
                )
    for setting, least in best.items():
        series = f"{setting.kernel} best step"
        parts.append(rows("log loss", seeds, least, x=[[0], [1]], panel="loss", series=series))
    return join(parts)


def over_training(single: Runs) -> list[tuple[float, float, float]]:
    """Return the quantities of `SHOWN` of one run at every snapshot."""
    config, quantities = single.sweep.configs[0], []
    prompts = model.prompts_of(config, "evaluate", 0, single.sweep.test.prompts_test)
    for step in single.sweep.snapshots:
        weights = model.matrices_of(single.at(step), config)
        answers = model.predictions(weights, config, prompts)
        near = model.predictions(nearest_step(weights, config), config, prompts)
        loss = np.log(np.mean((answers - prompts.labels[:, -1]) ** 2))
        difference = np.mean((answers - near) ** 2) / np.mean(near**2)
        quantities.append((float(loss), float(difference), anisotropy(metric(weights, config))))
    return quantities


def metric(weights: Params, config: Config) -> np.ndarray:
    """(U D)' B' C (U D) of the only layer, in the coordinates of xi, (d, d)."""
    product = weights["key"][0, 0].mT @ weights["query"][0, 0]
    return config.transformation().T @ product.numpy() @ config.transformation()


def anisotropy(matrix: np.ndarray) -> float:
    """|M - (tr M / d) I| / |M| in the Frobenius norm."""
    multiple = np.trace(matrix) / len(matrix) * np.eye(len(matrix))
    return float(np.linalg.norm(matrix - multiple) / np.linalg.norm(matrix))


def nearest_step(weights: Params, config: Config) -> Params:
    """Return the functional gradient step nearest to a layer: B'C = s I with the same r and s =
    tr((U D)' B' C (U D)) / d, which is tr(B'C) / d for D = I, the only value in use.
    """
    identity = torch.eye(config.dimension, dtype=torch.float64)[None, None]
    scale = float(np.trace(metric(weights, config))) / config.dimension
    return weights | {"key": scale * identity, "query": identity}


def towards_bayes() -> Iterator[Rows]:
    """Yield the distances of `descent_errors`, relative to the first, and their bound."""
    shown = np.unique(np.geomspace(1, DEPTH, 25).astype(int))
    for law, n in CONVERGING.items():
        errors, ratios = descent_errors(Config(labels=law, context_length=n))
        bound = ratios ** np.arange(DEPTH + 1)[:, None]
        for series, values in ((law, errors / errors[0]), (f"{law} bound", bound)):
            yield rows(
                "relative error",
                None,
                values.mean(axis=1)[shown],
                x=shown,
                panel="bayes",
                series=series,
            )


def descent_errors(config: Config) -> tuple[np.ndarray, np.ndarray]:
    """Return the distances of functional gradient descent from f* = k' K^-1 y and the bound on
    their ratios.

    Descent uses the kernel of the labels and r = n / (2 lambda_max). Distances are |f_L - f*| = (u'
    K^-1 u)^(1/2) in the kernel's function space, with u = y - f_L(x), for L = 0 ... DEPTH: (DEPTH +
    1, contexts). The bound on the ratio of successive ones is 1 - r lambda_min / n: (contexts,).
    """
    prompts = model.prompts_of(config, "convergence", 0, CONTEXTS)
    inputs, residuals = prompts.inputs[:, :-1], prompts.labels[:, :-1]
    matrix = tasks.KERNELS[config.labels](inputs, inputs)
    values, vectors = np.linalg.eigh(matrix)
    share, distances = 1 / (2 * values[:, -1]), []  # r / n
    for _ in range(DEPTH + 1):
        distances.append(
            np.sqrt(np.sum(np.einsum("cij,ci->cj", vectors, residuals) ** 2 / values, axis=-1))
        )
        residuals = residuals - share[:, None] * np.einsum("cij,cj->ci", matrix, residuals)
    return np.array(distances), 1 - share * values[:, 0]


LABELS = {
    "linear": r"$\langle u,v\rangle$, $n=3$",
    "half_exp": r"$e^{\langle u,v\rangle/2}$, $n=6$",
    "exp": r"$e^{\langle u,v\rangle}$, $n=6$",
    "comb": "mixed, $n=6$",
}
AXES = {
    "loss": ("Share of the training", "log(test loss)", "squares: best step of two scalars"),
    "answers": ("Share of the training", "Relative difference", "from the nearest functional step"),
    "metric": (
        "Share of the training",
        r"$\|B^\top C-cI\|/\|B^\top C\|$",
        "distance from a multiple of $I$",
    ),
    "bayes": ("Functional gradient steps $L$", "Relative distance to Bayes", "pale: the bound"),
}


@plotting.under_defaults
def draw(table: Table) -> Picture:
    """Draw three panels over training and one over functional gradient steps."""
    title = (
        "One layer of kernel attention beside functional gradient descent "
        "(a to c, pale: trained by Adam)"
    )
    picture, axes_of = own_style.panels(list(AXES), 2, title, (440, 260))
    for panel, observable in SHOWN.items():
        curves_and_pale(
            axes_of[panel],
            table,
            dict(zip(KERNELS, KERNELS, strict=True)),
            observable,
            " normalised",
            " adam",
        )
    for style in own_style.styles({f"{kernel} best step": "" for kernel in KERNELS}):
        least = table.curve("loss", style.series, "log loss").iloc[-1]
        axes_of["loss"].plot(
            least["x"], least["value"], "s", color=style.colour, clip_on=False, gid=style.series
        )
    curves_and_pale(axes_of["bayes"], table, LABELS, "relative error", "", " bound")
    axes_of["answers"].set(yscale="log")
    axes_of["bayes"].set(xscale="log", yscale="log", ylim=(1e-3, 1.5))
    for panel, axes in axes_of.items():
        first, last = axes.dataLim.intervalx
        # The squares at the end of the first panel need room beside the labels.
        axes.set_xlim(first, last + 0.03 * (panel == "loss"))
        own_style.axis_labels(axes, *AXES[panel])
        plotting.edge_arrows(axes)
        own_style.name_curves(axes)
    return picture


def curves_and_pale(
    axes: Axes, table: Table, labels: Mapping[str, str], observable: str, kind: str, pale: str
) -> None:
    """Draw the series of two kinds, the second one pale, without labels."""
    for style in own_style.styles(labels):
        variant = style._replace(series=f"{style.series}{pale}", label="")
        plotting.curves(axes, table, [variant], observable, linewidth=1, alpha=0.5)
        plotting.curves(
            axes,
            table,
            [style._replace(series=f"{style.series}{kind}")],
            observable,
            band=plotting.pale,
            **own_style.LINE,
        )


FIGURES = (Figure("cheng_functional_gd", sweeps, measure, draw),)
