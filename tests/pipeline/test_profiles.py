"""The profiles, as far as they can be tested without a cluster; test_slurm.py uses one."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT, Workflow

DEFAULT, SLURM = (ROOT / f"profiles/{name}/config.yaml" for name in ("default", "slurm"))


def settings(path: Path, with_options: bool = False) -> dict[str, Any]:
    """The settings of a profile, optionally with all of its options enabled."""
    text = path.read_text(encoding="utf-8")
    if with_options:
        text = re.sub(r"^#(?! |$)", "", re.sub(r"^#(?=  \w+:)", "", text, flags=re.MULTILINE), flags=re.MULTILINE)
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


@pytest.mark.parametrize("path", [DEFAULT, SLURM], ids=lambda path: path.parent.name)
def test_no_value_is_the_name_of_a_file_beside_the_profile(path: Path) -> None:
    """Snakemake would take it for a path: `executor: slurm` fails beside a file `slurm`."""
    beside = {file.name for file in path.parent.iterdir()}
    assert not beside & {str(value) for value in settings(path).values()}


def test_the_cluster_profile_sets_what_the_default_sets_and_retries() -> None:
    """It replaces profiles/default."""
    default, slurm = settings(DEFAULT), settings(SLURM)
    assert {key: slurm[key] for key in default if key != "cores"} == {
        key: value for key, value in default.items() if key != "cores"
    }
    # A group would request as many cores as it has jobs, and wait for them forever.
    assert (default["cores"], slurm["cores"]) == (2, 1)
    # Retries on rules or in the default profile would multiply inside the plugin's job.
    assert slurm["retries"] == 2 and "retries" not in default


def test_the_options_of_the_profile_name_rules() -> None:
    plain, full = settings(SLURM), settings(SLURM, with_options=True)
    assert set(full) - set(plain) == {"set-resources", "groups", "group-components"}
    assert {"slurm_partition", "slurm_account"} == set(full["default-resources"]) - set(plain["default-resources"])
    rules = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "workflow/rules").glob("*.smk"))
    named = set(re.findall(r"^rule (\w+)\b", rules, re.MULTILINE))
    assert set(full["set-resources"]) | set(full["groups"]) <= named
    assert set(full["groups"].values()) == set(full["group-components"])


@pytest.mark.slow
def test_a_figure_is_planned_where_there_is_no_scheduler(
    shared_workflow: Workflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bash", "sh", "git", "env", "which", "uname"):
        if (found := shutil.which(name)) is not None:
            (tmp_path / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(tmp_path))
    done = shared_workflow("-n", "figure12", "--workflow-profile", "profiles/slurm", "--config", "scale=smoke")
    assert done.returncode == 0, done.stdout
    assert re.search(r"^train +2$", done.stdout, flags=re.MULTILINE)
