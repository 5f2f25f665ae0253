"""One trained layer of linear attention against one step of gradient descent (von Oswald et al.
2023, talk page 18).
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from icl.core.lazy import Axes
from icl.core.table import curves, facts
from icl.drawing import own_style
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
    join,
    plotting,
    rows,
)
from icl.papers.oswald2023 import closed_forms, evaluation, oswald_trained_layer, trainings
from icl.papers.oswald2023.linear_attention import Config
from icl.papers.oswald2023.oswald_trained_layer import ALPHAS, FINAL_LOSS, GREEN, PURPLE

# Number of seeds in the published means of panels A and B, inferred from the heights of their
# steps.
PUBLISHED_SEEDS = 5
# A plateau is this many consecutive snapshots, 300 steps, above PLATEAU_ABOVE with a range below
# FLAT.
PLATEAU_LENGTH, PLATEAU_ABOVE, FLAT, OFF_LEVEL = 4, 0.3, 0.002, 0.004
# Series of panel B -> panel of the table, observable and colour.
ALIGNMENT = {
    "Preds diff": ("B", "distance", "#a6761d"),
    "Model diff": ("B", "distance", "#e6ab02"),
    "Model cos": ("B cosine", "cosine", "#66a61e"),
}
LINES = [line for *_, line in own_style.CYCLE[: len(ALIGNMENT)]]
DASHED = LINES[1]
# Suffixes of series: seeds beyond the published number, and the training on the population.
FURTHER, EXACT = ", further seeds", ", exact gradient"


def sweeps(scale: str) -> list[Sweep]:
    """Return the published training for every N = d, and the same on the population."""
    kinds = (trainings.on_fresh_prompts, trainings.on_population)
    return [training(scale, size) for training in kinds for size in trainings.SIZES]


def measure(runs: Trained, scale: str) -> Rows:
    """Return the rows of all four panels, and the values that the claims bound."""
    sampled, population = (
        runs[f"oswald_{kind}_{trainings.SIZE}"] for kind in ("sampled", "population")
    )
    length, by_alpha = (
        trainings.POPULATION_STEPS["paper"],
        oswald_trained_layer.losses_by_alpha(sampled),
    )
    return join(
        [
            *along_training(sampled),
            *panels_a_and_b(population, courses(population, PUBLISHED_SEEDS), length, EXACT),
            *by_size(runs),
            curves(FINAL_LOSS, "D", np.array(sampled.sweep.seeds)[:, None], ALPHAS, by_alpha),
        ]
    )


# Panels A and B


def courses(trained: Runs, count: int) -> dict[str, np.ndarray]:
    """Return the loss "over all tasks" and `evaluation.distances` of the first `count` runs,
    (runs, snapshots) each.
    """
    parts = []
    for run, config in enumerate(trained.sweep.configs[:count]):
        prompts = evaluation.evaluation_prompts(config, trained.sweep.test)
        gd = evaluation.sensitivity(
            evaluation.construction(config, closed_forms.best_step_size(config)), prompts
        )
        for point in range(len(trained.sweep.snapshots)):
            layer = evaluation.trained_layer(trained, run, point)
            loss = {"over all tasks": evaluation.layer_loss(layer, config)}
            parts.append(evaluation.distances(layer, gd, prompts) | loss)
    return {
        name: np.array([at[name] for at in parts]).reshape(-1, len(trained.sweep.snapshots))
        for name in parts[0]
    }


def panels_a_and_b(
    trained: Runs, numbers: dict[str, np.ndarray], length: int, kind: str = ""
) -> Iterator[Rows]:
    """Yield the published number of runs in panels A and B; `kind` is appended to the names of
    the series.
    """
    first, steps = np.array(trained.sweep.seeds)[:PUBLISHED_SEEDS, None], stretched(trained, length)
    shown = {name: values[:PUBLISHED_SEEDS] for name, values in numbers.items()}
    yield rows(
        "loss", first, shown["over all tasks"], x=steps, panel="A", series=f"Trained TF{kind}"
    )
    for series, (panel, observable, _) in ALIGNMENT.items():
        yield rows(observable, first, shown[series], x=steps, panel=panel, series=series + kind)


def stretched(trained: Runs, length: int) -> np.ndarray:
    """Return the steps of the snapshots; at the smoke scale, which has fewer, they are stretched
    over the same axis.
    """
    return np.array(trained.sweep.snapshots) * (length / trained.sweep.snapshots[-1])


def along_training(trained: Runs) -> Iterator[Rows]:
    """Panels A and B, the final values of all seeds, and their plateaus."""
    configs, seeds, length = (
        trained.sweep.configs,
        np.array(trained.sweep.seeds),
        trainings.STEPS["paper"],
    )
    numbers, steps = courses(trained, len(configs)), stretched(trained, length)
    yield from panels_a_and_b(trained, numbers, length)
    first, further = np.split(seeds[:, None], [PUBLISHED_SEEDS])
    losses = numbers["over all tasks"]
    yield rows("loss", first, closed_forms.best_loss(configs[0]), x=steps, panel="A", series="GD")
    yield rows(
        "loss", further, losses[PUBLISHED_SEEDS:], x=steps, panel="A", series=f"Trained TF{FURTHER}"
    )
    final = {name: values[:, -1] for name, values in numbers.items()}
    excess = abs(final["loss"] / final["GD"] - 1)
    plateaus = [plateau_errors(of_run, configs[0]) for of_run in losses]
    on_plateau = [len(errors) > 0 for errors in plateaus]
    elsewhere = [np.any(errors > OFF_LEVEL) for errors in plateaus]
    bounded = {
        "share of seeds that end within 0.5 % of GD": excess <= 0.005,
        "final cosine": final["Model cos"],
        "final difference of the derivatives": final["Model diff"],
        "final difference of the predictions": final["Preds diff"],
        # Without a plateau there is nothing to judge.
        "share of seeds with a plateau elsewhere": elsewhere if any(on_plateau) else np.nan,
        "seeds with a plateau": on_plateau,
    }
    yield facts(seeds, bounded)


def plateau_errors(losses: np.ndarray, config: Config) -> np.ndarray:
    """Return the distance from the saddle's loss for every plateau in a run's losses by
    snapshot.
    """
    windows = np.lib.stride_tricks.sliding_window_view(losses, PLATEAU_LENGTH)
    level = windows[(windows.min(axis=1) > PLATEAU_ABOVE) & (np.ptp(windows, axis=1) < FLAT)]
    return abs(level - closed_forms.saddle_loss(config)).max(axis=1)


# Panel C


# Sizes that are judged together, and the layers whose loss is compared with gradient descent.
SMALL, LARGE = "N = d = 5 and 10", "N = d = 20, 35 and 50"
COMPARED = {
    (SMALL, "Trained TF"): "largest excess of the trained layer's loss, relative",
    (SMALL, "Interpolated"): "largest excess of the mean layer's loss, relative",
    (LARGE, "Trained TF"): "largest excess of the trained layer's loss, relative",
}


def by_size(runs: Trained) -> Iterator[Rows]:
    """Panel C from the sampled trainings, and each seed's largest errors over N = d, also on the
    population.
    """
    # N = d = 5 and 10 have more seeds.
    count = min(len(of_size.sweep.configs) for of_size in runs.values())
    errors: dict[str, list[np.ndarray]] = {}
    excess: dict[tuple[str, str], list[np.ndarray]] = {}
    for size in trainings.SIZES:
        sampled, population = (runs[f"oswald_{kind}_{size}"] for kind in ("sampled", "population"))
        seeds, config = sampled.sweep.seeds, population.sweep.configs[0]
        layers = [evaluation.layers_by_series(sampled, run) for run in range(len(seeds))]
        losses = {
            name: np.array([evaluation.layer_loss(each[name], config) for each in layers])
            for name in layers[0]
        }
        yield curves(FINAL_LOSS, "C", seeds, size, losses)
        for name in ("Trained TF", "Interpolated"):
            group = SMALL if size in trainings.SMALL else LARGE
            excess.setdefault((group, name), []).append(losses[name] / losses["GD"] - 1)
        exact = evaluation.final_losses(population)[:count]
        on_exact = [evaluation.trained_layer(population, run) for run in range(count)]
        off_b = np.array([evaluation.preconditioner_errors(layer, config) for layer in on_exact])
        of_size = {
            "largest excess of the population's loss, relative": exact / losses["GD"][:count] - 1,
            "largest error of B on the diagonal, relative": off_b[:, 0],
            "largest error of B off the diagonal, relative": off_b[:, 1],
        }
        for name, values in of_size.items():
            errors.setdefault(name, []).append(values)
    for key, observable in COMPARED.items():
        largest, group = np.max(excess[key], axis=0), key[0]
        of_group = runs[f"oswald_sampled_{trainings.SIZE if group == SMALL else size}"].sweep.seeds
        yield facts(of_group, {f"{observable}, {group}": largest})
    yield facts(
        seeds[:count], {name: np.max(over_sizes, axis=0) for name, over_sizes in errors.items()}
    )


# Drawing

EDGES = {
    "A": (75, 410, 60, 270),
    "B": (535, 850, 60, 270),
    "C": (75, 410, 385, 595),
    "D": (535, 850, 385, 595),
}
HEADS = (
    "Loss over training",
    "Distance from gradient descent",
    "Loss over size",
    "Test on larger inputs",
)


@plotting.under_defaults
def draw(table: Table) -> Picture:
    """Draw the page's four panels, two by two, with legends that cover nothing."""
    figure, panels = plotting.panels((930, 655), EDGES)
    draw_losses(panels["A"], table)
    draw_alignment(panels["B"], table)
    oswald_trained_layer.draw_marks(panels["C"], table)
    x = Axis("Num datapoints / Input dim", (2.75, 52.25), trainings.SIZES)
    plotting.frame(
        panels["C"], x, Axis("Loss", (0.055, 1.085), (0.2, 0.4, 0.6, 0.8, 1)), font=12, ticks=11
    )
    oswald_trained_layer.draw_panel_d(panels["D"], table, font=12, ticks=11)
    for (letter, axes), words in zip(panels.items(), HEADS, strict=True):
        axes.set_title("")
        axes.set_title(f"{letter}: {words}", fontsize=12, loc="left", x=-0.14, y=1.13)
        lines = [
            line
            for each in figure.axes
            if each.bbox.bounds == axes.bbox.bounds
            for line in each.lines
        ]
        named = [line for line in lines if not str(line.get_label()).startswith("_")]
        place: dict[str, Any] = {
            "loc": "lower left",
            "bbox_to_anchor": (-0.16, 1.0),
            "borderaxespad": 0.1,
        }
        axes.legend(
            handles=named,
            ncols=4,
            columnspacing=0.9,
            **place,
            **(own_style.LEGEND | {"handlelength": 2}),
        )
    return figure


