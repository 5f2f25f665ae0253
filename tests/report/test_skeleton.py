"""`new` writes a complete target and changes no other file."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from icl.core import discovery
from icl.core.config import ConstantError
from icl.evidence import ledger
from icl.report import skeleton

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("src", "scripts", "workflow", "profiles", "tests/conftest.py", "tests/papers/test_contracts.py", "Snakefile",
          "environment.yml", "pyproject.toml", "references.bib")  # fmt: skip


class Tree:
    """A copy of the source tree, whose package its commands import."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in COPIED:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(ROOT / name, folder / name)

    def __call__(self, *command: str) -> str:
        environment = os.environ | {"PYTHONPATH": str(self.folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [sys.executable, "-m", *command], cwd=self.folder, env=environment, timeout=600, text=True, check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        return done.stdout


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_figure_touches_its_module_and_the_ledger_alone(tree: Tree) -> None:
    before = files(tree.folder)
    tree("icl", "new", "figure", "zhang2024", "zhang_loss")
    after = files(tree.folder)
    changed = {path for path in after if before.get(path) != after[path] and not path.startswith(".cache")}
    folder = "src/icl/papers/zhang2024"
    assert changed == {f"{folder}/zhang_loss.py", f"{folder}/claims.yaml"}
    lines = before[f"{folder}/claims.yaml"].decode().splitlines()
    kept = iter(after[f"{folder}/claims.yaml"].decode().splitlines())
    assert all(line in kept for line in lines)
    assert "zhang_loss" in tree("icl", "list")
    assert "last loss over first loss" in tree("icl", "show", "zhang_loss")
    tree("ruff", "check", f"{folder}/zhang_loss.py")
    tree("ruff", "format", "--check", f"{folder}/zhang_loss.py")


@pytest.mark.parametrize("key", discovery.papers())
def test_every_paper_can_take_a_figure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, key: str) -> None:
    """The files are valid Python and a valid ledger; this test does not write them."""
    made: dict[Path, str] = {}
    monkeypatch.setattr(skeleton, "_written", lambda files: made.update(files) or list(files))
    skeleton.figure(key, "a_new_figure")
    folder = discovery.PAPERS / key
    compile(made[folder / "a_new_figure.py"], key, "exec")
    (tmp_path / key).mkdir()
    (tmp_path / key / "claims.yaml").write_text(made[folder / "claims.yaml"])
    before, after = ledger.of_paper(key), ledger.read(tmp_path / key / "claims.yaml")
    assert set(after.targets) - set(before.targets) == {"a_new_figure"}
    assert after.claims[:-1] == before.claims and after.claims[-1].figure == "a_new_figure"


@pytest.mark.parametrize("name", ["Figure", "1st", "a-b", "with space", "class", "../x", "", "figure9", "é"])
def test_invalid_names_are_refused(name: str) -> None:
    with pytest.raises(ConstantError, match="figure"):
        skeleton.figure("li2024", name)


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("report", "Makefile or the workflow"), ("check", "Makefile or the workflow"),
        ("verify", "Makefile or the workflow"), ("test", "Makefile or the workflow"),
        ("li2024", "src/icl/papers/li2024"), ("figure9", r"src/icl/papers/li2024/figure9\.py"),
        ("li_icl", r"icl\.papers\.li2024\.one_layer"), ("lambda", "a word of Python"),
    ],
)  # fmt: skip
def test_a_taken_name_says_what_has_it(name: str, owner: str) -> None:
    with pytest.raises(ConstantError, match=owner):
        skeleton.figure("li2024", name)


def test_undo_restores_every_file_unless_one_was_changed(tree: Tree) -> None:
    before = files(tree.folder)
    tree("icl", "new", "paper", "bai2024", "--no-training")
    tree("icl", "new", "undo")
    assert {path: text for path, text in files(tree.folder).items() if not path.startswith(".cache")} == before
    tree("icl", "new", "figure", "li2024", "my_lucky", "--from", "icl_lucky_neurons")
    path = tree.folder / "src/icl/papers/li2024/my_lucky.py"
    assert "in icl_lucky_neurons.FIGURES" in path.read_text()
    path.write_text(path.read_text() + "# changed\n")
    with pytest.raises(AssertionError, match="changed since"):
        tree("icl", "new", "undo")


@pytest.mark.parametrize("key", ["li2024", "li_icl", "Li"])
def test_invalid_papers_are_refused(key: str) -> None:
    with pytest.raises(ConstantError, match="paper"):
        skeleton.paper(key)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["figure", "zhang2024", "zhang_loss"], "zhang_loss"),
        (["figure", "li2024", "my_lucky", "--from", "icl_lucky_neurons"], "my_lucky"),
        (["paper", "bai2024"], "bai2024_training"),
        (["paper", "bai2024", "--no-training"], "bai2024_estimators"),
    ],
)
def test_a_new_figure_passes_the_generic_tests_and_is_a_target(tree: Tree, command: list[str], name: str) -> None:
    tree("icl", "new", *command)
    tree("pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "tests/papers/test_contracts.py", "-k", name)
    said = tree("snakemake", name, "--config", "scale=smoke")
    assert f"figures/smoke/{name}.png" in said and "INCONCLUSIVE" in said
