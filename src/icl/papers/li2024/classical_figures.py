"""What figures 27 and 28 share: the one-layer model against classical fits on the same contexts."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.models import estimators
from icl.papers.li2024 import one_layer, one_layer_figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LENGTHS = tuple(range(6, 21, 2))
# Ten seeds of 200 give the published 2,000 prompts.
PROMPTS = {"paper": 200, "laptop": 200, "smoke": 4}


def trained(scale: str, fraction: float) -> Sweep:
    """The shared training, tested at alpha' = `fraction` on fewer prompts."""
    return one_layer_figures.trained(scale, relevant_fraction_test=fraction, prompts=PROMPTS[scale])


def measure_errors(runs: Runs) -> pd.DataFrame:
    """Error of every method at every context length on unseen in-domain tasks, and the comparison at the last."""
    seeds, config = runs.sweep.seeds, runs.sweep.configs[0]
    prompts = one_layer.in_domain(runs.sweep.configs, runs.sweep.test)
    errors = {"ICL": one_layer_figures.wrong_curve(runs, prompts, LENGTHS).mean(axis=-1)}
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


def fill(axes: "Axes", table: pd.DataFrame, highest: float) -> None:
    """The six curves and the axes of figures 27 and 28, up to an error of `highest`."""
    axes.axhline(1e-2, **plotting.GUIDE)
    plotting.curves(axes, table, STYLES, "classification error")
    x = Axis("# of contexts or samples", (6, 20), range(8, 21, 4))
    plotting.frame(axes, x, Axis("Classification error", (1e-3, highest), log=True), font=22)
