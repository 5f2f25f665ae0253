"""The gallery's files: verdicts.jsonl, one line per verdict, and figures.jsonl, one line per figure
and scale.

A figure is shown at the largest scale at which it was run. A verdict whose first seed is not the
default one belongs to a second sample; one that is marked `other_arithmetic` comes from the same
seeds under settings of the caller (see `icl.pipeline.kernels`), that is another order of sums.
"""

import json
import shutil
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from PIL import Image

from icl.core.config import SCALES, canonical
from icl.core.files import read_text, write_text
from icl.evidence import freeze, ledger
from icl.evidence.judging import Verdict
from icl.evidence.ledger import Bound
from icl.pipeline import kernels
from icl.pipeline.config import FIRST_SEED
from icl.pipeline.plan import Plan
from icl.report import costs
from icl.report.results import Record

FOLDER = Path("gallery")
VERDICTS = FOLDER / "verdicts.jsonl"
FIGURES = FOLDER / "figures.jsonl"
Line = dict[str, Any]
T = TypeVar("T")
Second = Mapping[tuple[str, str], Verdict]
"""(claim, scale) -> the verdict on other seeds."""


class Rejudged(NamedTuple):
    """The outcome of a claim under another order of sums, and under the default one."""

    scale: str
    outcome: str
    first: str


Other = Mapping[tuple[str, str], Rejudged]
"""(claim, scale) -> outcomes on the same seeds."""


def read(path: Path) -> list[Line]:
    """Return the lines of one of the two files; none if it is missing."""
    return [json.loads(line) for line in read_text(path).splitlines()]


