"""Planted violations: what each paper's table of them holds, and how one is judged.

tests/papers/<paper>/planted.py defines

    sound(figure)   the figure's runs that satisfy its claims (or nearly): short trainings, or
                    constructed weights
    PLANTED         claim -> observable of a bound -> the violation that contradicts this bound
    UNTRAINED_HOLD  claims that untrained weights may support, with the reason

tests/papers/test_planted.py tries every violation, and `python -m tests.planted` writes the list
that the pages show, or `python -m tests.planted li2024` only the part of one paper.
"""

import dataclasses
import importlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from icl.pipeline import kernels

# As in tests/conftest.py, for the command; before numpy is loaded.
kernels.choose()

import numpy as np
import pytest

from icl.core import folders
from icl.core.runs import Runs
from icl.core.table import Table
from icl.evidence import ledger
from icl.evidence.judging import Part, judge
from icl.pipeline import figures

Trained = Mapping[str, Runs]
# An object, the name of an attribute, and a function from the attribute to what replaces it.
Patch = tuple[Any, str, Callable[[Any], Any]]
LIST = folders.PACKAGE / "evidence" / "planted.json"


def same(runs: Trained) -> Trained:
    return runs


@dataclass(frozen=True)
class Planted:
    """A violation: a change of the figure's runs, of the code that measures them, or of both.

    what : in words, as the pages show it
    control : the sound case beside it, if that is not the runs of `sound` as they are
    """

    what: str
    runs: Callable[[Trained], Trained] = same
    patches: tuple[Patch, ...] = ()
    control: "Planted | None" = field(default=None, compare=False)


SOUND = Planted("nothing")


def each(change: Callable[[Runs], Runs]) -> Callable[[Trained], Trained]:
    """Return the change of every sweep's runs."""
    return lambda runs: {name: change(of_sweep) for name, of_sweep in runs.items()}


def with_weights(runs: Runs, **weights: Any) -> Runs:
    """Return the runs with some other weights, (runs, snapshots, ...) each."""
    return dataclasses.replace(runs, weights=dict(runs.weights) | weights)


def untrained(runs: Runs) -> Runs:
    """Every snapshot has the initial weights."""
    return dataclasses.replace(
        runs, weights={n: w[:, :1].expand_as(w).clone() for n, w in runs.weights.items()}
    )


UNTRAINED = Planted("the weights stay at their start", each(untrained))


@cache
def tables() -> dict[str, ModuleType]:
    """Paper -> its module of planted violations."""
    folder = Path(__file__).parent / "papers"
    keys = sorted(path.parent.name for path in folder.glob("*/planted.py"))
    return {key: importlib.import_module(f"tests.papers.{key}.planted") for key in keys}


def cases() -> Iterator[tuple[str, str, str]]:
    """Paper, claim and observable of every violation."""
    for key, module in tables().items():
        yield from (
            (key, claim, observable)
            for claim, parts in module.PLANTED.items()
            for observable in parts
        )


def measured(key: str, figure: str, planted: Planted = SOUND) -> Table:
    """Return the figure's table at the laptop scale with a violation; `key` is its paper."""
    return _measured(key, figure, planted)


@cache
def _measured(key: str, figure: str, planted: Planted) -> Table:
    # Runs are trained, and cached, before anything is patched.
    trained = tables()[key].sound(figure)
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        for target, name, replacement in planted.patches:
            patch.setattr(target, name, replacement(getattr(target, name)))
        return figures.measure(figure, planted.runs(trained), "laptop")


def judged(key: str, claim: str, observable: str, planted: Planted = SOUND) -> tuple[str, Part]:
    """Return the outcomes of a claim and of one of its bounds with a violation, without
    conditions on the runs.
    """
    stated = ledger.claim(claim)
    verdict = judge(claim, stated.bounds, measured(key, stated.figure, planted))
    (part,) = [part for part in verdict.parts if part.observable == observable]
    return verdict.outcome, part


def listed() -> dict[str, dict[str, str]]:
    """Claim -> observable -> the violation in words."""
    return {
        claim: {observable: planted.what for observable, planted in parts.items()}
        for module in tables().values()
        for claim, parts in module.PLANTED.items()
    }


def estimates(key: str, claim: str, observable: str) -> tuple[Part, Part]:
    """Return the part of a claim with the violation, and that of the control beside it."""
    violation = tables()[key].PLANTED[claim][observable]
    _, part = judged(key, claim, observable, violation)
    _, control = judged(key, claim, observable, violation.control or SOUND)
    return part, control


def written(*keys: str) -> dict[str, dict[str, dict[str, Any]]]:
    """Claim -> observable -> the violation in words, and the estimates with it and without, to two
    digits.

    keys : the papers to try, by default all; the violations of the others stay as they are in the
        list
    """
    stored = json.loads(LIST.read_text("utf-8"))
    known = listed()
    found = {claim: stored[claim] for claim in stored if claim in known} if keys else {}
    for key, claim, observable in (case for case in cases() if not keys or case[0] in keys):
        pair = [float(f"{part.estimate:.2g}") for part in estimates(key, claim, observable)]
        about = {"what": listed()[claim][observable], "with": pair[0], "without": pair[1]}
        found.setdefault(claim, {})[observable] = about
    return found


if __name__ == "__main__":
    LIST.write_text(
        json.dumps(written(*sys.argv[1:]), indent=1, sort_keys=True) + "\n", encoding="utf-8"
    )
