"""A trained layer of kernel attention against one functional gradient step, and many steps against Bayes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from icl.core.config import grid
from icl.core.lazy import Picture
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import Table, conform, exact, join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.figure import Figure
from icl.papers.cheng2024 import evaluation
from icl.papers.cheng2024 import kernel_attention as system
from icl.papers.cheng2024.kernel_attention import Config
from icl.papers.cheng2024.scalar_oracle import SEEDS

KERNELS = ("linear", "relu", "exp", "softmax")
# Steps, eta and the steps after which eta halves; the reduced scales were chosen on the seeds 100 and 101.
TRAININGS: Mapping[str, Mapping[str, tuple[int, float, int]]] = {
    "normalised": {"paper": (40000, 0.1, 0), "laptop": (650, 16.0, 90), "smoke": (10, 16.0, 0)},
    "adam": {"paper": (40000, 0.01, 5000), "laptop": (450, 0.15, 60), "smoke": (10, 0.15, 0)},
}
PROMPTS = {"paper": 4000, "laptop": 500, "smoke": 10}
TESTED = {"paper": 30000, "laptop": 2000, "smoke": 20}
DRAWN = 10
# Labels and context lengths of the exact part: kernels that are covariances, with fewer examples than their rank.
CONVERGING = {"linear": 3, "exp": 6, "half_exp": 6, "comb": 6}
CONTEXTS, DEPTH = 100, 400


def sweeps(scale: str) -> list[Sweep]:
    """Return trainings of full matrices by both optimisers, and of the best scalars."""
    common = {"kernel": KERNELS, "labels": ["half_exp"], "layers": [1], "seed": SEEDS[scale]}
    test = system.Test(prompts_test=TESTED[scale])
    trained = []
    for optimiser, scales in TRAININGS.items():
        steps, learning_rate, halving = scales[scale]
        configs = grid(
            Config, optimiser=[optimiser], parametrisation=["matrices"], prompts=[PROMPTS[scale]], resample=[10],
            learning_rate=[learning_rate], halving=[halving], **common,
        )  # fmt: skip
        snapshots = tuple(sorted({steps * k // DRAWN for k in range(DRAWN + 1)}))
        trained.append(Sweep(f"cheng_trained_{optimiser}", "cheng_functional", configs, snapshots, test))
    configs = grid(Config, prompts=[{"paper": 30000, "laptop": 2000, "smoke": 20}[scale]], **common)
    return [*trained, Sweep("cheng_best_step", "cheng_functional", configs, (0, 20), test)]


Cell = dict[str, float | str]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Return the comparison of the layer with its nearest step over training, and the two exact parts."""
    best = runs["cheng_best_step"]
    least = {
        (config.kernel, config.seed): _log_loss(best, run, config) for run, config in enumerate(best.sweep.configs)
    }
    cells: list[Cell] = [
        {
            "panel": "loss",
            "series": f"{kernel} best step",
            "seed": seed,
            "x": x,
            "observable": "log loss",
            "value": loss,
        }
        for (kernel, seed), loss in least.items()
        for x in (0.0, 1.0)
    ]
    for optimiser in TRAININGS:
        trained = runs[f"cheng_trained_{optimiser}"]
        for run, config in enumerate(trained.sweep.configs):
            cells += _along_training(trained, run, config)
            if optimiser == "normalised":
                cells += _at_end(cells[-3:], config, least[config.kernel, config.seed])
    return join([conform(pd.DataFrame(cells)), exact(join(_convergence()))])


def _log_loss(runs: Runs, run: int, config: Config) -> float:
    weights = system.weights_of(runs.last(), run, config)
    return float(np.log(evaluation.errors(weights, config, runs.sweep.test.prompts_test).mean()))


def _at_end(last: list[Cell], config: Config, least: float) -> list[Cell]:
    """The values that the claims bound, from the last snapshot."""
    loss, difference, _ = (float(cell["value"]) for cell in last)
    values = {"difference from a functional step": difference, "log loss over the best step's": loss - least}
    return [
        {"observable": f"{name}, {config.kernel}", "seed": config.seed, "value": value}
        for name, value in values.items()
    ]


