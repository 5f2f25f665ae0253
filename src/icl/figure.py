"""A figure of a paper as a value, and what its module needs to train, measure and draw it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pandas as pd

from icl.core.config import grid
from icl.core.lazy import Axes, Picture, Tensor, torch
from icl.core.runs import Runs, single
from icl.core.streams import stream
from icl.core.sweep import Sweep
from icl.core.table import POINT, Table, curves, exact, facts, join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style

__all__ = [
    "POINT",
    "Axes",
    "Axis",
    "Figure",
    "Picture",
    "Rows",
    "Runs",
    "Style",
    "Sweep",
    "Table",
    "Tensor",
    "Trained",
    "curves",
    "exact",
    "facts",
    "grid",
    "join",
    "plotting",
    "rows",
    "single",
    "stream",
    "torch",
]

Trained = Mapping[str, Runs]
"""The runs of a figure by the names of their sweeps."""
Rows = pd.DataFrame
"""Measured rows, as `icl.core.table.rows` makes them."""


@dataclass(frozen=True)
class Figure:
    """A figure, which is a target of the workflow; all functions are pure.

    name : of the target, and of the figure in claims.yaml
    sweeps : scale -> the trainings, none for a figure that is computed without any
    measure : runs by the name of their sweep, scale -> rows of single runs
    draw : the table -> the picture
    frames : the table -> the pictures of an animation
    draws_one_run : whether it draws a single one of many runs
    """

    name: str
    sweeps: Callable[[str], list[Sweep]]
    measure: Callable[[Trained, str], Rows]
    draw: Callable[[Table], Picture]
    frames: Callable[[Table], list[Picture]] | None = None
    draws_one_run: bool = False
