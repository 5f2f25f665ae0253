"""An edit changes the hash of what can reach it, and of nothing else."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from icl import code
from icl.code import code_hash, reachable

SOURCES = {
    "__init__": "",
    "base": '''
"""Module docstring."""
RATE = 0.1
OTHER = 3
RATE_OF = {"a": RATE}

class Kind:
    """A class."""
    size = 2
    def grow(self, x):
        """Grow."""
        # a comment
        return helper(x) + self.size

def helper(x):
    return x * RATE_OF["a"]

def far(x):
    return x - 1

def alone(x):
    return x + OTHER
''',
    "lends": "from toypkg.base import far\n",
    "systems/__init__": "",
    "systems/one": "def loss(x):\n    return x\n\ndef unused(x):\n    return x\n",
    "decorate": "def published(function):\n    return function\n\ndef other(function):\n    return function\n",
    "figure1": """
from toypkg import decorate, lends
from toypkg.base import Kind as Renamed
from toypkg.systems import one

CLAIMS = (1, 2)

def measure(x):
    from toypkg.base import alone
    return Renamed().grow(one.loss(x)) + alone(x) + lends.far(x)

@decorate.published
def draw(x):
    return CLAIMS
""",
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., dict[str, str]]]:
    """Writes a small package, with edits, and gives the hashes of its figure's measure and draw."""
    monkeypatch.setattr(code, "PACKAGE", "toypkg")
    monkeypatch.syspath_prepend(tmp_path)

    def forget() -> None:
        for cached in vars(code).values():
            if hasattr(cached, "cache_clear"):
                cached.cache_clear()
        for name in [name for name in sys.modules if name.split(".")[0] == "toypkg"]:
            del sys.modules[name]
        importlib.invalidate_caches()

    def hashes(**edits: tuple[str, str]) -> dict[str, str]:
        for name, text in SOURCES.items():
            old, new = edits.get(name.replace("/", "_"), ("", ""))
            assert old in text
            path = tmp_path / "toypkg" / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.replace(old, new, 1) if old else text + new, encoding="utf-8")
        forget()
        return {name: code_hash(("toypkg.figure1", name)) for name in ("measure", "draw")}

    yield hashes
    forget()


def changed(package: Callable[..., dict[str, str]], **edits: tuple[str, str]) -> set[str]:
    before, after = package(), package(**edits)
    return {name for name in before if before[name] != after[name]}


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("base", "RATE = 0.1", "RATE = 0.2"),  # a constant of a constant of a function of a method
        ("base", "size = 2", "size = 3"),  # a class attribute
        ("base", "helper(x) +", "helper(x) -"),  # a method
        ("base", "x * RATE_OF", "x / RATE_OF"),  # a function
        ("base", "x + OTHER", "x - OTHER"),  # imported inside a function
        ("base", "OTHER = 3", "OTHER = 4"),
        ("base", "x - 1", "x - 2"),  # lent on by another module
        ("systems_one", "return x", "return 2 * x"),  # a system, through the attribute of a module
        ("figure1", "one.loss(x)", "one.loss(2 * x)"),
    ],
)
def test_an_edit_of_what_measuring_reaches_reruns_measuring(
    package: Callable[..., dict[str, str]], file: str, old: str, new: str
) -> None:
    assert changed(package, **{file: (old, new)}) == {"measure"}


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("figure1", "return CLAIMS", "return CLAIMS[0]"),
        ("figure1", "(1, 2)", "(1, 3)"),
        ("decorate", "return function", "return None"),  # a decorator
    ],
)
def test_an_edit_of_what_drawing_reaches_redraws_only(
    package: Callable[..., dict[str, str]], file: str, old: str, new: str
) -> None:
    assert changed(package, **{file: (old, new)}) == {"draw"}


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("base", '"""Module docstring."""', '"""Other."""'),
        ("base", '"""A class."""', '"""Other."""'),
        ("base", '        """Grow."""\n', ""),
        ("base", "# a comment", "# another"),
        ("base", "def far", "\n\n\ndef far"),
        ("base", "x * RATE_OF", "(x   *   RATE_OF)".replace("(", "").replace(")", "")),
        ("base", "", "\n\ndef new():\n    return 1\n"),
        ("systems_one", "def unused(x):\n    return x", "def unused(x):\n    return 3"),
        ("decorate", "def other(function):\n    return function", "def other(function):\n    return None"),
    ],
)
def test_other_edits_rerun_nothing(package: Callable[..., dict[str, str]], file: str, old: str, new: str) -> None:
    assert changed(package, **{file: (old, new)}) == set()


def test_an_entry_that_is_not_defined_is_an_error(package: Callable[..., dict[str, str]]) -> None:
    package()
    with pytest.raises(KeyError, match=r"toypkg.figure1 defines no mesure"):
        code_hash(("toypkg.figure1", "mesure"))


def test_names_and_order_do_not_collide(package: Callable[..., dict[str, str]]) -> None:
    package()
    one, two = ("toypkg.figure1", "measure"), ("toypkg.figure1", "draw")
    assert code_hash(one, two) == code_hash(two, one)
    assert len({code_hash(one), code_hash(two), code_hash(one, two)}) == 3


# -- on this package ---------------------------------------------------------------------------------------------------


def reached(*entries: tuple[str, str]) -> set[str]:
    return {f"{module}:{name}" for module, name in reachable(*entries)}


def test_a_figure_reaches_its_system_its_tasks_and_the_house() -> None:
    found = reached(("icl.experiments.figure9", "measure"), ("icl.figure", "measure"))
    assert {
        "icl.systems.li_icl:attention_on_same", "icl.systems.li_icl:out_of_domain", "icl.systems.li_icl:scores",
        "icl.tasks.binary_patterns:prompts", "icl.rng:stream", "icl.rng:_key", "icl.runs:Runs", "icl.table:rows",
        "icl.statistics:summarise", "icl.statistics:median_interval", "icl.experiments._li_icl:LONG_EPOCHS",
        "icl.spec:Constants",
    } <= found  # fmt: skip
    assert not {name for name in found if name.endswith((":draw", ":check")) or name.startswith("icl.plotting")}


def test_training_reaches_its_optimiser_but_no_figure() -> None:
    entries = [("icl.systems.li_icl", name) for name in ("Config", "init", "sample", "loss", "optimiser")]
    found = reached(*entries, ("icl.train", "train"))
    assert {"icl.optimisers:sgd", "icl.train:gradient", "icl.rng:words", "icl.tasks.binary_patterns:prompts"} <= found
    assert not {name for name in found if name.startswith(("icl.experiments", "icl.plotting", "icl.table"))}
    assert "icl.systems.li_icl:embeddings" not in found


def test_drawing_reaches_no_system() -> None:
    found = reached(("icl.experiments.figure9", "draw"), ("icl.plotting", "mark"), ("icl.plotting", "overlay"))
    assert "icl.plotting:published" in found
    assert not {name for name in found if name.startswith(("icl.systems", "icl.train", "icl.tasks"))}
