"""What the figures of chain of thought share: one training, lengths, error curves over settings and their look."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from icl.core.config import grid
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.evidence.intervals import kendall
from icl.papers.li2025 import one_layer
from icl.papers.li2025 import prompts as tasks

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Ten seeds train in seconds, so that the laptop scale is the paper scale but for the smoke test.
SEEDS = {"paper": 10, "laptop": 10, "smoke": 2}
STEPS = {"paper": 1000, "laptop": 1000, "smoke": 40}
QUERIES = {"paper": 1000, "laptop": 1000, "smoke": 16}

LENGTHS = tuple(range(0, 101, 10))
SNAPSHOTS = 20


class Varied(one_layer.Test):
    """Test constants that are refused unless the settings of every variation of them exist.

    So a figure that varies what its prompts are drawn from refuses impossible constants before anything trains.
    """

    VARIATIONS: ClassVar[tuple[Mapping[str, float], ...]] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        for change in self.VARIATIONS:
            self.variation(change)

    def variation(self, change: Mapping[str, float]) -> one_layer.Test:
        """These constants with some of them changed; raises ConstantError if they cannot be."""
        return one_layer.Test(**(asdict(self) | dict(change)))


def trained(scale: str, test: type[one_layer.Test] = one_layer.Test, **constants: Any) -> Sweep:
    """The one training that figures 17 to 20 share, with its evaluation and constants of that."""
    steps = STEPS[scale]
    return Sweep(
        name="li_cot",
        system="li_cot",
        configs=grid(one_layer.Config, seed=range(SEEDS[scale])),
        snapshots=tuple(range(0, steps + 1, steps // SNAPSHOTS)),
        test=test(**({"queries": QUERIES[scale]} | constants)),
    )


def only(runs: Mapping[str, Runs]) -> Runs:
    """The runs of a figure that has a single sweep."""
    (found,) = runs.values()
    return found


def varied(test: Varied, name: str, values: Sequence[float]) -> list[tasks.Setting]:
    """The test's settings with one constant at each of several values."""
    return [test.variation({name: value}).setting() for value in values]


def lengths(test: one_layer.Test) -> tuple[int, ...]:
    """The plotted numbers of examples that a context of the test can give."""
    return tuple(n for n in LENGTHS if n <= test.context_length_test)


def cot_curves(runs: Runs, settings: Sequence[tasks.Setting], at: Sequence[int]) -> np.ndarray:
    """Share of wrong steps of the trained model: (settings, lengths, runs, queries)."""
    return one_layer.cot_wrong(runs.last(), runs.sweep.configs, runs.sweep.test, settings, at)


def order(values: Sequence[float], wrong: np.ndarray) -> np.ndarray:
    """Kendall's tau between a constant and the error averaged over all numbers of examples above none, of every seed:
    values (settings,) and answers (settings, lengths, runs, queries), no examples first -> (runs,).
    """
    errors = wrong[:, 1:].mean(axis=(1, 3))
    return np.array([kendall(np.array(values), errors[:, run]) for run in range(errors.shape[1])])


def draw_errors(table: "pd.DataFrame", styles: Sequence[Style], y: Axis, left: float) -> "tuple[Figure, Axes]":
    """The published look of figures 17 to 19, up to the legend; `left` is the left edge of the axes in pixels."""
    figure, axes = plotting.canvas((400, 400), (left, 359.88, 26.25, 317.72))
    plotting.curves(axes, table, styles, "classification error", band=True)
    plotting.frame(axes, Axis("# of context examples", (0, 100), range(0, 101, 20)), y, font=19)
    return figure, axes
