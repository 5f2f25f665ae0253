"""Distance between training on 10 000 fixed sequences, as in the official code, and exact
descent (pages 42 and 43).
"""

from typing import Any

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
    join,
    plotting,
    rows,
    torch,
)
from icl.models.autoregressive import trainings

LAWS = {"gaussian": "Gaussian", "sparse": "Example 4.1", "full-one": "all ones"}
"""Law of the first token -> label."""
SEEDS = {"paper": 10, "laptop": 10, "smoke": 2}
SAMPLES = 10000
"""Sequences in the training of two blocks, as published."""
ALL_BLOCKS = {"few": 1000, "many": 16000}
"""Sequences in the trainings of all blocks."""
FEWER = {"paper": 1, "laptop": 1, "smoke": 200}
# The noise in the other blocks is constant from epoch 20 on.
FULL_EPOCHS = {"paper": 200, "laptop": 30, "smoke": 2}


def sweeps(scale: str) -> list[Sweep]:
    """Exact descent; training of two blocks on samples of each law; training of all blocks on
    two sample sizes.
    """

    def drawn(estimator: str, count: int) -> dict[str, Any]:
        return {
            "gradient_estimator": [estimator],
            "samples": [count // FEWER[scale]],
            "seed": range(SEEDS[scale]),
        }

    planned = [trainings.from_every_start(law, trainings.CONVERGED[scale]) for law in LAWS]
    planned += [
        trainings.from_every_start(
            law, trainings.EPOCHS, "_reduced", **drawn("sample_blocks", SAMPLES)
        )
        for law in LAWS
    ]
    for size, count in ALL_BLOCKS.items():
        name, snapshots = f"zheng_sampled_{size}", (0, FULL_EPOCHS[scale])
        planned.append(
            trainings.training(name, "full-one", snapshots, **drawn("sample_all_blocks", count))
        )
    return planned


def measure(runs: Trained, scale: str) -> Rows:
    """ab on samples and exactly, their distances by seed, and the blocks with zero population
    gradient.
    """
    parts, epochs, names = [], np.arange(trainings.EPOCHS + 1), list(trainings.STARTS)
    for law in LAWS:
        name = f"zheng_{law.replace('-', '_')}"
        exact, sampled = runs[name], runs[f"{name}_reduced"]
        wanted, found = (
            trainings.products(exact)[:, epochs],
            trainings.products(sampled).reshape(len(names), -1, len(epochs)),
        )
        seeds = sampled.sweep.seeds[: found.shape[1]]
        distances = abs(found - wanted[:, None]).max(axis=-1)  # (starts, seeds)
        places = np.arange(len(names))[:, None]
        parts.append(rows("distance", seeds, distances, x=places, panel="distance", series=law))
        if law != "gaussian":
            parts.append(rows(f"largest |ab - exact|, {law}", seeds, distances.max(axis=0)))
            continue
        for start, of_start, values, ab in zip(names, distances, wanted, found, strict=True):
            parts.append(rows(f"largest |ab - exact|, {law}, start {start}", seeds, of_start))
            parts.append(rows("exact ab", None, values, x=epochs, panel="ab", series=start))
            parts.append(
                rows("ab", np.array(seeds)[:, None], ab, x=epochs, panel="ab", series=start)
            )
    few_and_many = [runs[f"zheng_sampled_{size}"] for size in ALL_BLOCKS]
    counts = np.array([of_size.sweep.configs[0].samples for of_size in few_and_many])
    noise, seeds = (
        np.array([noise_of(of_size) for of_size in few_and_many]),
        few_and_many[0].sweep.seeds,
    )
    slopes = [log_slope(counts, of_seed) for of_seed in noise.T]
    parts.append(rows("rms", seeds, noise, x=counts[:, None], panel="noise", series="other blocks"))
    return join([*parts, rows("slope of the other blocks against m", seeds, slopes)])


def noise_of(runs: Runs) -> np.ndarray:
    """Return the last root mean square of blocks without population gradient, KQ 22, 23 and 33
    and PV 13: (runs,).
    """
    d, last = runs.sweep.configs[0].dimension, runs.last()
    key_query, value = (torch.view_as_complex(last[name]) for name in ("KQ", "PV"))
    parts = (key_query[:, :d], key_query[:, d:, d:], value[:, :, d:])
    moduli = torch.cat([part.abs().flatten(1) for part in parts], dim=1).numpy()
    return np.sqrt((moduli**2).mean(axis=1))


STARTS = {name: f"({name.replace(' ', ', ')})" for name in trainings.STARTS}


@plotting.under_defaults
def draw(table: Table) -> Picture:
    """Draw curves, distances and noise, side by side."""
    title = "Training on samples beside the exact descent (wide grey line)"
    picture, panels = own_style.panels(["ab", "distance", "noise"], 3, title, (330, 280))
    ab, distance, noise = panels.values()
    for style in own_style.styles(STARTS):
        plotting.curves(ab, table, [style], "ab", band=plotting.pale, **own_style.LINE)
        exact = table.curve("ab", style.series, "exact ab")
        ab.plot(exact["x"], exact["value"], color="0.8", linewidth=5, zorder=1)
    for shift, style in enumerate(own_style.styles(LAWS, markers=True)):
        own = table.points("distance", style.series, "distance")
        look: dict[str, Any] = {
            "markersize": 4,
            "markerfacecolor": "none",
            "label": style.label,
            "gid": style.series,
        }
        distance.plot(
            own["x"] + 0.22 * (shift - 1), own["value"], style.marker, color=style.colour, **look
        )
    blocks = own_style.styles({"other blocks": "other blocks"}, markers=True)
    plotting.curves(noise, table, blocks, "rms", band=plotting.pale, markersize=5, linestyle="none")
    mean = table.curve("noise", "other blocks", "rms")
    falling = mean["value"].iloc[0] * (mean["x"] / mean["x"].iloc[0]) ** -0.5
    noise.plot(mean["x"], falling, color="0.5", linewidth=1, label=r"$m^{-1/2}$")
    sizes, largest = mean["x"].tolist(), r"Largest $|ab-ab_{\mathrm{exact}}|$"
    m = Axis(
        "Sequences $m$",
        (0.8 * sizes[0], 1.25 * sizes[-1]),
        sizes,
        [f"{size:.0f}" for size in sizes],
        log=True,
    )
    plotting.frame(ab, Axis("Epoch", (0, trainings.EPOCHS)), Axis("$ab$", (0, 4)), own_style.FONT)
    start = Axis("Start $(a_0, b_0)$", (-0.5, 2.5), range(3), list(STARTS.values()))
    plotting.frame(distance, start, Axis(largest, log=True), own_style.FONT)
    plotting.frame(noise, m, Axis("RMS of the other blocks", log=True), own_style.FONT)
    noise.set_xticks([], minor=True)
    own_style.name_curves(ab)
    for axes in (distance, noise):
        axes.legend(fontsize=own_style.FONT, frameon=False, loc="lower left", bbox_to_anchor=(0, 0))
    return picture


FIGURES = (Figure("zheng_sampled", sweeps, measure, draw),)
