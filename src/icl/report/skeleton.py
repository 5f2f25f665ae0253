"""Templates of a new figure or paper, a complete target that trains, measures, draws and judges."""

import json
import keyword
import re
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jinja2

from icl.core import discovery
from icl.core.config import ConstantError
from icl.core.files import write_json, write_text
from icl.core.sweep import Sweep
from icl.evidence import ledger
from icl.pipeline import figures
from icl.report import completion

STEPS = 20
"""Steps at the smoke scale, unless the model's smoke training has fewer."""
MODEL, PROMPTS = "example_model", "example_prompts"
"""The module of the model in a new paper, and of its prompts without training."""
LAST = Path(".cache/new.json")
"""What the last `new` wrote: file -> its text before (null for a new file) and after."""

_templates = jinja2.Environment(
    loader=jinja2.PackageLoader("icl.report", "templates"), undefined=jinja2.StrictUndefined,
    trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, autoescape=False,
)  # fmt: skip


def figure(paper: str, name: str, reused: str = "") -> list[Path]:
    """Write the module of a new figure and its entries in claims.yaml; returns their paths.

    The figure trains the model of the paper's first figure, or an example if the paper has no model; or it measures the
    first training of the figure `reused` of the same paper.

    Raises ConstantError for a name that is invalid or taken, UnknownName for a paper or figure that does not exist.
    """
    _check_name(name, "figure")
    discovery.paper(paper)
    if reused and discovery.figures().get(reused) != paper:
        names = [known for known, key in discovery.figures().items() if key == paper]
        raise discovery.UnknownName(f"figure {reused!r}: {paper} has none; try {discovery.near(reused, names)}")
    folder = discovery.PAPERS / paper
    files = _figure_files(folder, name, _first_sweep([reused]) if reused else _sweep_of(paper), reused=reused)
    return _written(files)


def paper(key: str, training: bool = True) -> list[Path]:
    """Write the folder of a new paper with a model, one figure and one claim; returns the paths of all files.

    training : False for a figure that compares estimators on prompts, without a trained model

    Raises ConstantError for a key that is invalid or taken.
    """
    _check_name(key, "paper")
    folder = discovery.PAPERS / key
    title = f"{key}: an example, to be replaced by the paper's short title"
    files = {folder / "__init__.py": f'"""{title}."""\n'}
    head = f"title: {title!r}\ncite: []\n\nfigures:\n\nclaims: []\n"
    name = f"{key}_training" if training else f"{key}_estimators"
    return _written(files | _figure_files(folder, name, None, head, training=training))


def undo() -> list[Path]:
    """Remove what the last `figure` or `paper` wrote, unless it was changed since; returns the paths.

    Raises ConstantError if there is nothing to undo, or a file has changed.
    """
    if not LAST.is_file():
        raise ConstantError("new undo: nothing was written by `new` here")
    files = json.loads(LAST.read_text(encoding="utf-8"))
    for name, (_, after) in files.items():
        if not Path(name).is_file() or Path(name).read_text(encoding="utf-8") != after:
            raise ConstantError(f"new undo: {name} has changed since; remove the figure by hand")
    for name, (before, _) in files.items():
        if before is None:
            Path(name).unlink()
        else:
            write_text(Path(name), before)
    for folder in {Path(name).parent for name in files}:
        if not [path for path in folder.iterdir() if path.name != "__pycache__"]:
            shutil.rmtree(folder)
    LAST.unlink()
    return [Path(name) for name in files]


def _check_name(name: str, kind: str) -> None:
    if keyword.iskeyword(name):
        raise ConstantError(f"{kind} {name!r}: is a word of Python, which a module cannot have as its name")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ConstantError(f"{kind} {name!r}: a name has lower-case letters, digits and _, and starts with a letter")
    if taken := _taken().get(name):
        raise ConstantError(f"{kind} {name!r}: the name is taken by {taken}")


def _taken() -> dict[str, str]:
    """Every name that a new figure or paper cannot have -> what has it."""
    rules = "\n".join(path.read_text(encoding="utf-8") for path in Path("workflow/rules").glob("*.smk"))
    targets = [*completion.targets(), *re.findall(r"^(?:use )?rule (?:\w+ as )?(\w+)\b", rules, re.MULTILINE)]
    names = {target: "a target of the Makefile or the workflow" for target in targets}
    names |= {alias: f"an alias of {name}" for alias, name in ledger.aliases().items()}
    names |= {name: discovery.file(name) for name in discovery.figures()}
    names |= {key: f"the paper src/icl/papers/{key}" for key in discovery.papers()}
    return names | {name: f"the model {module}" for name, module in discovery.systems().items()}


