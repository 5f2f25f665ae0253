"""The cluster profiles, as far as they can be tried without a cluster: test_slurm.py tries them on one."""

import os
import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from conftest import ROOT, Workflow

PROFILES = sorted((ROOT / "profiles").glob("*/config.yaml"))
SLURM = ROOT / "profiles/slurm/config.yaml"
README = (ROOT / "README.md").read_text(encoding="utf-8")


def options(text: str) -> str:
    """A profile with the # away from every option."""
    return re.sub(r"^#(?! |$)", "", re.sub(r"^#(?=  \w+:)", "", text, flags=re.MULTILINE), flags=re.MULTILINE)


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.parent.name)
def test_no_value_is_the_name_of_a_file_beside_the_profile(path: Path) -> None:
    """Snakemake would take it for that file's path: `executor: slurm` beside a file `slurm` does not start."""
    beside = {file.name for file in path.parent.iterdir()}
    assert not beside & {str(value) for value in yaml.safe_load(path.read_text(encoding="utf-8")).values()}


def test_cluster_profiles_set_what_the_default_sets_and_retry() -> None:
    """They replace profiles/default."""
    default, *clusters = (yaml.safe_load(path.read_text(encoding="utf-8"))
                          for path in sorted(PROFILES, key=lambda path: path.parent.name != "default"))  # fmt: skip
    assert len(clusters) == 2
    for settings in clusters:
        assert set(default) <= set(settings)
        assert {key: settings[key] for key in default if key != "cores"} == {
            key: value for key, value in default.items() if key != "cores"
        }
        # A group of jobs would ask for as many cores as it has jobs, and wait for them for ever.
        assert settings["cores"] == 1
        assert settings["retries"] == 2


def test_every_line_of_the_slurm_profile_is_explained() -> None:
    lines = SLURM.read_text(encoding="utf-8").splitlines()
    for before, line in pairwise(lines):
        assert not re.match(r"[\w-]+:", line) or before.startswith("# "), line


def test_the_options_of_the_profile_are_valid_and_name_rules() -> None:
    plain = yaml.safe_load(SLURM.read_text(encoding="utf-8"))
    full = yaml.safe_load(options(SLURM.read_text(encoding="utf-8")))
    assert set(full) - set(plain) == {"set-resources", "groups", "group-components"}
    assert {"slurm_partition", "slurm_account"} == set(full["default-resources"]) - set(plain["default-resources"])
    rules = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "workflow/rules").glob("*.smk"))
    named = set(re.findall(r"^(?:use )?rule (?:\w+ as )?(\w+)\b", rules, re.MULTILINE))
    assert set(full["set-resources"]) | set(full["groups"]) <= named
    assert set(full["groups"].values()) == set(full["group-components"])


def test_the_readme_names_lines_that_are_there() -> None:
    section = README.split("## On a cluster")[1].split("\n## ")[0]
    named = re.findall(r"^\| (`.*?`) \|", section, flags=re.MULTILINE)
    text = options(SLURM.read_text(encoding="utf-8"))
    for key in (key.split(":")[0] for cell in named for key in re.findall(r"`(.*?)`", cell)):
        assert re.search(rf"^ *{key}:", text, flags=re.MULTILINE), key
    for profile in re.findall(r"profiles/[a-z][\w-]*", section):
        assert (ROOT / profile / "config.yaml").is_file()


SBATCH = """#!/bin/sh
while case $1 in -*) ;; *) false ;; esac; do echo "$1" >> options; shift; done
SLURM_JOB_ID=7 "$@"
echo "7;here"
"""


def test_a_job_is_submitted_by_its_literal_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder that a shell would take for a command; the stand-in for sbatch runs the job at once."""
    folder, bin_folder = tmp_path / 'a "b" $(touch canary) `touch canary`', tmp_path / "bin"
    shutil.copytree(ROOT / "profiles/cluster-generic", folder / "profile")
    for path, text in ((bin_folder / "sbatch", SBATCH), (folder / "job's script", "#!/bin/sh\nexit 3\n")):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("ICL_SBATCH", "-pmain --comment=ours")
    command = ["profile/submit.sh", "measure", "1", "1000", "30", str(folder / "job's script")]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "7\n"
    assert (folder / ".snakemake/cluster/7.exit").read_text() == "3\n"
    assert {"--job-name=icl-measure", "--mem=1000", "-pmain", "--comment=ours"} <= set(
        (folder / "options").read_text().splitlines()
    )
    assert list(tmp_path.rglob("canary")) == []


@pytest.mark.parametrize("profile", ["slurm", "cluster-generic"])
def test_a_figure_is_planned_where_there_is_no_scheduler(
    profile: str, shared_workflow: Workflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bash", "sh", "git", "env", "which", "uname"):
        if (found := shutil.which(name)) is not None:
            (tmp_path / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(tmp_path))
    done = shared_workflow("-n", "figure12", "--workflow-profile", f"profiles/{profile}", "--config", "scale=smoke")
    assert done.returncode == 0, done.stdout
    assert re.search(r"^train +2$", done.stdout, flags=re.MULTILINE)
