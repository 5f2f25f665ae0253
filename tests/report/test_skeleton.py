"""`new` writes a complete target, changes no other file, and can be undone."""

import re
import shutil
import sys
import textwrap
from pathlib import Path

import pytest
from conftest import ROOT, WORKFLOW, Workflow

from icl.core import folders
from icl.core.config import ConstantError
from icl.evidence import ledger
from icl.report import skeleton

CONTRACTS = "tests/papers/test_contracts.py"
COPIED = (*WORKFLOW, "src", "tests/conftest.py", CONTRACTS, "Makefile", "pyproject.toml")


class Tree(Workflow):
    def __call__(self, *command: str, code: int = 0) -> str:
        done = self.run([sys.executable, "-m", *command], timeout=900)
        assert done.returncode == code, done.stdout
        return done.stdout

    def files(self) -> dict[str, bytes]:
        paths = [path for path in self.folder.rglob("*") if path.is_file()]
        texts = {str(path.relative_to(self.folder)): path.read_bytes() for path in paths}
        return {path: text for path, text in texts.items() if not path.startswith(".cache/")}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path, COPIED)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> dict[Path, str]:
    """Take the files, path -> text, that `new` would write."""
    files: dict[Path, str] = {}
    monkeypatch.setattr(skeleton, "_written", files.update)
    return files


@pytest.mark.slow
def test_new_touches_its_files_and_the_ledger_alone_and_undo_restores_them(tree: Tree) -> None:
    before = tree.files()
    folder = "src/icl/papers/zhang2024"
    tree("icl", "new", "figure", "zhang2024", "zhang_loss")
    after = tree.files()
    changed = sorted(path for path in after if before.get(path) != after[path])
    assert changed == [f"{folder}/claims.yaml", f"{folder}/zhang_loss.py"]
    lines = iter(after[changed[0]].splitlines())
    assert all(line in lines for line in before[changed[0]].splitlines())
    assert "last loss over first loss" in tree("icl", "show", "zhang_loss")
    path = tree.folder / folder / "zhang_loss.py"
    # The folder may be moved or copied before it is undone.
    assert str(tree.folder) not in (tree.folder / skeleton.LAST).read_text()
    tree("icl", "new", "undo")
    assert tree.files() == before
    # After edits of the module, of its claim and of another claim; a table was made from it.
    tree("icl", "new", "figure", "zhang2024", "zhang_loss")
    path.write_text(path.read_text() + "# changed\n")
    entries = tree.folder / folder / "claims.yaml"
    edited = entries.read_text().replace("  - id: ZHANG-LOSS", "  - id: Z-OTHER")
    entries.write_text(edited.replace("ZT9", "ZT99"))
    table = "results/smoke/tables/zhang_loss.parquet"
    (tree.folder / table).parent.mkdir(parents=True)
    (tree.folder / table).touch()
    told = tree("icl", "new", "undo")
    assert "left     .cache/zhang_loss.py " in told and f"left     {table} " in told
    kept = before[f"{folder}/claims.yaml"]
    assert entries.read_text() == kept.decode().replace("ZT9", "ZT99") and not path.exists()
    entries.write_bytes(kept)
    shutil.rmtree(tree.folder / "results")
    tree("icl", "new", "paper", "bai2024", "--no-training")
    tree("icl", "new", "undo")
    assert tree.files() == before and "nothing was written" in tree("icl", "new", "undo", code=2)


@pytest.mark.parametrize("key", folders.papers())
def test_every_paper_can_take_a_figure(made: dict[Path, str], tmp_path: Path, key: str) -> None:
    """The files are valid Python and a valid ledger."""
    skeleton.figure(key, "a_new_figure")
    module, entries = list(made.values())[-2:]
    compile(module, key, "exec")
    path = tmp_path / key / "claims.yaml"
    path.parent.mkdir()
    path.write_text(entries)
    before = ledger.of_paper(key)
    after = ledger.read(path)
    assert set(after.figures) - set(before.figures) == {"a_new_figure"}
    assert after.claims[:-1] == before.claims and after.claims[-1].figure == "a_new_figure"


def test_the_example_in_the_documentation_is_what_new_writes(made: dict[Path, str]) -> None:
    """The violation names claim and bound; the lines of the other two places are in new files."""
    # By another name, for who followed the page has that paper already.
    skeleton.paper("other2025")
    text = (ROOT / "docs/adding.md").read_text("utf-8")
    text = text.replace("garcia2025", "other2025").replace("GARCIA2025", "OTHER2025")
    measured, claim, violations = re.findall(r"(?s)```(?:python|yaml)\n(.*?)```", text)
    written = {line.strip() for text in made.values() for line in text.splitlines()}
    assert measured.strip() in " ".join(written)
    assert {line.strip() for line in claim.splitlines()} - {""} <= written
    compile(textwrap.dedent(violations), "planted.py", "exec")
    planted = 'PLANTED = { "OTHER2025-TRAINING": {"last loss over first loss"'
    assert planted in " ".join(violations.split())


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        *((name, "lower-case letters") for name in ("Figure", "1st", "a b", "class", "../x", "é")),
        *((name, "Makefile or the workflow") for name in ("report", "clean", "other_folder")),
        ("li2024", "papers/li2024"),
        ("figure9_compared", "a target of figure9"),
        ("draw_ab_dynamics", "a target of zheng_ab_dynamics"),
        ("li_icl_alpha", "a training of"),
        ("figure9", r"src/icl/papers/li2024/"),
        ("li_icl", r"icl\.papers\.li2024"),
        ("ab_dynamics", "an alias of"),
    ],
)
def test_an_invalid_or_taken_name_is_refused_with_its_reason(name: str, reason: str) -> None:
    for add in (lambda: skeleton.figure("li2024", name), lambda: skeleton.paper(name)):
        with pytest.raises(ConstantError, match=reason):
            add()


@pytest.mark.slow
def test_new_figures_pass_the_contracts_and_are_targets(tree: Tree) -> None:
    """All four at once, because pytest and Snakemake take long to start; one is made."""
    made = {
        "zhang_loss": "figure zhang2024 zhang_loss",
        "bai2024_training": "paper bai2024",
        "bai2025_estimators": "paper bai2025 --no-training",
        "mine_lucky": "figure li2024 mine_lucky --from icl_lucky_neurons",
    }
    for words in made.values():
        tree("icl", "new", *words.split())
    papers = str(tree.folder / "src/icl/papers")
    tree("ruff", "check", papers)
    tree("ruff", "format", "--check", papers)
    tree("pytest", "-q", CONTRACTS, "-k", " or ".join({*made} - {"bai2024_training"}))
    said = tree("icl", "review", "bai2024_training", code=1)
    assert said.count("\npassed  ") == 4, said
    violations = "tests/papers/bai2024/planted.py"
    assert "FAILED  `python -m tests.planted bai2024`, then `make gallery_text` was run" in said
    assert f"FAILED  every claim has a violation in {violations}; BAI2024-TRAINING has none" in said
    planned = tree("snakemake", "-n", *made, "--config", "scale=smoke")
    assert all(f"\n{name} " in planned for name in made), planned
    said = tree("snakemake", "bai2024_training", "--config", "scale=smoke")
    for words in ("figures/smoke/bai2024_training.png", "INCONCLUSIVE", "2 trainings"):
        assert words in said, said
