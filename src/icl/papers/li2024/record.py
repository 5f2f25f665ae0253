"""The rows and pictures of figures that draw one training of many.

The published pictures show one training, whose seed is not stated. In all figures of a model we
draw the one of twenty that lies nearest to all its published curves together (``python -m studies
drawn``), or, if that seed was not trained, the run of least hinge loss on held-out prompts.
Verdicts count all runs that have learnt their training distribution: claims have a condition on the
held-out loss.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from icl.core.lazy import torch
from icl.core.table import ERROR
from icl.evidence import errors
from icl.evidence.errors import GROUPS
from icl.figure import (
    Axis,
    Figure,
    Picture,
    Rows,
    Runs,
    Style,
    Table,
    Trained,
    facts,
    join,
    plotting,
    rows,
    single,
)
from icl.papers.li2024.trainings import in_axes

HELD_OUT, BATCHES, BATCH = 2**40, 10, 200
"""Held-out prompts are the batches of the steps from HELD_OUT on, which no training reaches:
2,000 prompts per run.
"""
HELD_OUT_LOSS = "held-out loss"
Answers = Mapping[str, np.ndarray]
"""Series -> whether an answer is wrong, or how often, (xs, runs, prompts)."""
Edges = tuple[float, float, float, float]
"""Left, right, top and bottom edge, in pixels."""


def held_out_loss(runs: Runs) -> np.ndarray:
    """Hinge loss of the trained weights on held-out training prompts: (runs,), NaN for a run that
    diverged.

    Of the decoder's prompts only full ones count, since the labels of shorter ones cannot be
    inferred.

    runs : as trained, not in the axes of the patterns
    """
    model, configs = runs.sweep.model, []
    assert model.loss is not None
    for config in runs.sweep.configs:
        longest = (
            {"least_contexts": config.context_length} if hasattr(config, "least_contexts") else {}
        )
        configs.append(replace(config, batch=BATCH, training_prompts=0, **longest))
    with torch.no_grad():
        losses = [
            model.loss(
                runs.last(),
                {n: torch.from_numpy(a) for n, a in model.sample(configs, step).items()},
                configs,
            )
            for step in range(HELD_OUT, HELD_OUT + BATCHES)
        ]
    return torch.stack(losses).double().mean(dim=0).numpy()


class Record:
    """Rows of a figure that draws one run: curves and facts of all runs, with the held-out losses.

    runs : as trained; the attribute is in the axes of the patterns
    """

    def __init__(self, runs: Runs) -> None:
        self.runs, self.seeds, losses = in_axes(runs), runs.sweep.seeds, held_out_loss(runs)
        seed = runs.sweep.test.drawn_seed
        # Sorting puts the NaN of diverged runs last, and on a tie the smallest seed first.
        self.drawn = (
            self.seeds.index(seed)
            if seed in self.seeds
            else int(np.lexsort((np.array(self.seeds), losses))[0])
        )
        self.parts = [
            rows(HELD_OUT_LOSS, self.seeds, losses),
            errors.drawn_run(self.seeds, self.drawn),
        ]

    def drawn_run(self, times: int = GROUPS) -> Runs:
        """Return the drawn run with `times` as many test prompts; the first are those of all
        runs.
        """
        test = self.runs.sweep.test
        return self.runs.alone(self.drawn, replace(test, prompts=times * test.prompts))

    def checkpoints(self) -> list[Runs]:
        """Return the drawn run at each of its last GROUPS snapshots, all with the test prompts
        of all runs.
        """
        run = self.runs.alone(self.drawn)
        return [
            replace(
                run,
                sweep=replace(run.sweep, snapshots=(step,)),
                weights={n: w[:, None] for n, w in run.at(step).items()},
            )
            for step in run.sweep.snapshots[-GROUPS:]
        ]

    def curves(
        self, observable: str, values: Mapping[str, Any], x: Sequence[int], panel: str = "main"
    ) -> None:
        """Add curves, the drawn run and all runs; values : series -> (xs, runs)."""
        for series, of_series in values.items():
            labels = {"panel": panel, "series": series, "x": x}
            self.parts += errors.drawn_curve(
                self.seeds, self.drawn, observable, of_series, **labels
            )

    def error_curves(
        self,
        wrong: Answers,
        wrong_of: Callable[[Runs], Answers],
        x: Sequence[int],
        panel: str = "main",
        times: int = GROUPS,
    ) -> None:
        """Add error curves: all runs, and the drawn one on `times` as many prompts, with a band
        over its checkpoints.

        The band is two standard deviations of the errors at the last GROUPS snapshots, on one set
        of test prompts.

        wrong : the answers of all runs; a series of two points lies at the ends of x; wrong_of :
            runs -> their answers
        """
        drawn, late = wrong_of(self.drawn_run(times)), [wrong_of(run) for run in self.checkpoints()]
        for series, answers in wrong.items():
            places = x if len(answers) == len(x) else (x[0], x[-1])
            labels = {"panel": panel, "series": series, "x": places}
            band = np.concatenate([of_run[series].mean(axis=-1) for of_run in late], axis=-1)
            self.parts += errors.drawn_error(
                self.seeds, self.drawn, answers, drawn[series], band, **labels
            )

    def rows(self, claimed: Mapping[str, Any]) -> Rows:
        """All rows, with what claims bound: observable -> (runs,)."""
        return join([*self.parts, facts(self.seeds, claimed)])


def measure_errors(
    runs: Trained, scale: str, wrong_of: Callable[[Runs], Answers], claimed: Any, x: Sequence[int]
) -> Rows:
    """Error curves of a figure with a single training, and what its claims bound.

    wrong_of : runs in the axes of the patterns -> their answers; claimed : these -> observables
    """
    record = Record(single(runs))
    wrong = wrong_of(record.runs)
    record.error_curves(wrong, wrong_of, x)
    return record.rows(claimed(wrong))


class Look(NamedTuple):
    """A published picture with curves.

    size : of the square, and edges : of its axes, in pixels; font : of the axes' labels; legend :
    font, corner, place and spacing; band : of errors; guide : a dashed line at an error of one per
    cent; baseline : one for this series
    """

    size: int
    edges: Edges
    x: Axis
    y: Axis
    font: float
    legend: tuple[float, Any, tuple[float, float], float]
    band: bool = True
    guide: bool = False
    baseline: bool = False


@plotting.under_defaults
def draw(
    table: Table, observable: str, styles: Sequence[Style], look: Look, panel: str = "main"
) -> Picture:
    """Return the curves of the drawn run in the published style."""
    picture, axes = plotting.canvas((look.size, look.size), look.edges, panel=panel)
    if look.guide:
        axes.axhline(1e-2, **plotting.GUIDE)
    if look.baseline:
        plotting.baseline(axes, table)
    band = plotting.published_band if look.band and observable == ERROR else None
    plotting.curves(axes, table, styles, observable, band=band)
    plotting.frame(axes, look.x, look.y, look.font)
    plotting.legend(axes, *look.legend)
    return picture


def error_axis(low: float, high: float) -> Axis:
    """Return the logarithmic axis of an error."""
    return Axis("Classification error", (low, high), log=True)


def figure(
    name: str, training: Any, measure: Any, observable: str, styles: Sequence[Style], look: Look
) -> Figure:
    """Return a figure of curves of one drawn run."""
    picture = partial(draw, observable=observable, styles=styles, look=look)
    return Figure(name, training, measure, picture, draws_one_run=True)
