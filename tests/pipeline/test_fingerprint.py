"""A job's fingerprint depends on the config and on the meaning of all code and data that it reads,
nothing else.
"""

import ast
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT, Workflow
from hypothesis import given, settings
from hypothesis import strategies as st

from icl import registry
from icl.core import folders
from icl.evidence import ledger
from icl.pipeline import fingerprint, kernels
from icl.pipeline.plan import KINDS, Plan

PLAN = Plan("smoke")


def fingerprint_of(kind: str, figure: str, plan: Plan = PLAN) -> str:
    """Return what Snakemake compares to decide whether the job is due; the training is the
    figure's first.
    """
    if kind == "train":
        return plan.training_fingerprint(plan.shard(*plan.shards_of(figure)[0]))
    of = {"measure": plan.measurement_fingerprint, "draw": plan.drawing_fingerprint}
    return of.get(kind, plan.judging_fingerprint)(figure)


def fingerprints(plan: Plan = PLAN) -> dict[str, str]:
    return {kind: fingerprint_of(kind, "figure9", plan) for kind in KINDS}


def due_since(before: dict[str, str], plan: Plan = PLAN) -> set[str]:
    return {kind for kind, found in fingerprints(plan).items() if found != before[kind]}


@pytest.mark.parametrize(
    ("changes", "due"),
    [
        # The note is in the pictures' files.
        ({"constants": {"li_icl": {"relevant_fraction": 0.6}}}, {"train", "measure", "draw"}),
        ({"constants": {"li_icl": {"prompts": 9}}}, {"measure", "draw"}),
        ({"constants": {"li_icl_gpt2": {"relevant_fraction": 0.6}}}, set()),
        ({"first_seed": 2000}, {"train", "measure", "draw"}),
        ({"shards": 2}, {"train"}),
    ],
)
def test_a_changed_config_makes_due_what_depends_on_it(
    changes: dict[str, Any], due: set[str]
) -> None:
    assert due_since(fingerprints(), Plan("smoke", **changes)) == due


def read_by(kind: str, figure: str) -> set[Path]:
    """Every file of the repository that the job imports or reads, except results and the ledger."""
    model = next(iter(PLAN.sweeps(figure).values())).model
    modules = {"train": model.modules, "judge": ()}.get(kind, [registry.module(figure)])
    published = [] if kind in ("train", "measure") else PLAN.published_files(figure)
    return {*fingerprint.files(f"icl.jobs.{kind}", *modules), *map(Path, published)}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield a copy of the sources, which the plan reads instead of ours."""
    root = tmp_path_factory.mktemp("tree")
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", root, ignore=ignored, dirs_exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fingerprint, "PACKAGE", root / "icl")
        patch.setattr(folders, "PAPERS", root / "icl/papers")
        forget()
        yield root
    forget()


def forget() -> None:
    for cached in (fingerprint.files, ledger.of_paper, ledger.papers, ledger.aliases):
        cached.cache_clear()


class Reworded(ast.NodeTransformer):
    """Other docstrings, one more as below a constant, and no annotations of functions."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            documented = ast.get_docstring(node) is not None
            words = ast.Expr(ast.Constant("Other words."))
            node.body = [words, *node.body[documented:], words]
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        if isinstance(node, ast.arg):
            node.annotation = None
        return node


def edited(source: bytes, changes: bool, where: int) -> bytes:
    """Python code in other words, and with another meaning: another name, or a further line."""
    tree = ast.fix_missing_locations(Reworded().visit(ast.parse(source)))
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    if changes and names:
        names[where % len(names)].id += "_"
    added = "\nadded = 1\n" if changes and not names else ""
    return f"# A comment.\n{ast.unparse(tree)}{added}".encode()


@settings(max_examples=150)
@given(
    st.sampled_from(KINDS), st.sampled_from(PLAN.figures), st.booleans(), st.booleans(), st.data()
)
def test_a_change_of_meaning_makes_due_the_jobs_that_read_the_file_and_no_other(
    tree: Path, kind: str, figure: str, own: bool, changes: bool, data: st.DataObject
) -> None:
    """Other comments, docstrings and annotations of functions change no fingerprint."""
    read = read_by(kind, figure)
    files = sorted(
        path for path in tree.rglob("*.*") if path.name != "claims.yaml" and (path in read) is own
    )
    path = data.draw(st.sampled_from(files))
    where = data.draw(st.integers(0, 10**6))
    whole = path.read_bytes()
    before = fingerprint_of(kind, figure)
    try:
        is_code = path.suffix == ".py"
        path.write_bytes(edited(whole, changes, where) if is_code else whole + b" ")
        is_due = own and (changes or not is_code)
        assert (fingerprint_of(kind, figure) != before) is is_due, path
    finally:
        path.write_bytes(whole)


def test_code_means_the_same_under_every_python() -> None:
    """Else results and the freeze would hold for one version alone. The digest is Python 3.11's."""
    source = b"@d\nclass A(B):\n    def f(self, *, x=None):\n        return lambda: [x, {}, ()]\n"
    assert fingerprint.meaning(source)[:16] == "939393e326af9604"


