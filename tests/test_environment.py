"""Consistency of versions with pyproject.toml, and no names of machines in the tree."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
CONDA = (ROOT / "environment.yml").read_text(encoding="utf-8")
LOCK = (ROOT / "requirements" / "lock.txt").read_text(encoding="utf-8")
TORCH_PIN = (ROOT / "requirements" / "torch.txt").read_text(encoding="utf-8")

# Packages with another name on conda-forge or bioconda than on PyPI.
PYTHON_NAME = {
    "pytorch": "torch",
    "matplotlib-base": "matplotlib",
    "seaborn-base": "seaborn",
    "snakemake-minimal": "snakemake",
}
CONDA_ONLY = {"pip", "setuptools"}  # they install the project itself


# -- readers ----------------------------------------------------------------------------------------------------------


def runtime(pyproject: str) -> dict[str, SpecifierSet]:
    project = tomllib.loads(pyproject)["project"]
    ranges = {canonicalize_name(r.name): r.specifier for r in map(Requirement, project["dependencies"])}
    return ranges | {"python": SpecifierSet(project["requires-python"])}


def runtime_and_dev(pyproject: str) -> list[Requirement]:
    project = tomllib.loads(pyproject)["project"]
    return [Requirement(r) for r in project["dependencies"] + project["optional-dependencies"]["dev"]]


def conda(environment: str) -> dict[str, SpecifierSet]:
    ranges = {}
    for entry in yaml.safe_load(environment)["dependencies"]:
        requirement = Requirement(entry)
        ranges[canonicalize_name(PYTHON_NAME.get(requirement.name, requirement.name))] = requirement.specifier
    return ranges


def pins(lock: str) -> dict[str, Version]:
    return {
        canonicalize_name(name): Version(version)
        for name, version in re.findall(r"^([A-Za-z0-9][\w.-]*)==([^\s;\\]+)", lock, flags=re.MULTILINE)
    }


# -- complaints --------------------------------------------------------------------------------------------------------


def conda_complaints(pyproject: str, environment: str) -> list[str]:
    wanted, given = runtime(pyproject), conda(environment)
    complaints = [f"{name}: in pyproject.toml only" for name in wanted.keys() - given.keys()]
    complaints += [f"{name}: in environment.yml only" for name in given.keys() - wanted.keys() - CONDA_ONLY]
    return complaints + [
        f"{name}: {wanted[name]} in pyproject.toml, {given[name]} in environment.yml"
        for name in wanted.keys() & given.keys()
        if wanted[name] != given[name]
    ]


def import_complaints(sources: dict[str, str], environment: str) -> list[str]:
    """Packages that a source imports and that a conda environment would not have."""
    given, of_import = set(conda(environment)), metadata.packages_distributions()
    complaints = []
    for name, source in sources.items():
        nodes = list(ast.walk(ast.parse(source)))
        imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        imported |= {
            node.module for node in nodes if isinstance(node, ast.ImportFrom) and not node.level and node.module
        }
        for top in sorted({one.split(".")[0] for one in imported} - {*sys.stdlib_module_names, "icl"}):
            if not given & {canonicalize_name(one) for one in of_import.get(top, [top])}:
                complaints.append(f"{name}: imports {top}")
    return complaints


def pin_complaints(environment: str, lock: str, torch_pin: str) -> list[str]:
    """Locked versions that a conda environment would not admit."""
    locked = pins(lock) | pins(torch_pin)
    ranges = {name: given for name, given in conda(environment).items() if name not in ("python", "pip")}
    return [f"{name}: {locked[name]}" for name, given in ranges.items() if locked[name] not in given]


def range_complaints(pyproject: str, lock: str, torch_pin: str) -> list[str]:
    locked = pins(lock) | pins(torch_pin)
    return [
        f"{requirement}: locked {locked.get(canonicalize_name(requirement.name), 'nowhere')}"
        for requirement in runtime_and_dev(pyproject)
        if canonicalize_name(requirement.name) not in locked
        or locked[canonicalize_name(requirement.name)] not in requirement.specifier
    ]


def lock_complaints(lock: str) -> list[str]:
    """A lock must be installable everywhere: no build of torch, no disk or address, a hash for every pin."""
    forbidden = r"\+cpu|file:| @ |://|nvidia|cuda|triton|^torch=="
    complaints = re.findall(rf"^.*(?:{forbidden}).*$", lock, flags=re.MULTILINE)
    blocks = re.split(r"\n(?=\S)", lock)
    return complaints + [block for block in blocks if "==" in block.split("\n")[0] and "--hash=sha256:" not in block]


# Assembled from pieces, so that the guard does not find this file.
FOLDERS = ("work", "root", "farm", "home", "opt", "tmp", "Users", "mnt")
HOSTS = ("pypi" + ".org", "pythonhosted" + ".org", "download.pytorch" + ".org", "anaconda" + ".org")
MACHINE = re.compile(r"(?<![\w.~>})-])/(?:" + "|".join(FOLDERS) + ")/|" + "|".join(re.escape(host) for host in HOSTS))


def machine_complaints(text: str) -> list[str]:
    """Lines with an absolute path of a machine or the host of a package registry."""
    return [line.strip() for line in text.splitlines() if MACHINE.search(line)]


# -- there are none ----------------------------------------------------------------------------------------------------


def test_conda_and_pyproject_agree() -> None:
    assert conda_complaints(PYPROJECT, CONDA) == []


def test_conda_has_what_is_imported() -> None:
    paths = [*(ROOT / "src").rglob("*.py"), *(ROOT / "scripts").glob("*.py")]
    sources = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}
    assert len(sources) > 50
    assert import_complaints(sources, CONDA) == []


def test_conda_admits_what_is_locked() -> None:
    assert pin_complaints(CONDA, LOCK, TORCH_PIN) == []


def test_conda_channels() -> None:
    assert yaml.safe_load(CONDA)["channels"] == ["conda-forge", "bioconda", "nodefaults"]


def test_every_range_admits_what_is_locked() -> None:
    assert range_complaints(PYPROJECT, LOCK, TORCH_PIN) == []


def test_the_lock_serves_everyone() -> None:
    assert lock_complaints(LOCK) == []


def test_torch_is_pinned_without_a_build() -> None:
    assert list(pins(TORCH_PIN)) == ["torch"]
    assert pins(TORCH_PIN)["torch"].local is None


def test_the_dependencies_of_torch_are_those_in_the_lock() -> None:
    (told,) = tomllib.loads(PYPROJECT)["tool"]["uv"]["dependency-metadata"]
    said = [Requirement(r) for r in metadata.requires("torch") or []]
    # The CUDA build has the same dependencies and its libraries; extras do not matter here.
    cuda = ("nvidia", "cuda", "triton")
    plain = {str(r) for r in said if not r.name.startswith(cuda) and "extra" not in str(r.marker)}
    assert {str(Requirement(r)) for r in told["requires-dist"]} == plain
    assert Version(told["version"]) == pins(TORCH_PIN)["torch"]


def tracked() -> list[Path]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listing.stdout.decode().split("\0") if name]


def test_no_tracked_file_names_a_machine() -> None:
    complaints = {}
    for path in tracked():
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            if b"\0" not in content and (found := machine_complaints(content.decode("utf-8", errors="replace"))):
                complaints[str(path.relative_to(ROOT))] = found
    assert complaints == {}


# -- the Makefile -----------------------------------------------------------------------------------------------------


def make_free() -> dict[str, str]:
    """The environment without the variables of a make that runs the tests."""
    ours = ("MAKE", "MFLAGS", "PYTHON", "TORCH")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def make(*arguments: str, folder: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``make`` as a user would, even if make started the tests."""
    return subprocess.run(
        ["make", *arguments], cwd=folder, env=make_free() | environment, capture_output=True, text=True, check=False
    )


