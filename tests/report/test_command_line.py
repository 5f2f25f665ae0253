"""`python -m icl`: what it prints, for people and for programs, and how it says no."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from icl import __main__ as cli
from icl.evidence import ledger
from icl.pipeline import figures
from icl.report.verdict_files import verdict_files

ROOT = Path(__file__).parents[1]
HERE = ["--root", str(ROOT)]


def called(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = cli.main(arguments)
    out, err = capsys.readouterr()
    return code, out, err


def test_every_figure_is_listed_with_its_paper(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = called(capsys, "list", "--json", *HERE)
    rows = json.loads(out)
    assert code == 0
    assert [row["figure"] for row in rows] == cli.configured(ROOT)["figures"]
    assert {"figure": "figure12", "paper": "Li et al. 2024: nonlinear transformers in ICL",
            "summary": figures.summary("figure12")} in rows  # fmt: skip
    assert called(capsys, "list", *HERE)[1].count("\n") == len(rows)


def test_a_figure_is_shown_with_claims_and_graded_constants(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = called(capsys, "show", "figure12", "--json", *HERE)
    one = json.loads(out)
    assert code == 0
    assert {claim["id"] for claim in one["claims"]} == {claim.id for claim in ledger.claims("figure12")}
    assert {row["grade"] for row in one["constants"]["li_icl_gpt2"]} <= {"published", "inferred", "ours"}
    text = called(capsys, "show", "figure12", *HERE)[1]
    for claim in one["claims"]:
        assert claim["source"] in text and all(bound in text for bound in claim["bounds"])
    assert "snakemake figure12 --config scale=laptop" in text


def test_aliases_are_understood(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        json.loads(called(capsys, "show", "four_phase_dynamics", "--json", *HERE)[1])["figure"] == "huang_four_phases"
    )


def test_verdicts_are_those_on_disk(capsys: pytest.CaptureFixture[str], figure9_results: Path, tmp_path: Path) -> None:
    from icl.core.files import write_json
    from icl.pipeline.provenance import judgement

    table = figure9_results / "results/smoke/tables/figure9.parquet"
    (tmp_path / "workflow").symlink_to(ROOT / "workflow")
    write_json(tmp_path / "results/smoke/verdicts/figure9.json", judgement("figure9", table))
    code, out, _ = called(capsys, "verdicts", "figure9", "--scale", "smoke", "--root", str(tmp_path), "--json")
    assert code == 0
    assert json.loads(out) == [verdict_files.load(tmp_path / "results/smoke/verdicts/figure9.json")]
    text = called(capsys, "verdicts", "figure9", "--scale", "smoke", "--root", str(tmp_path))[1]
    assert "A-P1b      INCONCLUSIVE" in text
    assert "0 supported, 0 contradicted, 1 inconclusive" in text


def test_citations_come_once(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = called(capsys, "cite", "figure9", "huang_stages", "figure12", *HERE)
    assert code == 0
    assert [line for line in out.splitlines() if line.startswith("@")] == [
        "@inproceedings{li2024icl,",
        "@inproceedings{huang2024convergence,",
    ]
    assert out.count("{") == out.count("}")


def test_a_picture_is_opened_and_its_path_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(cli.webbrowser, "open", lambda address: bool(opened.append(address)) or True)
    (tmp_path / "workflow").symlink_to(ROOT / "workflow")
    picture = tmp_path / "figures/laptop/figure9.png"
    code, _, err = called(capsys, "open", "figure9", "--root", str(tmp_path))
    assert (code, opened) == (cli.MISSING, [])
    assert "`snakemake figure9 --config scale=laptop` makes it" in err
    picture.parent.mkdir(parents=True)
    picture.touch()
    code, out, _ = called(capsys, "open", "figure9", "--root", str(tmp_path))
    assert (code, out.strip(), opened) == (0, str(picture), [picture.as_uri()])


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["show", "figure99", *HERE], cli.MISUSED, "figure 'figure99': there is none of this name"),
        (["cite", "_errors", *HERE], cli.MISUSED, "'_errors'"),
        (["verdicts", "figure9", "--root", "nowhere"], cli.MISUSED, "nowhere: has no workflow/config.yaml"),
    ],
)
def test_what_cannot_be_done_is_said_on_stderr(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, words: str
) -> None:
    found, out, err = called(capsys, *arguments)
    assert (found, out) == (code, "")
    assert words in err


def test_unknown_commands_and_scales_are_refused_by_the_parser(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["plot"], [], ["verdicts", "--scale", "huge"]):
        with pytest.raises(SystemExit) as stop:
            cli.main(arguments)
        assert stop.value.code == cli.MISUSED
        assert "usage: python -m icl" in capsys.readouterr().err


def test_as_a_module_with_a_reader_that_leaves_early() -> None:
    command = f"{sys.executable} -m icl show huang_rates --root {ROOT} | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "huang_rates\n", "")
