"""What is read is never executed: no pickles, no unsafe YAML, no config in a shell, no network, no markup in data."""

import ast
import copy
import json
import pickle
import re
import shlex
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import yaml
from conftest import ROOT, Workflow
from jsonschema import Draft202012Validator
from safetensors.torch import save_file

from icl import __main__ as cli
from icl.core import discovery, runs, table
from icl.core.config import ConstantError
from icl.core.training import train
from icl.pipeline import figures, provenance
from icl.pipeline.plan import Plan
from icl.report.verdict_files import verdict_files
from icl.report.verdict_files.page import gather, render

# -- in the source -----------------------------------------------------------------------------------------------------

FOLDERS = ("src", "scripts", "benchmarks", "tests")
# This file and one more make pickles, to show that they are refused.
WRITE_PICKLES = {"tests/test_security.py", "tests/test_runs.py"}
MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "jsonpickle"}
CALLS = {"torch.load", "torch.save", "read_pickle", "to_pickle", "eval", "exec", "os.system", "os.popen", "yaml.load"}
CALLS |= {"yaml.load_all", "yaml.full_load", "yaml.unsafe_load", "yaml.Loader", "yaml.UnsafeLoader", "yaml.FullLoader"}
CALLS |= {"pd.eval", "subprocess.getoutput", "subprocess.getstatusoutput", "np.load", "numpy.load"}


def complaints(text: str) -> list[str]:
    """Names by which data could become code: unpickling, YAML tags, evaluation, a shell."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.split(".")[0] in MODULES]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [name for name in names if name.split(".")[0] in MODULES or name in CALLS]
        elif isinstance(node, ast.Attribute | ast.Name):
            name = ast.unparse(node)
            found += [name] if name in CALLS or name.rsplit(".", 1)[-1] in ("read_pickle", "to_pickle") else []
        elif isinstance(node, ast.keyword) and node.arg in ("shell", "allow_pickle"):
            found += [node.arg] if ast.unparse(node.value) != "False" else []
    return found


def test_the_source_never_unpickles_evaluates_or_calls_a_shell() -> None:
    found = {}
    for path in (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))):
        name = path.relative_to(ROOT).as_posix()
        if name not in WRITE_PICKLES and (said := complaints(path.read_text(encoding="utf-8"))):
            found[name] = said
    assert found == {}


@pytest.mark.parametrize(
    "text",
    [
        "import pickle", "from pickle import loads", "import torch\ntorch.load('x')", "from torch import load",
        "frame.to_pickle('x')", "pd.read_pickle('x')", "np.load('x', allow_pickle=True)", "yaml.load(x, yaml.Loader)",
        "from yaml import full_load", "eval('1')", "exec(x)", "os.system('x')", "run('x', shell=True)", "import joblib",
        "run('x', shell=wanted)",
    ],
)  # fmt: skip
def test_the_guard_can_fail(text: str) -> None:
    assert complaints(text)


def test_rules_quote_what_is_not_a_word_of_their_own() -> None:
    """Params in a shell command are quoted unless they are listed here: hashes, names of figures, paths of a scale."""
    words = {"params.identity", "params.figure", "params.figures", "params.scale", "params.table", "params.folder"}
    for path in sorted((ROOT / "workflow").rglob("*.smk")):
        used = set(re.findall(r"\{((?:params|config)[^}]*)\}", _commands(path.read_text(encoding="utf-8"))))
        assert {name for name in used if not name.endswith(":q")} <= words, path


def _commands(text: str) -> str:
    return "\n".join(re.findall(r"shell:\n((?: {8,}.*\n?)+)", text))


# -- while reading -----------------------------------------------------------------------------------------------------


class Payload:
    """Makes a file when it is unpickled."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return (Path.touch, (self.canary,))


@pytest.fixture
def no_pickle(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("something was unpickled")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    monkeypatch.setattr(torch, "load", refuse)


def test_the_payload_works(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Payload(tmp_path / "canary")))  # noqa: S301
    assert (tmp_path / "canary").exists()


