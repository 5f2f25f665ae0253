"""Make .venv from the lock, or leave it as it is where nothing has changed.

The Makefile calls it from the root of the repository; nothing but the standard library is needed. What pip says goes to
`.cache/environment.log`.
"""

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

VENV, OLD = Path(".venv"), Path(".venv.old")
RECORD = VENV / ".installed"
LOG, WAITING_LINE = Path(".cache/environment.log"), Path(".cache/environment.lock")
LOCK, TORCH = Path("requirements/lock.txt"), Path("requirements/torch.txt")
# The default build for Linux with its CUDA packages, measured on x86-64. A test holds the version against the pin.
DEFAULT_BUILD = ("2.13.0", "2.7 GB to download, 4.8 GB on disk")
UNREACHED = re.compile("NewConnection|NameResolution|ProxyError|[Cc]onnection (?:broken|refused)|timed out|unreachable")
BACK = "\r\033[K"  # to the beginning of a terminal's line, which is emptied
ASK = (
    "import json, sys, importlib.util as util; print(json.dumps({'version': '%d.%d' % sys.version_info[:2],"
    " 'prefix': sys.base_prefix, 'executable': sys._base_executable, 'torch': bool(util.find_spec('torch'))}))"
)
# What figures, tests and the report import.
IMPORTS = (
    "import hypothesis, icl.__main__, matplotlib.pyplot, optuna, pyarrow.parquet, pytest, scipy.stats,"
    " seaborn, sklearn.linear_model, snakemake.cli, torch, xdist; print(torch.__version__)"
)


class Failure(Exception):
    """The set-up cannot go on; the message says why in one line."""


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


# -- what is there ----------------------------------------------------------------------------------------------------


def ask(python: str | Path, question: str) -> str:
    """What a Python prints when asked; empty if it does not run or has no answer."""
    try:
        # Elsewhere than here, where a folder could be taken for a module.
        asked = subprocess.run([python, "-c", question], capture_output=True, text=True, check=False, cwd="/")
    except OSError:
        return ""
    return asked.stdout.strip() if asked.returncode == 0 else ""


def interpreter(python: str | Path) -> dict[str, Any]:
    """Version, folder and file of the Python behind a command or a virtual environment; empty if it does not run."""
    answer = ask(python, ASK)
    return json.loads(answer) if answer else {}


