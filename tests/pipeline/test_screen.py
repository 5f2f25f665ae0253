"""The terminal shows a line per job, the end of a failed job's log, and nothing after our last
words.
"""

import logging
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from icl.pipeline.screen import Screen


class Terminal(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        print("AS IT IS", record.getMessage(), file=sys.stderr)


@pytest.fixture
def terminal() -> logging.Logger:
    logger = logging.Logger("snakemake")
    handler = Terminal()
    handler.name = "DefaultStreamHandler"
    logger.addHandler(handler)
    return logger


def said(terminal: logging.Logger, text: str = "", level: int = logging.INFO, **about: Any) -> None:
    terminal.log(level, text, extra=about)


def test_what_is_shown(
    terminal: logging.Logger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"line {number}\n" for number in range(40)))
    screen = Screen(terminal, lambda: True)
    said(terminal, "Building DAG of jobs...")
    wildcards = {"sweep": "li_icl", "shard": "0of1"}
    said(terminal, event="job_info", rule_name="train", output=["x"], wildcards=wildcards)
    said(terminal, event="job_info", rule_name="figure9", output=[], wildcards={})
    said(terminal, event="progress", done=1, total=2)
    said(terminal, event="progress", done=2, total=2)
    said(terminal, "Nothing to be done.")
    said(terminal, "Exiting because a job execution failed.", logging.ERROR)
    said(terminal, "RuleException:\nin x: returned non-zero exit status 137.", logging.ERROR)
    said(terminal, "", logging.ERROR, event="job_error", rule_name="train", log=[str(log)])
    said(terminal, "Restored a", logging.WARNING)
    screen.end("last")
    said(terminal, "WorkflowError", logging.ERROR)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].endswith(" train li_icl 0of1")
    assert lines[1] == "1 of 2 steps done"
    assert lines[2] == "AS IT IS Nothing to be done."
    assert lines[3] == "a job failed with exit status 137"
    assert str(log) in lines[4]
    assert lines[5:-2] == [f"  | line {number}" for number in range(28, 40)]
    assert lines[-2:] == ["AS IT IS Restored a", "last"]


def test_after_a_request_to_stop_no_error_is_shown(
    terminal: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    screen = Screen(terminal, lambda: True)
    said(terminal, "Terminating processes on user request, this might take some time.")
    said(terminal, "RuleException", logging.ERROR)
    assert screen.stopped and capsys.readouterr().err == ""


def test_a_closed_terminal_stops_nothing(
    terminal: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in `snakemake figure12 | head`: an error would end Snakemake's thread of messages."""
    monkeypatch.setattr(sys, "stderr", Mock(write=Mock(side_effect=BrokenPipeError)))
    screen = Screen(terminal, lambda: True)
    said(terminal, event="progress", done=1, total=2)
    screen.end("last")
    assert screen.ended


def test_a_dry_run_shows_everything(
    terminal: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    Screen(terminal, lambda: False)
    said(terminal, "Building DAG of jobs...")
    assert capsys.readouterr().err == "AS IT IS Building DAG of jobs...\n"