def _sweep_of(paper: str) -> Sweep | None:
    """The paper's first training of more than one step, at the smoke scale, or None."""
    return _first_sweep([name for name, key in discovery.figures().items() if key == paper])


def _first_sweep(names: Iterable[str]) -> Sweep | None:
    sweeps = (sweep for name in names for sweep in figures.sweeps(name, "smoke", {}).values())
    return next((sweep for sweep in sweeps if sweep.snapshots[-1] > 1), None)


def _figure_files(
    folder: Path, name: str, like: Sweep | None, claims: str | None = None, *, reused: str = "", training: bool = True
) -> dict[Path, str]:
    """The files of a new figure: path -> text.

    like : a training with the model and constants to use; None adds an example model
    claims : the text of claims.yaml, if there is no such file yet; reused : a figure whose trainings are measured
    training : False for an example without training
    """
    path, files = folder / f"{name}.py", {}
    about: dict[str, Any] = {
        "name": name,
        "summary": f"{name}: the training loss along the steps, mean over seeds and its band.",
        "claim": _claim_id(name),
        "reused": reused,
        "reused_module": discovery.module(reused).__name__.rpartition(".")[2] if reused else "",
        "sweep": like.name if like is not None and reused else name,
        "training": training,
    }
    if not training:
        package, module = f"icl.papers.{folder.name}", PROMPTS
        about["summary"] = f"{name}: the error of least squares over the number of examples, mean over seeds."
        files[folder / f"{PROMPTS}.py"] = _render("prompts.py", system=f"{folder.name}_prompts")
    elif like is None:
        package, module = f"icl.papers.{folder.name}", MODEL
        files[folder / f"{MODEL}.py"] = _render("model.py", system=f"{folder.name}_example")
        about |= {"steps": STEPS, "constants": {}, "has_steps": False}
    else:
        package, _, module = discovery.systems()[like.system].rpartition(".")
        about |= {"steps": min(STEPS, like.snapshots[-1]), "constants": _constants(like)}
        about["has_steps"] = hasattr(like.configs[0], "steps")
    for taken in (path, *files):
        if taken.exists():
            raise ConstantError(f"{taken}: exists already; choose another name")
    template = "figure.py" if training else "estimators.py"
    files[path] = _render(template, package=package, module=module, paper=folder.name, **about)
    ledger_file = folder / "claims.yaml"
    text = ledger_file.read_text(encoding="utf-8") if claims is None else claims
    files[ledger_file] = _with_entries(
        ledger_file, text, _render("figure.yaml", **about), _render("claim.yaml", **about)
    )
    return files


def _claim_id(name: str) -> str:
    taken = {claim.id for paper in ledger.papers() for claim in paper.claims}
    word = name.replace("_", "-").upper()
    return next(f"{word}{end}" for end in ("", *(f"-{n}" for n in range(2, 1000))) if f"{word}{end}" not in taken)


def _constants(sweep: Sweep) -> dict[str, str]:
    """The constants of a sweep's first run that are not defaults, without the number of steps, as code."""
    config = sweep.configs[0]
    default = type(config)()
    values = {row["name"]: row["value"] for row in config.graded() if row["value"] != getattr(default, row["name"])}
    values.pop("steps", None)
    return {name: json.dumps(value) if isinstance(value, str) else repr(value) for name, value in values.items()}


def _with_entries(path: Path, text: str, of_figure: str, of_claim: str) -> str:
    """The text of claims.yaml with another figure and claim; everything else keeps its form.

    Raises LedgerError if the result is not a valid ledger.
    """
    head, mark, tail = re.sub(r"^claims: *\[\] *$", "claims:", text, flags=re.MULTILINE).partition("\nclaims:")
    extended = f"{head.rstrip()}\n{of_figure}\n{mark.lstrip()}{tail.rstrip()}\n\n{of_claim}"
    with tempfile.TemporaryDirectory() as folder:
        trial = Path(folder) / path.parent.name / path.name
        write_text(trial, extended)
        try:
            ledger.read(trial)
        except ledger.LedgerError as error:
            raise ledger.LedgerError(f"{path}: cannot take another figure ({error})") from error
    return extended


def _render(template: str, **about: Any) -> str:
    return _templates.get_template(f"{template}.j2").render(about)


def _written(files: dict[Path, str]) -> list[Path]:
    def before(path: Path) -> str | None:
        return path.read_text(encoding="utf-8") if path.is_file() else None

    write_json(LAST, {str(path): (before(path), text) for path, text in files.items()})
    for path, text in files.items():
        write_text(path, text)
    return list(files)
