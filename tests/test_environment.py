"""Versions agree, no file names a machine, make passes on what it is given, and .venv is made when it has to be."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from scripts import environment

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
LOCK, PIN = ((ROOT / f"requirements/{name}.txt").read_text() for name in ("lock", "torch"))


def ranges(requirements: list[str]) -> dict[str, SpecifierSet]:
    """PyPI's name of each package -> its versions."""
    names = [one.replace("pytorch", "torch").replace("-base", "").replace("-minimal", "") for one in requirements]
    return {canonicalize_name(one.name): one.specifier for one in map(Requirement, names)}


def pins(lock: str) -> dict[str, str]:
    return {canonicalize_name(name): version for name, version in re.findall(r"^([\w.-]+)==([^\s;\\]+)", lock, re.M)}


RUNTIME = ranges(PROJECT["dependencies"]) | {"python": SpecifierSet(PROJECT["requires-python"])}
CONDA = ranges(yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"])


def test_conda_has_the_same_ranges_and_all_that_is_imported() -> None:
    assert {name: admitted for name, admitted in CONDA.items() if name not in ("pip", "setuptools")} == RUNTIME
    imported = set()
    for path in [*(ROOT / "src").rglob("*.py"), *(ROOT / "scripts").glob("*.py")]:
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        imported |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        imported |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
    packages = metadata.packages_distributions()
    for top in {name.split(".")[0] for name in imported} - {*sys.stdlib_module_names, "icl"}:
        assert CONDA.keys() & {canonicalize_name(one) for one in packages[top]}, top


def test_the_lock_lies_in_every_range_and_serves_every_machine() -> None:
    extras = [one for group in PROJECT["optional-dependencies"].values() for one in group]
    locked = pins(LOCK) | pins(PIN)
    for name, admitted in (RUNTIME | CONDA | ranges(extras)).items():
        assert name in ("python", "pip") or locked[name] in admitted, name
    # No build of torch, no file or address, and hashes for every pin.
    assert not re.findall(r"^.*(?:\+cpu|file:| @ |://|nvidia|cuda|triton|^torch==).*$", LOCK, re.M)
    assert all("--hash=sha256:" in block for block in re.split(r"\n(?=\S)", LOCK) if "==" in block.split("\n")[0])


def test_the_dependencies_of_torch_are_those_in_the_lock() -> None:
    (told,) = PYPROJECT["tool"]["uv"]["dependency-metadata"]
    said = map(Requirement, metadata.requires("torch") or [])
    # The CUDA build has the same dependencies and its libraries; extras do not matter here.
    plain = [r for r in said if not r.name.startswith(("nvidia", "cuda", "triton")) and "extra" not in str(r.marker)]
    assert {str(Requirement(r)) for r in told["requires-dist"]} == {str(r) for r in plain}
    assert pins(PIN) == {"torch": told["version"]}


def test_no_tracked_file_names_a_machine() -> None:
    # Assembled from pieces, so that this file is not found.
    hosts = [re.escape(f"{host}.org") for host in ("pypi", "pythonhosted", "download.pytorch", "anaconda")]
    folder = r"(?<![\w.~>})-])/(?:" + "|".join("work root farm home opt tmp Users mnt".split()) + ")/"
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    paths = [ROOT / name for name in listing.split("\0") if name]
    texts = {path: path.read_bytes() for path in paths if path.is_file() and not path.is_symlink()}
    named = re.compile("|".join([folder, *hosts]).encode())
    assert [path for path, text in texts.items() if b"\0" not in text and named.search(text)] == []


def make(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run make as a user would, even if make started the tests."""
    ours = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS", "PYTHON", "TORCH"))} | variables
    return subprocess.run(["make", *arguments], env=ours, capture_output=True, text=True, check=False)


def test_unknown_goals_go_to_snakemake_in_one_call_with_one_config() -> None:
    # figures and results are also folders, which make must not take for finished targets. Of two --config Snakemake
    # reads the last one only.
    given = ("figures", "results/a.txt", "SCALE=smoke", "SET=li_icl: {batch: 64}", "SNAKEMAKE_ARGS=-n -C variant=a")
    calls = [line for line in make("-C", str(ROOT), "-n", *given).stdout.splitlines() if "bin/snakemake" in line]
    config = "scale=smoke 'constants=li_icl: {batch: 64}' variant=a"
    assert calls == [f".venv/bin/snakemake 'figures' 'results/a.txt' -n --config {config}"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with what make and the set-up read."""
    for name in ("Makefile", "pyproject.toml", "requirements"):
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_make_takes_the_first_working_python(folder: Path) -> None:
    for name in ("python3", "python3.11", "python3.12", "python3.13", "python3.14"):
        works = name in ("python3.12", "python3.13")
        (folder / name).write_text(f'#!/bin/sh\n[ "$1" != -c ] || exit {1 - works}\necho {name} "$@"\n')
        (folder / name).chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"
    assert make("env", PATH=path).stdout == "python3.13 scripts/environment.py   \n"
    chosen = make("env", "PYTHON=python3.12", "TORCH=cuda", PATH=path).stdout
    assert chosen == "python3.12 scripts/environment.py python3.12 cuda \n"
    assert make("env", "PYTHON=python3.11", PATH=path).stderr.startswith("make env: no Python 3.11 or later")


def test_the_cpu_build_of_torch_is_tried_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def tried(torch: str, index: str) -> list[str]:
        return [one[0].removeprefix(PIN.split()[-1]) for one in environment.builds(torch, index).values()]

    monkeypatch.setattr(sys, "platform", "linux")
    assert (tried("", ""), tried("", "index"), tried("cuda", "")) == (["+cpu", ""], ["+cpu"], [""])
    monkeypatch.setattr(sys, "platform", "darwin")
    assert tried("", "") == [""]


def test_an_environment_is_made_once_and_again_after_a_change(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[str, str, str]] = []

    def build(*chosen: str) -> None:
        time.sleep(0.1)
        Path(".venv/bin").mkdir(parents=True)
        Path(".venv/bin/python").symlink_to(sys.executable)
        made.append(chosen)

    def times_made(*chosen: str) -> int:
        """How often two makes at once make the environment."""
        monkeypatch.setattr(sys, "argv", ["environment.py", *chosen])
        before = len(made)
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda _: environment.main(), range(2)))
        return len(made) - before

    monkeypatch.setattr(environment, "build", build)
    assert (times_made("", "", ""), times_made("", "", ""), times_made("", "cuda", "")) == (1, 0, 1)
    environment.LOCK.write_text(environment.LOCK.read_text() + "#")
    assert times_made("", "", "") == 1 and made[-1][1] == "cuda"
    environment.RECORD.unlink()  # an interrupted set-up
    assert times_made("", "", "") == 1
    for changed in ({"python": "/another"}, {"folder": "/another"}):
        environment.RECORD.write_text(json.dumps(environment.recorded() | changed))
        assert times_made("python3", "", "") == 1
    assert not Path(made[-1][0]).is_relative_to(sys.prefix), "the Python of the .venv that is removed"


def test_a_failure_shows_the_end_of_the_log(folder: Path) -> None:
    environment.LOG.parent.mkdir()
    with pytest.raises(SystemExit, match=r"failed(.|\n)*the reason"):
        environment.run("a step", sys.executable, "-c", "print('the reason'); raise SystemExit(1)")
