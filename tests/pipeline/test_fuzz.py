"""Readers accept any input or refuse it with the project's own errors; the number of inputs is printed.

Configs, sweeps, weights, tables, verdicts and command lines are random, or valid ones with a few changes.
"""

import dataclasses
import json
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import ROOT
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from icl.core import runs, sealed, state, table
from icl.core.config import FIRST_SEED, SCALES, ConstantError, canonical
from icl.core.sweep import sweep_from_plain
from icl.pipeline import figures
from icl.pipeline.plan import Plan, check_config
from icl.report import command_line, costs

SCHEMA = ROOT / "workflow/config.schema.yaml"
DEFAULT = {
    "scale": "smoke",
    "shards": 2,
    "constants": {},
    "variant": "",
    "against": "",
    "only": "",
    "first_seed": FIRST_SEED,
}
PLAN = Plan("smoke")
TRIED: Counter[str] = Counter()


def fuzz(examples: int) -> Callable[[Any], Any]:
    """Settings with so many examples, which share a folder and overwrite its files."""
    checks = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
    return settings(max_examples=examples, suppress_health_check=checks)


def answered(call: Callable[[], Any], *errors: type[Exception]) -> Any:
    """The value of a call, or None if it raises one of `errors` with a printable message."""
    try:
        return call()
    except errors as error:
        assert type(error) in errors
        assert str(error).encode("utf-8", "backslashreplace")
        return None


def taken(call: Callable[[], Any], *errors: type[Exception]) -> Any:
    """The same for the call under test, which is counted."""
    value = answered(call, *errors)
    TRIED["inputs"] += 1
    TRIED["taken"] += value is not None
    return value


@pytest.fixture(autouse=True)
def counted(record_property: Callable[[str, object], None]) -> Iterator[None]:
    """Reports the number of inputs of each test with its outcome."""
    TRIED.clear()
    yield
    for name, count in TRIED.items():
        record_property(f"fuzz {name}", count)


# -- values ------------------------------------------------------------------------------------------------------------

