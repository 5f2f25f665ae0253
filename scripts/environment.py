"""Make .venv from the lock, unless it is up to date.

The Makefile calls it from the root of the repository; it needs only the standard library. The output of pip goes to
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
# The default build for Linux with its CUDA packages, measured on x86-64. A test compares the version with the pin.
DEFAULT_BUILD = ("2.13.0", "2.7 GB to download, 4.8 GB on disk")
UNREACHED = re.compile("NewConnection|NameResolution|ProxyError|[Cc]onnection (?:broken|refused)|timed out|unreachable")
BACK = "\r\033[K"  # clears a terminal's line
ASK = (
    "import json, sys, importlib.util as util; print(json.dumps({'version': '%d.%d' % sys.version_info[:2],"
    " 'prefix': sys.base_prefix, 'executable': sys._base_executable, 'torch': bool(util.find_spec('torch'))}))"
)
# The imports of figures, tests and the report.
IMPORTS = (
    "import hypothesis, icl.__main__, matplotlib.pyplot, optuna, pyarrow.parquet, pytest, scipy.stats,"
    " seaborn, sklearn.linear_model, snakemake.cli, torch, xdist; print(torch.__version__)"
)


class Failure(Exception):
    """The set-up failed; the message gives the reason in one line."""


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


# -- the present .venv ------------------------------------------------------------------------------------------------


def ask(python: str | Path, question: str) -> str:
    """The output of a Python for a line of code; empty if it fails."""
    try:
        # Not in this folder, whose subfolders could be imported as modules.
        done = subprocess.run([python, "-c", question], capture_output=True, text=True, check=False, cwd="/")
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def interpreter(python: str | Path) -> dict[str, Any]:
    """Version, folder and file of the Python behind a command or a virtual environment; empty if it does not run."""
    answer = ask(python, ASK)
    return json.loads(answer) if answer else {}


def record() -> dict[str, Any]:
    """The record of the last complete set-up of .venv; empty if there is none."""
    try:
        return dict(json.loads(RECORD.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def contents() -> list[str]:
    """The commands in .venv, and its packages with their versions."""
    paths = [*VENV.glob("bin/*"), *VENV.glob("lib/python*/site-packages/*")]
    return sorted(path.relative_to(VENV).as_posix() for path in paths if path.name != "__pycache__")


def lock_digest() -> str:
    """A digest of the lock without its comments."""
    lines = f"{LOCK.read_text(encoding='utf-8')}\n{TORCH.read_text(encoding='utf-8')}".splitlines()
    requirements = [line for line in lines if not line.lstrip().startswith("#")]
    return hashlib.sha256("\n".join(requirements).encode()).hexdigest()


def complaint(wanted: dict[str, Any], request: str) -> str:
    """The reason to make .venv again; empty if it is up to date."""
    if not VENV.exists():
        return "there is none"
    old = record()
    if not old:
        return "it was never finished"
    if old["folder"] != str(Path.cwd()):
        return f"it was made in {old['folder']}"
    present = interpreter(VENV.absolute() / "bin/python")
    if not present:
        return "its Python does not run"
    for one in (wanted, present):
        if one and (one["version"], one["prefix"]) != (old["python"]["version"], old["python"]["prefix"]):
            return f"it was made for Python {old['python']['version']} of {old['python']['prefix']}"
    if not present["torch"]:
        return "it is broken, torch is gone"
    if old["lock"] != lock_digest():
        return "it was made from another lock"
    if request == "cuda" and old["torch"].endswith("+cpu"):
        return "it has the CPU build of torch"
    if gone := sorted(set(old["contents"]) - set(contents())):
        return f"it is broken, {gone[0]} is gone"
    return ""


# -- which torch ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Choice:
    """A build of torch to try: its description and pip's arguments."""

    says: str
    asks: list[str]


def pinned_torch() -> str:
    return re.findall(r"^torch==(\S+)", TORCH.read_text(encoding="utf-8"), flags=re.MULTILINE)[0]


