"""Shell completion: the words that bash and zsh offer for make and python -m icl."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from icl.core import discovery
from icl.report import command_line, completion

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completion") / "icl.sh"
    path.write_text(completion.script(command_line.COMMANDS), encoding="utf-8")
    return path


def offered(script: Path, line: str, folder: Path = ROOT) -> list[str]:
    """What bash offers for the last word of a line."""
    words = line.split(" ")
    function = "_icl_make" if words[0] == "make" else "_icl_python"
    quoted = " ".join(f"'{word}'" for word in words)
    code = f'. {script}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; {function}; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-euc", code], capture_output=True, text=True, cwd=folder, check=True)
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("make figure1", [name for name in discovery.figures() if name.startswith("figure1")]),
        ("make test-b", ["test-browser"]),
        ("make report", ["report", "report_now"]),
        ("python -m icl sh", ["show"]),
        ("python -m icl show li20", ["li2024", "li2025"]),
        ("python -m icl show A-F24", ["A-F24"]),
        ("python -m icl new ", ["figure", "paper"]),
        ("python -m icl show figure12 --scale s", ["smoke"]),
        ("python -m pytest te", []),
    ],
)
def test_bash_offers_targets_commands_and_names(script: Path, line: str, words: list[str]) -> None:
    assert offered(script, line) == words


def test_make_elsewhere_is_left_to_the_shell(script: Path, tmp_path: Path) -> None:
    assert offered(script, "make figure1", tmp_path) == []


def test_zsh_reads_the_script(script: Path) -> None:
    if shutil.which("zsh") is None:
        pytest.skip("no zsh on this machine")
    subprocess.run(["zsh", "-fc", f". {script} && whence _icl_make _icl_python"], check=True)


def test_every_target_of_the_workflow_is_listed() -> None:
    rules = "\n".join(path.read_text() for path in (ROOT / "workflow/rules").glob("*.smk"))
    named = set(re.findall(r"^(?:use )?rule (?:\w+ as )?(\w+)\b", rules, re.MULTILINE))
    assert named - {"train", "measure", "check", "other_folder", "unknown"} == set(completion.WORKFLOW)
