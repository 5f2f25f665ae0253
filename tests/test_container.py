"""The container recipes, as far as they can be tested without building: both are equivalent, and their steps work."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from packaging.version import Version
from test_environment import CONDA, conda, make_free

FOLDER = ROOT / "container"
DOCKER = (FOLDER / "Dockerfile").read_text(encoding="utf-8")
APPTAINER = (FOLDER / "icl.def").read_text(encoding="utf-8")
KNOWN = ("FROM", "ARG", "COPY", "RUN", "WORKDIR", "ENTRYPOINT")
SECTIONS = ("arguments", "files", "post", "runscript")


def docker(text: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile with continued lines joined: word and rest."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in lines]


def apptainer(text: str) -> dict[str, list[str]]:
    """The lines of every section of a definition file; those of the header have an empty name."""
    sections: dict[str, list[str]] = {"": []}
    for line in text.splitlines():
        if line.startswith("%"):
            sections[line[1:].strip()] = []
        elif line.strip() and not line.startswith("#"):
            sections[list(sections)[-1]].append(line.strip())
    return sections


def test_the_recipes_are_well_formed() -> None:
    words = [word for word, _ in docker(DOCKER)]
    assert words[0] == "FROM" and words[-1] == "ENTRYPOINT" and set(words) <= set(KNOWN)
    assert tuple(apptainer(APPTAINER)) == ("", *SECTIONS)


def test_both_recipes_are_equivalent() -> None:
    said, sections = docker(DOCKER), apptainer(APPTAINER)
    of = {word: [rest for one, rest in said if one == word] for word in KNOWN}
    assert sections[""] == ["Bootstrap: docker", f"From: {of['FROM'][0]}"]
    assert sections["files"] == of["COPY"]
    assert sections["arguments"] == of["ARG"]
    assert sections["post"] == [of["RUN"][0].replace("$TORCH_INDEX", "{{ TORCH_INDEX }}")]
    assert of["ENTRYPOINT"] == ['["sh", "/icl/container/run.sh"]']
    assert sections["runscript"] == ['exec sh /icl/container/run.sh "$@"']


def test_the_image_has_a_python_of_the_range() -> None:
    ((_, version),) = re.findall(r"^FROM (python):(\S+)-slim$", DOCKER, flags=re.MULTILINE)
    assert Version(version) in conda(CONDA)["python"]


def test_copied_files_exist_and_are_not_ignored() -> None:
    taken = (FOLDER / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    copied = [rest.split()[0] for word, rest in docker(DOCKER) if word == "COPY"]
    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert {f"!{name.split('/')[0]}" for name in copied} == set(taken) - {"*"}


@pytest.mark.parametrize("script", sorted(FOLDER.glob("*.sh")), ids=lambda path: path.name)
def test_the_scripts_are_valid_shell(script: Path) -> None:
    subprocess.run(["sh", "-n", script], check=True)


def image(folder: Path) -> Path:
    """The files that the recipes copy, in a folder instead of the root."""
    for source, target in (rest.split() for word, rest in docker(DOCKER) if word == "COPY"):
        place = folder / target.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, place, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(ROOT / source, place)
    return folder / "icl"


@pytest.mark.parametrize(("index", "passed"), [("none", ""), ("ftp://x", "ftp://x")])
def test_the_image_starts_the_set_up(tmp_path: Path, index: str, passed: str) -> None:
    stub = tmp_path / "python3"
    stub.write_text('#!/bin/sh\n[ -f "$1" ] && echo "$@"\n')
    stub.chmod(0o755)
    there = make_free() | {"ICL_FOLDER": str(image(tmp_path)), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = ["sh", tmp_path / "icl/container/install.sh", index]
    said = subprocess.run(command, env=there, capture_output=True, text=True, check=True).stdout
    assert said.rstrip("\n") == f"scripts/environment.py --torch-index {passed}"


def test_the_image_runs_the_sources_of_the_clone(tmp_path: Path) -> None:
    snakemake = tmp_path / "icl/.venv/bin/snakemake"
    snakemake.parent.mkdir(parents=True)
    snakemake.write_text('#!/bin/sh\necho "$PYTHONPATH $HOME $@"\n')
    snakemake.chmod(0o755)
    (tmp_path / "clone").mkdir()
    there = make_free() | {"ICL_FOLDER": str(tmp_path / "icl"), "HOME": "no/such/folder"}
    command = ["sh", FOLDER / "run.sh", "figure9", "--dry-run"]
    said = subprocess.run(
        command, env=there, cwd=tmp_path / "clone", capture_output=True, text=True, check=True
    ).stdout.split()
    clone = str((tmp_path / "clone").resolve())
    assert said == [f"{clone}/src", f"{clone}/.cache", "figure9", "--dry-run"]


@pytest.mark.slow
def test_the_copied_files_suffice_to_install_icl(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--no-index", "--editable"]
    # Without --ignore-installed pip would first remove the icl of the environment that runs the tests.
    target = ["--ignore-installed", "--prefix", tmp_path / "installed"]
    subprocess.run([*command, image(tmp_path), *target], capture_output=True, check=True)
    assert list((tmp_path / "installed").rglob("*icl*.dist-info"))
