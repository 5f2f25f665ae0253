"""A figure of a paper as a value: its trainings, its table and its pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure as Picture

    from icl.core.runs import Runs
    from icl.core.sweep import Sweep


@dataclass(frozen=True)
class Figure:
    """A figure, which is a target of the workflow; all functions are pure.

    name : of the target, and of the figure in claims.yaml
    sweeps : scale -> the trainings, none for a figure that is computed without any
    measure : runs by the name of their sweep, scale -> rows of single runs
    draw : the table -> the picture
    draw_runs : the table -> all runs, for a figure that draws a single one
    frames : the table -> the pictures of an animation
    """

    name: str
    sweeps: Callable[[str], list[Sweep]]
    measure: Callable[[Mapping[str, Runs], str], pd.DataFrame]
    draw: Callable[[pd.DataFrame], Picture]
    draw_runs: Callable[[pd.DataFrame], Picture] | None = None
    frames: Callable[[pd.DataFrame], list[Picture]] | None = None