def _along_training(trained: Runs, run: int, config: Config) -> list[Cell]:
    """Three quantities of one run at every snapshot; x is the fraction of the training."""
    cells: list[Cell] = []
    prompts = system.prompts_of(config, "evaluate", 0, trained.sweep.test.prompts_test)
    for step in trained.sweep.snapshots:
        weights = system.weights_of(trained.at(step), run, config)
        layer = evaluation.answers(weights, config, prompts)
        near = evaluation.answers(evaluation.nearest_scalars(weights, config), config, prompts)
        numbers = {
            "loss": ("log loss", np.log(np.mean((layer - prompts.labels[:, -1]) ** 2))),
            "answers": ("relative difference", np.mean((layer - near) ** 2) / np.mean(near**2)),
            "metric": ("anisotropy", evaluation.anisotropy(evaluation.metrics(weights, config))[0]),
        }
        place: Cell = {"series": f"{config.kernel} {config.optimiser}", "seed": config.seed}
        place["x"] = step / trained.sweep.snapshots[-1]
        cells += [place | {"panel": p, "observable": name, "value": float(v)} for p, (name, v) in numbers.items()]
    return cells


def _convergence() -> list[pd.DataFrame]:
    """Distances of functional gradient descent from f* = k' K^-1 y in the kernel's norm, |f_L - f*|^2 = u' K^-1 u."""
    parts = []
    for law, n in CONVERGING.items():
        errors, ratios = evaluation.descent_errors(Config(labels=law, context_length=n), CONTEXTS, DEPTH)
        relative = errors / errors[0]
        bound = ratios ** np.arange(DEPTH + 1)[:, None]
        shown = np.unique(np.geomspace(1, DEPTH, 25).astype(int))
        for series, values in ((law, relative), (f"{law} bound", bound)):
            parts.append(rows("relative error", 0, values.mean(axis=1)[shown], x=shown, panel="bayes", series=series))
    return parts


COLOURS = {"linear": "g", "relu": "b", "exp": "r", "softmax": "tab:orange"}
SOLID = tuple(Style(f"{kernel} normalised", kernel, colour) for kernel, colour in COLOURS.items())
DOTTED = tuple(Style(f"{kernel} adam", "", colour, line=":") for kernel, colour in COLOURS.items())
DASHED = tuple(Style(f"{kernel} best step", "", colour, line="--") for kernel, colour in COLOURS.items())
LAWS = (
    Style("linear", r"$\langle u,v\rangle$, $n=3$", "g"),
    Style("half_exp", r"$e^{\langle u,v\rangle/2}$, $n=6$", "m"),
    Style("exp", r"$e^{\langle u,v\rangle}$, $n=6$", "r"),
    Style("comb", "mixed, $n=6$", "tab:brown"),
)
BOUNDS = tuple(Style(f"{style.series} bound", "", style.colour, line="--") for style in LAWS)


@plotting.published
def draw(table: Table) -> Picture:
    """Draw three panels over training and one over functional gradient steps."""
    figure, loss = plotting.canvas((900, 680), (75, 425, 25, 285), panel="loss")
    answers = plotting.add_panel(figure, (535, 885, 25, 285), "answers")
    metric = plotting.add_panel(figure, (75, 425, 355, 615), "metric")
    bayes = plotting.add_panel(figure, (535, 885, 355, 615), "bayes")
    for axes, observable in ((loss, "log loss"), (answers, "relative difference"), (metric, "anisotropy")):
        plotting.curves(axes, table, SOLID, observable, band=axes is not answers)
        plotting.curves(axes, table, DOTTED, observable)
    plotting.curves(loss, table, DASHED, "log loss")
    plotting.curves(bayes, table, (*LAWS, *BOUNDS), "relative error")
    training = Axis("Share of the training", (0, 1))
    for line in loss.lines:
        line.set_label("")
    plotting.frame(loss, training, Axis("log(Loss)"), font=13, ticks=11)
    plotting.frame(answers, training, Axis("Relative difference", (1e-4, 1e3), log=True), 13, ticks=11)
    plotting.frame(metric, training, Axis(r"$\|B^\top C-cI\|/\|B^\top C\|$", (0, 1.02)), font=13, ticks=11)
    depth = Axis("Functional gradient steps $L$", (1, DEPTH), log=True)
    plotting.frame(bayes, depth, Axis("Relative distance to Bayes", (1e-3, 1.5), log=True), font=13, ticks=11)
    for axes, names in ((loss, (("-", "normalised steps"), (":", "Adam"), ("--", "best step of two scalars"))),
                        (bayes, (("--", "bound"),))):  # fmt: skip
        for dashes, name in names:
            axes.plot([], [], color="0.3", linestyle=dashes, label=name)
    plotting.legend(loss, 9, "upper right", (0.98, 0.97), spacing=0.2)
    plotting.legend(metric, 10, "upper right", (0.98, 0.97), spacing=0.25)
    plotting.legend(bayes, 10, "lower left", (0.02, 0.03), spacing=0.25)
    return figure


FIGURES = (Figure("cheng_functional_gd", sweeps, measure, draw),)
