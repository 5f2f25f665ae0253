"""The environment of commands and jobs, and the folder in which they run: the same whatever starts
them.

Notebooks, cluster schedulers and login scripts export variables that change what Python, matplotlib
and the numerical libraries do. `settle` removes these and starts Python again if it has read one
already.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from icl.pipeline import kernels

ROOT = Path(__file__).resolve().parents[3]
REMOVED = tuple(
    "PYTHON MPL MATPLOTLIB OMP_ GOMP_ KMP_ MKL_ OPENBLAS_ GOTO_ BLIS_ VECLIB_ NUMEXPR_ NPY_ ATEN_ "
    "ONEDNN_ DNNL_ TORCH_ PYTORCH_ NVIDIA_TF32 GIT_".split()
)
"""How the names of variables begin that Python, plots, sums or the recorded revision would
depend on.
"""
KEPT = frozenset(
    {"PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX", "PYTHONUNBUFFERED", *kernels.ONE_ORDER}
)
THREADS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
"""One thread each: more would sum in another order, and give other weights for the same
constants and seeds.
"""


def known(given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a command that is started with `given`; of its own result, the
    same.
    """
    kept = {
        name: value for name, value in given.items() if name in KEPT or not name.startswith(REMOVED)
    }
    # UTF-8 on every terminal; this package and no other source from the caller's folder.
    ours = dict.fromkeys(("PYTHONUTF8", "PYTHONNOUSERSITE", "PYTHONSAFEPATH", *THREADS), "1")
    ours |= {"PYTHONPATH": str(ROOT / "src"), "MPLBACKEND": "agg"}
    if not _can_write(Path(given.get("XDG_CACHE_HOME") or Path(given.get("HOME", "/"), ".cache"))):
        ours |= {"XDG_CACHE_HOME": str(ROOT / ".cache")}
    return kept | ours


def _can_write(folder: Path) -> bool:
    """Return whether files can be made below a folder that may not exist."""
    there = next(path for path in (folder, *folder.parents) if os.path.exists(path))
    return there.is_dir() and os.access(there, os.W_OK)


def settle() -> None:
    """Take the known environment; starts this command again if Python has read other variables."""
    settled = known(os.environ)
    of_python = [name for name in {*os.environ, *settled} if name.startswith("PYTHON")]
    if any(os.environ.get(name) != settled.get(name) for name in of_python):
        sys.stdout.flush()
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], settled)
    adopt(settled)


def adopt(settled: Mapping[str, str]) -> None:
    """Replace the environment of this process, and of those that it starts."""
    for name in set(os.environ) - set(settled):
        del os.environ[name]
    os.environ.update(settled)


def enter() -> None:
    """Make the clone the working folder, from anywhere in it; elsewhere exit."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "workflow/config.yaml").is_file() and (folder / "Snakefile").is_file():
            return os.chdir(folder)
    sys.exit(f"{here}: is not in the clone; run `cd {ROOT}` first")