def test_results_are_read_without_unpickling(figure9_results: Path, no_pickle: None) -> None:
    folder = figure9_results / "results/smoke"
    assert runs.load(folder / "runs/li_icl/0of2.safetensors").weights
    assert len(table.read(folder / "tables/figure9.parquet")[0])
    assert verdict_files.load(folder / "verdicts/figure9.json")["verdicts"]
    assert provenance.verify(folder)[0] == []


def test_a_pickle_in_any_place_is_not_unpickled(figure9_results: Path, tmp_path: Path) -> None:
    """As weights, in weights' metadata, as a cell, as an extension type of a column, and in place of verdicts."""
    canary = tmp_path / "canary"
    payload = pickle.dumps(Payload(canary))
    torch.save({"W": Payload(canary)}, tmp_path / "torch.safetensors")
    (tmp_path / "plain.safetensors").write_bytes(payload)
    header = json.dumps({"W": {"dtype": payload.hex(), "shape": [1], "data_offsets": [0, 4]}}).encode()
    (tmp_path / "type.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * 4)
    save_file({"W": torch.zeros(2)}, tmp_path / "metadata.safetensors", {"icl": payload.hex()})
    for path in sorted(tmp_path.glob("*.safetensors")):
        with pytest.raises(runs.RunsError, match=path.name):
            runs.load(path)

    good = pq.read_table(figure9_results / "results/smoke/tables/figure9.parquet")
    cells = pa.array([payload] * len(good))
    fields = [pa.field(f.name, pa.binary() if f.name == "series" else f.type) for f in good.schema]
    hidden = {b"ARROW:extension:name": b"arrow.py_extension_type", b"ARROW:extension:metadata": payload}
    index = good.schema.get_field_index("series")
    for number, metadata in enumerate((None, hidden)):
        fields[index] = pa.field("series", pa.binary(), metadata=metadata)
        columns = [cells if f.name == "series" else good[f.name] for f in fields]
        made = pa.Table.from_arrays(columns, schema=pa.schema(fields, metadata=good.schema.metadata))
        pq.write_table(made, tmp_path / f"{number}.parquet")
        with pytest.raises(table.TableError, match=rf"{number}\.parquet"):
            table.read(tmp_path / f"{number}.parquet")
    (tmp_path / "figure9.json").write_bytes(payload)
    with pytest.raises(verdict_files.ReportError, match=r"figure9\.json"):
        verdict_files.load(tmp_path / "figure9.json")
    assert not canary.exists()


def test_yaml_tags_make_nothing(tmp_path: Path) -> None:
    (tmp_path / "workflow").mkdir()
    canary = tmp_path / "canary"
    (tmp_path / "workflow/config.yaml").write_text(f"figures: !!python/object/apply:os.mkdir ['{canary}']\n")
    with pytest.raises(ConstantError, match=r"config\.yaml: is no config"):
        cli.configured(tmp_path)
    assert not canary.exists()


# -- config and shell --------------------------------------------------------------------------------------------------

HOSTILE = 'it\'s "$(touch canary)" `touch canary`; touch canary | tee canary > canary & {log} {{x}} \\\ntouch canary\n#'
CONFIG = yaml.safe_load((ROOT / "workflow/config.yaml").read_text(encoding="utf-8"))
SCHEMA = Draft202012Validator(yaml.safe_load((ROOT / "workflow/config.schema.yaml").read_text(encoding="utf-8")))


def canaries(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.name.startswith("canary")]


PLACES: dict[str, Callable[[str], dict[str, Any]]] = {
    "scale": lambda text: {"scale": text},
    "shards": lambda text: {"shards": text},
    "figure": lambda text: {"figures": [text]},
    "figure with an end of line": lambda text: {"figures": ["figure9\n"]},
    "alias": lambda text: {"aliases": {text: "figure9"}},
    "alias with an end of line": lambda text: {"aliases": {"picture\n": "figure9"}},
    "aliased figure": lambda text: {"aliases": {"picture": text}},
    "system": lambda text: {"constants": {text: {"learning_rate": 0.3}}},
    "constant": lambda text: {"constants": {"li_icl": {text: 0.3}}},
    "number": lambda text: {"constants": {"li_icl": {"learning_rate": text}}},
    "choice": lambda text: {"constants": {"zheng_ar": {"law": text}}},
    "list of numbers": lambda text: {"constants": {"zheng_ar": {"start": text}}},
    "number of trials": lambda text: {"trials": {"li_icl": text}},
    "number of trials with an end of line": lambda text: {"trials": {"li_icl": "5\n"}},
    "key": lambda text: {text: 1},
}


@pytest.mark.parametrize("place", PLACES)
def test_a_hostile_text_in_the_config_is_refused(place: str) -> None:
    config = {**CONFIG, "scale": "smoke", **PLACES[place](HOSTILE)}
    if SCHEMA.is_valid(config):
        with pytest.raises(ConstantError):
            Plan.of(config)


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_a_hostile_text_in_the_config_stops_the_workflow(workflow: Workflow, place: str) -> None:
    """With everything forced, so that a command that slipped through would run."""
    text = json.dumps({**CONFIG, "scale": "smoke", **PLACES[place](HOSTILE)})
    (workflow.folder / "hostile.json").write_text(text)
    done = workflow("report_now", "--forceall", "--replace-workflow-config", "--configfile", "hostile.json")
    assert done.returncode != 0, done.stdout
    assert "rule report_now" not in done.stdout
    assert "Traceback (most recent call last)" not in done.stdout
    assert canaries(workflow.folder) == []


@pytest.mark.parametrize("name", [HOSTILE, pytest.param("--help", marks=pytest.mark.slow)])
def test_a_hostile_folder_is_read_by_its_literal_name(workflow: Workflow, figure9_results: Path, name: str) -> None:
    """`against` may be any text: here it is the name of a folder, and the report is made with it."""
    shutil.copytree(figure9_results / "results/smoke/verdicts", workflow.folder / name / "smoke/verdicts")
    config = {**CONFIG, "scale": "smoke", "figures": ["figure9"], "aliases": {}, "against": name}
    (workflow.folder / "hostile.json").write_text(json.dumps(config))
    done = workflow("report_now", "--replace-workflow-config", "--configfile", "hostile.json")
    assert done.returncode == 0, done.stdout
    page = (workflow.folder / "results/smoke/report/report.html").read_text(encoding="utf-8")
    assert "changed since" in page and "<code>snakemake figure9 --config scale=smoke</code>" in page
    assert canaries(workflow.folder) == []
    wrong = json.dumps({**config, "against": f"no {name}"})
    (workflow.folder / "hostile.json").write_text(wrong)
    done = workflow("report_now", "--replace-workflow-config", "--configfile", "hostile.json")
    assert done.returncode != 0 and "holds no verdicts of the scale smoke" in done.stdout
    assert canaries(workflow.folder) == []


@pytest.mark.slow
def test_a_text_constant_reaches_the_job_as_it_is(tmp_path: Path) -> None:
    """Any blank separates the numbers of a text, also an end of line; the folder's own name is hostile too.

    But for braces: Snakemake takes those in the path of a checkout for wildcards, and stops.
    """
    folder = Workflow(tmp_path / HOSTILE.translate(str.maketrans("", "", "{}/")))
    config = {
        **CONFIG,
        "scale": "smoke",
        "figures": ["ahn_structure"],
        "aliases": {},
        "constants": {"ahn_linear": {"spectrum": "1\n0.5\t0.5\r0.25 0.25"}},
    }
    (folder.folder / "hostile.json").write_text(json.dumps(config))
    done = folder(
        "results/smoke/tables/ahn_structure.parquet", "--replace-workflow-config", "--configfile", "hostile.json"
    )
    assert done.returncode == 0, done.stdout
    _, about = table.read(folder.folder / "results/smoke/tables/ahn_structure.parquet")
    spectra = {c["spectrum"] for sweep in about["sweeps"] for c in sweep["configs"] if "spectrum" in c}
    assert "1\n0.5\t0.5\r0.25 0.25" in spectra
    assert canaries(tmp_path) == []


# -- network -----------------------------------------------------------------------------------------------------------


def test_no_socket_is_opened_from_training_to_report(
    figure9_made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("something asked for the network")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    plan = Plan.of({"figures": ["zheng_heatmap"], "scale": "smoke", "shards": 1, "constants": {}})
    trained = {name: train(sweep) for name, (_, sweep) in plan.trainings.items()}
    measured = figures.measure("zheng_heatmap", trained, "smoke")
    figures.check("zheng_heatmap", measured)
    discovery.figure("zheng_heatmap").draw(measured)
    provenance.about()
    page = gather.entries(["figure9"], "smoke", figure9_made)
    assert "figure9" in render.html(page, "smoke")
    assert cli.main(["list", "--root", str(ROOT)]) == 0 and capsys.readouterr().out


FEW = ("figure9", "zheng_heatmap", "zhang_convergence", "oswald_one_step")


@pytest.mark.slow
def test_the_workflow_needs_no_network(workflow: Workflow) -> None:
    """In a network namespace of its own, where there is not even a loopback address."""
    cut = ["unshare", "--map-root-user", "--net"]
    try:
        subprocess.run([*cut, "true"], check=True, capture_output=True, timeout=20)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"no network namespaces here: {error}")
    (workflow.folder / "run.sh").write_text(f'exec {shlex.quote(sys.executable)} -m snakemake "$@"\n')
    done = workflow.run([*cut, "bash", "run.sh", *FEW, "report_now", "--config", "scale=smoke"], timeout=1500)
    assert done.returncode == 0, done.stdout
    assert f"{len(FEW)} of" in done.stdout or (workflow.folder / "results/smoke/report/report.html").is_file()
    for name in FEW:
        assert (workflow.folder / f"figures/smoke/{name}.png").stat().st_size > 1000


# -- the page ----------------------------------------------------------------------------------------------------------

MARKUP = "</script><script>bad()</script><img src=x onerror=bad()>\"'><!-- ${bad} {{ 7*7 }} {% raw %} &amp;"


class Structure(HTMLParser):
    """The elements of a page with the names of their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[Any] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, [name for name, _ in attrs]))

    def handle_endtag(self, tag: str) -> None:
        self.found.append(tag)

    def handle_comment(self, data: str) -> None:
        self.found.append("comment")


def test_markup_in_data_stays_text(figure9_made: Path) -> None:
    """Every text of an entry is replaced; the page's elements are those of a page with harmless words."""

    def page(text: str) -> str:
        (one,) = copy.deepcopy(gather.entries(["figure9"], "smoke", figure9_made))
        for name in ("summary", "caption", "command", "scale", "name"):
            one[name] = text
        one["missing"], one["diverged"] = [text], [text]
        for claim in one["claims"]:
            claim |= {name: text for name in ("claim", "statement", "source", "scale")}
            for part in claim["parts"]:
                part |= {"observable": text, "statistic": text}
        for row in one["fidelity"]:
            row |= {"panel": text, "distance": text}
        for row in one["constants"]:
            row |= {"system": text, "name": text, "letter": text, "source": text, "values": {text: [text], "y": [text]}}
        one["provenance"] |= {"revision": text, "digest": text, "identity": text, "versions": {text: text},
                              "inputs": {text: text}}  # fmt: skip
        one["provenance"]["trainings"] = [{"name": text, "runs": 1, "seeds": [0], "steps": 1}]
        one["costs"] = {text: {"cpu": 1.0, "memory": 1.0, "disk": 1.0}}
        for chart in one["charts"]:
            chart["title"] = text
            for curve in chart["curves"]:
                curve["name"] = text
        return render.html([one], text, text)

    harmless, hostile = page("word"), page(MARKUP)
    assert Structure(hostile).found == Structure(harmless).found
    assert "bad()" in hostile and "<img src=x" not in hostile and "49" not in set(re.findall(r">(\d+) <", hostile))
    data = re.search(r'<script id="charts" type="application/json">(.*?)</script>', hostile, re.DOTALL)
    assert data is not None and list(json.loads(data.group(1))) == [MARKUP]
