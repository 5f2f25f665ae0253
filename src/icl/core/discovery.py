"""Which papers, figures and models there are: found in the package's folders, listed nowhere.

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
"""The folder of targets that belong to none of the papers."""
FIGURE_PARTS = frozenset({"sweeps", "measure", "draw"})
SYSTEM_PARTS = frozenset({"SYSTEM", "FROZEN", "Config", "Test", "init", "sample", "loss", "optimiser"})


class UnknownName(ConstantError):
    """There is no figure, paper or model of this name; the message lists near matches."""


def _number(name: str) -> tuple[str | int, ...]:
    return tuple(int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name))


@cache
def papers() -> tuple[str, ...]:
    """The keys of all papers in alphabetical order, ``ours`` last."""
    found = [folder.parent.name for folder in PAPERS.glob("*/__init__.py")]
    return tuple(sorted(found, key=lambda key: (key == OURS, key)))


@cache
def _defining(pattern: str, folder: Path) -> dict[str, tuple[str, Path]]:
    """Module name -> (what the pattern's group matched, file), for the modules of one folder."""
    found = {}
    for path in folder.glob("*.py"):
        match = re.search(pattern, path.read_text(encoding="utf-8"), re.MULTILINE)
        if match:
            found[path.stem] = (match[1], path)
    return found


@cache
def figures() -> dict[str, str]:
    """Figure -> the key of its paper, paper by paper, figures in natural order.

    Raises ConstantError if two papers have a figure of one name.
    """
    found: dict[str, str] = {}
    for key in papers():
        for name in sorted(_defining(r"^def (measure)\(", PAPERS / key), key=_number):
            if name in found:
                raise ConstantError(f"figure {name}: is in papers/{found[name]} and in papers/{key}; rename one")
            found[name] = key
    return found


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
    """The names that resemble a misspelt word most, else all of them, as text."""
    known = list(names)
    return ", ".join(difflib.get_close_matches(word, known, n=3, cutoff=0.5) or known)


def _loaded(parts: frozenset[str], name: str | None = None, system: str | None = None) -> ModuleType | None:
    """A loaded module of the package with all these parts, of this name or model; jobs, given it, need no search."""
    for key, module in sys.modules.copy().items():  # a copy is made at once, whatever other threads import
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
        raise UnknownName(f"figure {name!r}: there is none of this name; there is {near(name, figures())}")
    return importlib.import_module(f"icl.papers.{figures()[name]}.{name}")


def system(name: str) -> ModuleType:
    """The module of a model.

    Raises UnknownName if there is none.
    """
    loaded = _loaded(SYSTEM_PARTS, system=name)
    if loaded is not None:
        return loaded
    if name not in systems():
        raise UnknownName(f"model {name!r}: there is none of this name; there is {near(name, systems())}")
    return importlib.import_module(systems()[name])


def paper(key: str) -> ModuleType:
    """The package of a paper; its docstring has the reference and what was found.

    Raises UnknownName if there is none.
    """
    if key not in papers():
        raise UnknownName(f"paper {key!r}: there is none of this name; there is {near(key, papers())}")
    return importlib.import_module(f"icl.papers.{key}")
