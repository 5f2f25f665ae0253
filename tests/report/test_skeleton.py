"""`new` writes a complete target, changes no other file, and can be undone."""

import re
import shutil
import sys
import textwrap
from pathlib import Path

import pytest
from conftest import ROOT, Workflow

from icl.core import folders
from icl.core.config import ConstantError
from icl.evidence import ledger
from icl.report import skeleton

COPIED = (
    "src",
    "workflow",
    "profiles",
    "tests/conftest.py",
    "tests/papers/test_contracts.py",
    "Snakefile",
    "Makefile",
    "environment.yml",
    "pyproject.toml",
)


class Tree(Workflow):
    """A copy of the source tree, whose package its commands import."""

    def __call__(self, *command: str, code: int = 0) -> str:
        done = self.run([sys.executable, "-m", *command], timeout=900)
        assert done.returncode == code, done.stdout
        return done.stdout

    def files(self) -> dict[str, bytes]:
        """Path -> content of every file, without caches."""
        paths = [
            path for path in self.folder.rglob("*") if path.is_file() and ".cache" not in path.parts
        ]
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in paths}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path, COPIED)


@pytest.mark.slow
def test_new_touches_its_files_and_the_ledger_alone_and_undo_restores_them(tree: Tree) -> None:
    before = tree.files()
    folder = "src/icl/papers/zhang2024"
    tree("icl", "new", "figure", "zhang2024", "zhang_loss")
    after = tree.files()
    changed = sorted(path for path in after if before.get(path) != after[path])
    assert changed == [f"{folder}/claims.yaml", f"{folder}/zhang_loss.py"]
    kept = iter(after[changed[0]].splitlines())
    assert all(line in kept for line in before[changed[0]].splitlines())
    assert "last loss over first loss" in tree("icl", "show", "zhang_loss")
    path = tree.folder / folder / "zhang_loss.py"
    tree("icl", "new", "undo")
    assert tree.files() == before
    # After edits of the module, of its claim and of another claim; a table was made from it.
    tree("icl", "new", "figure", "zhang2024", "zhang_loss")
    path.write_text(path.read_text() + "# changed\n")
    entries = tree.folder / folder / "claims.yaml"
    edited = (
        entries.read_text().replace("  - id: ZHANG-LOSS", "  - id: Z-OTHER").replace("ZT9", "ZT99")
    )
    entries.write_text(edited)
    left = [
        "tables/zhang_loss.parquet",
        "logs/train/zhang_loss.0of1.log",
        "logs/show/zhang_loss_compared.log",
    ]
    for made in left:
        (tree.folder / "results/smoke" / made).parent.mkdir(parents=True, exist_ok=True)
        (tree.folder / "results/smoke" / made).touch()
    told = tree("icl", "new", "undo")
    assert all(
        f"left     {one} " in told
        for one in (".cache/zhang_loss.py", *(f"results/smoke/{p}" for p in left))
    )
    assert (
        entries.read_text() == before[f"{folder}/claims.yaml"].decode().replace("ZT9", "ZT99")
        and not path.exists()
    )
    entries.write_bytes(before[f"{folder}/claims.yaml"])
    shutil.rmtree(tree.folder / "results")
    tree("icl", "new", "paper", "bai2024", "--no-training")
    tree("icl", "new", "undo")
    assert tree.files() == before and "nothing was written" in tree("icl", "new", "undo", code=2)


@pytest.mark.parametrize("key", folders.papers())
def test_every_paper_can_take_a_figure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, key: str
) -> None:
    """The files are valid Python and a valid ledger; this test does not write them."""
    made: dict[Path, str] = {}
    monkeypatch.setattr(skeleton, "_written", made.update)
    skeleton.figure(key, "a_new_figure")
    module, entries = list(made.values())[-2:]
    compile(module, key, "exec")
    (tmp_path / key).mkdir()
    (tmp_path / key / "claims.yaml").write_text(entries)
    before = ledger.of_paper(key)
    after = ledger.read(tmp_path / key / "claims.yaml")
    assert set(after.figures) - set(before.figures) == {"a_new_figure"}
    assert after.claims[:-1] == before.claims and after.claims[-1].figure == "a_new_figure"


def test_the_example_in_the_documentation_is_what_new_writes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The violation names claim and bound; the lines of the other two places are in new files."""
    made: dict[Path, str] = {}
    monkeypatch.setattr(skeleton, "_written", made.update)
    # By another name, for who followed the page has that paper already.
    skeleton.paper("other2025")
    text = (ROOT / "docs/adding.md").read_text(encoding="utf-8")
    text = text.replace("garcia2025", "other2025").replace("GARCIA2025", "OTHER2025")
    measured, claim, violations = re.findall(r"```(?:python|yaml)\n(.*?)```", text, re.DOTALL)
    written = {line.strip() for text in made.values() for line in text.splitlines()}
    assert measured.strip() in " ".join(written)
    assert {line.strip() for line in claim.splitlines()} - {""} <= written
    compile(textwrap.dedent(violations), "planted.py", "exec")
    planted = 'PLANTED = { "OTHER2025-TRAINING": {"last loss over first loss"'
    assert planted in " ".join(violations.split())


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        *(
            (name, "lower-case letters")
            for name in ("Figure", "1st", "a-b", "with space", "class", "../x", "", "é")
        ),
        ("report", "Makefile or the workflow"),
        ("test", "Makefile or the workflow"),
        ("li2024", "papers/li2024"),
        ("draw_figure9", "a target of figure9"),
        ("figure9_compared", "a target of figure9"),
        ("train", "workflow"),
        ("icl_rates_compared", "a target of icl_rates"),
        ("gallery_text", "workflow"),
        ("li_icl_alpha", "a training of"),
        ("other_folder", "workflow"),
        ("clean", "Makefile"),
        ("draw_ab_dynamics", "a target of zheng_ab_dynamics"),
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
@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("figure zhang2024 zhang_loss", "zhang_loss"),
        ("paper bai2024", "bai2024_training"),
        ("paper bai2024 --no-training", "bai2024_estimators"),
        ("figure li2024 mine --from icl_lucky_neurons", "mine"),
    ],
)
def test_a_new_figure_passes_the_contracts_and_is_a_target(
    tree: Tree, words: str, name: str
) -> None:
    _, key, *_ = words.split()
    tree("icl", "new", *words.split())
    folder = str(tree.folder / "src/icl/papers" / key)
    tree("ruff", "check", folder)
    tree("ruff", "format", "--check", folder)
    claim = name.replace("_", "-").upper()
    said = tree("icl", "review", name, code=1)
    assert said.count("\npassed  ") == 4, said
    violations = f"tests/papers/{key}/planted.py"
    assert f"FAILED  `python -m tests.planted {key}`, then `make gallery_text` was run" in said
    assert f"FAILED  every claim has a violation in {violations}; {claim} has none" in said
    said = tree("snakemake", name, "--config", "scale=smoke")
    assert f"figures/smoke/{name}.png" in said and "INCONCLUSIVE" in said
    assert ("2 trainings" in said) == ("--no-training" not in words)
