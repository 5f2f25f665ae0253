"""The identity of a job: a hash over every file that it imports and all its inputs.

Snakemake runs a job again when its parameters change. The identity is one of them, so a changed byte in any module that
a job imports makes its results due again, and a change elsewhere does not. The import graph of the package (grimp)
lists these modules, starting from the job's script and the modules that it loads by name.
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
    """Every file of this package that a job imports: its script, the modules loaded by name, and all their imports.

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
    # The folder is part of the cache key, because another checkout has other scripts.
    total = hashlib.sha256()
    for path in files(script, *modules):
        name = path.relative_to(PACKAGE.parent) if path.is_relative_to(PACKAGE) else path
        total.update(f"{name.as_posix()} {file_digest(path)}\n".encode())
    return total.hexdigest()


def of_measuring(module: str) -> str:
    """Digest of the code that measures a figure: the syntax without docstrings of its models, tasks and paper.

    module : the figure's dotted name
    """
    total = hashlib.sha256()
    for path in files("measure", module):
        if path.is_relative_to(PACKAGE) and path.relative_to(PACKAGE).parts[0] in ("models", "papers", "tasks"):
            total.update(_syntax(file_digest(path), path))
    return total.hexdigest()[:16]


@cache
def _syntax(digest: str, path: Path) -> bytes:
    # The file's digest is part of the cache key.
    return ast.dump(_without_docstrings(ast.parse(path.read_bytes()))).encode()


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return tree
