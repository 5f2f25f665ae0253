"""Make .venv from the lock, unless it is up to date.

The Makefile calls it from the root of the repository; it needs only the standard library. The output of pip and uv goes
to `.cache/environment.log`.
"""

import argparse
import fcntl
import hashlib
import json
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

VENV = Path(".venv")
RECORD = VENV / ".installed"
LOG, WAITING_LINE = Path(".cache/environment.log"), Path(".cache/environment.lock")
LOCK, TORCH = Path("requirements/lock.txt"), Path("requirements/torch.txt")
# The default build for Linux with its CUDA packages, measured on x86-64. A test compares the version with the pin.
DEFAULT_BUILD = ("2.13.0", "2.7 GB to download, 4.8 GB on disk")
# The imports of figures, tests and the report.
IMPORTS = (
    "import hypothesis, icl.__main__, matplotlib.pyplot, optuna, pyarrow.parquet, pytest, scipy.stats,"
    " seaborn, sklearn.linear_model, snakemake.cli, torch, xdist"
)


class Failure(Exception):
    """The set-up failed; the message gives the reason."""


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def answer(python: str, code: str) -> str:
    """What a Python prints for a line of code; empty if it fails."""
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False, cwd="/")
    return done.stdout.strip() if done.returncode == 0 else ""


def outside(python: str) -> str:
    """The Python that a virtual environment was made from: an active .venv is removed before the new one is made."""
    found = answer(shutil.which(python) or python, "import sys; print(sys._base_executable)")
    if not found:
        raise Failure(f"PYTHON={python} does not run")
    return found


def wanted(python: str, torch: str) -> dict[str, str]:
    """What .venv is made from; it is made again when one of these changes."""
    digest = hashlib.sha256(LOCK.read_bytes() + TORCH.read_bytes()).hexdigest()
    about = answer(python, "import sys; print(sys.base_prefix, '%d.%d' % sys.version_info[:2])")
    return {"folder": str(Path.cwd()), "python": about, "lock": digest, "torch": torch}


def record() -> dict[str, Any]:
    """The record of the last complete set-up of .venv; empty if there is none or its Python is gone."""
    try:
        return dict(json.loads(RECORD.read_text(encoding="utf-8"))) if (VENV / "bin/python").exists() else {}
    except (OSError, ValueError):
        return {}


def is_current(now: dict[str, str], chosen: bool) -> bool:
    """Whether .venv is up to date. Another Python or build of torch counts only if the user has chosen it."""
    old = record()
    parts = ["folder", "lock", *(["python"] if chosen else []), *(["torch"] if now["torch"] else [])]
    return bool(old) and all(old.get(part) == now[part] for part in parts)


def builds(system: str, torch: str, index: str) -> list[tuple[str, list[str]]]:
    """The builds of torch to try in order, in words and as arguments of pip."""
    (version,) = re.findall(r"^torch==(\S+)", TORCH.read_text(encoding="utf-8"), flags=re.MULTILINE)
    default = f"torch=={version}"
    cpu = default if system == "Darwin" else f"{default}+cpu"
    if index:
        build = default if torch == "cuda" else cpu
        return [(f"{build} from {index}", [build, "--index-url", index])]
    if system != "Linux":
        return [(f"{default}, the default build", [default])]
    cuda = (f"{default}, the default build: {DEFAULT_BUILD[1]}", [default])
    if torch == "cuda":
        return [cuda]
    avoid = "; to avoid that, stop and give TORCH_INDEX=ADDRESS, an index that has the CPU build"
    return [(f"{cpu}, the CPU build, if a source of pip has it", [cpu]), (cuda[0] + avoid, cuda[1])]


def run(what: str, *command: str, may_fail: bool = False) -> bool:
    """Run a command with its output in the log; raises Failure with the log's end, unless it may fail."""
    began = time.monotonic()
    with LOG.open("a", encoding="utf-8") as log:
        print("\n#", *command, file=log, flush=True)
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, check=False)
    if done.returncode == 0:
        say(f"  {what}: {time.monotonic() - began:.0f} s")
    elif not may_fail:
        tail = "\n  | ".join(LOG.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])
        raise Failure(f"{what}: failed; the end of {LOG}:\n  | {tail}")
    return done.returncode == 0


def shared_torch(python: str) -> bool:
    """Whether a Python has a torch that is new enough for pyproject.toml."""
    has = answer(python, "import torch; print(torch.__version__)")
    dependencies = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    least = next(one.removeprefix("torch>=") for one in dependencies if one.startswith("torch>="))
    numbers = [[int(part) for part in re.findall(r"\d+", one)[:2]] for one in (has, least)]
    return bool(has) and numbers[0] >= numbers[1]


def build(python: str, torch: str, index: str) -> None:
    """Fill a new .venv: torch by pip, the packages of the lock by uv, and by pip where uv reaches no index."""
    shared = not torch and not index and shared_torch(python)
    run("virtual environment", python, "-m", "venv", *(["--system-site-packages"] if shared else []), str(VENV))
    pip = [
        str(VENV / "bin/python"),
        "-m",
        "pip",
        "install",
        "--no-input",
        "--disable-pip-version-check",
        "--no-compile",
    ]
    if not shared:
        found = builds(platform.system(), torch, index)
        for number, (words, arguments) in enumerate(found, 1):
            say(f"torch: {words}")
            if run("torch", *pip, "--no-deps", "--retries", "1", *arguments, may_fail=number < len(found)):
                break
    uv = re.findall(r"^uv==.*?(?=^\S)", LOCK.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.writelines(uv)
        file.flush()
        has_uv = run("uv", *pip, "--require-hashes", "--requirement", file.name, may_fail=True)
    lock = ["--require-hashes", "--requirement", str(LOCK)]
    by_uv = [str(VENV / "bin/uv"), "pip", "install", "--python", str(VENV / "bin/python"), *lock]
    if not (has_uv and run("packages of the lock", *by_uv, may_fail=True)):
        run("packages of the lock", *pip, *lock)
    if not shared:
        # The CUDA packages of the default build; nothing for the CPU build.
        (pin,) = re.findall(r"^torch==\S+", TORCH.read_text(encoding="utf-8"), flags=re.MULTILINE)
        run("dependencies of torch", *pip, pin, *(["--extra-index-url", index] if index else []))
    run("icl itself", *pip, "--no-deps", "--no-build-isolation", "--editable", ".")
    run("first import", str(VENV / "bin/python"), "-c", IMPORTS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default="", help="the Python to use; default: that of .venv, else this one")
    parser.add_argument("--torch", default="", choices=("", "cpu", "cuda"))
    parser.add_argument("--torch-index", default="", help="address of an index that has the build")
    args = parser.parse_args()
    WAITING_LINE.parent.mkdir(exist_ok=True)
    with WAITING_LINE.open("w") as file:
        # Another set-up in this folder ends first.
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            python = outside(args.python or record().get("command", "") or sys.executable)
            now = wanted(python, args.torch)
            if is_current(now, bool(args.python)):
                return
            say(f"setting up .venv for Python {now['python'].split()[-1]} (a minute or more; {LOG} has the details)")
            LOG.write_text("", encoding="utf-8")
            shutil.rmtree(VENV, ignore_errors=True)
            build(python, args.torch, args.torch_index)
            RECORD.write_text(json.dumps(now | {"command": python}), encoding="utf-8")
        except Failure as problem:
            sys.exit(f"make env: {problem}")
        except KeyboardInterrupt:
            sys.exit("make env: stopped; the next make begins again")


if __name__ == "__main__":
    main()
