"""What figures 27 and 28 share: the one-layer model against classical fits on the same contexts."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.models import estimators
from icl.papers.li2024 import one_layer_evaluation, one_layer_figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LENGTHS = tuple(range(6, 21, 2))
# Ten seeds of 200 give the published 2,000 prompts.
PROMPTS = {"paper": 200, "laptop": 200, "smoke": 4}


def sweeps_at(scale: str, fraction: float) -> list[Sweep]:
    """The shared training, tested at alpha' = `fraction` on fewer prompts."""
    return [
        one_layer_figures.shared_training(
            scale, one_layer_figures.ClassicalTest, relevant_fraction_test=fraction, prompts=PROMPTS[scale]
        )
    ]


def measure_errors(runs: Mapping[str, Runs]) -> pd.DataFrame:
    """Error of every method at every context length on unseen in-domain tasks, and the comparison at the last."""
    trained = one_layer_figures.trained(runs)
    seeds, config = trained.sweep.seeds, trained.sweep.configs[0]
    prompts = one_layer_evaluation.in_domain(trained.sweep.configs, trained.sweep.test)
    errors = {"ICL": one_layer_figures.wrong_curve(trained, prompts, LENGTHS).mean(axis=-1)}
    inputs = prompts.tokens[..., : config.feature_dimension].flatten(0, 1).numpy()
    labels = prompts.labels.flatten(0, 1).numpy()
    for name, classify in estimators.batched_classifiers().items():
        answers = [classify(inputs[:, :n], labels[:, :n], inputs[:, -1]) for n in LENGTHS]
        errors[name] = np.mean((np.stack(answers) != labels[:, -1]).reshape(len(LENGTHS), len(seeds), -1), axis=-1)
    parts = [
        rows("classification error", seeds, curve, panel="main", series=series, x=np.array(LENGTHS)[:, None])
        for series, curve in errors.items()
    ]
    best = min((curve[-1] for name, curve in errors.items() if name != "ICL"), key=np.mean)
    parts.append(rows("ICL error minus 1.5 times the best classical error", seeds, errors["ICL"][-1] - 1.5 * best))
    return join(parts)


STYLES = (
    Style("ICL", "ICL", "r", "o"),
    Style("Logistic", "Logistic", "b", "x"),
    Style("SVM Gau.", "SVM Gau.", "m", "+"),
    Style("SVM Lin.", "SVM Lin.", "c", "d"),
    Style("1-NN", "1-NN", "y", "<"),
    Style("3-NN", "3-NN", "g", "s"),
)


@plotting.published
def draw_errors(table: pd.DataFrame, *, highest: float, top: float, font: float, at: tuple[float, float],
                spacing: float) -> "Figure":  # fmt: skip
    """The published look of figures 27 and 28; the dashed line marks an error of one per cent.

    highest : the largest error on the axis; top : its edge in pixels; font, at, spacing : of the legend
    """
    figure, axes = plotting.canvas((520, 520), (130.18, 485.63, top, 431.72))
    axes.axhline(1e-2, **plotting.GUIDE)
    plotting.curves(axes, table, STYLES, "classification error")
    x = Axis("# of contexts or samples", (6, 20), range(8, 21, 4))
    plotting.frame(axes, x, Axis("Classification error", (1e-3, highest), log=True), font=22)
    plotting.legend(axes, font, "upper right", at, spacing)
    return figure
