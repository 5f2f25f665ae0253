"""Make .venv from the lock, unless it is up to date: `environment.py PYTHON TORCH TORCH_INDEX`.

The Makefile runs it with the Python to use; an empty argument keeps the choice of the last set-up.
It needs only the standard library. pip and uv write to `.cache/environment.log`.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

RECORD = Path(".venv/.made-from")
LOG = Path(".cache/environment.log")
LOCK, TORCH, CPU = (Path(f"requirements/{name}.txt") for name in ("lock", "torch", "torch-cpu"))
PYTHON = ".venv/bin/python"
QUIET = ("--no-input", "--disable-pip-version-check", "--no-compile")
PIP = (PYTHON, "-m", "pip", "install", *QUIET)
UV = (".venv/bin/uv", "pip", "install", "--python", PYTHON)
HAS_TORCH = (
    "import sys, torch; sys.exit(tuple(map(int, torch.__version__.split('.')[:2])) < (2, 7))"
)
# Variables of Python, pip and uv that say where packages come from; others, such as PIP_USER,
# change what is installed.
SOURCES = re.compile(
    r"(PIP|UV)_.*(INDEX|LINKS|CERT|PROXY|HOST|CACHE|CONFIG_FILE|TIMEOUT|RETRIES|KEYRING|TLS|OFFLINE).*"
)


def wanted(python: str, torch: str, index: str) -> dict[str, str]:
    """Return what .venv should be made from; equal to `recorded()` if it is up to date."""
    lock = hashlib.sha256(b"".join(path.read_bytes() for path in (LOCK, TORCH, CPU))).hexdigest()
    # Not the Python of an active .venv, which is removed before the new one is made.
    this = str(Path(getattr(sys, "_base_executable", sys.executable)).resolve())
    before = {"python": this, "torch": "", "index": ""} | recorded()
    chosen = {"python": python and this, "torch": torch, "index": index}
    given = {name: value for name, value in chosen.items() if value}
    return before | given | {"folder": str(Path.cwd()), "lock": lock}


def recorded() -> dict[str, str]:
    """Return what .venv was made from; empty if it is incomplete or its Python is gone."""
    try:
        return json.loads(RECORD.read_text()) if Path(PIP[0]).exists() else {}
    except (FileNotFoundError, ValueError):
        return {}


def builds(torch: str, index: str) -> dict[str, list[str]]:
    """Return the builds of torch to try in order, as words and arguments of pip.

    Everything is pinned by its digest, so no index can give another file.
    """
    default, cpu = (
        ["--require-hashes", "--no-deps", "--requirement", str(path)] for path in (TORCH, CPU)
    )
    if sys.platform != "linux":
        return {"torch": default}
    if torch == "cuda":
        return {"torch with CUDA (2.7 GB to download)": default}
    if index:
        return {"torch for CPUs": [*cpu, "--index-url", index]}
    return {"torch for CPUs": cpu, "torch with CUDA (2.7 GB to download)": default}


def run(what: str, *command: str, may_fail: bool = False) -> bool:
    """Run a command with its output in the log; its failure, unless allowed, ends the program."""
    print(f"  {what} ...", end=" ", file=sys.stderr, flush=True)
    began = time.monotonic()
    with LOG.open("a") as log:
        print("\n#", *command, file=log, flush=True)
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=known(os.environ),
            check=False,
        )
    if done.returncode and not may_fail:
        lines = LOG.read_text(errors="replace").splitlines()[-15:]
        sys.exit("\n  | ".join([f"failed; the end of {LOG}:", *lines]))
    took = f"{time.monotonic() - began:.0f} s"
    print("not possible" if done.returncode else took, file=sys.stderr)
    return not done.returncode


def build(python: str, torch: str, index: str) -> None:
    """Fill a new .venv: the lock by uv, or by pip where uv reaches no index; torch by pip."""
    probe = subprocess.run(
        [python, "-c", HAS_TORCH], capture_output=True, env=known(os.environ), check=False
    )
    has_torch = not (torch or index) and not probe.returncode
    shared = ["--system-site-packages"] if has_torch else []
    run("virtual environment", python, "-m", "venv", ".venv", *shared)
    pinned = re.findall(r"^uv==.*?(?=^\S)", LOCK.read_text(), re.MULTILINE | re.DOTALL)
    Path(".cache/uv.txt").write_text(pinned[0])
    run("uv", *PIP, "--require-hashes", "--requirement", ".cache/uv.txt")
    lock = ("--require-hashes", "--requirement", str(LOCK))
    run("packages of the lock", *UV, *lock, may_fail=True) or run(
        "packages of the lock, by pip", *PIP, *lock
    )
    tried = {} if has_torch else builds(torch, index)
    any(
        run(name, *PIP, "--retries", "1", *one, may_fail=name != [*tried][-1])
        for name, one in tried.items()
    )
    run("icl itself", *UV, "--no-deps", "--no-build-isolation", "--editable", ".")


def known(given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of pip and uv for a set-up that is started with `given`."""
    tools = ("PIP_", "UV_", "PYTHON", "VIRTUAL_ENV", "CONDA_")
    kept = {
        name: value
        for name, value in given.items()
        if not name.startswith(tools) or SOURCES.fullmatch(name)
    }
    # A setting in a file of pip counts less than these.
    ours = {"PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0"}
    return kept | ours | {"PYTHONNOUSERSITE": "1", "PYTHONUTF8": "1"}


def main() -> None:
    LOG.parent.mkdir(exist_ok=True)
    lock = LOG.with_suffix(".lock")
    try:
        # Without O_NOFOLLOW, a link in its place would lock the file that it names.
        number = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        sys.exit(f"{lock}: cannot be opened ({error.strerror})")
    with os.fdopen(number) as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # another set-up in this folder ends first
        if (now := wanted(*sys.argv[1:])) == recorded():
            return
        details = f"a minute or more; details: {LOG}"
        print(f"setting up .venv with {now['python']} ({details})", file=sys.stderr)
        RECORD.unlink(missing_ok=True)  # first, because the next step may be interrupted
        shutil.rmtree(".venv", ignore_errors=True)
        LOG.write_text("")
        build(now["python"], now["torch"], now["index"])
        RECORD.write_text(json.dumps(now))


if __name__ == "__main__":
    main()
