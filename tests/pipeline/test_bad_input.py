"""Bad input is refused in one line that names it, before any job runs, and reaches no shell."""

import dataclasses
import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from conftest import ROOT, Workflow, mounted, refused
from hypothesis import given, settings
from hypothesis import strategies as st

from icl.core import folders, plain_yaml, records, runs, table
from icl.core.config import SCALES, ConstantError
from icl.core.files import ReadError
from icl.evidence import ledger
from icl.pipeline import figures
from icl.pipeline.config import LARGEST, check_typed
from icl.pipeline.plan import KINDS, Plan
from icl.pipeline.run import run
from icl.report import command_line

CONFIG = yaml.safe_load((ROOT / "workflow/config.yaml").read_text()) | {"scale": "smoke"}
CACHES = {".snakemake", "__pycache__"}
HOSTILE = (
    'it\'s "$(touch canary)" `touch canary`; touch canary | tee canary > canary & {log} {{x}} \\\n'
    "touch canary\n#"
)


def planned(config: Any) -> Plan:
    plan = Plan.of(config)
    assert plan.trainings
    return plan


def of_li(**constants: object) -> dict[str, Any]:
    return {"constants": {"li_icl": constants}}


def of_ahn(spectrum: list[object]) -> dict[str, Any]:
    return {"constants": {"ahn_linear": {"spectrum": spectrum}}}


FORM = "{model: {constant: value}}"
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"scale": "Smoke"}, "'Smoke': must be one of paper, workstation, laptop, smoke; try smoke"),
    ({"scael": "smoke"}, "config: has no key 'scael'; try scale"),
    *(
        ({name: value}, f"{name} = {value!r}: must be a whole number from 0 to {most:,}")
        for name, most in LARGEST.items()
        for value in (-1, most + 1, True, 2.0, "1/../..")
    ),
    *(
        ({"variant": name, **of_li(batch=3)}, f"variant = {name!r}: must be at most 41 letters")
        for name in (5, "../x", "x\n", "NaN", HOSTILE)
    ),
    ({"variant": "fast"}, "variant = 'fast': names a set of constants, but none is given"),
    ({"constants": "li_icl:{batch:3}"}, "YAML needs a space after each colon"),
    (of_li(**{"batch:3": ""}), "YAML needs a space after each colon"),
    ({"constants": {"li_icl": 3}}, f"constants {{'li_icl': 3}}: not of the form {FORM}"),
    ({"constants": {"li_ilc": {"batch": 3}}}, "constants of li_ilc: no such model; try li_icl"),
    (of_li(batch=None), "config constants.li_icl.batch: None is no number, text, true or false"),
    (of_li(batch=[[1]]), "config constants.li_icl.batch: [1] is no number, text"),
    # Snakemake passes nested values as text.
    (of_li(relevant_fraction="1.2"), "fraction (alpha) = 1.2: must be above 0 and at most 1"),
    (of_li(relevant_patterns="7"), "relevant_patterns (M_1) = 7: must be at least"),
    (of_li(batch="012"), "batch (B) = '012': must be a whole number"),
    (of_li(batch="1２"), "batch (B) = '1２': must be a whole number"),
    (of_li(pattern_norm="-nan"), "pattern_norm (beta) = nan: must be finite, above 0"),
    (of_li(pattern_nrom="0.3"), "li_icl.pattern_nrom: no such constant; did you mean pattern_norm"),
    (of_li(**{HOSTILE: 3}), "has no such constant"),
    (of_ahn(["1", HOSTILE]), "must be a list of finite numbers"),
]


