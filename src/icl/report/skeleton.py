"""Templates of a new figure or paper, a complete target that trains, measures, draws and judges."""

import json
import keyword
import re
import tempfile
from pathlib import Path
from typing import Any

import jinja2

from icl.core import discovery
from icl.core.config import ConstantError
from icl.core.files import write_text
from icl.core.sweep import Sweep
from icl.evidence import ledger
from icl.pipeline import figures

STEPS = 20
"""Steps at the smoke scale, unless the model's smoke training has fewer."""
MODEL = "example_model"
"""The model's module in a new paper."""

_templates = jinja2.Environment(
    loader=jinja2.PackageLoader("icl.report", "templates"), undefined=jinja2.StrictUndefined,
    trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, autoescape=False,
)  # fmt: skip


def figure(paper: str, name: str) -> list[Path]:
    """Write the module of a new figure and its entries in claims.yaml; returns their paths.

    The figure trains the model of the paper's first figure, or an example if the paper has no model.

    Raises ConstantError for a name that is invalid or taken, UnknownName for a paper that does not exist.
    """
    _check_name(name, "figure", {*discovery.figures(), *ledger.aliases()})
    discovery.paper(paper)
    folder = discovery.PAPERS / paper
    files = _figure_files(folder, name, _sweep_of(paper))
    return _written(files)


def paper(key: str) -> list[Path]:
    """Write the folder of a new paper with a model, one figure and one claim; returns the paths of all files.

    Raises ConstantError for a key that is invalid or taken.
    """
    _check_name(key, "paper", {*discovery.papers(), *discovery.systems()})
    folder = discovery.PAPERS / key
    title = f"{key}: an example, to be replaced by the paper's short title"
    files = {folder / "__init__.py": f'"""{title}."""\n'}
    head = f"title: {title!r}\ncite: []\n\nfigures:\n\nclaims: []\n"
    return _written(files | _figure_files(folder, f"{key}_training", None, head))


def _check_name(name: str, kind: str, taken: set[str]) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise ConstantError(f"{kind} {name!r}: a name has lower-case letters, digits and _, and starts with a letter")
    if name in taken:
        raise ConstantError(f"{kind} {name!r}: the name is taken")


def _sweep_of(paper: str) -> Sweep | None:
    """The paper's first training of more than one step, at the smoke scale, or None."""
    names = [name for name, key in discovery.figures().items() if key == paper]
    sweeps = (sweep for name in names for sweep in figures.sweeps(name, "smoke", {}).values())
    return next((sweep for sweep in sweeps if sweep.snapshots[-1] > 1), None)


def _figure_files(folder: Path, name: str, like: Sweep | None, claims: str | None = None) -> dict[Path, str]:
    """The files of a new figure: path -> text.

    like : a training with the model and constants to use; None adds an example model
    claims : the text of claims.yaml, if there is no such file yet
    """
    path, files = folder / f"{name}.py", {}
    about: dict[str, Any] = {
        "name": name,
        "summary": f"{name}: the training loss along the steps, mean over seeds and its band.",
        "claim": _claim_id(name),
    }
    if like is None:
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
    files[path] = _render("figure.py", package=package, module=module, **about)
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
    for path, text in files.items():
        write_text(path, text)
    return list(files)
