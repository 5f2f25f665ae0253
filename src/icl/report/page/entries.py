"""One figure of the report, as plain data; the templates only arrange it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from icl.core import discovery
from icl.core.sweep import Sweep, sweep_from_plain
from icl.evidence import ledger
from icl.pipeline import figures
from icl.pipeline.plan import Plan
from icl.report import documents, scales
from icl.report.compare import Change
from icl.report.costs import Cost
from icl.report.page import constants, pictures
from icl.report.page.claims import claim
from icl.report.verdict_files import Verdicts

LINKED = ("_runs",)
"""Endings of the pictures that are linked, not embedded, since the cards show every run too."""


@dataclass(frozen=True)
class Files:
    """The results of a figure on disk; None or empty if not made.

    about : the provenance stored with the table
    pictures : ending ("", "_overlay", "_runs") -> bytes of the PNG; costs : job -> its cost
    """

    verdicts: Verdicts | None = None
    table: pd.DataFrame | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    pictures: Mapping[str, bytes] = field(default_factory=dict)
    costs: Mapping[str, Cost] = field(default_factory=dict)

    @property
    def missing(self) -> list[str]:
        """The parts that are not made."""
        parts = {"verdicts": self.verdicts is None, "table": self.table is None, "picture": "" not in self.pictures}
        return [name for name, absent in parts.items() if absent]


def entry(
    plan: Plan, name: str, files: Files, changes: Sequence[Change] = (), others: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Everything in the report on the figure `name`.

    others : claim -> its outcome on other seeds

    Raises ConstantError for a table with constants, and UnknownName for verdicts with a claim, that no longer exist.
    """
    judged: Mapping[str, Any] = files.verdicts or {"verdicts": [], "fidelity": [], "diverged": []}
    target, sweeps = ledger.target(name), [sweep_from_plain(plain) for plain in files.about.get("sweeps", [])]
    graded = constants.rows(sweeps, *(figures.sweeps(name, scale, {}) for scale in (plan.scale, "paper")))
    verdicts = [{"first_seed": plan.first_seed, **one} for one in judged["verdicts"]]
    claims = [claim(one, files.table, graded, changes, others) for one in verdicts]
    fidelity = [row for row in judged["fidelity"] if row["series"] == "all"]
    return {
        "name": name,
        "key": discovery.figures()[name],
        "file": discovery.file(name),
        "paper": ledger.of_figure(name).title,
        "scale": plan.scale,
        "folder": plan.folder,
        "summary": target.summary,
        "caption": target.caption,
        "differences": target.differences,
        "note": plan.note(name),
        "command": scales.command(name, plan.scale) if plan.is_default else plan.command(name),
        "missing": files.missing,
        "claims": claims,
        "changed": any(one["changed"] for one in claims),
        "fidelity": fidelity,
        "agreement": agreement(fidelity),
        "published": documents.published(name),
        "pictures": {end: pictures.compact(data) for end, data in files.pictures.items() if end not in LINKED},
        "linked": [end for end in files.pictures if end in LINKED],
        "constants": graded,
        "provenance": provenance(files.about, judged.get("table", ""), sweeps),
        "diverged": judged["diverged"],
        "costs": files.costs,
        "cpu": sum(cost.cpu for cost in files.costs.values()),
    }


def agreement(rows: Sequence[Mapping[str, Any]]) -> str:
    """Distance of our curves from the published ones, from the nearest to the farthest panel; empty without any.

    A factor is the median ratio on a logarithmic panel, a difference the median distance on a linear one.
    """
    parts = []
    for kind, distance in (("factor", "log10 ratio"), ("difference", "absolute difference")):
        medians = [row["median"] for row in rows if row["distance"] == distance and row["median"] is not None]
        ends = sorted({min(medians), max(medians)}) if medians else []
        texts = [f"{10**end if kind == 'factor' else end:.2g}" for end in ends]
        parts += [f"{kind} {' to '.join(dict.fromkeys(texts))}"] if texts else []
    return ", ".join(parts)


def provenance(about: Mapping[str, Any], digest: str, sweeps: Sequence[Sweep]) -> dict[str, Any]:
    """Revision, digest, versions and trainings of a table."""
    if not about or not digest:
        return {}
    return {
        **{name: about[name] for name in ("revision", "clean", "identity", "inputs")},
        "digest": digest,
        "versions": {"python": about["python"], **about["versions"]},
        "trainings": [
            {"name": s.name, "runs": len(s.configs), "seeds": sorted(set(s.seeds)), "steps": s.snapshots[-1]}
            for s in sweeps
        ],
    }
