"""Discovery of papers, figures and models in the package's folders; there is no list to maintain.

A paper is a folder of ``icl.papers``. A figure is a module of a paper's folder that defines ``measure``; its name is
the target. A model that can be trained is a module that defines ``SYSTEM``, the name that sweeps and constants use.
"""

import difflib
import importlib
import re
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import ModuleType

from icl.core.config import ConstantError

PACKAGE = Path(__file__).resolve().parents[1]
PAPERS = PACKAGE / "papers"
OURS = "ours"
"""The folder of figures that belong to none of the papers."""
FIGURE_PARTS = frozenset({"sweeps", "measure", "draw"})
SYSTEM_PARTS = frozenset({"SYSTEM", "FROZEN", "Config", "Test", "init", "sample", "loss", "optimiser"})


class UnknownName(ConstantError):
    """No figure, paper or model has this name; the message lists similar names."""


def _number(name: str) -> tuple[str | int, ...]:
    return tuple(int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name))


@cache
def papers() -> tuple[str, ...]:
    """The keys of all papers in alphabetical order, ``ours`` last."""
    keys = [path.parent.name for path in PAPERS.glob("*/__init__.py")]
    return tuple(sorted(keys, key=lambda key: (key == OURS, key)))


@cache
def _defining(pattern: str, folder: Path) -> dict[str, tuple[str, Path]]:
    """Module name -> (the match of the pattern's group, file), for the modules of one folder that match."""
    modules = {}
    for path in folder.glob("*.py"):
        match = re.search(pattern, path.read_text(encoding="utf-8"), re.MULTILINE)
        if match:
            modules[path.stem] = (match[1], path)
    return modules


@cache
def figures() -> dict[str, str]:
    """Figure -> the key of its paper, paper by paper, figures in natural order.

    Raises ConstantError if two papers have a figure of the same name.
    """
    paper_of: dict[str, str] = {}
    for key in papers():
        for name in sorted(_defining(r"^def (measure)\(", PAPERS / key), key=_number):
            if name in paper_of:
                raise ConstantError(f"figure {name}: is in papers/{paper_of[name]} and in papers/{key}; rename one")
            paper_of[name] = key
    return paper_of


@cache
def systems() -> dict[str, str]:
    """Name of a model -> its module."""
    folders = [(f"icl.papers.{key}", PAPERS / key) for key in papers()] + [("icl.models", PACKAGE / "models")]
    return {
        name: f"{package}.{stem}"
        for package, folder in folders
        for stem, (name, _) in sorted(_defining(r'^SYSTEM = "(\w+)"', folder).items())
    }


def near(word: str, names: Iterable[str]) -> str:
    """The names most similar to a misspelt word, or all of them if none is similar, as text."""
    known = list(names)
    return ", ".join(difflib.get_close_matches(word, known, n=3, cutoff=0.5) or known)


def _loaded(parts: frozenset[str], name: str | None = None, system: str | None = None) -> ModuleType | None:
    """A module of the package that is already imported, has all these parts and this name or model, or None.

    Jobs import their module at the start and so need no search.
    """
    for key, module in sys.modules.copy().items():  # a copy, because other threads may import meanwhile
        if key.startswith("icl.") and parts <= vars(module).keys() and name in (None, key.rpartition(".")[2]):
            if system in (None, vars(module).get("SYSTEM")):
                return module
    return None


def figure(name: str) -> ModuleType:
    """The module of a figure.

    Raises UnknownName if there is none.
    """
    loaded = _loaded(FIGURE_PARTS, name=name)
    if loaded is not None:
        return loaded
    if name not in figures():
        raise UnknownName(f"figure {name!r}: no such figure; try {near(name, figures())}")
    return importlib.import_module(f"icl.papers.{figures()[name]}.{name}")


def system(name: str) -> ModuleType:
    """The module of a model.

    Raises UnknownName if there is none.
    """
    loaded = _loaded(SYSTEM_PARTS, system=name)
    if loaded is not None:
        return loaded
    if name not in systems():
        raise UnknownName(f"model {name!r}: no such model; try {near(name, systems())}")
    return importlib.import_module(systems()[name])


def paper(key: str) -> ModuleType:
    """The package of a paper; its docstring has the reference and our findings.

    Raises UnknownName if there is none.
    """
    if key not in papers():
        raise UnknownName(f"paper {key!r}: no such paper; try {near(key, papers())}")
    return importlib.import_module(f"icl.papers.{key}")
