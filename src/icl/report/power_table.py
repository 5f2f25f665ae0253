"""The power of the random claims, as a table and as a picture with one bar per claim."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from icl.drawing import plotting
from icl.report import tables
from icl.report.verdict_files import Verdicts, number

ROW = 15
"""Height of a claim's bar in pixels."""
REACH = 4.0
"""Violations are drawn to this many standard deviations on either side of a bound."""
COLOURS = {"supported": "#2c7fb8", "inconclusive": "#bdbdbd", "contradicted": "#d95f0e"}


def rows(figures: Iterable[Verdicts]) -> list[tuple[str, Mapping[str, Any]]]:
    """The claim and the power, for every end of every random bound.

    Claims with a contradicted bound are left out: no violation of another bound changes their verdict.
    """
    return [
        (verdict["claim"], one)
        for figure in figures
        for verdict in figure["verdicts"]
        if not any(part["outcome"] == "contradicted" for part in verdict.get("parts", ()))
        for one in verdict.get("power", ())
    ]


def markdown(figures: Iterable[Verdicts]) -> str:
    """The table, followed by the claims that no violation contradicts and those that never become supported."""
    pairs = rows(figures)
    table = [
        [claim, one["observable"], number(one["end"]), one["runs"], number(one["spread"]),
         *(text for name in ("inconclusive", "contradicted") for text in (number(one[name]), deviations(one, name)))]
        for claim, one in pairs
    ]  # fmt: skip
    headers = ["claim", "observable", "bound", "seeds", "sd over seeds", "inconclusive from", "in sd",
               "contradicted from", "in sd"]  # fmt: skip
    named = {
        name: sorted({claim for claim, one in pairs if one[name] is None}) for name in ("contradicted", "inconclusive")
    }
    return "\n".join(
        [
            "![One bar per claim: its outcome for violations of increasing size](power.png)",
            "",
            "The distance of the true value beyond a bound (negative: inside it) at which the verdict on a claim",
            "changes: all runs are shifted by the same amount and judged again; for a share, runs are flipped one by",
            "one. A claim is contradicted at 2.5 % over all its bounds (Bonferroni), so a claim with more bounds needs",
            "a larger violation. Claims with a contradicted bound are left out. Sizes are those before the correction",
            "over all claims (Benjamini and Hochberg), which can turn a verdict near them into inconclusive.",
            "",
            tables.markdown(headers, table),
            "",
            "With these seeds, no violation of some bound contradicts these claims: "
            f"{', '.join(named['contradicted']) or 'none'}.",
            "",
            "These claims stay inconclusive even far inside a bound, because another bound is not supported or the "
            f"interval is wider than the bound: {', '.join(named['inconclusive']) or 'none'}.",
            "",
        ]
    )


def deviations(one: Mapping[str, Any], name: str) -> str:
    """The size of a violation in standard deviations over runs."""
    return number(one[name] / one["spread"] if one[name] is not None and one["spread"] else None)


def draw(figures: Iterable[Verdicts], path: Path) -> None:
    """Draw one bar per claim for its least powerful bound: the outcome over the violation, the most powerful on top.

    Claims whose runs all have the same value are omitted, because their standard deviation is zero.
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
