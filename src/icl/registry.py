"""The figures and models of all papers, found in the package's folders; there is no list to
maintain.

The figures of a paper are the values in ``FIGURES`` of the modules in its folder. A model is the
value ``MODEL`` of a module there or below ``icl.models``.
"""

import importlib
import re
from functools import cache
from itertools import chain
from pathlib import Path
from types import ModuleType

from icl.core.config import ConstantError
from icl.core.folders import PACKAGE, PAPERS, importable, papers, require
from icl.core.model import Model
from icl.evidence import ledger
from icl.evidence.ledger import LedgerError
from icl.figure import Figure


def paper(key: str) -> ModuleType:
    """Return the package of a paper; its docstring has the reference and our findings.

    Raises UnknownName if there is none.
    """
    require("paper", key, papers())
    return importlib.import_module(f"icl.papers.{key}")


def _modules(folder: Path) -> list[ModuleType]:
    """Import the modules and packages in a folder of the package."""
    package = ".".join(("icl", *folder.relative_to(PACKAGE).parts))
    return [importlib.import_module(f"{package}.{path.stem}") for path in importable(folder)]


@cache
def _figures() -> dict[str, tuple[Figure, ModuleType]]:
    """Name -> the figure and its module, paper by paper, figures in natural order."""
    found: dict[str, tuple[Figure, ModuleType]] = {}
    for key in papers():
        modules = _modules(PAPERS / key)
        pairs = [(one, module) for module in modules for one in getattr(module, "FIGURES", ())]
        for one, module in sorted(pairs, key=lambda pair: _natural(pair[0].name)):
            if one.name in found:
                both = f"{_path(found[one.name][1])} and in {_path(module)}"
                raise ConstantError(f"figure {one.name}: is in {both}; rename one")
            found[one.name] = one, module
    return found


def _natural(name: str) -> tuple[str | int, ...]:
    return tuple(int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name))


def _path(module: ModuleType) -> str:
    return f"src/{module.__name__.replace('.', '/')}.py"


def _entry(name: str) -> tuple[Figure, ModuleType]:
    require("figure", name, _figures())
    return _figures()[name]


@cache
def figures() -> dict[str, str]:
    """Figure -> the key of its paper, paper by paper, figures in natural order.

    Raises ConstantError if two figures have the same name, and LedgerError if a figure has no entry
    in claims.yaml or an entry no figure.
    """
    found = {name: module.__name__.split(".")[2] for name, (_, module) in _figures().items()}
    for one in ledger.papers():
        of_folder = {name for name, key in found.items() if key == one.paper}
        for name in sorted(of_folder ^ set(one.figures)):
            missing = "is a figure of this folder, but has no entry here"
            extra = "has an entry, but FIGURES of no module in the folder has it"
            said = missing if name in of_folder else extra
            raise LedgerError(f"{PAPERS / one.paper / 'claims.yaml'}: figures: {name} {said}")
    return found


def figure(name: str) -> Figure:
    """Return the figure of this name.

    Raises UnknownName if there is none; so do the functions below.
    """
    return _entry(name)[0]


def module(name: str) -> str:
    return _entry(name)[1].__name__


def file(name: str) -> str:
    """Return the file of a figure's module, from the root of the repository."""
    return _path(_entry(name)[1])


@cache
def _models() -> dict[str, tuple[Model, str]]:
    """Name -> the model and the module that defines it, which has one of its functions or its
    constants.
    """
    folders = sorted(path.parent for path in (PACKAGE / "models").rglob("__init__.py"))
    named = [one for one in folders if all(map(str.isidentifier, one.relative_to(PACKAGE).parts))]
    found: dict[str, tuple[Model, str]] = {}
    for module in chain.from_iterable(map(_modules, [*map(PAPERS.joinpath, papers()), *named])):
        one = getattr(module, "MODEL", None)
        if isinstance(one, Model) and module.__name__ in one.modules:
            if one.name in found:
                raise ConstantError(
                    f"model {one.name}: is in {found[one.name][1]} and in {module.__name__}"
                )
            found[one.name] = one, module.__name__
    return found


def models() -> dict[str, Model]:
    """Name -> model.

    Raises ConstantError if two models have the same name.
    """
    return {name: model for name, (model, _) in _models().items()}


def model(name: str) -> Model:
    require("model", name, _models())
    return _models()[name][0]


def module_of_model(name: str) -> str:
    return _models()[model(name).name][1]
