"""`make env` with a fake Python and pip: the choice of torch, repeated set-ups, and what remains after failures."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from test_environment import PYPROJECT, TORCH_PIN, make, pins, runtime

from scripts import environment

VERSION = str(pins(TORCH_PIN)["torch"])

# A fake Python that answers the set-up's questions, makes an environment of copies of itself, and acts as pip. A file
# beside it describes its behaviour; another one records its calls.
PRETENDER = f"""#!{sys.executable} -IS
import json, pathlib, shutil, sys, time
base, words = pathlib.Path({{base!r}}), sys.argv[1:]
like = json.loads(base.with_suffix(".json").read_text())
here = pathlib.Path(__file__).parents[1]
packages = here / "lib/python9.9/site-packages"

def end(*lines, code=0):
    print(*lines, sep="\\n", flush=True)
    sys.exit(code)

if words[0] == "-c" and "base_prefix" in words[1]:
    about = {{{{"version": like["version"], "prefix": str(base.parent), "executable": str(base), "torch": True}}}}
    end(json.dumps(about))
if words[0] == "-c" and "snakemake" in words[1]:
    end((packages / "torch").read_text() if (packages / "torch").exists() else like["torch"])
if words[0] == "-c":
    end(like["torch"], code=not like["torch"])
with base.with_suffix(".calls").open("a") as calls:
    calls.write(json.dumps(words[1:]) + "\\n")
if words[1] == "venv":
    made = pathlib.Path(words[-1])
    (made / "bin").mkdir(parents=True)
    (made / "lib/python9.9/site-packages/pip-24.2.dist-info").mkdir(parents=True)
    shutil.copy(__file__, made / "bin/python")
    end()
time.sleep(like["seconds"])
if not like["network"]:
    end("WARNING: Retrying after connection broken by 'NewConnectionError(...)': /simple/torch/",
        "ERROR: Could not find a version that satisfies the requirement (from versions: none)",
        "ERROR: No matching distribution found for torch", code=1)
if like["fails"] in words:
    end("one", "two", "ERROR: three", code=1)
if "--no-deps" in words and "--editable" not in words:
    (build,) = [word.split("==")[1] for word in words if word.startswith("torch==")]
    if build not in like["sources"]:
        end("ERROR: Could not find a version that satisfies the requirement (from versions: 2.12.0)",
            f"ERROR: No matching distribution found for torch=={{{{build}}}}", code=1)
    (packages / "torch").write_text(build)
    end(f"Collecting torch=={{{{build}}}}", "  Downloading torch-9.whl (526.6 MB)", "Progress 26300000 of 526600000")
(packages / ("icl" if "--editable" in words else "numpy")).mkdir(exist_ok=True)
"""
LIKE = {
    "version": "3.13", "torch": "", "network": True, "fails": "", "seconds": 0,
    "sources": [VERSION, f"{VERSION}+cpu"],
}  # fmt: skip


class Clone:
    """A clone with only the files that `make env` reads, and fake Pythons beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.pythons = folder / "icl", folder / "bin"
        self.pythons.mkdir()
        for name in ("Makefile", "pyproject.toml", "requirements", "scripts/environment.py"):
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, self.folder / name)
            else:
                shutil.copy(ROOT / name, self.folder / name)

    def python(self, name: str = "python", **like: Any) -> Path:
        path = self.pythons / name
        path.write_text(PRETENDER.format(base=str(path)))
        path.chmod(0o755)
        path.with_suffix(".json").write_text(json.dumps(LIKE | like))
        return path

    def start(self, *words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "scripts/environment.py", *words]
        return subprocess.Popen(
            command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )

    def set_up(self, *words: str) -> tuple[int, str]:
        running = self.start(*words)
        printed, said = running.communicate(timeout=300)
        assert printed == ""
        return running.returncode, said

    def calls(self, python: Path) -> list[list[str]]:
        file = python.with_suffix(".calls")
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def asked_for(self, python: Path) -> list[str]:
        """The builds of torch that pip was called with, and the address of the index."""
        torch = [words for words in self.calls(python) if "--no-deps" in words and "--editable" not in words]
        return [" ".join(words[words.index("--retries") + 2 :]) for words in torch]

    def left(self) -> list[str]:
        return sorted(path.name for path in self.folder.glob(".venv*"))


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


# -- which torch ------------------------------------------------------------------------------------------------------

