"""The fingerprint of a job's code and arithmetic: a hash over every module that it imports,
settings and libraries.

Snakemake runs a job again when its parameters change, and the fingerprint is one of them. It covers
the syntax of the modules without comments, docstrings and the annotations of functions, so that
rewording reruns nothing. The import graph of the package (grimp) lists the modules, starting from
the job's own and the model's or figure's.
"""

import ast
import hashlib
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import grimp

from icl.core.config import digest
from icl.core.files import file_digest
from icl.core.folders import PACKAGE
from icl.core.problem import Problem, in_one_line
from icl.pipeline import kernels

EMPTY_TOO = {"show_empty": True} if sys.version_info >= (3, 13) else {}
"""What makes `ast.dump` write empty lists, which it leaves out since Python 3.13."""


def code(job: str, *modules: str) -> str:
    """SHA-256 over the meaning of all modules that a job imports, the settings of `kernels`, and
    the versions of the libraries among them that compute.

    job : a module of icl.jobs; modules : dotted names of what it loads by name

    Raises KeyError for a module that is not in the package.
    """
    start = (f"icl.jobs.{job}", *modules)
    return digest([_digest(files(*start)), kernels.chosen(), libraries(*start)])


def of_measuring(module: str) -> str:
    """Digest of the models, tasks and paper behind a figure's module, which is given by dotted
    name.
    """
    parts = "models", "papers", "tasks"
    own = [path for path in files(module) if path.relative_to(PACKAGE).parts[0] in parts]
    return _digest(own)[:16]


def libraries(*modules: str) -> dict[str, str]:
    """Return the version of every library of `kernels.LIBRARIES` that these modules import."""
    # The import of torch in icl.core.lazy is not in the graph.
    found = _reached(*modules) | ({"torch"} if "icl.core.lazy" in _reached(*modules) else set())
    return {name: kernels.version(name) for name in kernels.LIBRARIES if name in found}


@cache
def files(*modules: str) -> tuple[Path, ...]:
    """Return the files of these modules and of all modules of the package that they import."""
    return tuple(sorted(_file(name) for name in _reached(*modules) if name.split(".")[0] == "icl"))


@cache
def _reached(*modules: str) -> set[str]:
    graph = _graph()
    if missing := set(modules) - graph.modules:
        raise KeyError(f"no module {', '.join(sorted(missing))}")
    start = set(modules)
    reached = set[str]()
    while new := start - reached:
        reached |= new.union(*(graph.find_upstream_modules(module) for module in new))
        # To import a module is to execute the packages above it.
        start = {
            name.rsplit(".", level)[0]
            for name in reached
            for level in range(1, name.count(".") + 1)
        }
    return reached


@cache
def _graph() -> grimp.ImportGraph:
    # Imports for the type checker are never executed.
    try:
        return grimp.build_graph(
            "icl",
            cache_dir=None,
            exclude_type_checking_imports=True,
            include_external_packages=True,
        )
    except grimp.exceptions.SourceSyntaxError as error:
        raise Problem(in_one_line(error)) from error


def _file(module: str) -> Path:
    path = PACKAGE.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _digest(paths: Iterable[Path]) -> str:
    total = hashlib.sha256()
    for path in paths:
        name = path.relative_to(PACKAGE).as_posix()
        total.update(f"{name} {_meaning(path, file_digest(path))}\n".encode())
    return total.hexdigest()


@cache
def _meaning(path: Path, of_file: str) -> str:
    # The file's digest is part of the cache key.
    return meaning(path.read_bytes())


def meaning(source: bytes) -> str:
    """SHA-256 of a module's syntax without comments, docstrings and annotations of functions.

    It is the same under every Python version: the syntax is written as Python 3.11 does.
    """
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            node.body = [part for part in node.body if not _is_docstring(part)] or [ast.Pass()]
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        if isinstance(node, ast.arg):
            node.annotation = None
        if not getattr(node, "type_params", True):  # a field since Python 3.12
            del node.type_params  # type: ignore[attr-defined]
    return hashlib.sha256(ast.dump(tree, **EMPTY_TOO).encode()).hexdigest()


def _is_docstring(part: ast.stmt) -> bool:
    """Whether a statement is a bare string, as below a constant."""
    value = part.value if isinstance(part, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)