def in_range(version: str) -> bool:
    """Whether a version of torch is new enough for pyproject.toml, which has no upper limit."""
    dependencies = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    lowest = next(one.removeprefix("torch>=") for one in dependencies if one.startswith("torch>="))
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
    """A line with pip's progress: updated in place on a terminal, otherwise printed once at the end."""

    what: str
    packages: int = 0
    megabytes: float = 0
    began: float = field(default_factory=time.monotonic)
    shown: float = 0

    def see(self, line: str) -> None:
        """Update the progress from a line of pip's output."""
        now = line.strip()
        if package := re.match(r"\s*(?:Downloading|Using cached) (\S+)(?: \(([\d.]+) (kB|MB|GB)\))?", line):
            size = float(package[2]) * UNITS[package[3]] if package[2] else 0
            self.packages, self.megabytes = self.packages + 1, self.megabytes + size
            now = f"{package[1].split('/')[-1].split('-')[0]}, {size:.0f} MB"
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
    """Install into .venv by pip; returns whether it succeeded, and its output."""
    newest = VENV.glob("lib/python*/site-packages/pip-*.dist-info")
    numbers = [int(part) for one in newest for part in re.findall(r"\d+", one.name)[:2]]
    bar = "raw" if numbers >= [24, 1] else "off"  # raw: a line for every piece of a file
    # No bytecode yet: most of its 400 MB is of modules that are never imported; first_import() compiles the others.
    words = ["install", "--disable-pip-version-check", "--no-input", "--no-compile", "--progress-bar", bar, *arguments]
    command = [str(VENV / "bin/python"), "-m", "pip", *words]
    surroundings = os.environ | {"PYTHONUNBUFFERED": "1", "PIP_USER": "0"}
    progress, lines = Progress(what), []
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
                        lines.append(line)
            except BaseException:
                running.kill()
                raise
    if running.returncode == 0:
        progress.end()
    elif sys.stderr.isatty():
        print(BACK, end="", file=sys.stderr, flush=True)
    return running.returncode == 0, "".join(lines)


def unreached(text: str) -> bool:
    """Whether pip failed because it could reach no package index."""
    return bool(UNREACHED.search(text)) and ("from versions: none" in text or "No matching distribution" not in text)


def failure(what: str, text: str) -> Failure:
    """The error for pip's output: one line if there is no network or no build, else the end of the log."""
    if unreached(text):
        return Failure(f"{what}: pip reaches none of its sources; is there a network? ({LOG})")
    if "No matching distribution found for torch" in text:
        return Failure(f"{what}: no source of pip has it for this Python and machine; try another PYTHON=... ({LOG})")
    tail = "".join(f"\n  | {line}" for line in text.rstrip().splitlines()[-15:])
    return Failure(f"{what}: pip failed; the end of {LOG}:{tail}")


# -- the set-up -------------------------------------------------------------------------------------------------------


def install_torch(request: str, index: str) -> None:
    """Install the first available build of torch, without its dependencies."""
    for choice in (tried := choices(platform.system(), request, index)):
        say(f"torch: {choice.says}")
        # Without a network, one retry is as good as five.
        done, text = pip("torch", "--no-deps", "--retries", "1", *choice.asks)
        if done:
            return
        if choice is tried[-1] or unreached(text) or "No matching distribution" not in text:
            raise failure(choice.asks[0], text)


def first_import() -> str:
    """Import the packages, which tests them and compiles their bytecode; returns the version of torch."""
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
    installed = "" if request or index else ask(python["executable"], "import torch; print(torch.__version__)")
    shared = ["--system-site-packages"] if installed and in_range(installed) else []
    result = subprocess.run(
        [python["executable"], "-m", "venv", *shared, VENV], capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        raise Failure(
            f"{python['executable']} cannot make a virtual environment: {(result.stdout + result.stderr).strip()}"
        )
    if shared:
        say(f"torch: {installed}, which this Python already has")
    else:
        install_torch(request, index)
    steps = [("packages of the lock", ["--require-hashes", "--requirement", str(LOCK)])]
    if not shared:
        # The CUDA packages of the default build; nothing for the CPU build.
        more = ["--extra-index-url", index] if index else []
        steps.append(("dependencies of torch", [f"torch=={pinned_torch()}", *more]))
    steps.append(("icl itself", ["--no-deps", "--no-build-isolation", "--editable", "."]))
    for what, arguments in steps:
        done, text = pip(what, *arguments)
        if not done:
            raise failure(what, text)
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
    """Move the old .venv aside, and restore it if it was complete and the new one fails."""
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
            say("another make is setting up .venv here; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:
            pass  # a file system without locks
        yield


def set_up(command: str, request: str, index: str) -> None:
    """Make .venv for the lock and the Python behind `command`, unless it is up to date.

    Raises Failure, and then leaves no incomplete .venv.
    """
    wanted = interpreter(os.path.abspath(shutil.which(command) or command)) if command else {}
    if command and not wanted:
        raise Failure(f"PYTHON={command} does not run")
    why = complaint(wanted, request)
    if not why:
        return
    # A Python chosen earlier stays, as long as it runs.
    before = record().get("python", {}).get("executable", "")
    python = wanted or (interpreter(before) if before else {}) or interpreter(sys.executable)
    say(f"setting up .venv for Python {python['version']}, because {why} (some minutes; {LOG} has the details)")
    LOG.write_text("", encoding="utf-8")
    with replaced():
        build(python, request, index)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default="", help="the Python to use; default: that of .venv, else this one")
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
        sys.exit("make env: stopped; no incomplete .venv is left")


if __name__ == "__main__":
    main()