CPU, DEFAULT = f"torch=={VERSION}+cpu", f"torch=={VERSION}"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the default build is the only one")
@pytest.mark.parametrize(
    ("like", "words", "asked", "installed"),
    [
        ({}, [], [CPU], CPU),
        ({"sources": [VERSION]}, [], [CPU, DEFAULT], DEFAULT),
        ({}, ["--torch", "cuda"], [DEFAULT], DEFAULT),
        ({}, ["--torch-index", "ftp://x"], [f"{CPU} --index-url ftp://x"], CPU),
        ({"torch": "2.9.1"}, [], [], "torch==2.9.1"),
        ({"torch": "2.6.0"}, [], [CPU], CPU),
        ({"torch": "2.9.1"}, ["--torch", "cpu"], [CPU], CPU),
    ],
)
def test_torch_is_chosen_in_order(
    clone: Clone, like: dict[str, Any], words: list[str], asked: list[str], installed: str
) -> None:
    python = clone.python(**like)
    code, said = clone.set_up("--python", str(python), *words)
    assert code == 0, said
    assert clone.asked_for(python) == asked
    record = json.loads((clone.folder / ".venv/.installed").read_text())
    assert f"torch=={record['torch']}" == installed
    lines = [line for line in said.splitlines() if line.startswith("torch: ")]
    assert len(lines) == max(len(asked), 1)
    assert all("GB" in line for line in lines if CPU not in line and asked)
    assert ("--system-site-packages" in clone.calls(python)[0]) == (not asked)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing big is downloaded")
def test_the_size_and_how_to_avoid_it_are_printed_before_the_download(clone: Clone) -> None:
    python = clone.python(sources=[VERSION])
    _, said = clone.set_up("--python", str(python))
    before = said[: said.index("526.6 MB" if "526.6 MB" in said else "527 MB")]
    assert environment.DEFAULT_BUILD[1] in before and "TORCH_INDEX=" in before


