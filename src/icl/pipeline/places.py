"""Where a result belongs is a file or nothing: a folder or a link to no file would stop its job
at the very end.
"""

import os
from collections.abc import Iterable
from pathlib import Path


def taken(paths: Iterable[Path]) -> list[str]:
    """Return a line per path with something else than a file: path, what is there, remedy."""
    others = [path for path in paths if os.path.lexists(path) and not path.is_file()]
    return [f"{path}: is {_kind(path)}; move it away and run again" for path in others]


def _kind(path: Path) -> str:
    if path.is_dir():
        return "a folder"
    return "a link to no file" if path.is_symlink() else "no file"
