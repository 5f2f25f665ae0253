"""`python -m icl`: its answers for people and programs, its exit codes, and its start."""

import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT

from icl import registry
from icl.core import folders, table
from icl.core.config import canonical
from icl.drawing import compared, own_style
from icl.evidence import ledger
from icl.pipeline.plan import Plan
from icl.report import command_line, gallery, results, whatif
from icl.report.command_line import FAILED, MISUSED

PLAN = Plan("smoke")
SMOKE = ("--config", canonical(PLAN.plain()))
CHANGE = "{li_icl: {relevant_fraction: 0.6}}"
Called = Callable[..., tuple[int, str, str]]


@pytest.fixture
def icl(capsys: pytest.CaptureFixture[str]) -> Called:

    def call(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            command_line.main(arguments)
        return (int(stop.value.code or 0), *capsys.readouterr())

    return call


def test_papers_figures_and_claims_are_listed_and_shown(icl: Called) -> None:
    listed = json.loads(icl("list", "--json")[1])
    assert {row["figure"]: row["paper"] for row in listed} == registry.figures()
    assert all(name in icl("list")[1] for name in ("figure12", "li2024"))
    one = json.loads(icl("show", "figure12", "--json")[1])
    shown = [claim["id"] for claim in one["claims"]]
    assert shown == [claim.id for claim in ledger.claims("figure12")]
    assert {row["grade"] for row in one["constants"]} <= {"published", "inferred", "ours"}
    text = icl("show", "figure12")[1]
    assert all(row["name"] in text for row in one["constants"])
    assert Plan("laptop").command("figure12") in text
    assert json.loads(icl("show", "S4", "--json")[1])["formula"] == ledger.claim("S4").formula
    one = json.loads(icl("show", "figure9", "--set", CHANGE, "--json")[1])
    changed = [row["name"] for row in one["constants"] if row["grade"] == "changed"]
    assert changed == ["relevant_fraction"]


@pytest.mark.parametrize("word", [*folders.papers(), *ledger.aliases(), "A-P1b"])
def test_every_name_can_be_shown(icl: Called, word: str) -> None:
    assert icl("show", word)[0] == 0 and icl("show", word, "--json")[0] == 0


def test_verdicts_are_those_on_disk_with_commands_for_the_rest(
    icl: Called, figure9: results.Found
) -> None:
    code, out, _ = icl("verdicts", "--scale", "smoke", "--json")
    said = json.loads(out)
    assert (code, said["verdicts"], said["problems"]) == (0, [figure9.records["figure9"]], [])
    assert set(said["missing"]) == set(registry.figures()) - {"figure9"}
    code, out, _ = icl("verdicts", *SMOKE, "figure9")
    assert code == 0
    for words in (
        "figures/smoke/figure9_compared.png",
        "INCONCLUSIVE",
        "condition     held-out loss",
        "claimed in [0.38, 0.46], 2 trainings",
        "main: absolute difference",
    ):
        assert words in out
    code, out, _ = icl("verdicts", "figure9", "figure12", "--scale", "smoke")
    assert code == FAILED and "A-P1b" in out and "`snakemake figure12 --config scale=smoke`" in out
    assert "1 claims test these 1 statements" in icl("verdicts", "--scale", "smoke")[1]
    assert icl("verdicts", "figure9", "--scale", "smoke", "--first-seed", "5")[0] == FAILED


def test_the_commands_of_the_workflow(
    icl: Called, figure9: results.Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert icl("verify", *SMOKE)[:2] == (0, "1 figures checked, 0 problems\n")
    assert icl("verify", *SMOKE, "--all")[0] == FAILED
    report = Path("results/smoke/report.html")
    readme = Path("README.md")
    readme.write_text("a\n<!-- gallery:begin (x) -->\nold\n<!-- gallery:end -->\nb\n")
    code, out, _ = icl("report", *SMOKE)
    assert (code, out) == (0, f"report    {report}: 1 of {len(registry.figures())} figures\n")
    first = report.read_bytes()
    assert icl("report", *SMOKE, "--against=results")[0] == 0 and report.read_bytes() != first
    assert icl("report", *SMOKE, "--against=nowhere")[0] == FAILED
    monkeypatch.setattr(gallery, "_is_in_history", lambda revision: False)
    code, _, err = icl("gallery", *SMOKE, "figure9")
    assert code == FAILED and "was not made from a revision in the history" in err
    assert not Path("gallery").exists()
    monkeypatch.setattr(gallery, "unclean", lambda lines: [])
    monkeypatch.setattr(gallery, "mixtures", lambda lines: ["figure9 (smoke): is mixed"])
    assert icl("gallery", *SMOKE, "figure9")[0] == FAILED and not Path("gallery").exists()
    monkeypatch.setattr(gallery, "mixtures", lambda lines: [])
    assert icl("gallery", *SMOKE, "figure9")[0] == 0
    files = {"verdicts.jsonl", "figures.jsonl", "README.md", "report.html", "figure9.png"}
    assert files <= {path.name for path in Path("gallery").iterdir()}
    shown = r"a\n<!--[^o]*-->\n(?!old).*figure9\.png.*-->\nb\n"
    assert re.fullmatch(shown, readme.read_text("utf-8"), re.DOTALL)
    changed = Plan("smoke", constants=yaml.safe_load(CHANGE))
    assert icl("gallery", "--config", canonical(changed.plain()))[0] == MISUSED
    Path(PLAN.table_file("figure9")).write_bytes(b"")
    for command in ("report", "gallery figure9", "compare", "verify", "verdicts figure9"):
        code, out, err = icl(*command.split(), *SMOKE)
        assert code == FAILED and "figure9.parquet" in out + err, command
        assert "INCONCLUSIVE" not in out, command


def test_results_are_held_against_the_gallery(icl: Called, figure9: results.Found) -> None:
    assert "the gallery has no verdict at this scale" in icl("compare", *SMOKE, "figure9")[1]
    gallery.update(PLAN, figure9.records)
    code, out, _ = icl("compare", *SMOKE)
    assert code == 0 and "figure9: identical in every value" in out
    assert "the same in every operation" in out
    out = icl("verdicts", *SMOKE, "figure9")[1]
    assert "in the gallery" not in out and "gallery   identical in every value: figure9\n" in out
    assert gallery.held(PLAN, ["figure9"]) and not gallery.held(PLAN, ["figure8"])
    assert not gallery.held(Plan("smoke", seeds=1), ["figure9"])
    (verdict,) = gallery.read(gallery.VERDICTS)
    verdict["outcome"] = "supported"
    verdict["parts"][0]["values"][0] += 0.25
    gallery.write(gallery.VERDICTS, [verdict])
    (line,) = gallery.read(gallery.FIGURES)
    machine = {"processor": "another", "units": "none", "operations": {"numpy QR": "0"}}
    line["about"]["arithmetic"] = machine
    gallery.write(gallery.FIGURES, [line])
    out = icl("compare", *SMOKE, "figure9")[1]
    for words in (
        "not identical, 1 verdicts changed",
        "supported → inconclusive",
        "| 0.25 |",
        "gallery another (none)",
        "arithmetic  first differs in: numpy QR",
    ):
        assert words in out, out
    out = icl("verdicts", *SMOKE, "figure9")[1]
    assert "not identical, 1 verdicts changed: figure9\n" in out
    assert "A-P1b: supported in the gallery, inconclusive here\n" in out
    code, out, _ = icl("arithmetic", "figure9")
    assert code == FAILED and "first differs in: numpy QR" in out
    code, out, _ = icl("arithmetic", PLAN.table_file("figure9"), "--json")
    assert code == 0 and json.loads(out)["operations"]
    assert "no.json: records no arithmetic" in icl("arithmetic", "no.json")[2]


@pytest.mark.parametrize(
    ("words", "near"),
    [
        ("show figure99", "figure9"),
        ("show A-P1bb", "A-P1b"),
        ("verdicts figre9", "figure9"),
        ("review figre9", "figure9"),
        ("verdicts --scale huge", "laptop"),
        ("verdicts --variant a", "variant"),
        ("whatif figure9", "--set"),
        ("whatif figure9 --set 0.6", "model"),
        ("show figure9 --set {a", "--set"),
        ("whatif figure9 --set '{li_icl_gpt2: {batch: 9}}'", "changes nothing in figure9"),
        ("show figure9 --set '{li_ic: {batch: 9}}'", "li_icl"),
        ("new figure li2042 a", "li2024"),
        # A command would be printed that the workflow refuses.
        ("verdicts figure9 --seeds -1", "seeds"),
        ("verdicts figure9 --set '{li_icl: {batch: 9, batch: 8}}'", "repeated"),
    ],
)
def test_a_wrong_name_or_value_is_answered_in_one_line(icl: Called, words: str, near: str) -> None:
    code, out, err = icl(*shlex.split(words))
    assert (code, out) == (MISUSED, "") and near in err and err.count("\n") == 1
    assert icl("plot")[0] == icl("verdicts", "--sclae", "smoke")[0] == MISUSED


def test_the_version_and_the_script(icl: Called) -> None:
    from icl import __main__

    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert icl("--version") == (0, f"icl {project['version']}\n", "")
    module, _, name = project["scripts"]["icl"].partition(":")
    assert (module, getattr(__main__, name)) == ("icl.__main__", __main__.main)
    assert "--show-completion" in icl("--help")[1]


EXAMPLES = re.findall(r"(?s)```python\n(.*?)```", (ROOT / "docs/python.md").read_text("utf-8"))


@pytest.mark.usefixtures("figure9")
@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example_of_the_documentation_runs_as_it_stands(example: str) -> None:
    assert len(EXAMPLES) == 4 and example.count("\n") <= 6
    told = subprocess.check_output([sys.executable, "-c", example], text=True)
    assert told or Path("my_figure9.png").is_file()


def test_a_job_imports_only_what_it_needs() -> None:
    program = "import sys, icl.report.command_line; print(*sys.modules)"
    loaded = subprocess.check_output([sys.executable, "-c", program], text=True).split()
    assert not {"torch", "scipy", "matplotlib", "snakemake", "jinja2", "rich", "PIL"} & set(loaded)


def test_default_and_changed_curves_share_their_axes(figure9: results.Found) -> None:
    made, _ = table.read(Path(PLAN.table_file("figure9")))
    ours, theirs = (PLAN.figure("figure9").draw(made) for _ in range(2))
    before = [list(compared.series_of(axes)) for axes in ours.axes]
    assert whatif.in_one_axes(ours, theirs)
    for axes, old in zip(ours.axes, before, strict=True):
        new = [one for one in compared.series_of(axes) if one.style.series.startswith("default ")]
        assert len(new) == len(old) > 0
        for one, other in zip(new, old, strict=True):
            assert (one.points == other.points).all()
            assert one.style.colour == own_style.GREY != other.style.colour
    empty = [own_style.panels(["a"], 1)[0] for _ in range(2)]
    assert not whatif.in_one_axes(*empty)


@pytest.mark.slow
def test_a_whatif_makes_both_and_prints_the_differences(
    workflow: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workflow.folder)
    words = "whatif figure9 --scale smoke --json --variant fewer --set".split()
    command = [sys.executable, "-m", "icl", *words, CHANGE]
    said = json.loads(subprocess.check_output(command, text=True, timeout=600))
    assert said["verdicts"] == {} and said["notes"]
    assert len(said["numbers"]) == len(ledger.claim("A-P1b").bounds)
    assert said["picture"] == "figures/smoke@fewer/figure9_whatif.png"
    pictures = [Path(said["picture"]), *Path().glob("figures/*/figure9.png")]
    widths = [int.from_bytes(path.read_bytes()[16:20]) for path in pictures]
    assert len(widths) == 3 and len({*widths}) == 1