@pytest.mark.parametrize("system", ["Darwin", "Windows"])
def test_elsewhere_the_default_build_is_the_only_one(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert [choice.asks for choice in environment.choices(system, "", "")] == [[DEFAULT]]


def test_the_size_is_of_the_pinned_version() -> None:
    assert environment.DEFAULT_BUILD[0] == VERSION


@pytest.mark.parametrize("version", ["2.6.9", "2.7.0", "2.13.0+cpu", "2.13.0a0+git12", "3.0", "1.13.1+cu117"])
def test_the_range_of_torch_is_read_as_pip_reads_it(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert environment.in_range(version) == runtime(PYPROJECT)["torch"].contains(version, prereleases=True)


def test_no_build_anywhere_is_one_line(clone: Clone) -> None:
    python = clone.python(sources=[])
    code, said = clone.set_up("--python", str(python))
    assert code != 0 and clone.left() == []
    assert "no source of pip has it for this Python" in said.splitlines()[-1]


# -- what is left behind ----------------------------------------------------------------------------------------------


def test_without_network_there_is_one_line_and_no_venv(clone: Clone) -> None:
    python = clone.python(network=False)
    code, said = clone.set_up("--python", str(python))
    assert code != 0 and clone.left() == []
    assert "is there a network?" in said.splitlines()[-1] and "Traceback" not in said
    assert len(clone.asked_for(python)) == 1


def test_the_output_of_pip_is_logged_and_its_end_shown_on_failure(clone: Clone) -> None:
    python = clone.python(fails="--require-hashes")
    code, said = clone.set_up("--python", str(python))
    assert code != 0 and clone.left() == []
    assert said.splitlines()[-3:] == ["  | one", "  | two", "  | ERROR: three"]
    assert "Downloading torch-9.whl (526.6 MB)" in (clone.folder / environment.LOG).read_text()
    assert "Downloading" not in said and "\r" not in said


def test_a_failure_leaves_the_old_venv(clone: Clone) -> None:
    python = clone.python()
    clone.set_up("--python", str(python))
    before = (clone.folder / ".venv/.installed").read_text()
    clone.python(network=False)
    newer_lock(clone)
    code, _ = clone.set_up()
    assert code != 0 and clone.left() == [".venv"]
    assert (clone.folder / ".venv/.installed").read_text() == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_killed_set_up_is_done_again(clone: Clone, number: signal.Signals) -> None:
    python = clone.python(seconds=20)
    running = clone.start("--python", str(python))
    while not clone.asked_for(python):
        time.sleep(0.05)
    os.killpg(running.pid, number)
    running.communicate(timeout=300)
    assert running.returncode != 0
    assert clone.left() == ([".venv"] if number == signal.SIGKILL else [])
    clone.python()
    code, said = clone.set_up("--python", str(python))
    assert code == 0 and clone.left() == [".venv"], said
    assert ("it was never finished" in said) == (number == signal.SIGKILL)


def test_two_at_once_wait_for_each_other(clone: Clone) -> None:
    python = clone.python(seconds=0.5)
    first = clone.start("--python", str(python))
    while not clone.asked_for(python):
        time.sleep(0.05)
    _, said = clone.set_up("--python", str(python))
    assert said == "another make is setting up .venv here; waiting for it\n"
    assert first.communicate(timeout=300)[0] == "" and first.returncode == 0
    assert [words[0] for words in clone.calls(python)].count("venv") == 1


# -- when it is made again --------------------------------------------------------------------------------------------


def test_nothing_is_done_or_printed_if_nothing_has_changed(clone: Clone) -> None:
    python = clone.python()
    clone.set_up("--python", str(python))
    calls = clone.calls(python)
    another_comment(clone)
    for words in ([], ["--python", str(python)], ["--torch", "cpu"]):
        assert clone.set_up(*words) == (0, "")
    assert clone.calls(python) == calls


def newer_lock(clone: Clone) -> None:
    (clone.folder / "requirements/lock.txt").write_text("six==1.17.0\n")


def another_comment(clone: Clone) -> None:
    with (clone.folder / "requirements/lock.txt").open("a") as lock:
        lock.write("    # via numpy\n")


def newer_python(clone: Clone) -> None:
    clone.python(version="3.14")


def no_python(clone: Clone) -> None:
    (clone.folder / ".venv/bin/python").unlink()


def no_numpy(clone: Clone) -> None:
    (clone.folder / ".venv/lib/python9.9/site-packages/numpy").rmdir()


def no_record(clone: Clone) -> None:
    (clone.folder / ".venv/.installed").write_text("")


def moved(clone: Clone) -> None:
    clone.folder = clone.folder.rename(clone.folder.with_name("moved"))


def nothing(clone: Clone) -> None:
    pass


@pytest.mark.parametrize(
    ("change", "words", "why"),
    [
        (newer_lock, [], "it was made from another lock"),
        (newer_python, [], "it was made for Python 3.13"),
        (no_python, [], "its Python does not run"),
        (no_numpy, [], "it is broken, lib/python9.9/site-packages/numpy is gone"),
        (no_record, [], "it was never finished"),
        (moved, [], "it was made in "),
        (nothing, ["--torch", "cuda"], "it has the CPU build of torch"),
    ],
)
def test_an_outdated_venv_is_named_and_made_again(
    clone: Clone, change: Callable[[Clone], None], words: list[str], why: str
) -> None:
    python = clone.python()
    clone.set_up("--python", str(python))
    (clone.folder / ".venv/left_over").touch()
    change(clone)
    # Without a record, the former Python is unknown.
    code, said = clone.set_up(*words, *(["--python", str(python)] if change is no_record else []))
    assert code == 0, said
    assert f"because {why}" in said.splitlines()[0]
    assert clone.left() == [".venv"] and not (clone.folder / ".venv/left_over").exists()
    assert clone.set_up() == (0, "")


def test_another_python_is_used_on_request_and_then_kept(clone: Clone) -> None:
    clone.set_up("--python", str(clone.python()))
    other = clone.python("other", version="3.12")
    code, said = clone.set_up("--python", str(other))
    assert code == 0 and "setting up .venv for Python 3.12, because it was made for Python 3.13" in said
    newer_lock(clone)
    _, said = clone.set_up()
    assert "setting up .venv for Python 3.12, because it was made from another lock" in said


# -- what is printed --------------------------------------------------------------------------------------------------


def test_the_line_of_progress(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(environment.time, "monotonic", iter(range(1000)).__next__)
    progress = environment.Progress("packages")
    for line in (
        "Collecting scipy==1.17.1 (from -r requirements/lock.txt (line 1))",
        "  Downloading scipy-1.17.1-cp313-cp313-manylinux_2_28_x86_64.whl (35.0 MB)",
        "Progress 7000000 of 35000000",
        "  Using cached six-1.17.0-py2.py3-none-any.whl (11 kB)",
        "Processing a/folder/numpy-2.4.6-cp313-cp313-linux_x86_64.whl",
        "Installing collected packages: scipy, six, numpy",
    ):
        progress.see(line)
    shown = capsys.readouterr().err.split(environment.BACK)[1:]
    ends = [line.split(" s: ")[1] for line in shown]
    assert ends == ["scipy, 35 MB", "7 of 35 MB", "six, 0 MB", "numpy", "unpacking"]
    assert progress.summary().startswith("  packages: 3 packages, 35 MB downloaded")


# -- the Python that make finds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("work", "words", "taken"),
    [
        (["python3", "python3.12"], [], "python3 --python"),
        (["python3.13", "python3.12"], [], "python3.13 --python"),
        (["python3.12", "python3.11"], [], "python3.12 --python"),
        (["python3", "python3.12"], ["PYTHON=python3.12", "TORCH=cuda"], "python3.12 --python python3.12 --torch cuda"),
    ],
)
def test_make_uses_the_first_working_python(
    clone: Clone, tmp_path: Path, work: list[str], words: list[str], taken: str
) -> None:
    for name in ("python3", "python3.13", "python3.12", "python3.11"):
        stub = tmp_path / "bin" / name
        stub.write_text(f'#!/bin/sh\n[ "$1" = -c ] && exit {int(name not in work)}\nshift; echo {name} "$@"\n')
        stub.chmod(0o755)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    assert make("env", *words, folder=clone.folder, PATH=path).stdout.startswith(taken)


def test_without_a_python_make_says_so_in_a_line(clone: Clone) -> None:
    made = make("env", "PYTHON=no-such-python", folder=clone.folder)
    assert made.returncode != 0 and clone.left() == []
    assert made.stderr.startswith("make env: no Python 3.11 or later") and "PYTHON=" in made.stderr
