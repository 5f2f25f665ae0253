"""The ledger of claims: one claims.yaml per paper with its figures, their captions, its claims and
their bounds.

Measuring depends only on the names of the observables and judging only on the bounds, so rewording
a statement or a caption recomputes nothing.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Field, StringConstraints, ValidationError, model_validator

from icl.core import folders, plain_yaml
from icl.core.config import ConstantError
from icl.core.problem import in_one_line

Text = Annotated[str, StringConstraints(min_length=1)]
Id = Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Za-z0-9.-]*$")]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")]
Statistic = Literal["mean", "median", "share", "exact"]
T = TypeVar("T")
Many = Annotated[tuple[T, ...], Field(strict=False)]
"""A list in claims.yaml."""


class LedgerError(ConstantError):
    """A claims.yaml is invalid or contradicts itself or the figures; the message names file and
    place.
    """


class Entry(BaseModel):
    """A part of claims.yaml: no unknown keys, no texts for numbers."""

    model_config = {"frozen": True, "extra": "forbid", "strict": True}


class Bound(Entry):
    """One measurable part of a claim, or a premise on each run: the observable lies within
    [at_least, at_most].

    observable : its name in the table; in claims.yaml, `at` is the part behind a comma that says
        where the quantity was measured, so that the rest is found in the code as it stands
    statistic : over runs, or `exact` for results without any randomness
    range : the values that the observable can have; None for no limit
    equals : a value that a theorem names, such as an exponent: the interval must contain it, and
        the ends of the bound are half way to the nearest other simple values
    """

    observable: Text
    at_least: float = -math.inf
    at_most: float = math.inf
    statistic: Statistic = "mean"
    range: Annotated[tuple[float | None, float | None], Field(strict=False)] = (None, None)
    equals: float | None = None

    @model_validator(mode="before")
    @classmethod
    def _joined(cls, given: Any) -> Any:
        """Join the name in claims.yaml with its `at`."""
        if isinstance(given, dict) and all(
            isinstance(given.get(key), str) for key in ("observable", "at")
        ):
            others = {key: value for key, value in given.items() if key != "at"}
            return others | {"observable": f"{given['observable']}, {given['at']}"}
        return given

    def words(self) -> str:
        """Return the bound as text."""
        both = f"in [{self.at_least:g}, {self.at_most:g}]"
        if self.equals is not None:
            return f"{both} and equal to {self.equals:.3g}"
        if math.isinf(self.at_most):
            return f">= {self.at_least:g}"
        return f"<= {self.at_most:g}" if math.isinf(self.at_least) else both

    def plain(self) -> dict[str, Any]:
        """Return the bound as plain data, without what is not set."""
        given = self.model_dump(exclude_defaults=True) | {"statistic": self.statistic}
        return {name: given[name] for name in type(self).model_fields if name in given}


class Amendment(Entry):
    """A change of a claim after an outcome was known: date, previous bounds and reason."""

    date: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}$")]
    was: Text
    why: Text


class Claim(Entry):
    """A statement of a paper and the bounds that test it, all of which must hold.

    kind : `theorem` (a numbered statement as stated, under its premises), `remark` (another
        sentence of a source), `figure` (what a published picture shows), `number` (agreement with
        published numbers within their reading error) or `ours` (no source states it)
    source : theorem, proposition, equation, figure or page
    statement : claims with the same one test the same statement of a source, which is counted once
    says : what the source says, with its conditions; tested : what is tested here; not_shown : what
        that leaves open
    formula : the statement as one formula in LaTeX, without dollar signs
    premise : conditions of the source, in words; conditions : those that are measured for each run
    why : why the bounds are where they are (half-way is to the nearest wrong theory)
    cause : for a contradicted claim, its likely cause: the size of our model, a floor of our
        training, our reading of the source, or a statement that is literally false
    unit : what one run is, in the plural; fitted : constants chosen on published numbers that its
        test uses
    scales : the scales at which it is judged; empty for all
    """

    id: Id
    figure: Text
    kind: Literal["theorem", "remark", "figure", "number", "ours"]
    source: Text
    says: Text
    tested: Text
    not_shown: Text
    bounds: Annotated[tuple[Bound, ...], Field(strict=False, min_length=1)]
    formula: str = ""
    premise: str = ""
    statement: str = ""
    why: Annotated[
        str, StringConstraints(pattern=r"^$|^(Stated|Half-way|Reading error|Ours): ")
    ] = ""
    cause: Annotated[
        str, StringConstraints(pattern=r"^$|^(Size|Floor|Reading|Literally false): ")
    ] = ""
    unit: str = "trainings"
    fitted: str = ""
    conditions: Many[Bound] = ()
    scales: Many[Literal["paper", "workstation", "laptop", "smoke"]] = ()
    amended: Many[Amendment] = ()

    @property
    def tests(self) -> str:
        """What it tests, as it is counted: for a theorem the numbered result of its source ("Li et
        al. 2024, theorem 3") or the source, else its statement, or itself.
        """
        number = re.search(r"(theorem|proposition|corollary|lemma) \d+(\.\d+)?", self.source, re.I)
        if self.kind == "theorem" and number:
            return f"{self.source.split(',')[0]}, {number[0].lower()}"
        return self.source if self.kind == "theorem" else self.statement or self.id

    @property
    def is_computed(self) -> bool:
        """Whether nothing in it is random; its bounds were written with the result known."""
        return all(bound.statistic == "exact" for bound in self.bounds)


class Identity(Entry):
    """An algebraic statement of a source, or of ours: a test checks it, and no run could contradict
    it.

    test : file::function
    """

    id: Id
    source: Text
    says: Text
    test: Annotated[str, StringConstraints(pattern=r"^tests/.*\.py::test_\w+$")]


class Target(Entry):
    """A figure's entry: its caption, known differences from the published one, and its observables.

    fitted : the constants that were fitted to the published figure, in words
    aliases : other names of the target
    workstation : the scale whose sizes it has at the scale `workstation`
    observables : observable -> statistic, besides those of the claims; medians : curves summarised
        by medians
    """

    summary: Text
    caption: str = ""
    differences: str = ""
    fitted: str = ""
    aliases: Many[Name] = ()
    workstation: Literal["paper", "workstation", "laptop"] = "laptop"
    observables: Mapping[str, Statistic] = {}
    medians: Many[str] = ()


class Ledger(Entry):
    """One paper's claims.yaml; `paper` is the key, the name of its folder.

    cite : keys of references.bib; about : two sentences, what the paper says and how it is tested
        here
    withdrawn : id of a claim that was removed after the first freeze -> why; its outcomes are in
        history.json
    untested : a statement of the paper that no claim tests -> why it cannot be tested here
    """

    paper: str
    title: Text
    cite: Many[str]
    about: str = ""
    figures: Mapping[Name, Target]
    claims: Many[Claim]
    identities: Many[Identity] = ()
    withdrawn: Mapping[Id, Text] = {}
    untested: Mapping[Text, Text] = {}

    def ids(self) -> list[str]:
        return [claim.id for claim in self.claims] + [identity.id for identity in self.identities]

    def declarations(self, figure: str) -> Iterator[tuple[str, str]]:
        """Yield a figure's observables with their statistics, as often as they are declared."""
        for claim in self.claims:
            if claim.figure == figure:
                for part in (*claim.bounds, *claim.conditions):
                    yield part.observable, part.statistic
        yield from self.figures[figure].observables.items()


def read(path: Path) -> Ledger:
    """Return the ledger in one file; its folder is the paper's key.

    Raises LedgerError if it is not valid.
    """
    try:
        data = plain_yaml.load(path.read_text(encoding="utf-8"), "YAML")
    except (OSError, ValueError) as error:
        raise LedgerError(f"{path}: cannot be read ({in_one_line(error)})") from error
    if not isinstance(data, dict):
        raise LedgerError(f"{path}: the whole file: is not a mapping")
    try:
        ledger = Ledger(**{**data, "paper": path.parent.name})
    except ValidationError as error:
        first = error.errors()[0]
        raise LedgerError(f"{path}: {_place(data, first['loc'])}: {first['msg']}") from error
    for problem in _contradictions(ledger):
        raise LedgerError(f"{path}: {problem}")
    return ledger


def _place(data: Any, keys: tuple[int | str, ...]) -> str:
    """Return the place in the file, with a claim's id instead of its index."""
    words = []
    for key in keys:
        known = key in data if isinstance(data, dict) else isinstance(data, list)
        data = data[key] if known else None
        words.append(str(data.get("id", key)) if isinstance(data, dict) else str(key))
    return ".".join(words) or "the whole file"


def _contradictions(ledger: Ledger) -> Iterator[str]:
    for name, count in sorted(Counter(ledger.ids()).items()):
        if count > 1:
            yield f"claim {name}: appears twice"
    for claim in ledger.claims:
        if claim.id in ledger.withdrawn:
            yield f"claim {claim.id}: is also among the withdrawn ones; a new claim needs a new id"
        if claim.figure not in ledger.figures:
            yield f"claim {claim.id}: figure {claim.figure} is not among the file's figures"
        for part in (*claim.bounds, *claim.conditions):
            where = f"claim {claim.id}: observable {part.observable!r}"
            ends = [end for end in (part.at_least, part.at_most) if math.isfinite(end)]
            if not ends:
                yield f"{where} has no bound"
            if part.equals is not None and not part.at_least < part.equals < part.at_most:
                yield f"{where} cannot equal {part.equals} within its bound"
            if part.statistic == "share" and not all(0 <= end <= 1 for end in ends):
                yield f"{where} is a share, its bound is not within 0 and 1"
    for name in ledger.figures:
        statistics: dict[str, str] = {}
        for observable, statistic in ledger.declarations(name):
            if (first := statistics.setdefault(observable, statistic)) != statistic:
                twice = f"is declared twice, as {first} and as {statistic}"
                yield f"figure {name}: observable {observable!r} {twice}"


@cache
def of_paper(key: str) -> Ledger:
    return read(folders.PAPERS / key / "claims.yaml")


@cache
def papers() -> tuple[Ledger, ...]:
    """Return the ledgers of all papers, in their order.

    Raises LedgerError if two papers have a claim or a figure of the same name.
    `icl.registry.figures` holds their figures against the modules.
    """
    ledgers = tuple(of_paper(key) for key in folders.papers())
    owner: dict[str, str] = {}
    for ledger in ledgers:
        for name in ledger.ids():
            if (first := owner.setdefault(name, ledger.paper)) != ledger.paper:
                both = f"papers/{first} and in papers/{ledger.paper}"
                raise LedgerError(f"claim {name}: is in {both}")
    return ledgers


@cache
def aliases() -> dict[str, str]:
    """Other names of figures: alias -> figure.

    Raises LedgerError for an alias that is also another figure's name or alias.
    """
    figure_of: dict[str, str] = {}
    targets = [(name, ledger.figures[name]) for name, ledger in _by_figure().items()]
    for alias, name in ((alias, name) for name, target in targets for alias in target.aliases):
        if alias in figure_of or alias in _by_figure():
            raise LedgerError(f"alias {alias} of {name}: is the name of another figure")
        figure_of[alias] = name
    return figure_of


def figure_name(word: str) -> str:
    """Return the figure with this name or alias; raises UnknownName if there is none."""
    folders.require("figure", word, [*_by_figure(), *aliases()])
    return aliases().get(word, word)


def of_figure(figure: str) -> Ledger:
    """Return the ledger of a figure's paper; raises UnknownName for an unknown figure."""
    folders.require("figure", figure, _by_figure())
    return _by_figure()[figure]


def _by_figure() -> dict[str, Ledger]:
    return {name: ledger for ledger in papers() for name in ledger.figures}


def target(figure: str) -> Target:
    return of_figure(figure).figures[figure]


def size(figure: str, scale: str) -> str:
    """Return the scale whose sizes a figure has at a scale: the same, except `workstation`."""
    return target(figure).workstation if scale == "workstation" else scale


def claims(figure: str, scale: str = "") -> tuple[Claim, ...]:
    """Return the claims that a figure's table judges, at a scale if one is given."""
    found = (claim for claim in of_figure(figure).claims if claim.figure == figure)
    return tuple(claim for claim in found if not scale or not claim.scales or scale in claim.scales)


@cache
def all_claims() -> dict[str, Claim]:
    return {claim.id: claim for ledger in papers() for claim in ledger.claims}


def claim(name: str) -> Claim:
    """Return the claim of this id; raises UnknownName if there is none."""
    folders.require("claim", name, all_claims())
    return all_claims()[name]


def declared(figure: str) -> dict[str, str]:
    """Return the observables that a measurement must fill: observable -> statistic over runs."""
    return dict(of_figure(figure).declarations(figure))