def record() -> dict[str, Any]:
    """What the last finished set-up wrote about .venv; empty if there is none."""
    try:
        return dict(json.loads(RECORD.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def contents() -> list[str]:
    """What stands in .venv, two levels deep: its commands, its packages and their versions."""
    found = [*VENV.glob("bin/*"), *VENV.glob("lib/python*/site-packages/*")]
    return sorted(path.relative_to(VENV).as_posix() for path in found if path.name != "__pycache__")


def lock_digest() -> str:
    """A digest of what is locked; comments, which say for whom, are left out."""
    lines = f"{LOCK.read_text(encoding='utf-8')}\n{TORCH.read_text(encoding='utf-8')}".splitlines()
    said = [line for line in lines if not line.lstrip().startswith("#")]
    return hashlib.sha256("\n".join(said).encode()).hexdigest()


def complaint(wanted: dict[str, Any], request: str) -> str:
    """Why .venv cannot stay as it is; empty if it can."""
    if not VENV.exists():
        return "there is none"
    made = record()
    if not made:
        return "it was never finished"
    if made["folder"] != str(Path.cwd()):
        return f"it was made in {made['folder']}"
    there = interpreter(VENV.absolute() / "bin/python")
    if not there:
        return "its Python does not run"
    for one in (wanted, there):
        if one and (one["version"], one["prefix"]) != (made["python"]["version"], made["python"]["prefix"]):
            return f"it was made for Python {made['python']['version']} of {made['python']['prefix']}"
    if not there["torch"]:
        return "it is broken, torch is gone"
    if made["lock"] != lock_digest():
        return "it was made from another lock"
    if request == "cuda" and made["torch"].endswith("+cpu"):
        return "it has the CPU build of torch"
    if gone := sorted(set(made["contents"]) - set(contents())):
        return f"it is broken, {gone[0]} is gone"
    return ""


# -- which torch ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Choice:
    """A torch to try: what is said about it, and what pip is asked for."""

    says: str
    asks: list[str]


def pinned_torch() -> str:
    return re.findall(r"^torch==(\S+)", TORCH.read_text(encoding="utf-8"), flags=re.MULTILINE)[0]


def in_range(version: str) -> bool:
    """Whether a torch is new enough for pyproject.toml, which gives no upper end."""
    asked = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    lowest = next(one.removeprefix("torch>=") for one in asked if one.startswith("torch>="))
    numbers = [[int(part) for part in re.findall(r"\d+", one.split("+")[0])[:2]] for one in (version, lowest)]
    return bool(version) and numbers[0] >= numbers[1]


def choices(system: str, request: str, index: str) -> list[Choice]:
    """The builds of torch to try, in this order."""
    version = pinned_torch()
    default = f"torch=={version}"
    suffixed = default if system == "Darwin" else f"{default}+cpu"
    if index:
        build = default if request == "cuda" else suffixed
        return [Choice(f"{build} from {index}", [build, "--index-url", index])]
    if system != "Linux":
        return [Choice(f"{default}, the default build", [default])]
    cuda = f"{default}, the default build: {DEFAULT_BUILD[1]}"
    if request == "cuda":
        return [Choice(cuda, [default])]
    avoid = "to avoid that, stop and give TORCH_INDEX=ADDRESS, an index that has the CPU build"
    return [
        Choice(f"{suffixed}, the CPU build, if a source of pip has it", [suffixed]),
        Choice(f"no source has the CPU build for this Python, so {cuda} ({avoid})", [default]),
    ]


# -- pip --------------------------------------------------------------------------------------------------------------

UNITS = {"kB": 1e-3, "MB": 1.0, "GB": 1e3}


@dataclass
class Progress:
    """One line about what pip does, written over where there is a terminal and once at the end elsewhere."""

    what: str
    packages: int = 0
    megabytes: float = 0
    began: float = field(default_factory=time.monotonic)
    shown: float = 0

    def see(self, line: str) -> None:
        """Take in a line of pip's."""
        now = line.strip()
        if taken := re.match(r"\s*(?:Downloading|Using cached) (\S+)(?: \(([\d.]+) (kB|MB|GB)\))?", line):
            size = float(taken[2]) * UNITS[taken[3]] if taken[2] else 0
            self.packages, self.megabytes = self.packages + 1, self.megabytes + size
            now = f"{taken[1].split('/')[-1].split('-')[0]}, {size:.0f} MB"
        elif line.startswith("Processing "):
            self.packages += 1
            now = line.split("/")[-1].split("-")[0]
        elif part := re.match(r"Progress (\d+) of (\d+)", line):
            now = f"{int(part[1]) / 1e6:.0f} of {int(part[2]) / 1e6:.0f} MB"
        elif line.startswith("Installing collected packages"):
            now = "unpacking"
        elif not line.startswith("Collecting"):
            return
        if sys.stderr.isatty() and time.monotonic() - self.shown > 0.1:
            self.shown = time.monotonic()
            width = shutil.get_terminal_size().columns - 1
            print(BACK + f"{self.summary()}: {now}"[:width], end="", file=sys.stderr, flush=True)

    def summary(self) -> str:
        plural = "s" * (self.packages != 1)
        counted = f"{self.packages} package{plural}, {self.megabytes:.0f} MB downloaded, " if self.packages else ""
        return f"  {self.what}: {counted}{time.monotonic() - self.began:.0f} s"

    def end(self) -> None:
        say(BACK * sys.stderr.isatty() + self.summary())


def pip(what: str, *arguments: str) -> tuple[bool, str]:
    """Let pip install into .venv; return whether it did, and what it said."""
    newest = VENV.glob("lib/python*/site-packages/pip-*.dist-info")
    numbers = [int(part) for one in newest for part in re.findall(r"\d+", one.name)[:2]]
    bar = "raw" if numbers >= [24, 1] else "off"  # raw: a line for every piece of a file
    # No bytecode of modules that nobody imports, most of 400 MB; first_import() makes the rest.
    words = ["install", "--disable-pip-version-check", "--no-input", "--no-compile", "--progress-bar", bar, *arguments]
    command = [str(VENV / "bin/python"), "-m", "pip", *words]
    surroundings = os.environ | {"PYTHONUNBUFFERED": "1", "PIP_USER": "0"}
    progress, said = Progress(what), []
    with LOG.open("a", encoding="utf-8") as log:
        print(f"\n# pip {' '.join(words)}", file=log, flush=True)
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", env=surroundings,
        ) as running:  # fmt: skip
            try:
                for line in running.stdout or ():
                    progress.see(line)
                    if not line.startswith("Progress "):
                        log.write(line)
                        said.append(line)
            except BaseException:
                running.kill()
                raise
    if running.returncode == 0:
        progress.end()
    elif sys.stderr.isatty():
        print(BACK, end="", file=sys.stderr, flush=True)
    return running.returncode == 0, "".join(said)


def unreached(said: str) -> bool:
    """Whether pip failed because it could reach no source, not for what it found there."""
    return bool(UNREACHED.search(said)) and ("from versions: none" in said or "No matching distribution" not in said)


def failure(what: str, said: str) -> Failure:
    """One line where no network or no build is the reason, the end of the log elsewhere."""
    if unreached(said):
        return Failure(f"{what}: pip reaches none of its sources; is there a network? ({LOG})")
    if "No matching distribution found for torch" in said:
        return Failure(f"{what}: no source of pip has it for this Python and machine; try another PYTHON=... ({LOG})")
    tail = "".join(f"\n  | {line}" for line in said.rstrip().splitlines()[-15:])
    return Failure(f"{what}: pip failed; the end of {LOG}:{tail}")


# -- the set-up -------------------------------------------------------------------------------------------------------


def install_torch(request: str, index: str) -> None:
    """Install the first build of torch that is to be had, without what it needs."""
    for choice in (tried := choices(platform.system(), request, index)):
        say(f"torch: {choice.says}")
        # Where there is no network, one more attempt is as good as five.
        done, said = pip("torch", "--no-deps", "--retries", "1", *choice.asks)
        if done:
            return
        if choice is tried[-1] or unreached(said) or "No matching distribution" not in said:
            raise failure(choice.asks[0], said)


def first_import() -> str:
    """Import what is used, which shows that it works and leaves its bytecode; return the version of torch."""
    progress = Progress("first import")
    surroundings = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [str(VENV / "bin/python"), "-c", IMPORTS]
    imported = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=False)
    if imported.returncode != 0:
        last = imported.stderr.strip().splitlines()[-1:]
        raise Failure(f"the packages were installed and cannot be imported: {''.join(last)}")
    progress.end()
    return imported.stdout.strip()


