"""Errors that a user can fix, reported in one line."""


class Problem(Exception):
    """Wrong input, or a damaged, missing or misplaced file; the message names it and the remedy."""


def in_one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
