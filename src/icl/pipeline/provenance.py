"""Where a result comes from, kept beside it, and whether it still holds."""

import hashlib
import json
import platform
import subprocess
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from icl.core import runs, table
from icl.core.config import digest
from icl.evidence import published_curves
from icl.pipeline import figures
from icl.pipeline.plan import measuring_code, training_code
from icl.report.verdict_files import verdict_files

# Those that a number may depend on; Optuna proposes the trials of a calibration.
LIBRARIES = ("icl", "numpy", "scipy", "pandas", "pyarrow", "torch", "scikit-learn", "optuna", "matplotlib", "snakemake")


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


def judgement(name: str, path: Path) -> verdict_files.Verdicts:
    """What is kept of a figure's table at `path`: the verdicts, the distance from the published curve, the origin."""
    measured, made = table.read(path)
    published = published_curves.load(name)
    return {
        "figure": name,
        "verdicts": [verdict.plain() for verdict in figures.check(name, measured)],
        "fidelity": None if published is None else published_curves.fidelity(measured, published),
        "table": {"digest": file_digest(path), **made},
    }


def verify(folder: Path) -> tuple[list[str], int]:
    """Check weights, tables and verdicts below results/<scale> against their own metadata.

    Returns one line per problem, and how many files were looked at. No memory of the workflow is used: damage,
    inputs that changed since, and code or constants that the files were not made with are all found from the files.
    Weights and tables carry a checksum of their content; of those that an older version wrote without one, a changed
    byte that still decodes is found by what was made from them.
    """
    problems: list[str] = []
    checked = 0
    checks = (("runs/**/*.safetensors", _weights), ("tables/*.parquet", _table), ("verdicts/*.json", _verdicts))
    for pattern, check in checks:
        for path in sorted(folder.glob(pattern)):
            # States of unfinished trainings, and files that a killed job was writing, are no results.
            if path.name.endswith(".state.safetensors") or path.name.startswith("."):
                continue
            checked += 1
            try:
                problems += [f"{path}: {problem}" for problem in check(path)]
            except (runs.RunsError, table.TableError, verdict_files.ReportError) as error:
                problems.append(str(error))
            except (ArithmeticError, AttributeError, ImportError, LookupError, OSError, TypeError, ValueError) as error:
                problems.append(f"{path}: cannot be checked ({error!r}); delete it and run again")
    return problems, checked


def _weights(path: Path) -> Iterator[str]:
    kept, kept_about = runs.load(path), runs.metadata(path)
    if kept_about["identity"] != digest([kept.sweep.training(), training_code(kept.sweep.system)]):
        yield "was trained by other code or constants than its metadata and the source give now"
    beside = path.with_suffix(".parquet")
    if not beside.exists():
        yield f"the trajectory {beside.name} beside it is gone"
    elif not table.read_plain(beside)[0].equals(runs.trajectory(kept)):
        yield f"the trajectory {beside.name} beside it holds other losses"


def _table(path: Path) -> Iterator[str]:
    measured, kept_about = table.read(path)
    if kept_about["identity"] != digest([kept_about["sweeps"], measuring_code(path.stem)]):
        yield "was measured by other code or constants than its metadata and the source give now"
    if set(measured["figure"]) != {path.stem}:
        yield f"holds rows of {', '.join(sorted(set(measured['figure'])))}"
    root = path.resolve().parents[3]
    for name, wanted in kept_about["inputs"].items():
        if not (root / name).resolve().is_relative_to(root):
            yield f"its input {name} lies outside this checkout"
        elif not (root / name).exists():
            yield f"its input {name} is gone"
        elif file_digest(root / name) != wanted:
            yield f"its input {name} has changed since"


def _verdicts(path: Path) -> Iterator[str]:
    kept = verdict_files.load(path)
    source = path.parent.parent / "tables" / f"{path.stem}.parquet"
    if not source.exists():
        yield f"its input {source} is gone"
    elif file_digest(source) != kept["table"]["digest"]:
        yield f"its input {source} has changed since"
    elif json.loads(json.dumps(judgement(path.stem, source))) != kept:
        yield "says something else than its table and the source give now"
