"""Versions agree, make passes on what it is given, and .venv is made when it has to be."""

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
from conftest import ROOT
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from icl.core import provenance
from scripts import environment

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
LOCK, PIN, TORCH, CPU = (
    (ROOT / f"requirements/{name}").read_text()
    for name in ("lock.txt", "torch.in", "torch.txt", "torch-cpu.txt")
)


def ranges(requirements: list[str]) -> dict[str, SpecifierSet]:
    """PyPI's name of each package -> its versions."""
    text = "\n".join(requirements).replace("pytorch", "torch")
    names = re.sub("-base|-minimal", "", text).splitlines()
    return {canonicalize_name(one.name): one.specifier for one in map(Requirement, names)}


def pins(lock: str) -> dict[str, str]:
    found = re.findall(r"^([\w.-]+)==([^\s;\\]+)", lock, re.M)
    return {canonicalize_name(name): version for name, version in found}


RUNTIME = ranges(PROJECT["dependencies"]) | {"python": SpecifierSet(PROJECT["requires-python"])}
CONDA = ranges(yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"])


def test_conda_has_the_same_ranges_and_all_that_is_imported() -> None:
    assert CONDA == RUNTIME | {name: CONDA[name] for name in ("pip", "setuptools")}
    imported = set()
    for path in [*(ROOT / "src").rglob("*.py"), *(ROOT / "scripts").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add(str(node.module).split(".")[0])
    packages = metadata.packages_distributions()
    for top in imported - sys.stdlib_module_names - {"icl"}:
        assert CONDA.keys() & {canonicalize_name(one) for one in packages[top]}, top


def test_the_lock_lies_in_every_range_and_serves_every_machine() -> None:
    extras = [one for group in PROJECT["optional-dependencies"].values() for one in group]
    locked = pins(LOCK) | pins(PIN)
    for name, admitted in (RUNTIME | CONDA | ranges(extras)).items():
        assert name in ("python", "pip") or locked[name] in admitted, name
    # No build of torch, no file or address, and hashes for every pin.
    assert not re.findall(r"^.*(?:\+cpu|file:| @ |://|nvidia|cuda|triton|^torch==).*$", LOCK, re.M)
    for text in (LOCK, TORCH, CPU):
        for block in re.split(r"\n(?=\S)", text):
            assert "--hash=sha256:" in block or "==" not in block.split("\n")[0], block
    version = pins(PIN)["torch"]
    assert pins(TORCH)["torch"] == version and pins(CPU) == {"torch": f"{version}+cpu"}
    assert pins(LOCK) | pins(TORCH) == pins(TORCH) | pins(LOCK)


def test_the_dependencies_of_torch_are_those_in_the_lock() -> None:
    (told,) = PYPROJECT["tool"]["uv"]["dependency-metadata"]
    # The CUDA build has the same dependencies and its libraries; extras do not matter here.
    other = re.compile("nvidia|cuda|triton|.*extra")
    needed = map(str, map(Requirement, metadata.requires("torch") or []))
    plain = {one for one in needed if not other.match(one)}
    assert {str(Requirement(one)) for one in told["requires-dist"]} == plain
    assert pins(PIN) == {"torch": told["version"]}


@pytest.mark.skipif(not provenance.is_clone(), reason="no git lists the files here")
def test_no_tracked_file_names_a_machine() -> None:
    # Assembled from pieces, so that this file is not found.
    hosts = "(pypi|pythonhosted|download[.]pytorch|anaconda)[.]" + "org"
    folders = "(^|[^[:alnum:]_.~>})-])/(work|root|farm|home|opt|tmp|Users|mnt)" + "/"
    command = ["git", "grep", "-IlE", f"{hosts}|{folders}"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (1, "")  # no file


def make(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run make as a user would, even if make started the tests."""
    theirs = ("MAKE", "MFLAGS", "PYTHON", "TORCH")
    ours = {name: value for name, value in os.environ.items() if not name.startswith(theirs)}
    command = ["make", *arguments]
    return subprocess.run(command, env=ours | variables, capture_output=True, text=True)


def program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with programs in .venv that only print their words, one a line."""
    for name in ("Makefile", "pyproject.toml", "requirements", "scripts"):
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, tmp_path / name)
    (tmp_path / ".venv/bin").mkdir(parents=True)
    for name in ("snakemake", "mkdocs", "uv", "python"):
        real = f'[ "$1" != scripts/call.py ] || exec "{sys.executable}" "$@"\n' * (name == "python")
        program(tmp_path / ".venv/bin" / name, real + 'printf "%s\\n" "$@" end')
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_unknown_goals_go_to_snakemake_in_one_call_with_one_config() -> None:
    # figures and results are also folders, which make must not take for finished targets. Of two
    # --config Snakemake reads the last one only.
    Path("figures").mkdir()
    given = ("figures", "results/a.txt", "SCALE=smoke", "SET=li_icl: {batch: 64}")
    for form, option in (
        ("-C 'a=b c'", "-C"),
        ("-C'a=b c'", "--config"),
        ("--config='a=b c'", "--config"),
        ("--config 'a=b c'", "--config"),
    ):
        made = make("-o", "env", *given, f"SNAKEMAKE_ARGS=-n {form}").stdout.splitlines()
        settings = [option, "scale=smoke", "constants=li_icl: {batch: 64}", "a=b c"]
        assert made[1:] == ["figures", "results/a.txt", "-n", *settings, "end"]


HOSTILE = (
    "x;touch canary;$(touch canary)`touch canary`$(shell touch canary)",
    "'; touch canary; '",
    "*",
)
USES = {
    "SCALE": "figure9",
    "SET": "whatif FIGURE=a",
    "SNAKEMAKE_ARGS": "figure9",
    "PAPER": "paper",
    "FIGURE": "whatif SET=a",
    "SITE": "docs",
    "BENCH": "bench",
    "PYTEST_ARGS": "test",
    "LOCK_ARGS": "lock",
}


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_caller_gives_reaches_no_shell(text: str) -> None:
    """As a variable of make or of the environment, and as a goal; each arrives unchanged."""
    for variable, goal in USES.items():
        for arguments, variables in (([f"{variable}={text}"], {}), ([], {variable: text})):
            done = make("-o", "env", *goal.split(), *arguments, **variables)
            assert not Path("canary").exists(), (variable, done)
            if not variable.endswith("ARGS") and variable != "BENCH":
                arrived = rf"(?m)^(scale=|constants=)?{re.escape(text)}$"
                assert re.search(arrived, done.stdout), variable
    assert {*text.split()} <= {*make("-o", "env", text).stdout.splitlines()}
    make("env", f"PYTHON={text}", f"TORCH_INDEX={text}")
    assert not Path("canary").exists()


def test_make_takes_the_first_working_python(folder: Path) -> None:
    for name in ("python3", "python3.11", "python3.12", "python3.13", "python3.14"):
        code = 0 if name in ("python3.12", "python3.13") else 1
        program(folder / name, f'[ "$1" != -c ] || exit {code}\necho {name} "$@"')
    path = f"{folder}:{os.environ['PATH']}"
    assert make("env", PATH=path).stdout == "python3.13 scripts/environment.py   \n"
    chosen = make("env", "PYTHON=python3.12", "TORCH=cuda", PATH=path).stdout
    assert chosen == "python3.12 scripts/environment.py python3.12 cuda \n"
    refused = make("env", "PYTHON=python3.11", PATH=path).stderr.splitlines()[0]
    assert re.fullmatch("make env: no Python 3.11 or later.*in PYTHON=python3.11", refused)


@pytest.mark.usefixtures("folder")
def test_make_names_a_variable_that_has_no_use() -> None:
    for name in ("scale", "SEED"):
        done = make("-n", "figure9", f"{name}=3")
        assert done.returncode == 2 and f"{name}=...: has no use here" in done.stderr
    done = make("-o", "env", "figure9", "SNAKEMAKE_ARGS=--workflow-profile profiles/slrum")
    assert "profile 'profiles/slrum': no such profile" in done.stderr


def test_the_cpu_build_of_torch_is_tried_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def tried(torch: str, index: str) -> list[str]:
        """Return the files, whose digests are required, and the only index."""
        found = [*environment.builds(torch, index).values()]
        assert all(one[:2] == ["--require-hashes", "--no-deps"] for one in found)
        return [word for one in found for word in one if not word.startswith("--")]

    cpu = str(environment.CPU)
    default = str(environment.TORCH)
    monkeypatch.setattr(sys, "platform", "linux")
    assert tried("", "") == [cpu, default]
    assert tried("", "index") == [cpu, "index"]
    assert tried("cuda", "") == [default]
    monkeypatch.setattr(sys, "platform", "darwin")
    assert tried("", "") == [default]


@pytest.mark.usefixtures("folder")
def test_an_environment_is_made_once_and_again_after_a_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[tuple[str, str, str]] = []

    def build(*chosen: str) -> None:
        time.sleep(0.1)
        Path(".venv/bin").mkdir(parents=True)
        Path(".venv/bin/python").symlink_to(sys.executable)
        made.append(chosen)

    def times_made(*chosen: str) -> int:
        monkeypatch.setattr(sys, "argv", ["environment.py", *chosen])
        before = len(made)
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda _: environment.main(), range(2)))
        return len(made) - before

    monkeypatch.setattr(environment, "build", build)
    assert times_made("", "", "") == 1
    assert times_made("", "", "") == 0
    assert times_made("", "cuda", "") == 1
    environment.LOCK.write_text(environment.LOCK.read_text() + "#")
    assert times_made("", "", "") == 1 and made[-1][1] == "cuda"
    environment.RECORD.write_text("")  # an interrupted set-up
    assert times_made("", "", "") == 1
    for changed in ({"python": "/another"}, {"folder": "/another"}):
        environment.RECORD.write_text(json.dumps(environment.recorded() | changed))
        assert times_made("python3", "", "") == 1
    # Not the Python of the .venv that is removed.
    assert not Path(made[-1][0]).is_relative_to(sys.prefix)


@pytest.mark.usefixtures("folder")
def test_a_step_keeps_where_packages_come_from_and_a_failure_shows_the_end_of_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = {"PIP_INDEX_URL": "1", "UV_CACHE_DIR": "1"}
    ours = {"PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0"}
    given = {"PIP_NO_DEPS", "UV_SYSTEM_PYTHON", "PYTHONOPTIMIZE", *kept, *ours}
    for name in given:
        monkeypatch.setenv(name, "1")
    environment.LOG.parent.mkdir()
    code = "import os, sys; print(dict(os.environ)); sys.exit('the reason')"
    with pytest.raises(SystemExit, match=r"failed(.|\n)*the reason"):
        environment.run("a step", sys.executable, "-c", code)
    (line,) = re.findall(r"(?m)^{.*}$", environment.LOG.read_text())
    told = ast.literal_eval(line)
    assert {name: told[name] for name in given & told.keys()} == kept | ours


def test_clean_removes_results_on_other_disks(folder: Path) -> None:
    (folder / "disk/laptop/logs").mkdir(parents=True)
    for name in ("README.md", "laptop/README.md", "laptop/logs/a.log", ".hidden"):
        (folder / "disk" / name).touch()
    (folder / "results").symlink_to("disk")
    for name in ("figures/old", "src", "studies", "benchmarks", "tests", "site"):
        (folder / name).mkdir(parents=True)
    assert make("clean").returncode == 0
    assert [path.name for path in (folder / "disk").iterdir()] == ["README.md"]
    assert not list((folder / "figures").iterdir()) and not (folder / "site").exists()
