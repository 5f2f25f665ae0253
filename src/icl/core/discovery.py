"""Discovery of papers, figures and models in the package's folders; there is no list to maintain.

A paper is a folder of ``icl.papers``. Its figures are the values in ``FIGURES`` of the folder's modules. A model that
can be trained is a module that defines ``SYSTEM``, the name that sweeps and constants use.
"""

import difflib
import importlib
import re
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from icl.core.config import ConstantError

if TYPE_CHECKING:
    from icl.figure import Figure

PACKAGE = Path(__file__).resolve().parents[1]
PAPERS = PACKAGE / "papers"
OURS = "ours"
"""The folder of figures that belong to none of the papers."""
SYSTEM_PARTS = frozenset({"SYSTEM", "FROZEN", "Config", "Test", "init", "sample", "optimiser"})


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
def _found() -> "dict[str, tuple[Figure, ModuleType]]":
    """Name -> the figure and its module, paper by paper, figures in natural order.

    Raises ConstantError if two figures have the same name.
    """
    found: dict[str, tuple[Figure, ModuleType]] = {}
    for key in papers():
        of_paper: dict[str, tuple[Figure, ModuleType]] = {}
        for path in sorted((PAPERS / key).glob("[!_]*.py")):
            module = importlib.import_module(f"icl.papers.{key}.{path.stem}")
            for one in getattr(module, "FIGURES", ()):
                if other := (found | of_paper).get(one.name):
                    raise ConstantError(
                        f"figure {one.name}: is in {_path(other[1])} and in {_path(module)}; rename one"
                    )
                of_paper[one.name] = (one, module)
        found |= {name: of_paper[name] for name in sorted(of_paper, key=_number)}
    return found


def _path(module: ModuleType) -> str:
    return f"src/{module.__name__.replace('.', '/')}.py"


@cache
def figures() -> dict[str, str]:
    """Figure -> the key of its paper, paper by paper, figures in natural order.

    Raises ConstantError if two figures have the same name.
    """
    return {name: module.__name__.split(".")[2] for name, (_, module) in _found().items()}


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


def _loaded() -> list[ModuleType]:
    """The modules of the package that are already imported: jobs import theirs at the start and need no search."""
    # A copy, because other threads may import meanwhile.
    return [module for key, module in sys.modules.copy().items() if key.startswith("icl.")]


def _figure(name: str) -> "tuple[Figure, ModuleType]":
    for module in _loaded():
        for one in vars(module).get("FIGURES", ()):
            if one.name == name:
                return one, module
    if name not in _found():
        raise UnknownName(f"figure {name!r}: no such figure; try {near(name, figures())}")
    return _found()[name]


def figure(name: str) -> "Figure":
    """The figure of this name.

    Raises UnknownName if there is none.
    """
    return _figure(name)[0]


def module(name: str) -> ModuleType:
    """The module of a figure.

    Raises UnknownName if there is none.
    """
    return _figure(name)[1]


def file(name: str) -> str:
    """The file of a figure's module, from the root of the repository.

    Raises UnknownName if there is none.
    """
    return _path(module(name))


def system(name: str) -> ModuleType:
    """The module of a model.

    Raises UnknownName if there is none.
    """
    for module in _loaded():
        if vars(module).get("SYSTEM") == name and vars(module).keys() >= SYSTEM_PARTS:
            return module
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
