"""Where a result comes from, kept beside it, and whether it still holds."""

import hashlib
import json
import platform
import subprocess
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from icl import runs, table
from icl.code import code_hash
from icl.dag import training_code
from icl.spec import digest

LIBRARIES = ("icl", "numpy", "scipy", "pandas", "pyarrow", "torch", "scikit-learn", "matplotlib", "snakemake")


def device() -> str:
    """``"cuda"`` if torch sees a GPU, else ``"cpu"``."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def about(**more: Any) -> dict[str, Any]:
    """What is kept beside every result: versions, revision and whether the tree was clean, and `more`."""
    status = _git("status", "--porcelain")
    return {
        "python": platform.python_version(),
        "versions": {name: metadata.version(name) for name in LIBRARIES},
        "revision": _git("rev-parse", "HEAD"),
        "clean": None if status is None else not status,
        **more,
    }


def verify(folder: Path) -> tuple[list[str], int]:
    """Check weights, tables and verdicts below results/<scale> against their own metadata.

    Returns one line per problem, and how many files were looked at. No memory of the workflow is used: damage,
    inputs that changed since, and code or constants that the files were not made with are all found from the files.
    """
    problems: list[str] = []
    checked = 0
    checks = (("runs/**/*.safetensors", _weights), ("tables/*.parquet", _table), ("verdicts/*.json", _verdicts))
    for pattern, check in checks:
        for path in sorted(folder.glob(pattern)):
            if path.name.endswith(".state.safetensors"):
                continue
            checked += 1
            try:
                problems += [f"{path}: {problem}" for problem in check(path)]
            except (runs.RunsError, table.TableError) as error:
                problems.append(str(error))
    return problems, checked


def _weights(path: Path) -> Iterator[str]:
    kept, kept_about = runs.load(path), runs.metadata(path)
    if kept_about["identity"] != digest([kept.sweep.training(), training_code(kept.sweep.system)]):
        yield "was trained by other code or constants than its metadata and the source give now"


def _table(path: Path) -> Iterator[str]:
    measured, kept_about = table.read(path)
    module = f"icl.experiments.{measured['figure'].iloc[0]}"
    code = code_hash((module, "measure"), (module, "CLAIMS"), ("icl.figure", "measure"))
    if kept_about["identity"] != digest([kept_about["sweeps"], code]):
        yield "was measured by other code or constants than its metadata and the source give now"
    yield from _inputs(kept_about["inputs"])


def _verdicts(path: Path) -> Iterator[str]:
    kept = json.loads(path.read_text())
    source = path.parent.parent / "tables" / f"{kept['figure']}.parquet"
    yield from _inputs({source.as_posix(): kept["table"]["digest"]})


def _inputs(digests: dict[str, str]) -> Iterator[str]:
    for name, wanted in digests.items():
        if not Path(name).exists():
            yield f"its input {name} is gone"
        elif file_digest(Path(name)) != wanted:
            yield f"its input {name} has changed since"
