"""`make env`: which torch is installed, when .venv is made again, and what a failure says. CI runs the set-up."""

import json
import os
import sys
from pathlib import Path

import pytest
from test_environment import TORCH_PIN, copy_what_make_reads, make, pins

from scripts import environment

VERSION = str(pins(TORCH_PIN)["torch"])
CPU, DEFAULT = f"torch=={VERSION}+cpu", f"torch=={VERSION}"


@pytest.mark.parametrize(
    ("system", "torch", "index", "asked"),
    [
        ("Linux", "", "", [[CPU], [DEFAULT]]),
        ("Linux", "cuda", "", [[DEFAULT]]),
        ("Linux", "", "ftp://x", [[CPU, "--index-url", "ftp://x"]]),
        ("Linux", "cuda", "ftp://x", [[DEFAULT, "--index-url", "ftp://x"]]),
        ("Darwin", "", "", [[DEFAULT]]),
    ],
)
def test_the_small_build_of_torch_comes_first(system: str, torch: str, index: str, asked: list[list[str]]) -> None:
    assert [arguments for _, arguments in environment.builds(system, torch, index)] == asked


def test_the_size_of_the_default_build_is_printed_before_its_download() -> None:
    assert environment.DEFAULT_BUILD[0] == VERSION
    assert environment.DEFAULT_BUILD[1] in environment.builds("Linux", "", "")[-1][0]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A folder with what the set-up reads and the record of a complete .venv."""
    copy_what_make_reads(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").symlink_to(sys.executable)
    now = environment.wanted(sys.executable, "")
    environment.RECORD.write_text(json.dumps(now))
    return now


def test_an_active_venv_is_not_the_python_that_makes_the_new_one() -> None:
    """The old .venv is removed first, with its Python."""
    assert sys.prefix != sys.base_prefix, "the tests run in a virtual environment"
    assert not Path(environment.outside(sys.executable)).is_relative_to(sys.prefix)


def test_nothing_is_done_if_nothing_has_changed(made: dict[str, str]) -> None:
    assert environment.is_current(environment.wanted(sys.executable, ""), chosen=True)


@pytest.mark.parametrize("part", ["folder", "python", "lock", "torch"])
def test_another_folder_python_lock_or_torch_makes_it_again(made: dict[str, str], part: str) -> None:
    assert not environment.is_current(made | {part: "another"}, chosen=True)


def test_a_python_that_was_chosen_before_stays(made: dict[str, str]) -> None:
    assert environment.is_current(made | {"python": "another"}, chosen=False)


@pytest.mark.parametrize("gone", [".venv/.installed", ".venv/bin/python"])
def test_an_incomplete_environment_is_made_again(made: dict[str, str], gone: str) -> None:
    Path(gone).unlink()
    assert not environment.is_current(made, chosen=False)


def test_a_failure_shows_the_end_of_the_log(made: dict[str, str]) -> None:
    environment.LOG.parent.mkdir()
    command = (sys.executable, "-c", "print('the reason'); raise SystemExit(1)")
    assert not environment.run("a step", *command, may_fail=True)
    with pytest.raises(environment.Failure, match=r"a step: failed(.|\n)*the reason"):
        environment.run("a step", *command)


@pytest.mark.parametrize(
    ("work", "words", "taken"),
    [
        (["python3", "python3.12"], [], "python3 --python"),
        (["python3.13", "python3.12"], [], "python3.13 --python"),
        (["python3", "python3.12"], ["PYTHON=python3.12", "TORCH=cuda"], "python3.12 --python python3.12 --torch cuda"),
    ],
)
def test_make_uses_the_first_working_python(tmp_path: Path, work: list[str], words: list[str], taken: str) -> None:
    copy_what_make_reads(tmp_path)
    (tmp_path / "bin").mkdir()
    for name in ("python3", "python3.13", "python3.12", "python3.11"):
        stub = tmp_path / "bin" / name
        stub.write_text(f'#!/bin/sh\n[ "$1" = -c ] && exit {int(name not in work)}\nshift; echo {name} "$@"\n')
        stub.chmod(0o755)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    assert make("env", *words, folder=tmp_path, PATH=path).stdout.startswith(taken)


def test_without_a_python_make_says_so_in_a_line(tmp_path: Path) -> None:
    copy_what_make_reads(tmp_path)
    made = make("env", "PYTHON=no-such-python", folder=tmp_path)
    assert made.returncode != 0 and not (tmp_path / ".venv").exists()
    assert made.stderr.startswith("make env: no Python 3.11 or later") and "PYTHON=" in made.stderr