@pytest.mark.parametrize(("change", "due"), [
    ("MKL_CBWR", {"train", "measure", "judge", "draw"}), ("torch", {"train", "measure", "draw"}),
    ("scipy", {"measure", "judge", "draw"}),
])  # fmt: skip
def test_another_arithmetic_makes_due_what_it_can_change(
    change: str, due: set[str], monkeypatch: Any
) -> None:
    """A setting of the caller, or of `kernels` itself; another version of a library. Undoing it
    undoes all.
    """
    for name, value in kernels.ONE_ORDER.items():
        monkeypatch.setenv(name, value)
    before = fingerprints()
    with monkeypatch.context() as patch:
        if change in kernels.ONE_ORDER:
            patch.setenv(change, "COMPATIBLE")
            after = fingerprints()
            patch.delenv(change)
            patch.setitem(kernels.ONE_ORDER, change, "COMPATIBLE")
            assert after == fingerprints()
        else:
            version = kernels.version
            patch.setattr(kernels, "version", lambda name: "0" if name == change else version(name))
        assert due_since(before) == due
    assert before == fingerprints()


def test_a_change_of_arithmetic_is_said_once_and_what_the_caller_sets_always(
    tmp_path: Path, monkeypatch: Any
) -> None:
    for name, value in kernels.ONE_ORDER.items():
        monkeypatch.setenv(name, value)
    assert kernels.notes(tmp_path) == kernels.notes(tmp_path) == []
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    changed, given = kernels.notes(tmp_path)
    assert changed.startswith(f"{tmp_path}: MKL_CBWR was AVX2 and is COMPATIBLE;")
    assert "MKL_CBWR=COMPATIBLE" in given
    assert kernels.notes(tmp_path) == [given]
    monkeypatch.setenv("MKL_CBWR", "AVX2")
    assert len(kernels.notes(tmp_path)) == 1 and kernels.notes(tmp_path) == []
    path = tmp_path / "arithmetic.json"
    recorded = path.read_text()
    for damaged in ("{", "[]"):
        path.write_text(damaged)
        assert kernels.notes(tmp_path) == [] and path.read_text() == recorded


PROBE = """
from icl.pipeline import fingerprint
from icl.pipeline.plan import Plan
plan = Plan("smoke")
print(*(plan.training_fingerprint(plan.shard(sweep, "0of2")) for sweep in ("li_icl", "garg")))
print(*fingerprint.files("icl.jobs.train", "icl.papers.li2024.one_layer"))
"""


def test_a_new_import_counts_and_the_folder_does_not(tmp_path: Path) -> None:
    """In a separate process, which imports the package from a copy, where a system left a file."""
    copy = Workflow(tmp_path, ("src",))
    paper = tmp_path / "src/icl/papers/li2024"
    (paper / "._patterns.py").write_bytes(b"\0\xff")
    with (paper / "one_layer.py").open("a") as module:
        module.write("\n\ndef late() -> None:\n    from icl.tasks import linear_dynamics as _\n")
    done = copy.run([sys.executable, "-c", PROBE])
    (importing, other), files = (line.split() for line in done.stdout.splitlines())
    assert other == PLAN.training_fingerprint(PLAN.shard("garg", "0of2"))
    assert importing != PLAN.training_fingerprint(PLAN.shard("li_icl", "0of2"))
    added = "icl/tasks/linear_dynamics.py"
    assert str(tmp_path / "src" / added) in files
    read = fingerprint.files("icl.jobs.train", "icl.papers.li2024.one_layer")
    assert ROOT / "src" / added not in read


# The ledger


def claim(data: Any) -> dict[str, Any]:
    return next(claim for claim in data["claims"] if claim["figure"] == "figure9")


def entry(data: Any) -> dict[str, Any]:
    return data["figures"]["figure9"]


ANOTHER = {"observables": {"another": "mean"}}
CONDITION = {"observable": "margin", "at_least": 0.5}


@pytest.mark.parametrize(
    ("part", "change", "due"),
    [
        (claim, {"says": "Otherwise.", "tested": "Another word.", "not_shown": "Nothing."}, set()),
        (entry, {"caption": "Other.", "summary": "Other.", "aliases": ["nine"]}, set()),
        (lambda data: data["figures"]["figure8"], ANOTHER, set()),
        (lambda data: claim(data)["bounds"][0], {"at_least": -123.0}, {"judge"}),
        (claim, {"conditions": [CONDITION]}, {"judge", "measure"}),
        (claim, {"scales": ["paper"]}, {"judge"}),
        (entry, ANOTHER, {"measure"}),
        (entry, {"medians": ["another"]}, {"measure"}),
    ],
)
def test_an_edit_of_the_ledger_makes_due_what_depends_on_it(
    tree: Path, part: Callable[[Any], dict[str, Any]], change: dict[str, Any], due: set[str]
) -> None:
    path = tree / "icl/papers/li2024/claims.yaml"
    before = fingerprints()
    whole = path.read_bytes()
    try:
        data = yaml.safe_load(whole)
        part(data).update(change)
        path.write_text(yaml.safe_dump(data, allow_unicode=True), encoding="utf-8")
        forget()
        assert due_since(before) == due
    finally:
        path.write_bytes(whole)
        forget()