def draw_losses(axes: Axes, table: Table) -> None:
    """Draw the losses of single runs, and thick means over the published number."""
    for series, opacity, width in ((f"Trained TF{FURTHER}", 0.35, 1.0), ("Trained TF", 0.4, 1.5)):
        for _, run in table.points("A", series, "loss").groupby("seed"):
            axes.plot(run["x"], run["value"], color=PURPLE, alpha=opacity, linewidth=width)
    means = (Style("GD", "GD", GREEN), Style("Trained TF", "Trained TF", PURPLE, line=DASHED))
    plotting.curves(axes, table, means, "loss", linewidth=3)
    exact = Style(f"Trained TF{EXACT}", "exact gradient", "k")
    plotting.curves(axes, table, [exact], "loss", linewidth=0.9)
    x, y = (
        Axis("Training steps", (-245, 5145), (0, 2000, 4000)),
        Axis("Loss", (0.2, 0.4), (0.2, 0.25, 0.3, 0.35, 0.4)),
    )
    plotting.frame(axes, x, y, font=12, ticks=11)
    axes.set_yticklabels([f"{tick:.2f}" for tick in axes.get_yticks()])
    axes.spines[["top", "right"]].set_visible(False)


def draw_alignment(axes: Axes, table: Table) -> None:
    """Draw distances on the left axis and the cosine on the right one."""
    right = axes.twinx()
    right.set_label("B cosine")
    for (series, (panel, observable, colour)), line in zip(ALIGNMENT.items(), LINES, strict=True):
        where = right if panel == "B cosine" else axes
        own = Style(series, f"{series} (right)" if where is right else series, colour, line=line)
        plotting.curves(where, table, [own], observable, band=plotting.deviation, linewidth=2.5)
        exact = Style(series + EXACT, "_exact gradient", "k")
        plotting.curves(where, table, [exact], observable, linewidth=0.9)
        where.spines["top"].set_visible(False)
    right.axhline(1, color="0.5", linewidth=0.6)
    x = Axis("Training steps", (-245, 5145), range(0, 5001, 1000))
    plotting.frame(axes, x, Axis("L2 Norm", (0, 2.5), (0, 0.5, 1, 1.5, 2, 2.5)), font=12, ticks=11)
    plotting.frame(
        right, x, Axis("Cosine sim", (0.8, 1.04), (0.8, 0.85, 0.9, 0.95, 1)), font=12, ticks=11
    )


FIGURES = (Figure("oswald_one_step", sweeps, measure, draw),)
