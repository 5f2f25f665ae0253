"""`python -m icl`: its output for people and for programs, and its errors."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from icl.core import discovery
from icl.evidence import ledger
from icl.pipeline.plan import Plan
from icl.report import command_line as cli
from icl.report import verdict_files, whatif


def called(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli.main(arguments)
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def made(figure9_made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with figure 9 at the smoke scale and the scripts of its identities, as the working folder."""
    shutil.copytree(figure9_made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_figure_is_listed_with_its_paper(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = called(capsys, "list", "--json")
    rows = json.loads(out)
    assert code == 0
    assert {row["figure"]: row["paper"] for row in rows} == discovery.figures()
    text = called(capsys, "list")[1]
    assert all(name in text for name in (*discovery.figures(), *discovery.papers()))


def test_a_figure_is_shown_with_claims_and_graded_constants(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = called(capsys, "show", "figure12", "--json")
    one = json.loads(out)
    assert code == 0
    assert [claim["id"] for claim in one["claims"]] == [claim.id for claim in ledger.claims("figure12")]
    assert {row["grade"] for row in one["constants"]} <= {"published", "inferred", "ours"}
    text = called(capsys, "show", "figure12")[1]
    assert all(row["name"] in text for row in one["constants"])
    assert Plan("laptop").command("figure12") in text


def test_a_theorem_is_shown_with_its_formula(capsys: pytest.CaptureFixture[str]) -> None:
    assert ledger.claim("S4").formula in called(capsys, "show", "S4")[1]
    assert json.loads(called(capsys, "show", "S4", "--json")[1])["formula"] == ledger.claim("S4").formula


def test_changed_constants_are_graded_and_in_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    change = "{li_icl: {relevant_fraction: 0.6}}"
    one = json.loads(called(capsys, "show", "figure9", "--set", change, "--variant", "fewer", "--json")[1])
    assert [row["name"] for row in one["constants"] if row["grade"] == "changed"] == ["relevant_fraction"]
    assert one["command"] == Plan("laptop", 2, {"li_icl": {"relevant_fraction": 0.6}}, "fewer").command("figure9")


@pytest.mark.parametrize("word", [*discovery.papers(), *ledger.aliases(), "A-P1b"])
def test_papers_claims_and_aliases_can_be_shown(capsys: pytest.CaptureFixture[str], word: str) -> None:
    code, out, _ = called(capsys, "show", word)
    assert code == 0
    assert out


def test_verdicts_are_those_on_disk_and_what_is_missing_is_listed(
    capsys: pytest.CaptureFixture[str], made: Path
) -> None:
    code, out, _ = called(capsys, "verdicts", "--scale", "smoke", "--json")
    said = json.loads(out)
    assert code == 0
    assert said["verdicts"] == [verdict_files.load(made / "results/smoke/verdicts/figure9.json")]
    assert set(said["missing"]) == set(discovery.figures()) - {"figure9"}
    assert "A-P1b      INCONCLUSIVE" in called(capsys, "verdicts", "figure9", "--scale", "smoke")[1]
    code, out, _ = called(capsys, "verdicts", "figure9", "figure12", "--scale", "smoke")
    assert code == cli.MISSING
    assert "A-P1b" in out and "`snakemake figure12 --config scale=smoke`" in out


def test_outdated_verdicts_are_not_printed(capsys: pytest.CaptureFixture[str], made: Path) -> None:
    (made / "results/smoke/tables/figure9.parquet").write_bytes(b"")
    code, out, _ = called(capsys, "verdicts", "figure9", "--scale", "smoke")
    assert code == cli.MISSING
    assert "INCONCLUSIVE" not in out and "figure9.parquet" in out


def test_every_paper_with_a_citation_can_be_cited_and_comes_once(capsys: pytest.CaptureFixture[str]) -> None:
    papers = [paper for paper in ledger.papers() if paper.cite]
    code, out, _ = called(capsys, "cite", *(paper.paper for paper in papers), "figure9", "A-P1b")
    assert code == 0
    found = [line.split("{")[1].rstrip(",") for line in out.splitlines() if line.startswith("@")]
    assert found == list(dict.fromkeys(key for paper in papers for key in paper.cite))


def test_a_picture_is_opened_and_its_path_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, made: Path
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(cli.webbrowser, "open", lambda address: bool(opened.append(address)) or True)
    code, _, err = called(capsys, "open", "figure10")
    assert (code, opened) == (cli.MISSING, [])
    assert "`snakemake figure10` makes it" in err
    picture = Path("figures/smoke/figure9.png")
    # Without a scale, the newest picture of the figure.
    for words in (["--scale", "smoke"], []):
        opened.clear()
        code, out, _ = called(capsys, "open", "figure9", *words)
        assert (code, out.strip(), opened) == (0, str(picture), [picture.resolve().as_uri()])


def test_progress_lists_saved_states(capsys: pytest.CaptureFixture[str], made: Path) -> None:
    code, out, _ = called(capsys, "progress", "--scale", "smoke")
    assert code == 0
    assert "results/smoke has no unfinished training" in out


@pytest.mark.parametrize(
    ("arguments", "near"),
    [
        (["show", "figure99"], "figure9"),
        (["show", "A-P1bb"], "A-P1b"),
        (["cite", "li2042"], "li2024"),
        (["verdicts", "figre9"], "figure9"),
        (["open", "figre9"], "figure9"),
        (["whatif", "figre9", "--set", "{li_icl: {relevant_fraction: 0.6}}"], "figure9"),
        (["new", "figure", "li2042", "new_figure"], "li2024"),
        (["show", "figure9", "--set", "{li_ic: {relevant_fraction: 0.6}}"], "li_icl"),
    ],
)
def test_misspelt_names_are_answered_with_similar_ones(
    capsys: pytest.CaptureFixture[str], arguments: list[str], near: str
) -> None:
    code, out, err = called(capsys, *arguments)
    assert (code, out) == (cli.MISUSED, "")
    assert near in err and err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [["plot"], [], ["new"], ["verdicts", "--scale", "huge"], ["whatif", "figure9", "--set", "0.6"]]
)
def test_the_parser_refuses(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == cli.MISUSED
    assert "usage: python -m icl" in capsys.readouterr().err


def test_a_reader_may_close_the_pipe_early() -> None:
    command = f"{sys.executable} -m icl show huang_rates | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "huang_rates\n", "")


def test_pictures_stand_side_by_side(tmp_path: Path) -> None:
    from PIL import Image

    for name, size, colour in (("left", (30, 20), "red"), ("right", (10, 40), "blue")):
        Image.new("RGB", size, colour).save(tmp_path / f"{name}.png")
    whatif.side_by_side([tmp_path / "left.png", tmp_path / "right.png"], tmp_path / "both.png")
    both = Image.open(tmp_path / "both.png")
    assert both.size == (40, 40)
    assert [both.getpixel(place) for place in ((5, 5), (35, 35), (5, 35))] == [(255, 0, 0), (0, 0, 255), (255,) * 3]


def test_a_whatif_without_a_change_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = called(capsys, "whatif", "figure9")
    assert code == cli.MISUSED
    assert "--set" in err


@pytest.mark.slow
def test_a_whatif_makes_both_and_prints_the_differences(workflow: "object", monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workflow.folder)  # type: ignore[attr-defined]
    command = [sys.executable, "-m", "icl", "whatif", "figure9", "--scale", "smoke", "--json"]
    command += ["--set", "{li_icl: {relevant_fraction: 0.6}}", "--variant", "fewer"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=os.environ, check=True)
    said = json.loads(done.stdout)
    assert said["verdicts"] == {}
    assert Path(said["picture"]) == Path("figures/smoke@fewer/figure9_whatif.png")
    assert Path(said["picture"]).is_file()
