"""The widths of the bands of Li et al. over the published ones."""

from icl.core.table import ERROR
from icl.evidence import published_curves
from icl.pipeline import figures
from icl.pipeline.config import FIRST_SEED
from studies.search import trained

FIGURES = ("figure12", "figure13", "figure14", "figure17", "figure19")
LEAST = 1e-4
"""Narrower published bands, of four equal values, are left out."""


def report(scale: str, seed: int | None = None) -> str:
    """Return quartiles of widths over the published, per figure, of the drawn seed or another."""
    lines = []
    for name in FIGURES:
        published = published_curves.load(name)
        if published is None:
            continue
        (sweep,) = figures.sweeps(name, scale, {}, FIRST_SEED).values()
        one = figures.with_seeds(sweep, [sweep.test.drawn_seed if seed is None else seed])
        table = figures.measure(name, {sweep.name: trained(one)}, scale)
        ours = table.curves[table.curves["observable"] == ERROR]
        place = ["panel", "series", "x"]
        both = published[[*place, "y_lo", "y_hi"]].merge(ours, on=place)
        both = both[both["y_hi"] - both["y_lo"] > LEAST]
        ratio = (both["band_high"] - both["band_low"]) / (both["y_hi"] - both["y_lo"])
        low, median, high = ratio.quantile([0.25, 0.5, 0.75])
        widths = f"{median:.2f} ({low:.2f} to {high:.2f}), {len(both)} points"
        lines.append(f"{name}, seed {one.seeds[0]}: {widths}")
    return "\n".join(lines)
