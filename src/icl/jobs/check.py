"""Judge a figure's claims, and measure its distance from the published numbers."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from icl.core import sealed, table
from icl.core.files import file_digest
from icl.core.table import Table
from icl.evidence import judging, published_curves
from icl.evidence.ledger import Claim


def check(
    figure: str,
    scale: str,
    folder: str,
    claims: Iterable[Claim],
    source: Path,
    measured: str,
    published: Path | None,
    output: Path,
    fingerprint: str,
) -> None:
    """Write the verdicts on a figure's table.

    folder : of the results, as in results/<folder>; source : the table; measured : fingerprint of its measurement
    """
    made, about = table.read(source, figure, scale, measured)
    record = {
        "figure": figure,
        "scale": scale,
        "folder": folder,
        "fingerprint": fingerprint,
        "table": file_digest(source),
    }
    sealed.write(output, "verdicts", record | judged(claims, made, about, published))


def judged(claims: Iterable[Claim], made: Table, about: Mapping[str, Any], published: Path | None) -> dict[str, Any]:
    """Return what a table says on the claims: verdicts, distances from the published numbers, and how it was made."""
    return {
        "verdicts": [verdict.plain() for verdict in judging.verdicts(claims, made)],
        "distances": published_curves.distances(made, published_curves.read(published)) if published else [],
        "diverged": about["diverged"],
        "about": {
            name: about[name] for name in ("revision", "clean", "versions", "python", "arithmetic", "cpu_seconds")
        },
    }
