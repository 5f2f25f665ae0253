"""The provenance in the metadata of every result: versions, revision, whether the tree was
clean, and arithmetic.
"""

import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from icl import __version__
from icl.core import arithmetic

ROOT = Path(__file__).resolve().parents[3]

LIBRARIES = ("numpy", "scipy", "pandas", "pyarrow", "torch", "matplotlib", "seaborn", "snakemake")
"""The packages beside ours that a number or a picture may depend on."""


def device() -> str:
    """``"cuda"`` if torch sees a GPU, else ``"cpu"``."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _git(*arguments: str) -> str | None:
    # A clone of another user is read as well.
    command = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), *arguments]
    try:
        return subprocess.check_output(
            command, stderr=subprocess.DEVNULL, text=True, timeout=20
        ).strip()
    except (OSError, subprocess.SubprocessError):
        return None


def is_clone() -> bool:
    """Return whether the package's folder is a git repository, and not only a part of one."""
    top = _git("rev-parse", "--show-toplevel")
    return top is not None and Path(top).resolve() == ROOT


def about(**more: Any) -> dict[str, Any]:
    """Versions, git revision, whether the tree was clean (both None outside a clone), arithmetic,
    `more`.
    """
    status = _git("status", "--porcelain", "--untracked-files=normal") if is_clone() else None
    return {
        "python": platform.python_version(),
        "versions": {"icl": __version__} | {name: metadata.version(name) for name in LIBRARIES},
        "revision": None if status is None else _git("rev-parse", "HEAD"),
        "clean": None if status is None else not status,
        "arithmetic": arithmetic.record(),
        **more,
    }
