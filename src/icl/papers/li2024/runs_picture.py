"""All runs of a figure's training side by side, with their held-out losses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from icl.core.lazy import Picture
from icl.core.table import Table
from icl.drawing import runs_picture
from icl.drawing.plotting import Embedding, Style
from icl.papers.li2024.one_training import HELD_OUT_LOSS, LEARNT, has_learnt


def of(
    draw_figure: Callable[[Table], Picture], styles: Sequence[Style] | Sequence[Embedding]
) -> Callable[[Table], Picture]:
    """The function from a figure's table to the picture of all its runs, from its `draw` and its styles."""
    return partial(draw, draw_figure=draw_figure, styles=styles)


def draw(
    table: Table, draw_figure: Callable[[Table], Picture], styles: Sequence[Style] | Sequence[Embedding]
) -> Picture:
    """The picture of `icl.drawing.runs_picture`; titles have the held-out loss, and a line at the top counts the runs
    that have learnt.
    """
    losses = table.fact(HELD_OUT_LOSS)
    failed = [seed for seed, loss in losses.items() if not has_learnt(loss)]
    count = f"{len(losses) - len(failed)} of {len(losses)} runs learnt (held-out loss at most {LEARNT:g})"
    if failed:
        count += f"; not seed{'s' * (len(failed) > 1)} {', '.join(map(str, failed))}"
    titles = {seed: f"seed {seed}, loss {loss:.2g}" for seed, loss in losses.items()}
    return runs_picture.draw(table, draw_figure, styles, titles, failed, count)
