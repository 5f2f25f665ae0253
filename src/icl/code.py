"""Which source a computation uses: a content hash over the definitions that it can reach.

Snakemake reruns a rule when its parameters change. The hash of the code is one of them, so that an edit reruns what
it touches and nothing else: a function's text counts; comments, docstrings, blank lines and the grade and source of a
constant do not.
"""

import ast
import hashlib
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PACKAGE = "icl"


@cache
def _nodes(statement: ast.stmt) -> tuple[ast.AST, ...]:
    # Each statement is looked through four times.
    return tuple(ast.walk(statement))


@dataclass(frozen=True)
class _Module:
    """definitions : name -> its statements; imports : local name -> (module, name or None for a module)."""

    definitions: dict[str, tuple[ast.stmt, ...]]
    imports: dict[str, tuple[str, str | None]]


def _path(module: str) -> Path | None:
    spec = importlib.util.find_spec(module)
    return Path(spec.origin) if spec and spec.origin else None


def _targets(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        yield statement.name
    else:
        for node in _nodes(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id


def _imported(statement: ast.stmt) -> Iterator[tuple[str, tuple[str, str | None]]]:
    for node in _nodes(statement):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == PACKAGE:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                target = (inner, None) if _is_module(inner) else (str(node.module), alias.name)
                yield alias.asname or alias.name, target


@cache
def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


@cache
def _parse(module: str) -> _Module:
    path = _path(module)
    if path is None:
        raise ModuleNotFoundError(f"no source of {module}", name=module)
    definitions: dict[str, tuple[ast.stmt, ...]] = {}
    imports: dict[str, tuple[str, str | None]] = {}
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        imports.update(_imported(statement))
        for name in _targets(statement):
            definitions[name] = (*definitions.get(name, ()), statement)
    return _Module(definitions, imports)


def _bare(statement: ast.stmt) -> str:
    # Takes the docstrings out of the tree itself: a copy would take longer than all else here.
    for node in _nodes(statement):
        body = getattr(node, "body", None)
        if (
            isinstance(body, list)
            and body
            and isinstance(body[0], ast.Expr)
            and isinstance(body[0].value, ast.Constant)
        ):
            node.body = body[1:] or [ast.Pass()]  # type: ignore[attr-defined]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "constant":
            # A constant's grade and source describe its value; they don't change it.
            node.args = node.args[:1]
    return ast.unparse(statement)


def _used(module: str, statement: ast.stmt) -> Iterator[tuple[str, str]]:
    parsed = _parse(module)
    imports = parsed.imports | dict(_imported(statement))
    for node in _nodes(statement):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            target, name = imports.get(node.value.id, ("", ""))
            if target and name is None:
                yield target, node.attr
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            target, name = imports.get(node.id, (module, node.id))
            if name is not None:
                yield target, name


@cache
def _statement(module: str, statement: ast.stmt) -> tuple[str, frozenset[tuple[str, str]]]:
    used = frozenset(_used(module, statement))
    return _bare(statement), used


@cache
def _definition(module: str, name: str) -> tuple[str, frozenset[tuple[str, str]]]:
    """The normalised source of a definition, and what it uses."""
    texts, used = zip(*(_statement(module, statement) for statement in _parse(module).definitions[name]), strict=True)
    return "\n".join(texts), frozenset().union(*used)


def reachable(*entries: tuple[str, str]) -> dict[tuple[str, str], str]:
    """Every definition of the package that the entries can reach: (module, name) -> normalised source.

    An entry is (module, name). Names are followed through the package's imports; a name that is looked up at run
    time (a system by its name, say) is not seen and must be an entry itself.

    Raises KeyError for an entry that is not defined.
    """
    found: dict[tuple[str, str], str] = {}
    for module, name in entries:
        if name not in _parse(module).definitions:
            raise KeyError(f"{module} defines no {name}")
    open_nodes = list(entries)
    while open_nodes:
        module, name = open_nodes.pop()
        if (module, name) in found:
            continue
        if name not in _parse(module).definitions:
            # A name that the module itself imports, and lends on.
            target, inner = _parse(module).imports.get(name, ("", None))
            if inner is not None:
                open_nodes.append((target, inner))
            continue
        found[module, name], used = _definition(module, name)
        open_nodes += used
    return found


def defines(module: str, name: str) -> bool:
    """Whether the module defines the name at its top level."""
    return name in _parse(module).definitions


@cache
def code_hash(*entries: tuple[str, str]) -> str:
    """The first 16 hexadecimal digits of the SHA-256 over all that the entries reach."""
    sources = sorted(reachable(*entries).items())
    return hashlib.sha256("\n".join(f"{m}:{n}\n{text}" for (m, n), text in sources).encode()).hexdigest()[:16]
