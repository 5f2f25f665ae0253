"""The identity of a job: a hash over every file that it imports and of everything that it is given.

Snakemake runs a job again when its parameters change. The identity is one of them, so that a changed byte in any
module that a job imports makes its results due again, and a change elsewhere does not. Which modules these are says the
import graph of the package (grimp), from the script of the job and from the modules that it loads by name.
"""

import ast
import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import grimp

from icl.core.discovery import PACKAGE
from icl.core.files import file_digest

SCRIPTS = Path("scripts")


@cache
def _graph() -> grimp.ImportGraph:
    # Imports for the type checker are never executed.
    return grimp.build_graph("icl", cache_dir=None, exclude_type_checking_imports=True)


def _imported(script: Path) -> Iterable[str]:
    """The modules of the package that a script imports."""
    for node in ast.walk(ast.parse(script.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "icl":
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in _graph().modules else node.module


def _file(module: str) -> Path:
    path = PACKAGE.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def files(script: str, *modules: str) -> tuple[Path, ...]:
    """Every file of ours that a job imports: its script, the modules that it loads by name, and all that they import.

    script : name of the file in scripts/ without its ending; modules : dotted names

    Raises KeyError for a module that is not in the package.
    """
    return _files(Path.cwd(), script, *modules)


@cache
def _files(folder: Path, script: str, *modules: str) -> tuple[Path, ...]:
    path = SCRIPTS / f"{script}.py"
    start = {*modules, *_imported(path)}
    missing = start - _graph().modules
    if missing:
        raise KeyError(f"no module {', '.join(sorted(missing))}")
    reached: set[str] = set()
    while new := start - reached:
        reached |= new.union(*(_graph().find_upstream_modules(module) for module in new))
        # To import a module is to execute the packages above it.
        start = {name.rsplit(".", level)[0] for name in reached for level in range(1, name.count(".") + 1)}
    return (path, *sorted(map(_file, reached)))


def code(script: str, *modules: str) -> str:
    """SHA-256 over the names and bytes of `files`."""
    return _code(Path.cwd(), script, *modules)


@cache
def _code(folder: Path, script: str, *modules: str) -> str:
    # Another checkout, which is another working folder, has scripts of its own.
    found = hashlib.sha256()
    for path in files(script, *modules):
        name = path.relative_to(PACKAGE.parent) if path.is_relative_to(PACKAGE) else path
        found.update(f"{name.as_posix()} {file_digest(path)}\n".encode())
    return found.hexdigest()
