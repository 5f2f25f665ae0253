"""Jobs open only files of the repository that their identity covers, and their inputs, outputs and log."""

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT, Workflow

from icl.pipeline import identity

# Loaded by every Python of the workflow: each process lists the files that it opens and its arguments.
HOOK = """
import atexit, json, os, sys
opened = set()
def note(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes)):
        opened.add(os.path.abspath(os.fsdecode(arguments[0])))
sys.addaudithook(note)
@atexit.register
def tell():
    with open(os.path.join({folder!r}, f"{{os.getpid()}}.json"), "w") as file:
        json.dump({{"words": sys.orig_argv, "opened": sorted(opened)}}, file)
"""
# One with a published curve, and one without.
FIGURES = ("figure9", "icl_rates")


def source(path: Path) -> Path:
    """The source of a compiled module."""
    return Path(importlib.util.source_from_cache(path)) if path.suffix == ".pyc" else path


def below(paths: list[str], root: Path) -> Iterator[Path]:
    for path in map(Path, paths):
        inside = path.relative_to(root).parts if path.is_relative_to(root) else (".venv",)
        # The environment; folders, which are opened for fsync.
        if inside[:1] not in ((".venv",), (".git",)) and not path.is_dir():
            yield source(path)


def is_declared(path: Path, words: list[str]) -> bool:
    """Whether a command names the file, or a writer or a training keeps it beside such a file."""
    named = [Path(word).resolve() for word in words if "/" in word]
    stem = path.name.lstrip(".").split(".")[0]
    return any(path == one or (path.parent == one.parent and stem == one.name.split(".")[0]) for one in named)


@pytest.mark.slow
def test_jobs_open_only_files_of_their_identity(
    workflow: Workflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "told").mkdir()
    (tmp_path / "site/sitecustomize.py").write_text(HOOK.format(folder=str(tmp_path / "told")))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    done = workflow(*FIGURES, "--config", "scale=smoke", "shards=1", timeout=1800)
    assert done.returncode == 0, done.stdout
    monkeypatch.chdir(workflow.folder)

    jobs = []
    for file in (tmp_path / "told").iterdir():
        told = json.loads(file.read_text())
        script = next((word for word in told["words"] if word.startswith("scripts/")), "")
        job = Path(script).stem
        if job not in ("train", "measure", "draw", "check"):
            continue
        words = told["words"]
        modules = [words[words.index("--module") + 1]] if "--module" in words else []
        known = {path.resolve() for path in identity.files(job, *modules)}
        others = {
            path
            for root in (ROOT, workflow.folder)
            for path in below(told["opened"], root)
            if path not in known and not is_declared(path, words)
        }
        assert others == set(), (job, modules)
        # The hook was active.
        assert workflow.folder / script in below(told["opened"], workflow.folder)
        assert len(known & set(below(told["opened"], ROOT))) > 5
        jobs.append(job)
    assert {job: jobs.count(job) for job in ("measure", "draw", "check")} == dict.fromkeys(
        ("measure", "draw", "check"), len(FIGURES)
    )
    assert "train" in jobs
