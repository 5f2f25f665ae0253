"""Judge a figure's claims, and measure its distance from the published numbers."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icl.core import records, table
from icl.core.files import file_digest
from icl.core.table import Table
from icl.evidence import judging, published_curves
from icl.evidence.ledger import Claim

if TYPE_CHECKING:
    from icl.pipeline.plan import Plan

ABOUT = ("revision", "clean", "versions", "python", "arithmetic", "cpu_seconds")


def run(plan: "Plan", name: str) -> None:
    """Write the verdicts on a figure's table."""
    source = Path(plan.table_file(name))
    made, about = table.read(source, name, plan.scale, plan.measurement_fingerprint(name))
    record = {
        "figure": name,
        "scale": plan.scale,
        "folder": plan.folder,
        "fingerprint": plan.judging_fingerprint(name),
        "table": file_digest(source),
    }
    said = judged(plan.claims(name), made, about, plan.published_file(name))
    records.write(Path(plan.verdict_file(name)), "verdicts", record | said)


def judged(
    claims: Iterable[Claim], made: Table, about: Mapping[str, Any], published: Path | None
) -> dict[str, Any]:
    """Return what a table says on the claims: verdicts, distances from the published numbers,
    and how it was made.
    """
    return {
        "verdicts": [verdict.plain() for verdict in judging.verdicts(claims, made)],
        "distances": published_curves.distances(made, published_curves.read(published))
        if published
        else [],
        "diverged": about["diverged"],
        "about": {name: about[name] for name in ABOUT},
    }