def write(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """Write one of the two files, sorted and without unknown figures."""
    figures = list(Plan(SCALES[0]).figures)
    claims = list(ledger.all_claims())

    def place(line: Mapping[str, Any]) -> tuple[int, ...]:
        figure = figures.index(line["figure"]), SCALES.index(line["scale"])
        sample = line.get("first_seed", 0), is_of_other_arithmetic(line)
        return *figure, *sample, claims.index(line["claim"]) if "claim" in line else 0

    kept = sorted((line for line in lines if line["figure"] in figures), key=place)
    texts = (json.dumps(line, ensure_ascii=False, allow_nan=False) for line in kept)
    write_text(path, "".join(f"{text}\n" for text in texts))


def is_of_other_arithmetic(line: Mapping[str, Any]) -> bool:
    """Return whether a verdict is from another order of sums than the default one."""
    return bool(line.get("other_arithmetic"))


def is_first(line: Mapping[str, Any]) -> bool:
    """Return whether a verdict is that of the default seeds and arithmetic."""
    return line.get("first_seed") == FIRST_SEED and not is_of_other_arithmetic(line)


def is_current(line: Mapping[str, Any]) -> bool:
    """Return whether a verdict is on the ledger's bounds, conditions and scales."""
    claim = ledger.all_claims().get(line["claim"])
    verdict = Verdict.read(line)
    if claim is None or (claim.scales and verdict.scale not in claim.scales):
        return False

    def stored(bounds: Iterable[Bound], **same: Any) -> list[Bound]:
        return [bound.model_copy(update={"range": (None, None), **same}) for bound in bounds]

    judged = [part.bound for part in verdict.parts], [one.bound for one in verdict.conditions]
    return judged == (stored(claim.bounds), stored(claim.conditions, statistic="mean"))


def second_samples() -> Second:
    """Return verdicts on claims with random runs on other seeds, in the default order of sums;
    other scales repeat nothing.
    """
    random = {claim.id for claim in ledger.all_claims().values() if not claim.is_computed}
    # Lines are sorted by seed, so of several samples the one of the smallest seeds is kept.
    return {
        (line["claim"], line["scale"]): Verdict.read(line)
        for line in reversed(read(VERDICTS))
        if line["first_seed"] != FIRST_SEED
        and line["claim"] in random
        and not is_of_other_arithmetic(line)
    }


def by_other_arithmetic() -> Other:
    """Return the outcomes under another order of sums."""
    lines = read(VERDICTS)
    first = {(line["claim"], line["scale"]): line["outcome"] for line in filter(is_first, lines)}
    found = {}
    for line in filter(is_of_other_arithmetic, lines):
        key = line["claim"], line["scale"]
        found[key] = Rejudged(line["scale"], line["outcome"], first.get(key, ""))
    return found


def nearest(found: Mapping[tuple[str, str], T], claim: str, scale: str) -> T | None:
    """Return what is found on a claim at this scale, or else at the largest smaller one."""
    smaller = SCALES[SCALES.index(scale) :]
    return next((found[claim, one] for one in smaller if (claim, one) in found), None)


def held(plan: Plan, names: Collection[str]) -> dict[str, Record]:
    """Return the gallery's verdicts on these figures at the plan's scale and seeds, and their
    provenance.

    Of a second sample the gallery records neither provenance nor the number of seeds.
    """
    if plan.changed:
        return {}
    abouts: dict[str, Any] = {name: {} for name in names}
    if plan.first_seed == FIRST_SEED:
        abouts = {
            line["figure"]: line["about"]
            for line in read(FIGURES)
            if line["figure"] in names and _has_trainings_of(plan, line)
        }
    found: dict[str, Any] = {}
    for line in read(VERDICTS):
        name = line["figure"]
        is_same = (line["scale"], line["first_seed"]) == (plan.scale, plan.first_seed)
        if is_same and name in abouts and line["parts"] and not is_of_other_arithmetic(line):
            found.setdefault(name, {"verdicts": [], "about": abouts[name]})["verdicts"].append(line)
    return found


def _has_trainings_of(plan: Plan, line: Line) -> bool:
    """Return whether a line of figures.jsonl is of the plan's scale and seeds."""
    name = line["figure"]
    return line["scale"] == plan.scale and plan.sweeps(name) == _plan_of(line).sweeps(name)


def _plan_of(line: Line) -> Plan:
    """Return the plan of a line of figures.jsonl."""
    return Plan(line["scale"], seeds=line.get("seeds") or 0)


def shown_scale(lines: Iterable[Mapping[str, Any]]) -> str:
    """Return the largest scale among a figure's verdicts, or lines without any."""
    lines = list(lines)
    judged = [line for line in lines if is_first(line)] or lines
    return min((line["scale"] for line in judged), key=SCALES.index)


def expected_costs(plan: Plan, names: Iterable[str]) -> tuple[float, list[str]]:
    """Return the CPU seconds of all jobs of these figures, and the figures of unknown costs.

    Trainings take as long per run as in the gallery, all other jobs as long as there.
    """
    known = {(line["figure"], line["scale"]): line for line in read(FIGURES) if line["costs"]}
    measured = list[Mapping[str, Sequence[float]]]()
    unknown = list[str]()
    for name in names:
        scales = plan.scale, ledger.size(name, plan.scale)
        line = next((known[name, scale] for scale in scales if (name, scale) in known), None)
        if line is None:
            unknown.append(name)
            continue
        ours = plan.sweeps(name)
        theirs = _plan_of(line).sweeps(name)
        more = {
            f"{costs.TRAINING}{key}": len(one.configs) / len(theirs[key].configs)
            for key, one in ours.items()
        }
        seconds = {job: cost[0] for job, cost in line["costs"].items()}
        measured.append({job: [cpu * more.get(job, 1.0)] for job, cpu in seconds.items()})
    return costs.total((plan.scale, one) for one in measured)[0], unknown


def update(plan: Plan, records: Mapping[str, Record]) -> None:
    """Put these figures' verdicts, costs, distances and pictures into the gallery.

    Another first seed or arithmetic changes verdicts alone, and pictures change at a figure's
    largest scale only.
    """
    verdicts, figures = updated(plan, records)
    write(VERDICTS, verdicts)
    if plan.first_seed != FIRST_SEED or _is_other_arithmetic():
        return
    write(FIGURES, figures)
    for name in records:
        of_figure = [line for line in (*verdicts, *figures) if line["figure"] == name]
        if shown_scale(of_figure) == plan.scale:
            for picture in map(Path, plan.pictures(name)):
                if picture.suffix == ".png":
                    few_colours(picture, 256).save(FOLDER / picture.name, optimize=True)
                elif picture.suffix == ".gif":
                    shutil.copyfile(picture, FOLDER / picture.name)


def updated(plan: Plan, records: Mapping[str, Record]) -> tuple[list[Line], list[Line]]:
    """Return the lines of both files as they will be with these figures."""
    other = _is_other_arithmetic()

    def is_replaced(line: Line) -> bool:
        sample = line["scale"], line["first_seed"], is_of_other_arithmetic(line)
        return line["figure"] in records and sample == (plan.scale, plan.first_seed, other)

    verdicts = [line for line in read(VERDICTS) if is_current(line) and not is_replaced(line)]
    kept = {(line["figure"], line["scale"]): line for line in read(FIGURES)}
    for name, record in records.items():
        about = {"figure": name, "first_seed": plan.first_seed, "date": date.today().isoformat()}
        about |= {"other_arithmetic": True} if other else {}
        verdicts += [about | verdict for verdict in record["verdicts"]]
        if not other and plan.first_seed == FIRST_SEED:
            measured = costs.of_figure(plan, name) or kept.get((name, plan.scale), {}).get("costs")
            of_record = {key: record[key] for key in ("distances", "diverged", "about")}
            about = {"figure": name, "scale": plan.scale, "seeds": plan.seeds}
            kept[name, plan.scale] = about | {"costs": measured or {}, **of_record}
    return verdicts, list(kept.values())


def _is_other_arithmetic() -> bool:
    return kernels.chosen() != kernels.ONE_ORDER


def larger_samples(plan: Plan, names: Collection[str]) -> list[str]:
    """Return which of these figures the gallery has at the plan's scale with more seeds."""
    return [
        f"{line['figure']} ({line['scale']}): the gallery has more seeds"
        for line in read(FIGURES)
        if line["figure"] in names
        and line["scale"] == plan.scale
        and _seeds(_plan_of(line), line["figure"]) > _seeds(plan, line["figure"])
    ]


def _seeds(plan: Plan, name: str) -> int:
    return max((len(set(sweep.seeds)) for sweep in plan.sweeps(name).values()), default=0)


def unclean(figures: Iterable[Line]) -> list[str]:
    """Return which results are not of a clean revision in this repository's history."""
    known = cache(_is_in_history)
    return [
        f"{line['figure']} ({line['scale']}): was not made from a revision in the history, "
        "without changes"
        for line in figures
        if not line["about"].get("clean") or not known(line["about"]["revision"])
    ]


def mixtures(figures: Iterable[Line]) -> list[str]:
    """Return why results on frozen claims are not all of one revision, in one environment on one
    machine; nothing if they are. A figure that is newer than the freeze may be of another one.

    figures : lines of figures.jsonl
    """
    found = []
    origins = dict[str, str]()
    frozen = {claim.figure for claim in ledger.all_claims().values() if claim.id in freeze.frozen()}
    for line in [line for line in figures if line["figure"] in frozen]:
        about = line["about"]
        name = f"{line['figure']} ({line['scale']})"
        origin = {key: about.get(key) for key in ("revision", "python", "versions", "arithmetic")}
        origins.setdefault(canonical(origin), name)
    if len(origins) > 1:
        names = ", ".join(origins.values())
        found.append(f"these differ in revision, versions or machine: {names}")
    return found


def _is_in_history(revision: str) -> bool:
    command = ["git", "merge-base", "--is-ancestor", revision, "HEAD"]
    return not subprocess.run(command, capture_output=True, check=False).returncode


def few_colours(picture: Path, count: int) -> Image.Image:
    """Return the picture in `count` colours, a much smaller file; white stays white."""
    with Image.open(picture) as image:
        few = Image.Quantize.MEDIANCUT
        return image.convert("RGB").quantize(count, few, kmeans=2, dither=Image.Dither.NONE)
