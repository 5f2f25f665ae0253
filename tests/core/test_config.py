"""Constants are validated on construction; sweeps have a well-defined identity and order."""

import dataclasses
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icl.core.config import ConstantError, Constants, RunConfig, canonical, constant, digest, grid
from icl.core.model import Model
from icl.core.sweep import Sweep, reductions
from icl.papers.li2024 import one_layer


@dataclass(frozen=True)
class Toy(RunConfig):
    rate: float = constant(0.5, "ours", "a test", letter="eta", above=0, at_most=1)
    width: int = constant(4, "published", "a test", letter="m", at_least=2, even=True)
    kind: str = constant("relu", "inferred", "a test", choices=("relu", "gelu"))
    shared: bool = constant(True, "ours", "a test")
    start: tuple[float, ...] = constant((0.1, 0.2), "ours", "a test")


@dataclass(frozen=True)
class ToyTest(Constants):
    prompts: int = constant(10, "ours", "a test", at_least=1)


TOY = Model("toy", Toy, ToyTest)


def toy(**axes: Any) -> Sweep:
    return Sweep("toys", TOY, grid(Toy, **axes), (0, 5), ToyTest())


def saved(*snapshots: int) -> Sweep:
    return dataclasses.replace(toy(), snapshots=snapshots)


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: Toy(rate=1.5), "rate (eta) = 1.5: must be above 0 and at most 1"),
    (lambda: Toy(rate=0.0), "rate (eta) = 0.0: must be above 0"),
    (lambda: Toy(rate="0.5"), "rate (eta) = '0.5': must be a number, above 0"),
    (lambda: Toy(rate=10**400), "must be a number, above 0 and at most 1"),
    (lambda: Toy(width=5), "width (m) = 5: must be at least 2 and even"),
    (lambda: Toy(width=4.0), "width (m) = 4.0: must be a whole number, at least 2 and even"),
    (lambda: Toy(width=True), "width (m) = True: must be a whole number"),
    (lambda: Toy(width=2**53), "must be below 2^53 in size, at least 2 and even"),
    (lambda: Toy(kind=1), "kind = 1: must be text, one of relu, gelu"),
    (lambda: Toy(kind="silu"), "kind = 'silu': must be one of relu, gelu"),
    (lambda: Toy(shared=1), "shared = 1: must be true or false"),
    (lambda: Toy(start=(0.1, math.inf)), "start = (0.1, inf): must be a list of finite numbers"),
    (lambda: Toy(start="0.1 0.2"), "start = '0.1 0.2': must be a list of numbers"),
    (lambda: one_layer.Config(pattern_norm=math.inf), "= inf: must be finite, above 0"),
    (lambda: one_layer.Config(task_shifts=6), "= 6: must be below relevant_patterns = 6"),
    (lambda: toy(seed=[]), "toys: has no configs"),
    *((lambda at=at: saved(*at), "must be increasing") for at in ((3, 1), (1, 1), (-1, 3))),
    (lambda: toy(seed=[0]).shard(0, 2), "shard 0 of 2: the sweep toys has 1 runs"),
    (lambda: toy().override({"seed": 3}), "no such constant; it has kind, prompts, rate, shared,"),
    # A method has this name.
    (lambda: toy().override({"graded": 3}), "graded = 3: toy has no such constant"),
    (lambda: toy().override({"prompts": 0}), "prompts = 0: must be at least 1"),
    (lambda: toy(width=[2, 4]).override({"width": 6}), "the sweep toys varies it itself over [2"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_what_is_not_allowed_is_named(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ConstantError, match=re.escape(message)):
        make()


def test_whole_numbers_and_lists_get_the_type_of_the_default_and_a_grade_is_needed() -> None:
    assert Toy(rate=1, width=2, start=[1, 2]) == Toy(rate=1.0, width=2, start=(1.0, 2.0))
    assert type(Toy(rate=1).rate) is float
    with pytest.raises(ValueError, match=r"guessed.*published, inferred, ours"):
        constant(1, "guessed", "nobody")


finite = st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | finite | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(), json_values))
def test_canonical_text_is_restored_whatever_the_order_of_keys(value: dict[str, Any]) -> None:
    """Results on disk are compared with its digest, the SHA-256 of {"a":[1,"x"],"b":0.1} below."""
    text = canonical(value)
    assert digest({"b": 0.1, "a": [1, "x"]}) == "e5c3d418771266de"
    assert canonical(json.loads(text)) == text == canonical(dict(reversed(list(value.items()))))
    with pytest.raises(ValueError, match="JSON"):
        canonical({**value, "rate": float("nan")})


def test_a_training_depends_on_all_but_the_test() -> None:
    base = toy(rate=[0.1, 0.2], seed=range(2))
    assert [(c.rate, c.seed) for c in base.configs] == [(0.1, 0), (0.1, 1), (0.2, 0), (0.2, 1)]
    other_test = base.override({"prompts": 99})
    assert digest(other_test.compact()) == digest(base.compact())
    assert digest(other_test.plain()) != digest(base.plain())
    different = [
        base,
        base.override({"width": 6}),
        dataclasses.replace(base, snapshots=(0, 6)),
        toy(rate=[0.1, 0.2], seed=[1, 0]),
        dataclasses.replace(base, name="other"),
        dataclasses.replace(base, model=Model("other", Toy, ToyTest)),
        toy(rate=[0.1, 0.2], seed=range(3)),
        toy(rate=[0.1, 0.3], seed=range(2)),
        toy(rate=[0.2, 0.1], seed=range(2)),
    ]
    assert len({digest(one.compact()) for one in different}) == len(different)
    assert len({one.trained() for one in different}) == len(different)


def test_constants_are_replaced_in_every_config_and_the_test() -> None:
    changed = toy(seed=range(3)).override({"rate": 0.25, "prompts": 20})
    assert changed == dataclasses.replace(toy(rate=[0.25], seed=range(3)), test=ToyTest(prompts=20))
    assert toy().override({}) == toy()


def test_reductions_list_what_differs_from_the_paper() -> None:
    papers = toy(seed=range(10))
    ours = toy(seed=range(2), width=[2]).override({"prompts": 5})
    assert reductions(papers, papers) == []
    assert reductions(dataclasses.replace(ours, snapshots=(0, 3)), papers) == [
        ("seeds", "2", "10"),
        ("steps", "3", "5"),
        ("width", "2", "4"),
        ("prompts of the test", "5", "10"),
    ]