def build(python: dict[str, Any], request: str, index: str) -> None:
    """Fill a new .venv."""
    found = "" if request or index else ask(python["executable"], "import torch; print(torch.__version__)")
    shared = ["--system-site-packages"] if found and in_range(found) else []
    made = subprocess.run(
        [python["executable"], "-m", "venv", *shared, VENV], capture_output=True, text=True, check=False
    )
    if made.returncode != 0:
        raise Failure(
            f"{python['executable']} cannot make a virtual environment: {(made.stdout + made.stderr).strip()}"
        )
    if shared:
        say(f"torch: {found}, which this Python already has")
    else:
        install_torch(request, index)
    steps = [("packages of the lock", ["--require-hashes", "--requirement", str(LOCK)])]
    if not shared:
        # The CUDA packages, where it is that build; nothing otherwise.
        more = ["--extra-index-url", index] if index else []
        steps.append(("what torch needs besides", [f"torch=={pinned_torch()}", *more]))
    steps.append(("icl itself", ["--no-deps", "--no-build-isolation", "--editable", "."]))
    for what, arguments in steps:
        done, said = pip(what, *arguments)
        if not done:
            raise failure(what, said)
    about: dict[str, Any] = {
        "folder": str(Path.cwd()),
        "python": python,
        "lock": lock_digest(),
        "torch": first_import(),
    }
    about["contents"] = contents()
    RECORD.write_text(json.dumps(about, indent=1), encoding="utf-8")


def remove(folder: Path) -> None:
    if folder.is_symlink():
        folder.unlink()
    shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def replaced() -> Iterator[None]:
    """Put the old .venv aside; it comes back if the new one is not finished, unless it was not finished either."""
    keep = bool(record())
    remove(OLD)
    if VENV.exists() or VENV.is_symlink():
        VENV.rename(OLD)
    try:
        yield
    except BaseException:
        remove(VENV)
        if keep:
            OLD.rename(VENV)
        raise
    finally:
        remove(OLD)


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Wait until no other set-up runs in this folder."""
    WAITING_LINE.parent.mkdir(exist_ok=True)
    with WAITING_LINE.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another make sets up .venv here; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:
            pass  # a file system without locks
        yield


def set_up(asked: str, request: str, index: str) -> None:
    """Leave a .venv that fits the lock and the Python.

    Raises Failure, and then leaves no half-made .venv.
    """
    wanted = interpreter(os.path.abspath(shutil.which(asked) or asked)) if asked else {}
    if asked and not wanted:
        raise Failure(f"PYTHON={asked} does not run")
    why = complaint(wanted, request)
    if not why:
        return
    # The Python that was once asked for stays, as long as it runs.
    before = record().get("python", {}).get("executable", "")
    python = wanted or (interpreter(before) if before else {}) or interpreter(sys.executable)
    say(f"setting up .venv for Python {python['version']}, because {why} (some minutes; {LOG} has the details)")
    LOG.write_text("", encoding="utf-8")
    with replaced():
        build(python, request, index)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default="", help="the Python to use; without: what .venv has, or else this one")
    parser.add_argument("--torch", default="", choices=("", "cpu", "cuda"))
    parser.add_argument("--torch-index", default="", help="address of an index that has the build")
    args = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    try:
        with alone():
            set_up(args.python, args.torch, args.torch_index)
    except Failure as problem:
        sys.exit(f"make env: {problem}")
    except KeyboardInterrupt:
        sys.exit("make env: stopped; nothing half-made is left")


if __name__ == "__main__":
    main()
