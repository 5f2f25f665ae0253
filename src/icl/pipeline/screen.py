"""What the terminal shows of a run: a line for each job and step, the end of a failed job's log,
and our last words.

Everything else is in Snakemake's own log below .snakemake/log.
"""

import logging
import re
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

SHOWN = ("Nothing to be done", "Will exit after")
"""How the messages begin that are shown although they are of no job."""
STOPPED = "Terminating processes on user request"
LINES = 12


class Screen:
    """A filter of Snakemake's messages on their way to the terminal.

    runs : whether jobs run, here; a dry run, a listing or a job on a cluster shows all messages
    """

    def __init__(self, logger: logging.Logger, runs: Callable[[], bool]) -> None:
        self.runs = runs
        self.stopped = False
        self.ended = False
        # With a plugin for messages there is no such handler, and nothing changes.
        for handler in [one for one in logger.handlers if one.name == "DefaultStreamHandler"]:
            handler.addFilter(self.shows)

    def end(self, *lines: str) -> None:
        """Print the last lines; Snakemake's own, on its log and the time, do not follow them."""
        self.ended = True
        for line in lines:
            self.print(line)

    @staticmethod
    def print(line: str) -> None:
        """Print a line, unless nobody reads: an error here would stop Snakemake's log for ever."""
        with suppress(OSError):
            print(line, file=sys.stderr, flush=True)

    def shows(self, record: logging.LogRecord) -> bool:
        """Return whether Snakemake prints a message as it is; prints its short form otherwise."""
        text = str(record.msg)
        event = str(getattr(record, "event", ""))
        self.stopped |= text.startswith(STOPPED)
        if self.ended or not self.runs():
            return not self.ended
        if self.stopped or text.startswith("Exiting because"):
            return False
        if line := self.brief(event, text, vars(record)):
            self.print(line)
        return not event and (
            text.startswith(SHOWN) or (record.levelno > logging.INFO and not line)
        )

    @staticmethod
    def brief(event: str, text: str, about: dict[str, Any]) -> str:
        """Return what a message becomes: a line, or a failed job's lines, or nothing."""
        if status := re.match(
            r"RuleException:.*(exit status \d+|died with .*)\.$", text, re.DOTALL
        ):
            return f"a job failed with {status[1]}"
        if event == "progress" and about["done"] < about["total"]:
            return f"{about['done']} of {about['total']} steps done"
        if event == "job_info" and about["output"]:
            wildcards = " ".join(about["wildcards"].values())
            return f"{time.strftime('%H:%M:%S')} {about['rule_name']} {wildcards}".rstrip()
        if event == "job_error":
            logs = [path for path in map(Path, about["log"]) if path.is_file()]
            named = ", ".join(map(str, logs)) or "(none)"
            lines = [f"failed: {about['rule_name']}, with the log {named}, which ends:"]
            for path in logs:
                lines += path.read_text(errors="replace").splitlines()[-LINES:]
            return "\n  | ".join(lines)
        return ""
