"""Figures 10, 11 and 24 to 26 of Li et al. 2024: rows of W_O W_V, magnitude against angle, coloured
by epoch.

Figure 10: feature block of the one-layer model, angle to the mean IDR pattern; figure 11: its label
block, angle to q; figures 24 to 26: label block of each layer of the stack.
"""

from collections.abc import Mapping
from functools import partial

import numpy as np

from icl.drawing.plotting import Embedding
from icl.figure import (
    Axis,
    Figure,
    Picture,
    Rows,
    Runs,
    Table,
    Trained,
    plotting,
    rows,
    single,
    torch,
)
from icl.models.optimisers import Params
from icl.papers.li2024 import one_layer, stack, trainings
from icl.papers.li2024.record import Edges, Record

EPOCHS, STACK_EPOCHS = (0, 100, 200, 300, 400), (0, 400, 800, 1200, 1600)
DRAWN_NEURONS = 5
"""Points per epoch and sign, as counted in figures 10 and 11."""
Embeddings = Mapping[int, Mapping[str, np.ndarray]]
"""Epoch -> norms and angles of the rows, as `embeddings` returns them."""


def embeddings(params: Params, config: one_layer.Config) -> dict[str, np.ndarray]:
    """Blocks of the rows of W_O W_V, (runs, m) each: norm of the feature block and its angle
    (radians) to mu-bar, the mean IDR pattern; norm of the label block and its angle to q.

    params : of one layer in the axes of the patterns
    """
    blocks = np.split(
        torch.bmm(params["W_O"], params["W_V"]).numpy(), [config.feature_dimension], axis=-1
    )
    found = {}
    for name, block, direction in zip(
        ("feature", "label"),
        blocks,
        (config.axis_patterns[0].mean(axis=0), config.label_direction),
        strict=True,
    ):
        found[f"{name} magnitude"] = norm = np.linalg.norm(block, axis=-1)
        cosine = block @ direction / (norm * np.linalg.norm(direction))
        found[f"{name} angle"] = np.arccos(np.clip(cosine, -1, 1))
    return found


def measure_features(runs: Trained, scale: str) -> Rows:
    """Feature block of the one-layer model: the first neurons as points, the mean angle of the
    large rows as facts.
    """
    record = Record(single(runs))
    at = embeddings_over_training(record.runs)
    of_large = large(at[EPOCHS[-1]]["feature magnitude"])
    _add_points(record, "Feat. Emb.", np.full_like(of_large, True), at, "feature")
    start, end = (
        np.average(at[e]["feature angle"], axis=-1, weights=of_large)
        for e in (EPOCHS[0], EPOCHS[-1])
    )
    return record.rows({"angle at the start": start, "angle at the end": end})


def measure_labels(runs: Trained, scale: str) -> Rows:
    """Label block of the one-layer model: the first neurons of each sign as points, the angle of
    the large rows.
    """
    record = Record(single(runs))
    at = embeddings_over_training(record.runs)
    last, claimed = at[EPOCHS[-1]], {}
    for sign, of_sign in _add_points_by_sign(record, at).items():
        shown = of_sign & large(last["label magnitude"])
        claimed[f"angle at the end, a_i {sign} 0"] = np.average(
            last["label angle"], axis=-1, weights=shown
        )
    return record.rows(claimed)


def measure_layer(runs: Trained, scale: str, layer: int) -> Rows:
    """Label block of one layer of the stack: the first neurons of each sign as points, and the
    share of all that grow.

    With layer 1 also how far the large label rows of a layer turn from pi/2, for the layer where
    they turn most.
    """
    record = Record(single(runs))
    at = embeddings_over_training(record.runs, layer)
    # Only the last layer has a read-out; the published picture of layer 1 has both signs on both
    # sides, so the sign there is that of the neuron with the same index.
    _add_points_by_sign(record, at)
    growth = at[STACK_EPOCHS[-1]]["label magnitude"] / at[STACK_EPOCHS[0]]["label magnitude"]
    claimed, turns = {"share of neurons that grow": (growth > 1).mean(axis=-1)}, []
    if layer == 1:
        for number in range(1, record.runs.sweep.configs[0].layers + 1):
            last = embeddings_over_training(record.runs, number)[STACK_EPOCHS[-1]]
            turn, of_large = np.abs(last["label angle"] - np.pi / 2), large(last["label magnitude"])
            turns.append(np.average(turn, axis=-1, weights=of_large))
        claimed["largest turn of a layer"] = np.max(turns, axis=0)
    return record.rows(claimed)


