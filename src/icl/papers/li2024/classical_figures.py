"""Figures 27 and 28: the one-layer model against classical classifiers on the same contexts, alpha' = 0.8 and 0.6."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from icl.core.lazy import Picture
from icl.core.runs import Runs, single
from icl.core.sweep import Sweep
from icl.core.table import Table
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.figure import Figure
from icl.models import estimators
from icl.papers.li2024 import one_layer_evaluation, one_layer_figures, one_training, runs_picture

LENGTHS = tuple(range(6, 21, 2))
PROMPTS = {"paper": 200, "laptop": 200, "smoke": 4}
# The drawn run has 10,000 prompts. The published levels are multiples of 1 / 2,000; as many here would double the
# sampling error of the comparison.
TIMES = 50


def sweeps_at(scale: str, fraction: float) -> list[Sweep]:
    """The shared training, tested at alpha' = `fraction` on fewer prompts."""
    return [
        one_layer_figures.shared_training(
            scale, one_layer_figures.NoisyTest, relevant_fraction_test=fraction, prompts=PROMPTS[scale]
        )
    ]


def measure_errors(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Error of each method at each context length on unseen in-domain tasks, and the comparison at the last length."""
    trained, pick = one_layer_figures.trained(runs), one_training.choice(single(runs))
    wrong, of_drawn = _wrong(trained), _wrong(one_training.alone(trained, pick.index, TIMES))
    parts: list[pd.DataFrame] = []
    for series, answers in wrong.items():
        parts += pick.error_lines(answers, of_drawn[series], panel="main", series=series, x=LENGTHS)
    last = {series: answers[-1].mean(axis=-1) for series, answers in wrong.items()}
    best = min((errors for name, errors in last.items() if name != "ICL"), key=np.mean)
    parts.append(pick.claim("ICL error less the best classical error", last["ICL"] - best))
    return one_training.table(pick, parts)


def _wrong(runs: Runs) -> dict[str, np.ndarray]:
    """Whether each method is wrong on each run's prompts: series -> bool (lengths, runs, prompts)."""
    prompts = one_layer_evaluation.in_domain(runs.sweep.configs, runs.sweep.test)
    wrong = {"ICL": one_layer_figures.wrong_curve(runs, prompts, LENGTHS)}
    inputs = prompts.tokens[..., : runs.sweep.configs[0].feature_dimension].flatten(0, 1).numpy()
    labels = prompts.labels.flatten(0, 1).numpy()
    for name, classify in estimators.batched_classifiers().items():
        answers = [classify(inputs[:, :n], labels[:, :n], inputs[:, -1]) for n in LENGTHS]
        wrong[name] = (np.stack(answers) != labels[:, -1]).reshape(wrong["ICL"].shape)
    return wrong


STYLES = (
    Style("ICL", "ICL", "r", "o"),
    Style("Logistic", "Logistic", "b", "x"),
    Style("SVM Gau.", "SVM Gau.", "m", "+"),
    Style("SVM Lin.", "SVM Lin.", "c", "d"),
    Style("1-NN", "1-NN", "y", "<"),
    Style("3-NN", "3-NN", "g", "s"),
)


@plotting.published
def draw_errors(table: Table, *, highest: float, top: float, font: float, at: tuple[float, float],
                spacing: float) -> "Picture":  # fmt: skip
    """Figures 27 and 28 in the published style; the dashed line marks an error of one per cent.

    highest : upper limit of the y axis; top : upper edge of the axes in pixels; font, at, spacing : of the legend
    """
    figure, axes = plotting.canvas((520, 520), (130.18, 485.63, top, 431.72))
    axes.axhline(1e-2, **plotting.GUIDE)
    plotting.error_curves(axes, table, STYLES)
    x = Axis("# of contexts or samples", (6, 20), range(8, 21, 4))
    plotting.frame(axes, x, Axis("Classification error", (1e-3, highest), log=True), font=22)
    plotting.legend(axes, font, "upper right", at, spacing)
    return figure


def _figure(name: str, fraction: float, **look: Any) -> Figure:
    draw = partial(draw_errors, **look)
    return Figure(name, partial(sweeps_at, fraction=fraction), measure_errors, draw, runs_picture.of(draw, STYLES))


FIGURES = (
    _figure("figure27", 0.8, highest=1, top=28.25, font=18, at=(1.004, 1.009), spacing=0.45),
    _figure("figure28", 0.6, highest=2, top=19.22, font=17, at=(1.006, 1.011), spacing=0.52),
)