@pytest.mark.parametrize(("given", "message"), REFUSED, ids=lambda part: ascii(part)[:60])
def test_a_bad_config_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConstantError, match=re.escape(message)):
        planned(CONFIG | given)


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_takes_no_name_that_is_not_in_the_plan(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("figure9/li_icl/../../x", "figure9/li_icl/1of1", "figure9 --help"):
        with pytest.raises(ConstantError, match="figure9"):
            run(Plan("smoke"), kind, name)
    assert not list(tmp_path.iterdir())


def test_text_and_numbers_mean_the_same_and_a_plan_is_restored() -> None:
    plan = planned(CONFIG | of_ahn(["+.3", "1", 1, "5e-1", 0.5]))
    assert plan.sweep("ahn_sparse_1").configs[0].spectrum == (0.3, 1.0, 1.0, 0.5, 0.5)
    assert Plan.of(CONFIG | json.loads(json.dumps(plan.plain()))) == plan
    folders = {planned(CONFIG | of_ahn([one, 0.5, 0.5, 0.5, 0.5])).folder for one in (1, 1.0, "1.")}
    assert len(folders) == 1


# Texts that people write

AMBIGUOUS = ["yes", "012", "0o17", "0x1f", "1_0", "1:30", "1_0.5", ".inf", "1e999", "="]


@pytest.mark.parametrize("word", AMBIGUOUS)
def test_a_word_with_two_meanings_is_refused_and_a_quoted_one_is_text(word: str) -> None:
    refusal = f"--set: line 1: {word!r} could mean another value"
    with pytest.raises(ConstantError, match=f"^{re.escape(refusal)}"):
        plain_yaml.load(f"a: {word}", "--set")
    assert plain_yaml.load(f"a: '{word}'\n{word}: b") == {"a": word, word: "b"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\nb: 2\n'a': 3", "line 3: the key 'a' is repeated"),
        ("a: !!str 12", "the tag"),
        ("a: !!set {b}", "the tag"),
        ("<<: {a: 1}", "not merged"),
        ("{? [a]: 1}", "a key"),
        ("&a {b: *a}", "an alias"),
        ("a: 1\n---\nb: 2", "is no YAML"),
        ("[" * 9999 + "]" * 9999, "is no YAML"),
    ],
)
def test_a_text_that_hides_something_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ConstantError, match=problem):
        plain_yaml.load(text)


def test_every_number_means_the_same_in_yaml_and_in_the_config() -> None:
    words = {"3": 3, "-0": 0, "1e3": 1000.0, "1.0e-6": 1e-6, ".5": 0.5, "5.": 5.0, "+2": 2}
    for word, value in (words | {"true": True, "0.30": 0.3}).items():
        assert plain_yaml.load(word) == plain_yaml.number(word) == value
    told = plain_yaml.load("[2026-11-22, nan, NA, ~, &a [b], *a]")
    assert told == ["2026-11-22", "nan", "NA", None, ["b"], ["b"]]


@pytest.mark.parametrize(
    ("typed", "entries", "problem"),
    [
        ("--config=seeds=2 --config scale=smoke", [], "--config: is given twice"),
        ("-nC seeds=2 --config scale=smoke", [], "--config: is given twice"),
        ("--workflow-profile profiles/slrum", [], "profile 'profiles/slrum': no such profile"),
        ("--workflow-profile=slrum", [], "profile 'slrum': no such profile"),
        ("", ["seeds=2", "seeds=3"], "--config seeds=2: the key 'seeds' is repeated"),
    ],
)
def test_a_config_that_snakemake_reads_otherwise_is_refused(
    typed: str, entries: list[str], problem: str
) -> None:
    with pytest.raises(ConstantError, match=re.escape(problem)):
        check_typed(typed.split(), entries, [])


def test_config_files_are_checked_and_texts_may_be_any(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"seeds": 2, "seeds": 3}')
    with pytest.raises(ConstantError, match=r"a\.json: line 1: the key 'seeds' is repeated"):
        check_typed([], [], [file])
    sound = ROOT / "workflow/config.yaml"
    check_typed(["--configfile", "x"], ["against=a: b", "variant=yes", "scale=smoke"], [sound])


# Anything at all

EXTREME = [2**53, 10**400, 5e-324, "true", "NaN", "1e999", "9" * 5000, "\x00"]
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12)
anything = st.recursive(
    scalars | st.sampled_from(EXTREME),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
)
CONSTANTS = {
    sweep.model.name: (name, dataclasses.asdict(sweep.configs[0]) | dataclasses.asdict(sweep.test))
    for name, sweep in Plan("smoke").trainings.values()
}


@given(anything | anything.map(lambda value: CONFIG | {"constants": value}))
def test_any_config_is_planned_or_refused(config: Any) -> None:
    with suppress(ConstantError):
        planned(config)


@given(st.sampled_from(sorted(CONSTANTS)), st.sampled_from(SCALES), st.data())
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_any_constants_are_planned_or_refused(model: str, scale: str, data: st.DataObject) -> None:
    name, defaults = CONSTANTS[model]
    names = data.draw(st.lists(st.sampled_from(sorted(defaults)), min_size=1, max_size=2))
    near = {name: [2 * v, -v, v + 1] for name, v in defaults.items() if type(v) in (int, float)}
    values = {
        name: data.draw(anything | st.sampled_from(near.get(name, EXTREME))) for name in names
    }
    try:
        made = figures.sweeps(name, scale, {model: values})
        assert figures.note(name, scale, {model: values})
    except ConstantError as error:
        assert str(error)
    else:
        assert all(json.dumps(sweep.plain(), allow_nan=False) for sweep in made.values())


