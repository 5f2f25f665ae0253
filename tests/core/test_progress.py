"""Progress bars on terminals only, and the progress that saved states show."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from icl.core.state import PROGRESS, State, save_state, unfinished

SHOWS = "from icl.core.state import State, progress; progress('seen', 10)(State(3, {}, {}, {}, None))"


def seen(arguments: str, lent: str | None) -> tuple[str, str]:
    """Show progress in a shell with its own terminal; returns the output on the terminal and on the pipes."""
    ours, theirs = pty.openpty()
    environment = os.environ | ({PROGRESS: lent} if lent is not None else {})
    try:
        done = subprocess.run(
            ["bash", "-c", f"{sys.executable} -c \"$0\" {arguments.format(theirs)}", SHOWS],
            env=environment, pass_fds=[theirs], capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
        os.set_blocking(ours, False)
        try:
            shown = os.read(ours, 1000).decode()
        except BlockingIOError:
            shown = ""
    finally:
        os.close(ours)
        os.close(theirs)
    return shown, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "lent", "expected"),
    [
        ("2>&{0}", None, True),  # called by hand
        ("9>&{0}", "9", True),  # a job of the workflow, whose own streams go to a log
        ("9>&{0}", None, False),  # a descriptor that is not open
        ("9>&1", "9", False),  # a workflow without a terminal
        ("", "9", False),  # opened and closed again
        ("", "none", False),
    ],
)
def test_only_terminals_are_written_to(arguments: str, lent: str | None, expected: bool) -> None:
    shown, piped = seen(arguments, lent)
    assert ("seen" in shown) is expected
    assert piped == ""


def test_saved_states_show_the_progress_of_their_trainings(tmp_path: Path) -> None:
    assert unfinished(tmp_path) == []
    for shard, step in (("0of4", 400), ("1of4", 300)):
        state = State(step, {}, {}, {}, np.zeros((2, 1000)))
        save_state(tmp_path / f"runs/garg/{shard}.state.safetensors", state, "identity")
    (tmp_path / "runs/garg/3of4.state.safetensors").write_bytes(b"none")
    assert unfinished(tmp_path) == [
        {"sweep": "garg", "shard": "0of4", "step": 400, "steps": 1000},
        {"sweep": "garg", "shard": "1of4", "step": 300, "steps": 1000},
    ]
