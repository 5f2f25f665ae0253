"""A new figure or paper from templates: a target that trains, measures, draws and judges."""

import json
import keyword
import re
import shutil
import subprocess
import sys
from itertools import chain, count
from pathlib import Path
from typing import Any

from icl import registry
from icl.core import folders
from icl.core.config import ConstantError
from icl.core.files import read_text, write_json, write_text
from icl.core.sweep import Sweep
from icl.evidence import ledger
from icl.pipeline import figures
from icl.pipeline.plan import Plan
from icl.report.formatting import rendered

STEPS = 20  # at the smoke scale, unless the model's smoke training has fewer
LAST = Path(".cache/new.json")
"""What the last `new` wrote: file, from the papers' folder -> its text before (null for a new
file) and after.
"""
EMPTY = (
    "title: '{0}: an example, to be replaced by the short title of the paper'\n"
    "cite: []\n\nfigures:\n\nclaims: []\n"
)


def figure(paper: str, name: str, reused: str = "") -> list[Path]:
    """Write the module of a new figure and its entries in claims.yaml; returns their paths.

    It trains the model of the paper's first figure, or else an example, or measures the first
    training of the figure `reused`. Raises ConstantError for an invalid or taken name, or an
    unknown paper.
    """
    _check_name(name, "figure")
    registry.paper(paper)
    names = [known for known, key in registry.figures().items() if key == paper]
    if reused and reused not in names:
        raise folders.UnknownName(
            f"figure {reused!r}: {paper} has none; try {folders.near(reused, names)}"
        )
    sweeps = (
        sweep
        for one in ([reused] if reused else names)
        for sweep in figures.sweeps(one, "smoke", {}).values()
    )
    like = next((sweep for sweep in sweeps if sweep.snapshots[-1] > 1), None)
    return _written(_files(folders.PAPERS / paper, name, like, reused))


def paper(key: str, training: bool = True) -> list[Path]:
    """Write the folder of a new paper with a model, one figure and one claim; returns the paths.

    training : False for estimators on prompts. Raises ConstantError for an invalid or taken key.
    """
    _check_name(key, "paper")
    folder = folders.PAPERS / key
    says = f"{key}: an example, to be replaced by the paper and its reference."
    first = {folder / "__init__.py": f'"""{says}"""\n'}
    name = f"{key}_training" if training else f"{key}_estimators"
    _check_name(name, "figure")
    return _written(first | _files(folder, name, None, "", training))


def undo() -> tuple[list[Path], list[Path]]:
    """Remove what the last `figure` or `paper` wrote; returns the paths, and what was made from it
    and remains.

    From an edited claims.yaml only the figure's entries are removed; an edited module is kept
    beside LAST. Raises ConstantError if there is nothing to undo.
    """
    if not LAST.is_file():
        raise ConstantError("new undo: nothing was written by `new` here")
    last = json.loads(read_text(LAST))
    files = {folders.PAPERS / name: texts for name, texts in last.items()}
    *modules, ledger_file = files
    name = modules[-1].stem
    for path, (before, after) in files.items():
        now = read_text(path) if path.is_file() else after
        if before is not None:
            write_text(path, before if now == after else _without(now, name))
        elif path.is_file():
            if now != after:
                write_text(LAST.with_name(path.name), now)
            path.unlink()
    for folder in {path.parent for path in files}:
        if not [path for path in folder.iterdir() if path.name != "__pycache__"]:
            shutil.rmtree(folder)
    LAST.unlink()
    violations = Path("tests/papers", ledger_file.parent.name, "planted.py")
    kept = [LAST.with_name(path.name) for path in modules]
    kept += [violations] if name in read_text(violations) else []
    tops = "results", "figures", "gallery"
    patterns = [f"{top}/**/{one}.*" for top in tops for one in (name, f"{name}_compared")]
    patterns += [f"results/*/runs/{name}", f"figures/*/{name}_whatif.png"]
    patterns += [f"results/*/logs/show/{ledger_file.parent.name}.log"] * (not ledger_file.exists())
    made = [path for pattern in patterns for path in sorted(Path().glob(pattern))]
    return list(files), [path for path in [*kept, *made] if path.exists()]


def _without(ledger_text: str, name: str) -> str:
    """Return the text of a claims.yaml without the entry and the claims of a figure."""
    parts = re.split(r"^(?= {0,2}\S)", ledger_text, flags=re.MULTILINE)
    of_claim = re.compile(rf"  - (?:.|\n)*^    figure: {name}\s*$", re.MULTILINE)
    # The blank line between figures and claims is behind the last figure.
    of_figure = f"  {name}:"
    kept = ["\n" * part.endswith("\n\n") if part.startswith(of_figure) else part for part in parts]
    return "".join(part for part in kept if not of_claim.match(part)).rstrip() + "\n"


