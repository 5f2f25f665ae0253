"""What a user can mend, said in one line."""

import sys
import traceback
from types import TracebackType


class Problem(Exception):
    """Wrong input, or a file that is damaged, missing or in the wrong place; the message names it and what to do."""


def in_one_line(error: BaseException) -> str:
    """What an error of a library says, without its line breaks."""
    return " ".join(str(error).split())


def tell_in_one_line() -> None:
    """From now on a Problem ends this process with its message alone, without a traceback."""
    sys.excepthook = _tell


def _tell(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if isinstance(error, Problem):
        print(error, file=sys.stderr)
    else:
        traceback.print_exception(kind, error, trace)
