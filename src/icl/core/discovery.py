"""Discovery of papers, figures and models in the package's folders; there is no list to maintain.

A paper is a folder of ``icl.papers``. Its figures are the values in ``FIGURES`` of the folder's modules. A model that
can be trained is a module there or in ``icl.models`` with the parts of `icl.core.protocol.System`.
"""

import difflib
import importlib
import re
from collections.abc import Iterable, Iterator
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
def _found() -> "dict[str, tuple[Figure, ModuleType]]":
    """Name -> the figure and its module, paper by paper, figures in natural order.

    Raises ConstantError if two figures have the same name.
    """
    found: dict[str, tuple[Figure, ModuleType]] = {}
    for key in papers():
        of_paper: dict[str, tuple[Figure, ModuleType]] = {}
        for name in _names(PAPERS / key):
            module = importlib.import_module(f"icl.papers.{key}.{name}")
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
    modules = (importlib.import_module(f"{package}.{name}") for package, at in _packages() for name in _names(at))
    return {module.SYSTEM: module.__name__ for module in modules if _is_system(module)}


def _is_system(module: ModuleType) -> bool:
    return vars(module).keys() >= SYSTEM_PARTS


def _packages() -> list[tuple[str, Path]]:
    """The packages with figures or models, and their folders."""
    folders = [PAPERS / key for key in papers()]
    folders += sorted(path.parent for path in (PACKAGE / "models").rglob("__init__.py"))
    return [(".".join(("icl", *folder.relative_to(PACKAGE).parts)), folder) for folder in folders]


def _names(folder: Path) -> list[str]:
    """The modules and packages of a folder."""
    return sorted(
        path.stem for path in folder.glob("[!_]*") if path.suffix == ".py" or (path / "__init__.py").is_file()
    )


def near(word: str, names: Iterable[str]) -> str:
    """The names most similar to a misspelt word, or all of them if none is similar, as text."""
    known = list(names)
    return ", ".join(difflib.get_close_matches(word, known, n=3, cutoff=0.5) or known)


def _mentioning(text: str) -> Iterator[ModuleType]:
    """The modules whose source has this text: a job needs few of them, and importing all takes long."""
    for package, folder in _packages():
        for name in _names(folder):
            path = folder / name / "__init__.py" if (folder / name).is_dir() else folder / f"{name}.py"
            if text in path.read_text(encoding="utf-8"):
                yield importlib.import_module(f"{package}.{name}")


@cache
def _figure(name: str) -> "tuple[Figure, ModuleType]":
    for module in _mentioning(f'"{name}"'):
        for one in getattr(module, "FIGURES", ()):
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


def paper_of(name: str) -> str:
    """The key of a figure's paper.

    Raises UnknownName if there is no such figure.
    """
    return module(name).__name__.split(".")[2]


def file(name: str) -> str:
    """The file of a figure's module, from the root of the repository.

    Raises UnknownName if there is none.
    """
    return _path(module(name))


@cache
def system(name: str) -> ModuleType:
    """The module of a model.

    Raises UnknownName if there is none.
    """
    for module in _mentioning(f'SYSTEM = "{name}"'):
        if _is_system(module) and module.SYSTEM == name:
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
