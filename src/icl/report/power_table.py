"""The power of the random claims: a table, and a picture with a line per claim."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from icl.drawing import plotting
from icl.report import tables
from icl.report.verdict_files import Verdicts, number

ROW = 15
"""Height of a claim's line in pixels."""
REACH = 4.0
"""Violations are drawn to this many standard deviations on either side of a bound."""
COLOURS = {"supported": "#2c7fb8", "inconclusive": "#bdbdbd", "contradicted": "#d95f0e"}


def rows(figures: Iterable[Verdicts]) -> list[tuple[str, Mapping[str, Any]]]:
    """Claim and power of every end of its random bounds."""
    return [
        (verdict["claim"], one)
        for figure in figures
        for verdict in figure["verdicts"]
        for one in verdict.get("power", ())
    ]


def markdown(figures: Iterable[Verdicts]) -> str:
    """The table, below it the claims that no violation could contradict and those that would not be supported."""
    found = rows(figures)
    table = [
        [claim, one["observable"], number(one["end"]), one["runs"], number(one["spread"]),
         *(text for name in ("inconclusive", "contradicted") for text in (number(one[name]), deviations(one, name)))]
        for claim, one in found
    ]  # fmt: skip
    headers = ["claim", "observable", "bound", "seeds", "sd over seeds", "inconclusive from", "in sd",
               "contradicted from", "in sd"]  # fmt: skip
    named = {
        name: sorted({claim for claim, one in found if one[name] is None}) for name in ("contradicted", "inconclusive")
    }
    return "\n".join(
        [
            "![A line per claim: its outcome against violations of growing size](power.png)",
            "",
            "How far the truth must be past a bound (below 0: how near to it from within) for a random claim to turn:",
            "runs are moved together, spread kept, and judged again; of a share, runs flip one by one. A claim is",
            "contradicted at 2.5 % over all its bounds (Bonferroni), so that more bounds need a larger violation.",
            "",
            tables.markdown(headers, table),
            "",
            f"A bound that no violation contradicts with these seeds: {', '.join(named['contradicted']) or 'none'}.",
            "",
            "Not supported even far within this bound, as another one is not supported or the interval is wider than "
            f"the bound: {', '.join(named['inconclusive']) or 'none'}.",
            "",
        ]
    )


def deviations(one: Mapping[str, Any], name: str) -> str:
    """A size in standard deviations over runs."""
    return number(one[name] / one["spread"] if one[name] is not None and one["spread"] else None)


def draw(figures: Iterable[Verdicts], path: Path) -> None:
    """A line per claim, that of its least powerful bound: its outcome against the violation, the most powerful on top.

    Claims whose runs all have one value have no standard deviation to draw in, and no line.
    """
    worst: dict[str, tuple[float, float]] = {}
    for claim, one in rows(figures):
        if one["spread"]:
            turns = tuple(
                default if one[name] is None else one[name] / one["spread"]
                for name, default in (("contradicted", REACH), ("inconclusive", -REACH))
            )
            worst[claim] = max(worst.get(claim, (-REACH, -REACH)), (turns[0], turns[1]))
    lines = sorted(worst.items(), key=lambda item: item[1], reverse=True)
    height = max(ROW * len(lines), ROW)
    with plotting.defaults():
        figure, axes = plotting.canvas((640, height + 110), (110, 620, 60, 60 + height))
        for place, (_, (against, within)) in enumerate(lines):
            ends = [-REACH, *(min(max(end, -REACH), REACH) for end in (within, against)), REACH]
            for (outcome, colour), start, stop in zip(COLOURS.items(), ends, ends[1:], strict=False):
                axes.barh(place, stop - start, left=start, height=0.8, color=colour, label=outcome if not place else "")
        axes.axvline(0, color="k", linewidth=1)
        axes.set(xlim=(-REACH, REACH), ylim=(-0.6, max(len(lines), 1) - 0.4),
                 xlabel="true value past the bound, in standard deviations over seeds")  # fmt: skip
        axes.set_yticks(range(len(lines)), [claim for claim, _ in lines], fontsize=7)
        axes.legend(loc="lower center", bbox_to_anchor=(0.45, 1.0), ncols=3, frameon=False, fontsize=9)
        figure.savefig(path, metadata={"Software": None})
