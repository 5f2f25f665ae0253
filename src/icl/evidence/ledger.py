"""The ledger of claims: one claims.yaml per paper with its figures, their captions, its claims and their bounds.

The file is first checked against claims.schema.json. Measuring depends only on the names of the observables and judging
only on the bounds, so rewording a statement or a caption recomputes nothing.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from icl.core import discovery
from icl.core.config import ConstantError
from icl.core.problem import in_one_line

SCHEMA = Path(__file__).with_name("claims.schema.json")


class LedgerError(ConstantError):
    """A claims.yaml violates the schema or contradicts itself or the figures; the message names file and place."""


@dataclass(frozen=True)
class Bound:
    """One measurable part of a claim, or a premise on each run: the observable lies within [at_least, at_most].

    statistic : `mean`, `median` or `share` over runs, or `exact` for results without any randomness
    range : the values that the observable can have
    equals : a value that a theorem names, such as an exponent: the interval must contain it, and the ends of the bound
        are half way to the nearest other simple values
    """

    observable: str
    at_least: float = -math.inf
    at_most: float = math.inf
    statistic: str = "mean"
    range: tuple[float, float] = (-math.inf, math.inf)
    equals: float | None = None

    def words(self) -> str:
        """The bound as text."""
        if self.equals is not None:
            return f"in [{self.at_least:g}, {self.at_most:g}] and equal to {self.equals:.3g}"
        if math.isinf(self.at_most):
            return f">= {self.at_least:g}"
        return f"<= {self.at_most:g}" if math.isinf(self.at_least) else f"in [{self.at_least:g}, {self.at_most:g}]"

    def plain(self) -> dict[str, Any]:
        """The bound as plain data, without infinite ends."""
        ends = {"at_least": self.at_least, "at_most": self.at_most}
        finite = {name: end for name, end in ends.items() if math.isfinite(end)}
        ends_of_range = [end if math.isfinite(end) else None for end in self.range]
        within = {"range": ends_of_range} if any(end is not None for end in ends_of_range) else {}
        named = {} if self.equals is None else {"equals": self.equals}
        return {"observable": self.observable, **finite, "statistic": self.statistic, **within, **named}


@dataclass(frozen=True)
class Claim:
    """A statement of a paper and the bounds that test it, all of which must hold.

    kind : `theorem` (a numbered statement as stated, under its premises), `remark` (another sentence of a source),
        `figure` (what a published picture shows), `number` (agreement with published numbers within their reading
        error) or `ours` (no source states it)
    source : theorem, proposition, equation, figure or page
    statement : claims with the same one test the same statement of a source, which is counted once
    says : what the source says, with its conditions; tested : what is tested here; not_shown : what that leaves open
    formula : the statement as one formula in LaTeX, without dollar signs
    premise : conditions of the source, in words; conditions : those that are measured for each run
    why : why the bounds are where they are; planted : the violations that the tests plant, each of which contradicts it
    unit : what one run is, in the plural; fitted : constants chosen on published numbers that its test uses
    scales : the scales at which it is judged; empty for all
    amended : changes of the bounds after an outcome was known: date, previous bounds and reason
    """

    id: str
    figure: str
    kind: str
    source: str
    says: str
    tested: str
    not_shown: str
    bounds: tuple[Bound, ...]
    formula: str = ""
    premise: str = ""
    statement: str = ""
    why: str = ""
    planted: str = ""
    unit: str = "trainings"
    fitted: str = ""
    conditions: tuple[Bound, ...] = ()
    scales: tuple[str, ...] = ()
    amended: tuple[Mapping[str, str], ...] = ()

    @property
    def is_computed(self) -> bool:
        """Whether nothing in it is random; the bounds of such a claim were written with the result known."""
        return all(bound.statistic == "exact" for bound in self.bounds)


@dataclass(frozen=True)
class Identity:
    """An algebraic statement of a source, or one that we use: a test checks it, and no run could contradict it.

    test : file::function
    """

    id: str
    source: str
    says: str
    test: str


@dataclass(frozen=True)
class Target:
    """A figure's entry: its caption, known differences from the published one, and its observables.

    fitted : the constants that were fitted to the published figure, in words
    doubled : its number of seeds was doubled after a verdict was known, so that a second sample decides
    aliases : other names of the target
    observables : observable -> statistic, besides those of the claims; medians : curves summarised by medians
    """

    name: str
    summary: str
    caption: str = ""
    differences: str = ""
    fitted: str = ""
    doubled: bool = False
    aliases: tuple[str, ...] = ()
    observables: Mapping[str, str] | None = None
    medians: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ledger:
    """One paper's claims.yaml.

    cite : keys of references.bib; about : two sentences, what the paper says and how it is tested here
    """

    paper: str
    title: str
    cite: tuple[str, ...]
    targets: Mapping[str, Target]
    claims: tuple[Claim, ...]
    identities: tuple[Identity, ...] = ()
    about: str = ""


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """The safe loader, which leaves dates as text, quoted or not."""


_Loader.add_constructor("tag:yaml.org,2002:timestamp", _Loader.construct_yaml_str)


def read(path: Path) -> Ledger:
    """The ledger in one file; its folder is the paper's key.

    Raises LedgerError if it is not valid.
    """
    try:
        data = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506 (a safe loader)
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise LedgerError(f"{path}: cannot be read ({in_one_line(error)})") from error
    errors = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8"))).iter_errors(data)
    for problem in sorted(errors, key=lambda error: list(map(str, error.absolute_path))):
        raise LedgerError(f"{path}: {_place(data, problem.absolute_path)}: {problem.message}")
    targets = {name: _target(name, about) for name, about in data["figures"].items()}
    identities = tuple(Identity(**one) for one in data.get("identities", ()))
    claims = tuple(map(_claim, data["claims"]))
    head = path.parent.name, data["title"], tuple(data["cite"])
    ledger = Ledger(*head, targets, claims, identities, data.get("about", ""))
    for problem in _contradictions(ledger):
        raise LedgerError(f"{path}: {problem}")
    return ledger


def _place(data: Any, keys: Any) -> str:
    """The place in the file, with a claim's id instead of its index."""
    words = []
    for key in keys:
        data = data[key]
        words.append(str(data.get("id", key)) if isinstance(data, dict) else str(key))
    return ".".join(words) or "the whole file"