def _check_name(name: str, kind: str) -> None:
    if keyword.iskeyword(name) or not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        rule = "has lower-case letters, digits and _, starts with a letter and is no word of Python"
        raise ConstantError(f"{kind} {name!r}: a name {rule}")
    taken = _taken()
    for form in Plan.rules_of(name):
        if form in taken:
            raise ConstantError(f"{kind} {name!r}: the name {form} is taken by {taken[form]}")


def _taken() -> dict[str, str]:
    """Every name that a new figure or paper cannot have -> what has it."""
    rule = r"^ *(?:use )?(?:rule|checkpoint) (?:\w+ as )?(\w+)\b"
    rules = "\n".join(map(read_text, Path("workflow/rules").glob("[!.]*.smk")))
    own = re.findall(r"^OWN := (.*)$", read_text(Path("Makefile")), re.MULTILINE)
    targets = [*" ".join(own).split(), *re.findall(rule, rules, re.MULTILINE)]
    names = dict.fromkeys(targets, "a target of the Makefile or the workflow")
    plan = Plan("smoke")
    names |= {sweep: f"a training of {figure}" for sweep, (figure, _) in plan.trainings.items()}
    for name in plan.figures:
        for one in (name, *ledger.target(name).aliases):
            names |= dict.fromkeys(Plan.rules_of(one), f"a target of {name}")
    names |= {name: registry.file(name) for name in registry.figures()}
    names |= {alias: f"an alias of {name}" for alias, name in ledger.aliases().items()}
    names |= {key: f"the paper src/icl/papers/{key}" for key in folders.papers()}
    return names | {
        name: f"the model {registry.module_of_model(name)}" for name in registry.models()
    }


def _files(
    folder: Path, name: str, like: Sweep | None, reused: str, training: bool = True
) -> dict[Path, str]:
    """Return the files of a new figure: path -> text; claims.yaml keeps everything else as it is.

    like : a training with the model and constants to use; None adds an example
    """
    path = folder / f"{name}.py"
    files = {}
    ledger_file = folder / "claims.yaml"
    word = name.replace("_", "-").upper()
    ids = chain([word], (f"{word}-{number}" for number in count(2)))
    about: dict[str, Any] = {"paper": folder.name, "name": name, "reused": reused, "sweep": ""}
    about |= {"claim": next(one for one in ids if one not in ledger.all_claims())}
    about |= {"training": training, "constants": {}, "has_steps": False, "steps": 0}
    if like is None:
        module = "example_model" if training else "example_prompts"
        about |= {"module": f"icl.papers.{folder.name}.{module}", "steps": STEPS if training else 0}
        files[folder / f"{module}.py"] = _code(f"{module}.py.j2", model=f"{folder.name}_{module}")
    elif reused:
        about |= {"module": registry.module(reused), "sweep": like.name}
    else:
        config = vars(like.configs[0])
        default = vars(type(like.configs[0])()) | {"seed": config["seed"]}
        changed = {key: value for key, value in config.items() if value != default[key]}
        about |= {"has_steps": "steps" in config, "steps": min(STEPS, like.snapshots[-1])}
        about |= {"constants": {key: changed[key] for key in changed if key != "steps"}}
        about |= {"module": registry.module_of_model(like.model.name)}
    for exists in (one for one in (path, *files) if one.exists()):
        raise ConstantError(f"{exists}: exists already; choose another name")
    files[path] = _code("figure.py.j2", **about)
    text = read_text(ledger_file) if ledger_file.is_file() else EMPTY.format(folder.name)
    text = re.sub(r"^claims: *\[\] *$", "claims:", text, flags=re.MULTILINE)
    head, mark, tail = text.partition("\nclaims:")
    of_figure, _, of_claim = rendered("claims.yaml.j2", **about).partition("---\n")
    entries = f"{head.rstrip()}\n{of_figure}\n{mark.lstrip()}{tail.rstrip()}"
    files[ledger_file] = f"{entries}\n\n{of_claim}"
    return files


def _written(files: dict[Path, str]) -> list[Path]:
    """Write the files, claims.yaml last; nothing remains if the ledger refuses the entries."""
    before = {path: read_text(path) if path.is_file() else None for path in files}
    last = {
        path.relative_to(folders.PAPERS).as_posix(): (before[path], text)
        for path, text in files.items()
    }
    write_json(LAST, last)
    for path, text in files.items():
        write_text(path, text)
    try:
        ledger.read(list(files)[-1])
    except ledger.LedgerError:
        undo()
        raise
    return list(files)


def _code(template: str, **values: Any) -> str:
    """Return a module from a template, its lines wrapped by ruff if that is installed."""
    text = rendered(template, **values)
    command = [sys.executable, "-m", "ruff", "format", "--line-length", "100", "-"]
    done = subprocess.run(command, input=text, capture_output=True, encoding="utf-8", check=False)
    return text if done.returncode else done.stdout
