"""The provenance in the metadata of every result: versions, revision, whether the tree was clean, and arithmetic."""

import platform
import subprocess
from importlib import metadata
from typing import Any

from icl.core import arithmetic

LIBRARIES = (
    "icl",
    "numpy",
    "scipy",
    "pandas",
    "pyarrow",
    "torch",
    "scikit-learn",
    "matplotlib",
    "seaborn",
    "snakemake",
)
"""The packages that a number or a picture may depend on."""


def device() -> str:
    """``"cuda"`` if torch sees a GPU, else ``"cpu"``."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _git(*arguments: str) -> str | None:
    try:
        return subprocess.check_output(["git", *arguments], stderr=subprocess.DEVNULL, text=True, timeout=20).strip()
    except (OSError, subprocess.SubprocessError):
        return None


def about(**more: Any) -> dict[str, Any]:
    """Versions, git revision, whether the tree was clean, the machine's arithmetic, and `more`."""
    status = _git("status", "--porcelain")
    return {
        "python": platform.python_version(),
        "versions": {name: metadata.version(name) for name in LIBRARIES},
        "revision": _git("rev-parse", "HEAD"),
        "clean": None if status is None else not status,
        "arithmetic": arithmetic.record(),
        **more,
    }