def _target(name: str, about: Mapping[str, Any]) -> Target:
    fields: dict[str, Any] = {key: tuple(part) if isinstance(part, list) else part for key, part in about.items()}
    return Target(name, **fields)


def _claim(data: Mapping[str, Any]) -> Claim:
    parts = {name: tuple(map(bound_of, data.get(name, ()))) for name in ("bounds", "conditions")}
    return Claim(**{**data, **parts, **{name: tuple(data.get(name, ())) for name in ("scales", "amended")}})


def bound_of(data: Mapping[str, Any]) -> Bound:
    """A bound from plain data, the inverse of Bound.plain()."""
    bound = Bound(**data)
    low, high = bound.range
    return replace(bound, range=(-math.inf if low is None else low, math.inf if high is None else high))


def _contradictions(ledger: Ledger) -> Iterator[str]:
    ids = _ids(ledger)
    yield from (f"claim {name}: appears twice" for name in sorted({name for name in ids if ids.count(name) > 1}))
    for claim in ledger.claims:
        if claim.figure not in ledger.targets:
            yield f"claim {claim.id}: figure {claim.figure} is not among the file's figures"
        for part in (*claim.bounds, *claim.conditions):
            if math.isinf(part.at_least) and math.isinf(part.at_most):
                yield f"claim {claim.id}: observable {part.observable!r} has no bound"
            if part.equals is not None and not part.at_least < part.equals < part.at_most:
                yield f"claim {claim.id}: observable {part.observable!r} cannot equal {part.equals} within its bound"
            ends = [end for end in (part.at_least, part.at_most) if math.isfinite(end)]
            if part.statistic == "share" and not all(0 <= end <= 1 for end in ends):
                yield f"claim {claim.id}: observable {part.observable!r} is a share, its bound is not within 0 and 1"
    for name in ledger.targets:
        statistics: dict[str, str] = {}
        for observable, statistic in _declarations(ledger, name):
            if statistics.setdefault(observable, statistic) != statistic:
                first = statistics[observable]
                yield f"figure {name}: observable {observable!r} is declared twice, as {first} and as {statistic}"


