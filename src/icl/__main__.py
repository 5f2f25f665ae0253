"""What the package regenerates and what came of it, without Snakemake: `python -m icl --help`."""

import argparse
import json
import os
import re
import sys
import webbrowser
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from icl import papers
from icl.core import progress
from icl.core.config import SCALES, ConstantError
from icl.evidence import ledger
from icl.pipeline import figures
from icl.report.verdict_files import verdict_files

MISSING, MISUSED = 1, 2
"""Exit codes: there is no such result yet; there is no such figure or folder (also argparse's own)."""


class Missing(Exception):
    """Something that a run of the workflow would make is not there; the message says which command makes it."""


def configured(root: Path) -> dict[str, Any]:
    """workflow/config.yaml of a checkout.

    Raises ConstantError if `root` is none.
    """
    path = root / "workflow" / "config.yaml"
    if not path.is_file():
        raise ConstantError(
            f"{root}: has no workflow/config.yaml; call this in a checkout of icl, or name one by --root"
        )
    try:
        config: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
        if set(map(type, [*config["figures"], *config["aliases"].values()])) - {str}:
            raise TypeError("figures and aliases must be words")
    except (OSError, LookupError, AttributeError, TypeError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise ConstantError(f"{path}: is no config of the workflow ({error})") from error
    return config


def figure_name(word: str, config: dict[str, Any]) -> str:
    """The figure that a name or an alias means.

    Raises ConstantError if there is none.
    """
    name: str = config["aliases"].get(word, word)
    if name not in config["figures"]:
        raise ConstantError(f"figure {word!r}: there is none of this name; `python -m icl list` names all")
    return name


def listed(name: str) -> dict[str, Any]:
    """A figure in one row."""
    return {"figure": name, "paper": papers.of(name).title, "summary": figures.summary(name)}


def shown(name: str, scale: str) -> dict[str, Any]:
    """A figure's caption, claims with their sources, trainings, and constants with their grades."""
    sweeps = figures.sweeps(name, scale, {}).values()
    claims = [
        {
            **asdict(claim),
            "bounds": [f"{bound.observable} ({bound.statistic}) {bound.words()}" for bound in claim.bounds],
        }
        for claim in ledger.claims(name)
    ]
    constants = {sweep.system: sweep.configs[0].graded() + sweep.test.graded() for sweep in sweeps}
    trainings = [
        {"sweep": sweep.name, "system": sweep.system, "runs": len(sweep.configs), "steps": sweep.snapshots[-1]}
        for sweep in sweeps
    ]
    return {**listed(name), "caption": figures.caption(name), "claims": claims, "trainings": trainings,
            "constants": constants, "command": f"snakemake {name} --config scale={scale}"}  # fmt: skip


def as_text(one: dict[str, Any]) -> str:
    """What `shown` gives, for the terminal."""
    out = [one["figure"], one["paper"], "", one["caption"], "", f"made by   {one['command']}", "", "Claims"]
    for claim in one["claims"]:
        out += [f"  {claim['id']}: {claim['statement']}", f"      source: {claim['source']}"]
        out += [f"      bound:  {bound}" for bound in claim["bounds"]]
    out += ["", "Trainings"]
    out += [f"  {t['sweep']}: {t['runs']} runs of {t['steps']} steps of {t['system']}" for t in one["trainings"]]
    for system, rows in one["constants"].items():
        out += ["", f"Constants of {system} (of its first run)"]
        out += [f"  {row['name']:24} {row['value']!s:>12}  {row['grade']:10} {row['source']}" for row in rows]
    return "\n".join(out)


def kept_verdicts(name: str, root: Path, scale: str) -> verdict_files.Verdicts:
    """The verdicts on disk.

    Raises Missing if the figure was not made at this scale.
    """
    path = root / "results" / scale / "verdicts" / f"{name}.json"
    if not path.is_file():
        raise Missing(f"{path}: not made yet; `snakemake {name} --config scale={scale}` makes it")
    return verdict_files.load(path)


def cited(names: Sequence[str], root: Path) -> list[str]:
    """The BibTeX entries of the papers of some figures, each once."""
    text = (root / "references.bib").read_text(encoding="utf-8")
    entries = dict(re.findall(r"^(?=@\w+\{(\w+),)(@.*?^\})", text, re.MULTILINE | re.DOTALL))
    return [entries[key] for key in dict.fromkeys(key for name in names for key in papers.of(name).keys)]


def _list(args: argparse.Namespace, config: dict[str, Any]) -> tuple[Any, str]:
    rows = [listed(name) for name in config["figures"]]
    return rows, "\n".join(f"{row['figure']:24} {row['summary']}" for row in rows)


def _show(args: argparse.Namespace, config: dict[str, Any]) -> tuple[Any, str]:
    one = shown(figure_name(args.figure, config), args.scale)
    return one, as_text(one)


def _verdicts(args: argparse.Namespace, config: dict[str, Any]) -> tuple[Any, str]:
    names = [figure_name(word, config) for word in args.figures] or config["figures"]
    loaded = [kept_verdicts(name, args.root, args.scale) for name in names]
    lines = [f"{one['figure']}\n{verdict_files.lines(one)}" for one in loaded]
    return loaded, "\n".join([*lines, verdict_files.counts(loaded)])


def _cite(args: argparse.Namespace, config: dict[str, Any]) -> tuple[Any, str]:
    entries = cited([figure_name(word, config) for word in args.figures], args.root)
    return entries, "\n\n".join(entries)


def _open(args: argparse.Namespace, config: dict[str, Any]) -> tuple[Any, str]:
    name = figure_name(args.figure, config)
    path = args.root / "figures" / args.scale / f"{name}.png"
    if not path.is_file():
        raise Missing(f"{path}: not made yet; `snakemake {name} --config scale={args.scale}` makes it")
    # Where no viewer can be started, the path alone helps.
    return {"picture": str(path), "opened": webbrowser.open(path.resolve().as_uri())}, str(path)


def _progress(args: argparse.Namespace, config: dict[str, Any]) -> tuple[Any, str]:
    rows = progress.unfinished(args.root / "results" / args.scale)
    lines = [progress.line(f"{row['sweep']} {row['shard']}", row["step"], row["steps"], row["rate"]) for row in rows]
    return rows, "\n".join(lines) or f"no training of the {args.scale} scale has kept a state"


Command = Callable[[argparse.Namespace, dict[str, Any]], tuple[Any, str]]
COMMANDS: dict[str, tuple[Command, str, str]] = {
    "list": (_list, "", "every figure with its paper, in a line"),
    "show": (_show, "figure", "a figure's caption, claims, sources, trainings and constants"),
    "verdicts": (
        _verdicts,
        "figures?",
        "what the results on disk say of each claim (of all figures, or of those named)",
    ),
    "progress": (_progress, "", "how far the unfinished trainings are, and how long they will take"),
    "cite": (_cite, "figures", "BibTeX entries of the papers that figures come from"),
    "open": (_open, "figure", "open a figure's picture, and print its path"),
}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--json", action="store_true", help="machine-readable output")
    shared.add_argument("--root", type=Path, default=Path(), metavar="FOLDER", help="checkout (default: this folder)")
    shared.add_argument("--scale", choices=SCALES, default="laptop", help="default: laptop")
    top = argparse.ArgumentParser(
        prog="python -m icl", description=__doc__,
        epilog="Exit codes: 0 done, 1 a result is not made yet, 2 no such figure, command or checkout.",
    )  # fmt: skip
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (_, argument, words) in COMMANDS.items():
        one = commands.add_parser(name, parents=[shared], help=words, description=words)
        if argument:
            count = {"figures": "+", "figures?": "*"}.get(argument)
            one.add_argument(argument.rstrip("?"), nargs=count, help="a name or alias, as `list` gives them")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    args = parser().parse_args(arguments)
    try:
        data, text = COMMANDS[args.command][0](args, configured(args.root))
    except Missing as problem:
        print(problem, file=sys.stderr)
        return MISSING
    except (ConstantError, verdict_files.ReportError) as problem:
        print(problem, file=sys.stderr)
        return MISUSED
    try:
        print(json.dumps(data, indent=2) if args.json else text, flush=True)
    except BrokenPipeError:
        # The reader, such as head, has seen enough; Python would complain again when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
