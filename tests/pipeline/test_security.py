"""Input is never executed: no pickles, no unsafe YAML, no config in a shell, no network, no markup in data."""

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
from safetensors.torch import save_file

from icl.core import discovery, runs, table
from icl.core.config import ConstantError
from icl.core.sealed import SealedError
from icl.core.training import train
from icl.evidence import ledger, published_curves
from icl.pipeline import figures, provenance
from icl.pipeline.plan import Plan, check_config
from icl.report import command_line, costs, verdict_files
from icl.report.page import gather, intervals, render

# -- while reading -----------------------------------------------------------------------------------------------------


class Payload:
    """Creates a file when it is unpickled."""

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
    assert runs.read_tensors(folder / "runs/li_icl/0of2.safetensors")[0]
    assert len(table.read(folder / "tables/figure9.parquet")[0])
    assert verdict_files.load(folder / "verdicts/figure9.json")["verdicts"]


def test_a_pickle_is_never_unpickled(figure9_results: Path, tmp_path: Path) -> None:
    """As weights, in weights' metadata, as a cell, as an extension type of a column, and as verdicts."""
    canary = tmp_path / "canary"
    payload = pickle.dumps(Payload(canary))
    torch.save({"W": Payload(canary)}, tmp_path / "torch.safetensors")
    (tmp_path / "plain.safetensors").write_bytes(payload)
    header = json.dumps({"W": {"dtype": payload.hex(), "shape": [1], "data_offsets": [0, 4]}}).encode()
    (tmp_path / "type.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * 4)
    save_file({"W": torch.zeros(2)}, tmp_path / "metadata.safetensors", {"icl": payload.hex()})
    for path in sorted(tmp_path.glob("*.safetensors")):
        with pytest.raises(runs.RunsError, match=path.name):
            runs.read_tensors(path)

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
    with pytest.raises(SealedError, match=r"figure9\.json"):
        verdict_files.load(tmp_path / "figure9.json")
    assert not canary.exists()


def test_yaml_tags_have_no_effect(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    (tmp_path / "claims.yaml").write_text(f"title: !!python/object/apply:os.mkdir ['{canary}']\n")
    with pytest.raises(ledger.LedgerError, match=r"claims\.yaml: cannot be read"):
        ledger.read(tmp_path / "claims.yaml")
    (tmp_path / "figure9.csv").write_text(f"# main: !!python/object/apply:os.mkdir ['{canary}']\npanel,series\n")
    with pytest.raises(published_curves.PublishedError, match=r"figure9\.csv: is no file of published numbers"):
        published_curves.read(tmp_path / "figure9.csv")
    assert not canary.exists()


# -- config and shell --------------------------------------------------------------------------------------------------

HOSTILE = 'it\'s "$(touch canary)" `touch canary`; touch canary | tee canary > canary & {log} {{x}} \\\ntouch canary\n#'
CONFIG = yaml.safe_load((ROOT / "workflow/config.yaml").read_text(encoding="utf-8"))
SCHEMA = ROOT / "workflow/config.schema.yaml"


def canaries(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.name.startswith("canary")]


CHANGED = {"li_icl": {"relevant_fraction": "0.6"}}
PLACES: dict[str, Callable[[str], dict[str, Any]]] = {
    "scale": lambda text: {"scale": text},
    "shards": lambda text: {"shards": text},
    "variant": lambda text: {"variant": text, "constants": CHANGED},
    "variant with an end of line": lambda text: {"variant": "fast\n", "constants": CHANGED},
    "system": lambda text: {"constants": {text: {"batch": 3}}},
    "constant": lambda text: {"constants": {"li_icl": {text: 0.3}}},
    "number": lambda text: {"constants": {"li_icl": {"relevant_fraction": text}}},
    "choice": lambda text: {"constants": {"zheng_ar": {"law": text}}},
    "list of numbers": lambda text: {"constants": {"huang_softmax": {"probabilities": text}}},
    "figure of the gallery": lambda text: {"only": text},
    "key": lambda text: {text: 1},
}


@pytest.mark.parametrize("place", [place for place in PLACES if place != "figure of the gallery"])
def test_a_hostile_text_in_the_config_is_refused(place: str) -> None:
    config = {**CONFIG, "scale": "smoke", **PLACES[place](HOSTILE)}
    with pytest.raises(ConstantError):
        check_config(config, SCHEMA)
        Plan.of(config)


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_a_hostile_text_in_the_config_stops_the_workflow(workflow: Workflow, place: str) -> None:
    """All jobs are forced, so an accepted command would run."""
    text = json.dumps({**CONFIG, "scale": "smoke", **PLACES[place](HOSTILE)})
    (workflow.folder / "hostile.json").write_text(text)
    done = workflow("report_now", "--forceall", "--replace-workflow-config", "--configfile", "hostile.json")
    assert done.returncode != 0, done.stdout
    assert "rule report_now" not in done.stdout
    assert "Traceback (most recent call last)" not in done.stdout
    assert canaries(workflow.folder) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [HOSTILE, "--help"])
def test_a_hostile_folder_is_read_by_its_literal_name(workflow: Workflow, figure9_results: Path, name: str) -> None:
    """`against` may be any text: here it is the name of a folder, which the report uses."""
    shutil.copytree(figure9_results / "results/smoke/verdicts", workflow.folder / name / "smoke/verdicts")
    for against, code in ((name, 0), (f"no {name}", 1)):
        (workflow.folder / "hostile.json").write_text(json.dumps({**CONFIG, "scale": "smoke", "against": against}))
        done = workflow("report_now", "--replace-workflow-config", "--configfile", "hostile.json")
        assert done.returncode == code, done.stdout
        assert canaries(workflow.folder) == []


@pytest.mark.slow
def test_a_text_constant_reaches_the_job_as_it_is(tmp_path: Path) -> None:
    """Any whitespace separates the numbers of a text, also a newline; the folder's name is hostile too."""
    folder = Workflow(tmp_path / HOSTILE.translate(str.maketrans("", "", "{}/")))
    config = {
        **CONFIG,
        "scale": "smoke",
        "variant": "hostile",
        "constants": {"ahn_linear": {"spectrum": "1\n0.5\t0.5\r0.25 0.25"}},
    }
    (folder.folder / "hostile.json").write_text(json.dumps(config))
    done = folder(
        "results/smoke@hostile/tables/ahn_structure.parquet",
        "--replace-workflow-config",
        "--configfile",
        "hostile.json",
    )
    assert done.returncode == 0, done.stdout
    _, about = table.read(folder.folder / "results/smoke@hostile/tables/ahn_structure.parquet")
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
    plan = Plan("smoke")
    trained = {name: train(sweep) for name, sweep in plan.sweeps("zheng_heatmap").items()}
    measured = figures.measure("zheng_heatmap", trained, "smoke")
    figures.check("zheng_heatmap", measured)
    discovery.figure("zheng_heatmap").draw(measured)
    provenance.about()
    page = gather.entries(plan, ["figure9"], figure9_made)
    assert "figure9" in render.html(plan, page)
    assert command_line.main(["list"]) == 0 and capsys.readouterr().out


FEW = ("figure9", "zheng_heatmap", "zhang_convergence", "oswald_one_step")


@pytest.mark.slow
def test_the_workflow_needs_no_network(workflow: Workflow) -> None:
    """In a separate network namespace without even a loopback address."""
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
    """Every text of an entry is replaced; the page has the same elements as with harmless words."""

    def page(text: str) -> str:
        (one,) = copy.deepcopy(gather.entries(Plan("smoke"), ["figure9"], figure9_made))
        for name in ("summary", "command", "scale", "folder", "name", "caption", "differences", "note", "agreement"):
            one[name] = text
        one["missing"], one["diverged"] = [text], [text]
        for claim in one["claims"]:
            claim |= {
                name: text
                for name in ("claim", "source", "scale", "says", "tested", "not_shown", "premise", "finds", "brief",
                             "place", "names", "replicates", "csv")
                if name in claim
            }  # fmt: skip
            claim["weakest"] = {"command": text, "why": text}
            claim["strips"] = [{"constant": text, "key": text, "why": text, "cells": []}]
            for part in claim["parts"]:
                part |= {"observable": text, "statistic": text}
                part["drawing"] = intervals.drawing(part, [1.0])
        for row in one["fidelity"]:
            row |= {"panel": text, "distance": text}
        for row in one["constants"]:
            row |= {"system": text, "name": text, "letter": text, "source": text, "values": {text: [text], "y": [text]}}
        one["provenance"] |= {"revision": text, "digest": text, "identity": text, "versions": {text: text},
                              "inputs": {text: text}}  # fmt: skip
        one["provenance"]["trainings"] = [{"name": text, "runs": 1, "seeds": [0], "steps": 1}]
        one["costs"] = {text: costs.Cost(1.0, 1.0, 1.0)}
        return render.html(Plan("smoke"), [one], text)

    harmless, hostile = page("word"), page(MARKUP)
    assert Structure(hostile).found == Structure(harmless).found
    assert "bad()" in hostile and "<img src=x" not in hostile and "49" not in set(re.findall(r">(\d+) <", hostile))
