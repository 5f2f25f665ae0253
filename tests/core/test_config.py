"""Constants are validated on construction; sweeps have a well-defined identity and order."""

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icl.core.config import ConstantError, Constants, RunConfig, canonical, constant, digest, grid
from icl.core.sweep import Sweep, from_compact, reduction, sweep_from_plain
from icl.papers.li2024 import one_layer


@dataclass(frozen=True)
class Toy(RunConfig):
    rate: float = constant(0.5, "ours", "a test", letter="eta", above=0, at_most=1)
    width: int = constant(4, "published", "a test", letter="m", at_least=2, even=True)
    kind: str = constant("relu", "inferred", "a test", choices=("relu", "gelu"))
    shared: bool = constant(True, "ours", "a test")


@dataclass(frozen=True)
class ToyTest(Constants):
    prompts: int = constant(10, "ours", "a test", at_least=1)


def toy(**axes: Any) -> Sweep:
    return Sweep("toys", "toy", grid(Toy, **axes), (0, 5), ToyTest())


# -- constants --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"rate": 1.5}, ["rate", "eta", "1.5", "above 0 and at most 1"]),
        ({"rate": 0.0}, ["rate", "eta", "0.0", "above 0 and at most 1"]),
        ({"rate": float("nan")}, ["rate", "nan", "finite, above 0 and at most 1"]),
        ({"rate": "0.5"}, ["rate", "'0.5'", "a number, above 0 and at most 1"]),
        ({"rate": True}, ["rate", "True", "a number"]),
        ({"rate": None}, ["rate", "None", "a number"]),
        ({"width": 5}, ["width", "(m)", "5", "at least 2 and even"]),
        ({"width": -4}, ["width", "-4", "at least 2 and even"]),
        ({"width": 4.0}, ["width", "4.0", "a whole number, at least 2 and even"]),
        ({"width": True}, ["width", "True", "a whole number"]),
        ({"width": 10**24}, ["width (m) = 1", "below 2^53 in size, at least 2 and even"]),
        ({"rate": 10**400}, ["rate", "a number, above 0 and at most 1"]),
        ({"kind": "tanh"}, ["kind", "'tanh'", "one of relu, gelu"]),
        ({"kind": 1}, ["kind", "1", "text, one of relu, gelu"]),
        ({"shared": 1}, ["shared", "1", "true or false"]),
    ],
)  # fmt: skip
def test_a_bad_constant_is_named_with_what_is_allowed(values: dict[str, Any], named: list[str]) -> None:
    with pytest.raises(ConstantError) as error:
        Toy(**values)
    for word in named:
        assert word in str(error.value)


def test_infinity_is_refused_without_an_upper_limit() -> None:
    with pytest.raises(ConstantError, match=r"pattern_norm.* = inf: must be finite, above 0"):
        one_layer.Config(pattern_norm=float("inf"))


def test_limits_are_inclusive_or_exclusive() -> None:
    assert Toy(rate=1.0, width=2).rate == 1.0
    with pytest.raises(ConstantError):
        Toy(rate=0.0)


def test_an_integer_is_converted_to_a_float() -> None:
    made = Toy(rate=1)
    assert type(made.rate) is float
    assert digest(dataclasses.asdict(made)) == digest(dataclasses.asdict(Toy(rate=1.0)))


def test_relations_between_constants_are_checked() -> None:
    with pytest.raises(ConstantError, match=r"task_shifts .*tasks / M_1.* = 6: must be below relevant_patterns = 6"):
        one_layer.Config(task_shifts=6)


def test_a_grade_must_be_one_of_three() -> None:
    with pytest.raises(ValueError, match=r"guessed.*published, inferred, ours"):
        constant(1, "guessed", "nobody")


def test_graded_lists_every_constant_with_its_source() -> None:
    rows = {row["name"]: row for row in Toy(width=8).graded()}
    assert list(rows) == ["rate", "width", "kind", "shared"]
    assert rows["width"] == {"name": "width", "letter": "m", "value": 8, "grade": "published", "source": "a test"}


# -- order and identity -----------------------------------------------------------------------------------------------


def test_grid_varies_the_last_axis_fastest() -> None:
    made = grid(Toy, rate=[0.1, 0.2], seed=range(3))
    assert [(c.rate, c.seed) for c in made] == [(0.1, 0), (0.1, 1), (0.1, 2), (0.2, 0), (0.2, 1), (0.2, 2)]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(json_values)
def test_canonical_is_a_fixed_point(value: Any) -> None:
    """Reading and writing gives the same text, whatever the order of keys."""
    text = canonical(value)
    assert canonical(json.loads(text)) == text