EXTREME = [0, 1, -1, 2, 3, 10**9, 2**53, 2**63, 10**400, 0.0, -0.0, 5e-324, 1e-9, 0.5, 1e300]
WORDS = ["", "true", "NaN", "1e999", "-inf", "9" * 5000, "0.5 0.5", "1_0", "٣", "\x00", "\n", "'", "$(true)", "{x}"]
numbers = st.sampled_from(EXTREME) | st.integers() | st.floats()
scalars = st.none() | st.booleans() | numbers | st.sampled_from(WORDS) | st.text(max_size=12)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8) | scalars, inner, max_size=4),
    max_leaves=12,
)
plain = st.recursive(
    scalars.filter(lambda v: not (isinstance(v, int) and abs(v) > 10**40)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def known_constants() -> dict[str, tuple[str, dict[str, Any]]]:
    """System -> a figure that trains it, and its constants with valid values."""
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for name in PLAN.figures:
        for sweep in PLAN.sweeps(name).values():
            good = dataclasses.asdict(sweep.configs[0]) | dataclasses.asdict(sweep.test)
            found.setdefault(sweep.system, (name, good))
    return found


KNOWN = known_constants()


def nudged(value: Any) -> list[Any]:
    """Values near a valid one."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return [value, 2 * value, value / 2, value + 1, -value, str(value)]
    return [value]


@st.composite
def changed(draw: st.DrawFn, good: Any) -> Any:
    """A copy of JSON-like data with one or several places replaced, removed, repeated or renamed."""
    data = json.loads(json.dumps(good))
    for _ in range(draw(st.sampled_from([1, 1, 1, 2, 5]))):
        parent, key = data, None
        while isinstance(parent, dict | list) and parent:
            inner = draw(st.sampled_from(sorted(parent) if isinstance(parent, dict) else range(len(parent))))
            if not isinstance(parent[inner], dict | list) or not parent[inner] or draw(st.integers(0, 3)) == 0:
                key = inner
                break
            parent = parent[inner]
        if key is None:
            return draw(plain)
        how = draw(st.sampled_from(["replace", "replace", "nudge", "nudge", "remove", "rename"]))
        if how == "replace":
            parent[key] = draw(plain)
        elif how == "nudge":
            parent[key] = draw(st.sampled_from(nudged(parent[key])))
        elif how == "remove":
            del parent[key]
        elif isinstance(parent, dict):
            parent[draw(st.text(max_size=8))] = parent.pop(key)
        else:
            parent.append(parent[key])
    return data


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """Bytes with a few changed, removed or inserted, or without the end; sometimes random bytes of the same length."""
    data = bytearray(whole)
    for _ in range(draw(st.sampled_from([1, 1, 2, 4, 16]))):
        at = draw(st.integers(0, max(len(data) - 1, 0)) | st.integers(0, min(200, max(len(data) - 1, 0))))
        how = draw(st.sampled_from(["change", "change", "change", "cut", "insert", "end"]))
        if how == "change" and data:
            data[at] = draw(st.integers(0, 255))
        elif how == "cut":
            del data[at : at + draw(st.integers(1, 64))]
        elif how == "insert":
            data[at:at] = draw(st.binary(max_size=32))
        elif how == "end":
            del data[at:]
    return bytes(data)


# -- config ------------------------------------------------------------------------------------------------------------


@st.composite
def given_constants(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A figure, and constants of its system: known and unknown names, values near valid ones or any of YAML."""
    system = draw(st.sampled_from(sorted(KNOWN)))
    name, good = KNOWN[system]
    values = {key: draw(st.sampled_from(nudged(good[key]))) for key in draw(st.lists(st.sampled_from(sorted(good))))}
    if not values or draw(st.booleans()):
        any_value = numbers | st.booleans() | st.sampled_from(WORDS) | st.text()
        values[draw(st.sampled_from(sorted(good)) | st.text(max_size=6))] = draw(any_value)
    return name, {system: values}


@fuzz(150)
@example(("huang_two_phases", {"huang_softmax": {"least_ratio": 0.0, "dominant_probability": 5e-324}}), "smoke")
@given(given_constants(), st.sampled_from(SCALES))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_constants_that_pass_the_schema_are_planned_or_refused(one: tuple[str, dict[str, Any]], scale: str) -> None:
    name, constants = one
    check_config(DEFAULT | {"constants": constants}, SCHEMA)
    made = taken(lambda: figures.sweeps(name, scale, constants), ConstantError)
    if made is not None:
        answered(
            lambda: figures.note_of(made, figures.sweeps(name, "paper", constants), scale, constants), ConstantError
        )
        for sweep in made.values():
            canonical(sweep.shard(0, 1).compact())


@fuzz(10)
@given(changed(DEFAULT | {"constants": {"li_icl": {"relevant_fraction": 0.6}}}) | anything)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_any_config_is_planned_or_refused(config: Any) -> None:
    def planned() -> Plan:
        check_config(config, SCHEMA)
        return Plan.of(config)

    taken(planned, ConstantError)


# -- sweeps ------------------------------------------------------------------------------------------------------------

SWEEPS = [next(iter(PLAN.sweeps(name).values())).plain() for name, _ in KNOWN.values()]
SHARD = PLAN.sweep("li_icl").shard(0, 2)


@fuzz(150)
@given(st.one_of([changed(one) for one in SWEEPS]) | anything)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_any_plain_data_is_a_sweep_or_refused(data: Any) -> None:
    made = taken(lambda: sweep_from_plain(data), ConstantError)
    if made is not None:
        assert sweep_from_plain(json.loads(canonical(made.plain()))) == made


@fuzz(100)
@given(st.sampled_from(sorted(KNOWN)), st.data())
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_any_value_makes_a_config_or_is_refused(system: str, data: st.DataObject) -> None:
    """Values that no config file can contain."""
    name, constants = KNOWN[system]
    values = data.draw(st.dictionaries(st.sampled_from(sorted(constants)), anything, min_size=1, max_size=2))
    taken(lambda: figures.sweeps(name, "smoke", {system: values}), ConstantError)


# -- weights -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(figure9_results: Path) -> dict[str, bytes]:
    """Valid files of each kind."""
    results = figure9_results / "results/smoke"
    names = {"weights": "runs/li_icl/0of2.safetensors", "table": "tables/figure9.parquet",
             "verdicts": "verdicts/figure9.json"}  # fmt: skip
    return {kind: (results / name).read_bytes() for kind, name in names.items()}


def loaded(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    made = taken(lambda: runs.load(path, SHARD), runs.RunsError)
    answered(lambda: runs.metadata(path), runs.RunsError)
    state.load_state(path, "abc")
    if made is not None:
        assert made.losses.shape == (len(made.sweep.configs), made.sweep.snapshots[-1])
        runs.diverged(made), runs.trajectory(made), made.last()


@fuzz(100)
@given(st.data())
def test_any_bytes_are_weights_or_refused(tmp_path: Path, files: dict[str, bytes], data: st.DataObject) -> None:
    loaded(tmp_path / "0of1.safetensors", data.draw(damaged(files["weights"]) | st.binary(max_size=100)))


@fuzz(120)
@given(st.data())
def test_any_header_is_one_of_weights_or_refused(tmp_path: Path, files: dict[str, bytes], data: st.DataObject) -> None:
    """Well-formed JSON before the numbers: other names, types, shapes, offsets and metadata."""
    whole = files["weights"]
    (length,) = struct.unpack("<Q", whole[:8])
    header = json.loads(whole[8 : 8 + length])
    about = json.loads(header["__metadata__"]["icl"])
    if data.draw(st.booleans()):
        header["__metadata__"]["icl"] = json.dumps(data.draw(changed(about) | plain))
    else:
        header = data.draw(changed(header))
    text = json.dumps(header).encode()
    loaded(tmp_path / "0of1.safetensors", struct.pack("<Q", len(text)) + text + whole[8 + length :])


@pytest.mark.parametrize("icl", ["[]", "[" * 10000, "1" * 5000, "null", '{"format": "icl-runs", "sweep": {"a": 1}}'])
def test_hostile_metadata_are_refused(tmp_path: Path, files: dict[str, bytes], icl: str) -> None:
    whole = files["weights"]
    (length,) = struct.unpack("<Q", whole[:8])
    header = json.loads(whole[8 : 8 + length])
    header["__metadata__"]["icl"] = icl
    text = json.dumps(header).encode()
    (tmp_path / "0of1.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + whole[8 + length :])
    with pytest.raises(runs.RunsError, match=r"0of1\.safetensors"):
        runs.load(tmp_path / "0of1.safetensors", SHARD)


# -- tables ------------------------------------------------------------------------------------------------------------


def judged(path: Path) -> None:
    """An accepted table meets the contract and can be judged."""
    made = taken(lambda: table.read(path), table.TableError)
    answered(lambda: table.read_plain(path), table.TableError)
    if made is not None:
        table.validate(made[0], "t")


@fuzz(80)
@given(st.data())
def test_any_bytes_are_a_table_or_refused(tmp_path: Path, files: dict[str, bytes], data: st.DataObject) -> None:
    path = tmp_path / "figure9.parquet"
    path.write_bytes(data.draw(damaged(files["table"]) | st.binary(max_size=100)))
    judged(path)


COLUMNS = st.one_of(
    st.lists(scalars.filter(lambda v: not isinstance(v, int) or abs(v) < 2**63), min_size=2, max_size=2).map(
        lambda values: [None if v is None else str(v).encode("utf-8", "replace").decode() for v in values]
    ),
    st.sampled_from([
        [1, 2], [1.5, None], [True, False], [b"\x80\x04K\x01.", b"\xff"], [[1], []], [{"a": 1}, {"a": None}], ["", "x"],
        pa.array([10**11, 5], pa.timestamp("s")), pa.array([1, 2], pa.uint8()), pa.array(["a", "b"], pa.large_string()),
        pa.array(["a", "a"]).dictionary_encode(), pa.nulls(2), pa.array([1, 2], pa.decimal128(5)),
    ]),
)  # fmt: skip


@fuzz(100)
@given(st.data())
def test_any_parquet_is_a_table_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    """Columns of other names and types, and any metadata, including those of pandas."""
    good = table.conform(pd.DataFrame({"figure": ["f", "f"], "scale": "smoke", "observable": "o", "seed": [0, 1]}))
    names = data.draw(st.lists(st.sampled_from(list(table.COLUMNS)) | st.text(max_size=5), max_size=3))
    arrays = {name: pa.array(good[name]) for name in good} | {name: data.draw(COLUMNS) for name in names}
    metadata = data.draw(st.dictionaries(st.sampled_from([b"pandas", b"icl", b"ARROW:schema"]), plain))
    texts = {key: json.dumps(value).encode("utf-8", "replace") for key, value in metadata.items()}
    about = {b"icl": canonical({"format": table.FORMAT})} | texts
    pq.write_table(pa.table(arrays).replace_schema_metadata(about), tmp_path / "t.parquet")
    judged(tmp_path / "t.parquet")


# -- verdicts ----------------------------------------------------------------------------------------------------------


@fuzz(100)
@given(st.data())
def test_any_bytes_are_verdicts_or_refused(tmp_path: Path, files: dict[str, bytes], data: st.DataObject) -> None:
    """Also well-formed JSON whose checksum does not match its content."""
    path, whole = tmp_path / "figure9.json", files["verdicts"]
    other = changed(json.loads(whole)).map(lambda plain: json.dumps(plain).encode())
    path.write_bytes(data.draw(other | damaged(whole) | st.binary(max_size=100)))
    made = taken(lambda: sealed.read(path, "verdicts"), sealed.SealedError)
    path.write_bytes(whole)
    assert made is None or made == sealed.read(path, "verdicts")


@fuzz(100)
@given(
    st.binary(max_size=200) | st.text().map(str.encode) | st.just(b"s\tcpu_time\tmax_rss\n1\t2\t3\n").flatmap(damaged)
)
def test_any_bytes_are_a_benchmark_or_refused(tmp_path: Path, content: bytes) -> None:
    path = _written(tmp_path / "b.tsv", content)
    taken(lambda: costs.benchmark(path), sealed.SealedError)


def _written(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


# -- the command line --------------------------------------------------------------------------------------------------

# Commands that only read; `new` and `whatif` write.
COMMANDS = ("list", "show", "cite", "verdicts", "progress")
WORD = st.sampled_from([*COMMANDS, "figure9", "A-P1b", "--json", "--scale", "smoke", "--set", "{a: 1}", "-h"])
WORD |= st.text(max_size=8)
GOOD = [["list"], ["show", "figure9"], ["show", "A-P1b"], ["cite", "figure9"], ["verdicts", "figure9"]]


@st.composite
def typed(draw: st.DrawFn) -> list[str]:
    """A command line: a valid one, with an additional or changed word, or random words."""
    words = list(draw(st.sampled_from(GOOD)))
    how = draw(st.sampled_from(["good", "more", "changed", "any"]))
    if how == "any":
        return draw(st.lists(WORD, max_size=6))
    if how == "more":
        words.insert(draw(st.integers(0, len(words))), draw(WORD))
    if how == "changed":
        words[draw(st.integers(0, len(words) - 1))] = draw(WORD)
    return words


@fuzz(80)
@given(typed())
def test_any_arguments_are_answered_with_an_exit_code(arguments: list[str]) -> None:
    TRIED["inputs"] += 1
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code: Any = command_line.main(arguments)
        except SystemExit as stop:
            code = stop.code
    TRIED["taken"] += code == 0
    assert code in (0, command_line.MISSING, command_line.MISUSED)
    assert "Traceback" not in err.getvalue()
