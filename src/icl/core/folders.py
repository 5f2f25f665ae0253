"""The package's folders, and names that are looked up in them.

A paper is a folder of ``icl.papers``; `icl.registry` finds the figures and models in it.
"""

import difflib
import keyword
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path

from icl.core import plain_yaml
from icl.core.config import ConstantError

PACKAGE = Path(__file__).resolve().parents[1]
PAPERS = PACKAGE / "papers"
OURS = "ours"
"""The folder of figures that belong to none of the papers."""


class UnknownName(ConstantError):
    """No figure, paper or model has this name; the message lists similar names."""


@cache
def papers() -> tuple[str, ...]:
    """Return the keys of all papers in alphabetical order, ``ours`` last."""
    keys = [path.name for path in importable(PAPERS) if path.is_dir()]
    return tuple(sorted(keys, key=lambda key: (key == OURS, key)))


def drawn_seed(paper: str, model: str) -> int:
    """Return the seed of the run that a model's pictures draw: data, chosen after the runs."""
    text = (PAPERS / paper / "published" / "drawn_seeds.yaml").read_text(encoding="utf-8")
    return int(plain_yaml.load(text)[model])


def importable(folder: Path) -> list[Path]:
    """Return the modules and packages of a folder, sorted, without those that begin with _."""
    return [path for path in _sources(folder) if _is_module(path) and not path.stem.startswith("_")]


def strays() -> list[Path]:
    """Return what lies among the modules under a name that cannot be imported, such as ._a.py,
    .#a.py and a (copy).py, which systems and editors leave.
    """
    folders = [PACKAGE, *(path for path in PACKAGE.rglob("*") if path.is_dir())]
    return [path for folder in folders for path in _sources(folder) if not _is_module(path)]


def _sources(folder: Path) -> list[Path]:
    """Return what would be modules and packages by its suffix or content."""
    return sorted(
        path
        for path in folder.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").is_file()
    )


def _is_module(path: Path) -> bool:
    name = path.stem if path.is_file() else path.name
    return (
        name.isidentifier()
        and not keyword.iskeyword(name)
        and path.is_file() == (path.suffix == ".py")
    )


def require(kind: str, name: str, known: Collection[str]) -> None:
    """Raise UnknownName with the most similar names if this one is not known."""
    if name not in known:
        raise UnknownName(f"{kind} {name!r}: no such {kind}; try {near(name, known)}")


def near(word: str, names: Iterable[str]) -> str:
    """Return the names most similar to a misspelt word, or all if none is similar, as text."""
    known = list(names)
    return ", ".join(difflib.get_close_matches(word, known, n=3, cutoff=0.5) or known)