@given(st.dictionaries(st.text(), st.integers(), min_size=2))
def test_canonical_ignores_the_order_of_keys(value: dict[str, int]) -> None:
    assert canonical(dict(reversed(list(value.items())))) == canonical(value)


def test_canonical_has_no_text_for_nan() -> None:
    with pytest.raises(ValueError, match="JSON"):
        canonical({"rate": float("nan")})


def test_digest_is_stable() -> None:
    """Fixed here, because results on disk are compared with it: the SHA-256 of {"a":[1,"x"],"b":0.1}."""
    assert digest({"b": 0.1, "a": [1, "x"]}) == "e5c3d418771266de"


def test_the_identity_of_a_training_depends_on_every_constant_but_the_tests() -> None:
    base = toy(seed=range(2))
    same = dataclasses.replace(base, test=ToyTest(prompts=99))
    assert digest(same.training()) == digest(base.training())
    assert digest(same.plain()) != digest(base.plain())
    others = [
        base.override({"rate": 0.25}), base.override({"width": 6}), dataclasses.replace(base, snapshots=(0, 6)),
        dataclasses.replace(base, name="other"), dataclasses.replace(base, system="other"), toy(seed=range(3)),
        toy(seed=[1, 0]),
    ]  # fmt: skip
    digests = {digest(other.training()) for other in [base, *others]}
    assert len(digests) == 1 + len(others)


def test_a_sweep_is_restored_from_plain_data() -> None:
    sweep = Sweep(
        "s",
        "li_icl",
        grid(one_layer.Config, relevant_fraction=[0.1, 0.2], seed=range(2)),
        (0, 3),
        one_layer.Test(prompts=7),
    )
    assert sweep_from_plain(json.loads(canonical(sweep.plain()))) == sweep
    short = from_compact(json.loads(canonical(sweep.compact())))
    assert short == dataclasses.replace(sweep, test=one_layer.Test())


@given(st.integers(1, 12), st.integers(1, 12))
def test_every_run_is_in_exactly_one_shard(runs: int, count: int) -> None:
    sweep = toy(seed=range(runs))
    if count > runs:
        with pytest.raises(ConstantError, match=f"shard 0 of {count}: the sweep toys has {runs} runs"):
            sweep.shard(0, count)
        return
    parts = [sweep.shard(index, count) for index in range(count)]
    assert sorted(seed for part in parts for seed in part.seeds) == sweep.seeds
    assert max(len(p.configs) for p in parts) - min(len(p.configs) for p in parts) <= 1
    assert {part.name for part in parts} == {"toys"}


@pytest.mark.parametrize("snapshots", [(3, 1), (1, 1), (-1, 3)])
def test_snapshots_must_increase(snapshots: tuple[int, ...]) -> None:
    with pytest.raises(ConstantError, match="toys: snapshots must be increasing"):
        dataclasses.replace(toy(), snapshots=snapshots)


def test_an_empty_sweep_is_refused() -> None:
    with pytest.raises(ConstantError, match="toys: has no configs"):
        toy(seed=[])


# -- overrides --------------------------------------------------------------------------------------------------------


def test_override_reaches_every_config_and_the_test() -> None:
    changed = toy(seed=range(3)).override({"rate": 0.25, "prompts": 20})
    assert [c.rate for c in changed.configs] == [0.25] * 3
    assert changed.seeds == [0, 1, 2]
    assert changed.test.prompts == 20
    assert toy().override({}) == toy()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"raet": 0.3}, ["raet", "0.3", "toy has no such constant", "kind, prompts, rate, shared, width"]),
        ({"seed": 3}, ["seed", "no such constant"]),
        ({"graded": 3}, ["graded", "no such constant"]),  # a method has this name
        ({"rate": 2.0}, ["rate (eta) = 2.0", "above 0 and at most 1"]),
        ({"prompts": 0}, ["prompts = 0", "at least 1"]),
        ({"width": 6}, ["width = 6", "the sweep toys varies it itself over [2, 4]"]),
    ],
)
def test_override_refuses(values: dict[str, Any], words: list[str]) -> None:
    sweep = toy(width=[2, 4])
    with pytest.raises(ConstantError) as error:
        sweep.override(values)
    for word in words:
        assert word in str(error.value)


def test_reduction_lists_what_is_smaller() -> None:
    papers = toy(seed=range(10))
    ours = dataclasses.replace(toy(seed=range(2), width=[2]), snapshots=(0, 3), test=ToyTest(prompts=5))
    assert reduction(papers, papers) == []
    assert reduction(ours, papers) == ["2 of 10 seeds", "3 of 5 steps", "width 2 of 4", "prompts 5 of 10"]
