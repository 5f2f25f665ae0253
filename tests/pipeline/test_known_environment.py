"""Commands and jobs have one environment and one folder, whatever starts them."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, Workflow

from icl.core import provenance, runs
from icl.pipeline import environment, kernels
from icl.pipeline.plan import Plan

INHERITED = {
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    "PYTHONOPTIMIZE": "2",
    "PYTHONIOENCODING": "ascii",
    "PYTHONWARNINGS": "error",
    "PYTHONINSPECT": "1",
    "OMP_NUM_THREADS": "2",
    "MKL_NUM_THREADS": "2",
    "PYTHONUTF8": "0",
    "HOME": "/dev/null",
    "LC_ALL": "C",
    "GIT_DIR": "/nowhere",
    "NPY_DISABLE_CPU_FEATURES": "AVX2",
    "PIP_USER": "1",
}


def python(
    *words: str, folder: Path = ROOT, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


def test_the_known_environment_does_not_depend_on_the_callers(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), "CUDA_VISIBLE_DEVICES": "1", "SLURM_JOB_ID": "7"}
    settled = environment.known(home)
    assert home.items() <= settled.items() and "XDG_CACHE_HOME" not in settled
    assert environment.known(settled) == settled
    assert environment.known(INHERITED | home) == settled | {"LC_ALL": "C", "PIP_USER": "1"}
    assert environment.known(home | {"HOME": "/dev/null/x"})["XDG_CACHE_HOME"] == str(
        environment.ROOT / ".cache"
    )


def test_a_command_runs_in_the_known_environment() -> None:
    """Numpy and torch take the kernels of every processor with AVX2, also on a wider one."""
    code = """
import contextlib, io, runpy, sys
sys.argv = ["icl", "list"]
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
    runpy.run_module("icl", run_name="__main__")
import matplotlib, numpy, threadpoolctl, torch
flags = sys.flags.optimize, sys.flags.inspect
print(matplotlib.get_backend(), torch.get_num_threads(), *flags, sys.stdout.encoding)
libraries = [one for one in threadpoolctl.threadpool_info() if one["internal_api"] == "openblas"]
blas = {one["architecture"] for one in libraries}
print(torch.backends.cpu.get_cpu_capability(), *blas)
"""
    own = {name: value for name, value in os.environ.items() if name not in kernels.ONE_ORDER}
    told = python("-c", code, environment=own | INHERITED)
    environment_line, kernels_line = told.stdout.splitlines()
    assert environment_line == "agg 1 0 0 utf-8", told.stderr
    if platform.machine() in ("x86_64", "AMD64"):
        assert kernels_line == "AVX2 Haswell"


@pytest.mark.slow
def test_a_figure_is_the_same_under_any_environment_and_number_of_threads(
    workflow: Workflow, figure9_made: Path
) -> None:
    words = ["figure9", "--set-threads", "train=2", "--config", "scale=smoke"]
    command = [sys.executable, "-m", "snakemake", *words]
    # Snakemake itself ends with these; make removes those of Python, and gives it a folder if there
    # is no home.
    others = dict.fromkeys(("PYTHONWARNINGS", "PYTHONINSPECT", "NPY_DISABLE_CPU_FEATURES"), "")
    others["HOME"] = os.environ["HOME"]
    process = workflow.start(command, **INHERITED | others)
    output, _ = process.communicate(timeout=900)
    assert process.returncode == 0, output
    for path in Plan("smoke").run_files("figure9"):
        ours = runs.read_tensors(workflow.folder / path)[0]
        theirs = runs.read_tensors(figure9_made / path)[0]
        assert all((ours[name] == theirs[name]).all() for name in theirs if name != "losses")


def test_a_command_works_from_anywhere_in_the_clone_and_names_it_elsewhere(tmp_path: Path) -> None:
    told = python("-m", "icl", "verdicts", "figure99", folder=ROOT / "docs").stderr
    assert told.startswith("figure 'figure99': no such figure")
    for words in (["list"], ["verdicts"], ["new", "figure", "li2024", "a"], ["review", "figure9"]):
        done = python("-m", "icl", *words, folder=tmp_path)
        said = f"{tmp_path}: is not in the clone; run `cd {environment.ROOT}` first\n"
        assert (done.returncode, done.stdout, done.stderr) == (1, "", said)
    assert python("-m", "icl", "--help", folder=tmp_path).returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_no_revision_of_another_repository_is_recorded(tmp_path: Path) -> None:
    """The package lies in a folder of theirs, and is committed there."""
    package = tmp_path / "icl/src"
    shutil.copytree(ROOT / "src", package, ignore=shutil.ignore_patterns("__pycache__", "papers"))
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "theirs"]):
        subprocess.run([*git, *words], check=True)
    code = "from icl.core.provenance import about; print(about()['revision'], about()['clean'])"
    told = python("-c", code, environment=os.environ | {"PYTHONPATH": str(package)})
    assert told.stdout.split() == ["None", "None"], told.stderr


@pytest.mark.skipif(not provenance.is_clone(), reason="not in a clone")
def test_the_revision_is_that_of_the_clone_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=ROOT, text=True)
    monkeypatch.chdir(tmp_path)
    assert provenance.about()["revision"] == head.strip()
