"""Errors that a user can fix, reported in one line."""

import sys
import traceback
from types import TracebackType


class Problem(Exception):
    """Wrong input, or a damaged, missing or misplaced file; the message names it and the remedy."""


def in_one_line(error: BaseException) -> str:
    """The message of an error without its line breaks."""
    return " ".join(str(error).split())


def hide_tracebacks() -> None:
    """Let a Problem end this process with its message alone, without a traceback."""
    sys.excepthook = _print_error


def _print_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if isinstance(error, Problem):
        print(error, file=sys.stderr)
    else:
        traceback.print_exception(kind, error, trace)