def embeddings_over_training(runs: Runs, layer: int | None = None) -> Embeddings:
    """Return the embeddings of the one-layer model, or of one layer of the stack, at every drawn
    epoch.
    """
    at, epochs = {}, STACK_EPOCHS if layer else EPOCHS
    for epoch in epochs:
        # The smoke scale of the stack has fewer steps than epochs.
        params = runs.at(epoch * runs.sweep.snapshots[-1] // epochs[-1])
        at[epoch] = embeddings(
            stack.layer(params, layer) if layer else params, runs.sweep.configs[0]
        )
    return at


def large(magnitudes: np.ndarray) -> np.ndarray:
    """Return the rows of more than half the largest magnitude: bool (runs, m)."""
    return magnitudes > magnitudes.max(axis=-1, keepdims=True) / 2


def _add_points_by_sign(record: Record, at: Embeddings) -> dict[str, np.ndarray]:
    """Add label rows as points by the sign of a_i; returns the neurons of each sign, bool (runs,
    m).
    """
    positive = record.runs.last()["a"].numpy() > 0
    signs = {">": positive, "<": ~positive}
    for sign, of_sign in signs.items():
        _add_points(record, f"Lab. Emb. a_i{sign}0", of_sign, at, "label")
    return signs


def _add_points(record: Record, series: str, among: np.ndarray, at: Embeddings, block: str) -> None:
    """Add points (angle, magnitude) over epochs of the first neurons in the mask `among`, bool
    (runs, m).
    """
    for run, seed in enumerate(record.seeds):
        neurons = np.flatnonzero(among[run])[:DRAWN_NEURONS]
        for epoch, now in at.items():
            angle, magnitude = (
                now[f"{block} angle"][run, neurons],
                now[f"{block} magnitude"][run, neurons],
            )
            record.parts.append(
                rows(
                    "magnitude", seed, magnitude, panel="main", series=series, x=angle, colour=epoch
                )
            )


FEATURES = (Embedding("Feat. Emb.", "Feat. Emb.", "*", "cool_r"),)
LABELS = (
    Embedding("Lab. Emb. a_i>0", "Lab. Emb. $a_i>0$", "o", "winter_r"),
    Embedding("Lab. Emb. a_i<0", "Lab. Emb. $a_i<0$", "P", "copper_r"),
)


@plotting.under_defaults
def draw_features(table: Table) -> Picture:
    """Figure 10 in the published style, from the drawn run: one star per neuron and epoch."""
    figure, axes = plotting.canvas((400, 400), (83.40, 312.28, 22.51, 324.49), bars=1)
    plotting.scatters(axes, table, FEATURES, "magnitude")
    y = Axis("Magnitude", (-0.0014, 0.4843), widens=True)
    plotting.frame(axes, plotting.angle(r"Angle to $\bar{\mu}$"), y, font=15)
    plotting.legend(axes, 15, "center", (0.551, 0.4985))
    return figure


@plotting.under_defaults
def draw_labels(table: Table, edges: Edges, legend: float, limits: tuple[float, float]) -> Picture:
    """Figures 11 and 24 to 26 in the published style: one point per neuron and epoch, by the sign
    of a_i.

    edges : of the axes, in pixels; legend : its left edge, as a fraction of the axes; limits : of
    the y axis. Edges and legend differ between the figures because of their tick labels.
    """
    figure, axes = plotting.canvas((500, 400), edges, bars=2)
    plotting.scatters(axes, table, LABELS, "magnitude")
    plotting.frame(
        axes, plotting.angle("Angle to $q$"), Axis("Magnitude", limits, widens=True), font=15
    )
    plotting.legend(axes, 15, "center left", (legend, 0.548), spacing=0.781)
    return figure


def _labels(
    name: str, layer: int | None, edges: Edges, legend: float, limits: tuple[float, float]
) -> Figure:
    """Return a figure of label rows, of one layer of the stack or of the one-layer model."""
    draw = partial(draw_labels, edges=edges, legend=legend, limits=limits)
    measure = partial(measure_layer, layer=layer) if layer else measure_labels
    training = trainings.stack_training if layer else trainings.one_layer_training
    return Figure(name, training, measure, draw, draws_one_run=True)


FIGURES = (
    Figure(
        "figure10",
        trainings.one_layer_training,
        measure_features,
        draw_features,
        draws_one_run=True,
    ),
    _labels("figure11", None, (96.65, 342.72, 22.50, 324.72), -0.009, (-0.047, 1.391)),
    _labels("figure24", 1, (96.65, 334.64, 15.00, 324.72), -0.043, (0.0071, 0.0549)),
    _labels("figure25", 2, (109.90, 339.41, 15.00, 324.72), -0.080, (0.0074, 0.0379)),
    _labels("figure26", 3, (123.15, 344.18, 15.00, 324.72), -0.125, (0.0105, 0.0263)),
)