CELLS = st.sampled_from([["a", None], [1, 2], [1.5, None], [True, False], [{"a": 1}, {"a": 2}]])


@settings(max_examples=60)
@given(st.dictionaries(st.sampled_from(list(table.MEASURED)) | st.text(max_size=5), CELLS))
def test_any_frame_is_refused_or_meets_the_contract(
    tmp_path_factory: pytest.TempPathFactory, cells: dict[str, list[Any]]
) -> None:
    """Columns of other names and types, with a right checksum."""
    path = tmp_path_factory.mktemp("any") / "t.parquet"
    good = {"table": ["runs", "curves"], "observable": ["o", "o"], "value": [1.0, 2.0]}
    about = {"format": "icl-table", "figure": "figure0", "scale": "smoke"}
    table.write_plain(path, pd.DataFrame(good | cells), about)
    try:
        table.validate(table.read(path)[0])
    except ReadError:
        with refused(path):
            table.read(path)


def test_a_table_that_decodes_to_more_than_any_result_is_refused_before_it_is_read(
    tmp_path: Path,
) -> None:
    path = tmp_path / "t.parquet"
    zeros = pa.array(np.zeros(30_000_000))
    pq.write_table(pa.table({"value": zeros}, metadata={b"icl": b"{}"}), path)
    assert path.stat().st_size < 1_000_000
    before = pa.total_allocated_bytes()
    with pytest.raises(ReadError, match=f"^{path}: holds .* more than any table; delete it"):
        table.read(path)
    assert pa.total_allocated_bytes() - before < 50_000_000


# The ledger

BOUND = "{observable: o, at_least: 1}"
CLAIM = "{id: A, figure: f, kind: ours, source: s, says: s, tested: t, not_shown: n, bounds: [%s]}"
PAPER = "title: T\ncite: [x]\nfigures: {f: {summary: S}}\nclaims: [%s]\n"
ONE = PAPER % (CLAIM % BOUND)
LEDGERS = {
    "title: [": "cannot be read (",
    "title: !!python/object/apply:os.mkdir ['canary']": "cannot be read (",
    "- a list": "the whole file: is not a mapping",
    ONE.replace("figure: f", "figure: g"): "claim A: figure g is not among the file's figures",
    PAPER % f"{CLAIM % BOUND}, {CLAIM % BOUND}": "claim A: appears twice",
    ONE.replace("not_shown: n, ", ""): "claims.A.not_shown: Field required",
}
BOUNDS = {
    "": "claims.A.bounds: Tuple should have at least 1 item",
    "{observable: o, at_least: '1'}": "claims.A.bounds.0.at_least: Input should be a valid number",
    "{observable: o, at_least: 0x10}": "line 4: '0x10' could mean another value",
    "{observable: o, at_laest: 1}": "claims.A.bounds.0.at_laest: Extra inputs are not permitted",
    "{observable: o}": "claim A: observable 'o' has no bound",
    "{observable: o, at_least: 2, equals: 1}": "claim A: observable 'o' cannot equal 1.0 within",
    "{observable: o, at_least: 2, statistic: share}": "is a share, its bound is not within 0 and 1",
    f"{BOUND}, {{observable: o, at_most: 1, statistic: exact}}": "'o' is declared twice, as mean",
}


@pytest.mark.parametrize(
    ("text", "words"), [*LEDGERS.items(), *((PAPER % (CLAIM % b), w) for b, w in BOUNDS.items())]
)
def test_a_wrong_ledger_is_refused_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "li2024" / "claims.yaml"
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(ledger.LedgerError, match=f"^{path}: .*{re.escape(words)}"):
        ledger.read(path)
    assert not Path("canary").exists()


# Files that systems and editors leave


def test_files_without_a_module_name_are_not_read_but_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    strays = ["._a.py", "class.py", "b.c/__init__.py", "d.py/x"]
    for name in (*strays, "__init__.py", "good.py", "_private.py", "claims.yaml"):
        path = tmp_path / "papers/li2024" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\0\xff")
    monkeypatch.setattr(folders, "PACKAGE", tmp_path)
    assert [path.name for path in folders.importable(tmp_path / "papers")] == ["li2024"]
    assert [path.name for path in folders.importable(tmp_path / "papers/li2024")] == ["good.py"]
    command_line.name_strays()
    said = capsys.readouterr().err
    named = {f"papers/li2024/{name.split('/')[0]}" for name in strays}
    assert said.count("\n") == 1 and set(re.findall(r"'(.*?)'", said)) == named


