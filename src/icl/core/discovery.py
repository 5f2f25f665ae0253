"""Discovery of papers, figures and models in the package's folders; there is no list to maintain.

A paper is a folder of ``icl.papers``. Its figures are the values in ``FIGURES`` of the folder's modules. A model that
can be trained is a module there or below ``icl.models`` with the parts of `icl.core.protocol.System`.
"""

import difflib
import importlib
import keyword
import re
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
SYSTEM_PARTS = frozenset({"SYSTEM", "UNTRAINED", "Config", "Evaluation", "init", "sample", "optimiser"})


class UnknownName(ConstantError):
    """No figure, paper or model has this name; the message lists similar names."""


@cache
def papers() -> tuple[str, ...]:
    """Return the keys of all papers in alphabetical order, ``ours`` last."""
    keys = [path.name for path in importable(PAPERS) if path.is_dir()]
    return tuple(sorted(keys, key=lambda key: (key == OURS, key)))


def paper(key: str) -> ModuleType:
    """Return the package of a paper; its docstring has the reference and our findings.

    Raises UnknownName if there is none.
    """
    if key not in papers():
        raise UnknownName(f"paper {key!r}: no such paper; try {near(key, papers())}")
    return importlib.import_module(f"icl.papers.{key}")


def importable(folder: Path) -> list[Path]:
    """Return the modules and packages of a folder in alphabetical order, without those whose name begins with _."""
    return [path for path in _sources(folder) if _is_module(path) and not path.stem.startswith("_")]


def strays() -> list[Path]:
    """Return what lies among the package's modules but has no name that can be imported, as systems and editors leave
    it: ._a.py, .#a.py, a (copy).py. Nothing reads it.
    """
    folders = [PACKAGE, *(path for path in PACKAGE.rglob("*") if path.is_dir())]
    return [path for folder in folders for path in _sources(folder) if not _is_module(path)]


def _sources(folder: Path) -> list[Path]:
    """Return what would be modules and packages by its suffix or content."""
    return sorted(path for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file())


def _is_module(path: Path) -> bool:
    name = path.stem if path.is_file() else path.name
    return name.isidentifier() and not keyword.iskeyword(name) and path.is_file() == (path.suffix == ".py")


def _modules(package: str, folder: Path) -> list[ModuleType]:
    """Import the modules and packages of a folder."""
    return [importlib.import_module(f"{package}.{path.stem}") for path in importable(folder)]


@cache
def _found() -> "dict[str, tuple[Figure, ModuleType]]":
    """Name -> the figure and its module, paper by paper, figures in natural order."""
    found: dict[str, tuple[Figure, ModuleType]] = {}
    for key in papers():
        modules = _modules(f"icl.papers.{key}", PAPERS / key)
        pairs = [(one, module) for module in modules for one in getattr(module, "FIGURES", ())]
        for one, module in sorted(pairs, key=lambda pair: _natural(pair[0].name)):
            if one.name in found:
                first, second = _path(found[one.name][1]), _path(module)
                raise ConstantError(f"figure {one.name}: is in {first} and in {second}; rename one")
            found[one.name] = one, module
    return found


def _natural(name: str) -> tuple[str | int, ...]:
    return tuple(int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name))


def _path(module: ModuleType) -> str:
    return f"src/{module.__name__.replace('.', '/')}.py"


def _entry(name: str) -> "tuple[Figure, ModuleType]":
    if name not in _found():
        raise UnknownName(f"figure {name!r}: no such figure; try {near(name, figures())}")
    return _found()[name]


@cache
def figures() -> dict[str, str]:
    """Figure -> the key of its paper, paper by paper, figures in natural order.

    Raises ConstantError if two figures have the same name.
    """
    return {name: module.__name__.split(".")[2] for name, (_, module) in _found().items()}


def figure(name: str) -> "Figure":
    """Return the figure of this name.

    Raises UnknownName if there is none; so do the functions below.
    """
    return _entry(name)[0]


def module(name: str) -> ModuleType:
    """Return the module of a figure."""
    return _entry(name)[1]


def paper_of(name: str) -> str:
    """Return the key of a figure's paper."""
    return module(name).__name__.split(".")[2]


def file(name: str) -> str:
    """Return the file of a figure's module, from the root of the repository."""
    return _path(module(name))


@cache
def systems() -> dict[str, str]:
    """Name of a model -> its module."""
    packages = {f"icl.papers.{key}": PAPERS / key for key in papers()}
    for folder in sorted(path.parent for path in (PACKAGE / "models").rglob("__init__.py")):
        if all(map(str.isidentifier, folder.relative_to(PACKAGE).parts)):
            packages[".".join(("icl", *folder.relative_to(PACKAGE).parts))] = folder
    modules = [module for package, folder in packages.items() for module in _modules(package, folder)]
    return {module.SYSTEM: module.__name__ for module in modules if vars(module).keys() >= SYSTEM_PARTS}


def system(name: str) -> ModuleType:
    """Return the module of a model."""
    if name not in systems():
        raise UnknownName(f"model {name!r}: no such model; try {near(name, systems())}")
    return importlib.import_module(systems()[name])


def near(word: str, names: Iterable[str]) -> str:
    """Return the names most similar to a misspelt word, or all of them if none is similar, as text."""
    known = list(names)
    return ", ".join(difflib.get_close_matches(word, known, n=3, cutoff=0.5) or known)