def _ids(ledger: Ledger) -> list[str]:
    return [claim.id for claim in ledger.claims] + [identity.id for identity in ledger.identities]


def _declarations(ledger: Ledger, figure: str) -> Iterator[tuple[str, str]]:
    for claim in ledger.claims:
        if claim.figure == figure:
            yield from ((part.observable, part.statistic) for part in (*claim.bounds, *claim.conditions))
    yield from (ledger.targets[figure].observables or {}).items()


@cache
def of_paper(key: str) -> Ledger:
    """The ledger of a paper; its figures must be those of the paper's folder.

    Raises LedgerError if a figure has no entry, or an entry no figure.
    """
    path = discovery.PAPERS / key / "claims.yaml"
    ledger = read(path)
    figures = {name for name, paper in discovery.figures().items() if paper == key}
    for name in sorted(figures - set(ledger.targets)):
        raise LedgerError(f"{path}: figures: {name} is a figure of this folder, but has no entry here")
    for name in sorted(set(ledger.targets) - figures):
        raise LedgerError(f"{path}: figures: {name} has an entry, but FIGURES of no module in the folder has it")
    return ledger


@cache
def papers() -> tuple[Ledger, ...]:
    """The ledgers of all papers, in their order.

    Raises LedgerError if two papers have a claim with the same id.
    """
    ledgers = tuple(of_paper(key) for key in discovery.papers())
    owner: dict[str, str] = {}
    for ledger in ledgers:
        for name in _ids(ledger):
            if name in owner:
                raise LedgerError(f"claim {name}: is in papers/{owner[name]} and in papers/{ledger.paper}")
            owner[name] = ledger.paper
    return ledgers


@cache
def aliases() -> dict[str, str]:
    """Other names of figures: alias -> figure.

    Raises LedgerError for an alias that is also the name or an alias of another figure.
    """
    figure_of: dict[str, str] = {}
    for ledger in papers():
        for name, target in ledger.targets.items():
            for alias in target.aliases:
                if alias in discovery.figures() or alias in figure_of:
                    raise LedgerError(f"alias {alias} of {name}: is the name of another figure")
                figure_of[alias] = name
    return figure_of


def figure_name(word: str) -> str:
    """The figure with this name or alias.

    Raises UnknownName if there is none.
    """
    name = aliases().get(word, word)
    if name not in discovery.figures():
        names = [*discovery.figures(), *aliases()]
        raise discovery.UnknownName(f"figure {word!r}: no such figure; try {discovery.near(word, names)}")
    return name


def of_figure(figure: str) -> Ledger:
    """The ledger of the paper that a figure belongs to.

    Raises UnknownName if there is no such figure.
    """
    discovery.figure(figure)
    return of_paper(discovery.figures()[figure])


def target(figure: str) -> Target:
    """A figure's entry in the ledger."""
    return of_figure(figure).targets[figure]


def claims(figure: str) -> tuple[Claim, ...]:
    """The claims that are judged by a figure's table."""
    return tuple(claim for claim in of_figure(figure).claims if claim.figure == figure)


def claim(name: str) -> Claim:
    """The claim of this id.

    Raises UnknownName if there is none.
    """
    by_id = {claim.id: claim for ledger in papers() for claim in ledger.claims}
    if name not in by_id:
        raise discovery.UnknownName(f"claim {name!r}: no such claim; try {discovery.near(name, by_id)}")
    return by_id[name]


def declared(figure: str) -> dict[str, str]:
    """The observables that a figure's measurement must fill: observable -> statistic over runs."""
    return dict(_declarations(of_figure(figure), figure))