# Through Snakemake; these are not dry runs: if the input was accepted, a training would start


def refusal(workflow: Workflow, *arguments: str) -> str:
    """Return the last line of Snakemake's refusal, before any result and without a traceback."""

    def there() -> set[Path]:
        return {p for p in workflow.folder.rglob("*") if not CACHES & set(p.parts)}

    before = there()
    done = workflow(*arguments)
    assert done.returncode != 0
    assert there() == before
    for word in ("Traceback", "rule train", 'File "', "WorkflowError"):
        assert word not in done.stdout, done.stdout
    return done.stdout.strip().splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (["figure9", "--config", "constants={li_icl: {batch: 1_0}}"], "'1_0' could mean another"),
        (["figure12", "--config", "constants={li_icl: {batch: 9}}"], "changes nothing in figure12"),
        (["figure9", "-Cseeds=2", "--config=scale=smoke"], "--config: is given twice"),
        (["figüre9"], "target 'figüre9': no such target; try figure9"),
        (["figure9", "scale=smoke"], "scale=smoke: settings stand after --config"),
        (["results/paper/x/figure9.parquet"], "this config; add --config scale=paper"),
        (["figures/smoke@x/figure9.png", "--config", "scale=smoke"], "is not in smoke, the folder"),
    ],
)
def test_bad_words_stop_the_workflow(
    shared_workflow: Workflow, typed: list[str], message: str
) -> None:
    assert message in refusal(shared_workflow, *typed)


@pytest.mark.slow
def test_a_folder_that_cannot_be_used_is_named(
    workflow: Workflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    smoke = ("figure9", "--config", "scale=smoke")
    assert "a{b}c: Snakemake takes braces" in refusal(Workflow(tmp_path / "a{b}c"), "figure9")
    rules = workflow.folder / "workflow/rules/figures.smk"
    text = rules.read_text()
    rules.write_text(text.replace("in PLAN.targets(name):", 'in [*PLAN.targets(name), "verify"]:'))
    assert "target verify: two targets have this name" in refusal(workflow, "figure9")
    rules.write_text(text)
    module = workflow.folder / "icl.py"
    module.write_text("raise ModuleNotFoundError('No module named icl', name='icl')\n")
    with monkeypatch.context() as patch:
        patch.setenv("PYTHONPATH", str(workflow.folder))
        assert "has no module icl; run `make env`" in refusal(workflow, *smoke)
    module.unlink()
    with mounted(workflow.folder / "results", "ro"):
        assert "folder results: cannot be written" in refusal(workflow, *smoke)


@pytest.mark.slow
def test_texts_in_the_config_reach_no_shell(tmp_path: Path) -> None:
    """Hostile words stop the workflow; a hostile folder and numbers reach a job unchanged."""
    workflow = Workflow(tmp_path / HOSTILE.translate(str.maketrans("", "", "{}/")))

    def told(*targets: str, **changes: object) -> str:
        (workflow.folder / "a.json").write_text(json.dumps(CONFIG | changes))
        return workflow(*targets, "--replace-workflow-config", "--configfile", "a.json").stdout

    refused = told("figure9", "--forceall", only=HOSTILE, against=HOSTILE, **of_li(batch=HOSTILE))
    assert "batch (B) = " in refused
    weights = "results/smoke@hostile/runs/ahn_sparse_1/0of1.safetensors"
    sound = of_ahn(["1", "0.5", 0.5, 0.25, "2.5e-1"]) | {"variant": "hostile"}
    assert "holds no verdicts of smoke@hostile" in told(weights, against=HOSTILE, **sound)
    earlier = HOSTILE.translate(str.maketrans("", "", "/"))
    records.write(workflow.folder / earlier / "verdicts/figure9.json", "verdicts", {"verdicts": []})
    output = told(weights, "report_now", against=earlier, **sound)
    assert (workflow.folder / "results/smoke@hostile/report.html").is_file(), output
    common = runs.metadata(workflow.folder / weights)["sweep"]["common"]
    assert common["spectrum"] == [1.0, 0.5, 0.5, 0.25, 0.25]
    assert [path for path in tmp_path.rglob("*") if path.name.startswith("canary")] == []
