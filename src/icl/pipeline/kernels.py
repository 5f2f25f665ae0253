"""The arithmetic that results depend on: settings of the libraries that compute, and the libraries'
versions.

Under these settings products and sums have one order on every x86 processor that has AVX2; by
default it depends on the vector units of the processor. Libraries read them when they are loaded,
so this module loads neither numpy nor torch.
"""

import json
import os
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path

from icl.core.files import write_json

ONE_ORDER = {"ATEN_CPU_CAPABILITY": "avx2", "MKL_CBWR": "AVX2", "OPENBLAS_CORETYPE": "Haswell"}
"""For torch's own kernels, the matrix products of torch (MKL) and those of numpy (OpenBLAS)."""
LIBRARIES = ("numpy", "scipy", "torch")
"""What computes, by the name of its package, which is that to import."""


def chosen() -> dict[str, str]:
    """Return the settings of this process: ONE_ORDER, but for variables that the caller has set."""
    return {variable: os.environ.get(variable, value) for variable, value in ONE_ORDER.items()}


def choose() -> None:
    """Set the settings in the environment. What depends on them has them in its fingerprint."""
    os.environ.update(chosen())


@cache
def version(library: str) -> str:
    """Return the version of one of LIBRARIES, without loading it."""
    return metadata.version(library)


def notes(folder: Path) -> list[str]:
    """Record the arithmetic in a folder of results; return a line if it changed, and one if the
    caller chose it.
    """
    path = folder / "arithmetic.json"
    now = chosen() | {name: version(name) for name in LIBRARIES}
    stored = None
    with suppress(FileNotFoundError, ValueError):
        stored = json.loads(path.read_text(encoding="utf-8"))
    before = stored if isinstance(stored, dict) else now
    changed = [
        f"{name} was {before.get(name)} and is {value}"
        for name, value in now.items()
        if before.get(name) != value
    ]
    if stored != now:
        write_json(path, now)
    given = [f"{name}={value}" for name, value in chosen().items() if value != ONE_ORDER[name]]
    lines = []
    if changed:
        used = "trainings and tables that used it are made again"
        lines.append(f"{folder}: {', '.join(changed)}; {used}")
    if given:
        lines.append(f"{', '.join(given)}: set by the caller, other results than the gallery's")
    return lines