def copy_what_make_reads(folder: Path) -> None:
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "requirements", folder / "requirements")


def test_every_unknown_goal_goes_to_snakemake_in_one_call() -> None:
    # figures and results are also folders, which make must not take for finished targets.
    planned = make("-n", "figures", "results/a.txt", "figure12", "SNAKEMAKE_ARGS=--config scale=smoke").stdout
    calls = [line for line in planned.splitlines() if line.startswith(".venv/bin/snakemake")]
    assert calls == [".venv/bin/snakemake 'figures' 'results/a.txt' 'figure12' --config scale=smoke"]


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        (["SCALE=smoke"], "--config scale=smoke"),
        (["SET=li_icl: {batch: 64, delta: 0.1}"], "--config 'constants=li_icl: {batch: 64, delta: 0.1}'"),
        (["SCALE=smoke", "SNAKEMAKE_ARGS=-n --config variant=a"], "-n --config scale=smoke variant=a"),
        (["SCALE=smoke", "SNAKEMAKE_ARGS=-C variant=a"], "--config scale=smoke variant=a"),
    ],
)
def test_scale_and_constants_join_the_users_own_config(given: list[str], passed: str) -> None:
    # Of two --config Snakemake reads the last one only.
    assert make("-n", "figure12", *given).stdout.splitlines()[-2] == f".venv/bin/snakemake 'figure12' {passed}"


def test_whatif_takes_constants_and_refuses_what_it_would_ignore() -> None:
    constants = "SET=li_icl: {batch: 64}"
    planned = make("-n", "whatif", "FIGURE=figure9", constants, "SCALE=smoke").stdout.splitlines()
    assert planned[-1] == ".venv/bin/python -m icl whatif figure9 --set 'li_icl: {batch: 64}' --scale smoke"
    refused = make("--assume-old=env", "whatif", "FIGURE=figure9", constants, "SNAKEMAKE_ARGS=-n")
    assert (refused.returncode, "no SNAKEMAKE_ARGS" in refused.stderr) == (2, True)


def test_the_help_names_every_command() -> None:
    (own,) = re.findall(r"^OWN := (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    printed = make("help").stdout
    assert [name for name in own.split() if f"make {name} " not in printed] == ["first", "help", "snakemake"]


@pytest.mark.slow
def test_the_lock_is_what_the_ranges_resolve_to(tmp_path: Path) -> None:
    copy_what_make_reads(tmp_path)
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    remade = make("lock", "--assume-old=env", folder=tmp_path)
    if remade.returncode != 0 and "No solution found" not in remade.stderr:
        pytest.skip(f"no package index in reach: {remade.stderr.strip()[-300:]}")
    assert remade.returncode == 0, remade.stderr
    # Without the hashes, which change when another wheel of a locked version is uploaded.
    assert pins((tmp_path / "requirements" / "lock.txt").read_text(encoding="utf-8")) == pins(LOCK)
