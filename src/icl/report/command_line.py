"""Shows papers, figures, claims and verdicts, and adds new ones."""

import argparse
import inspect
import json
import os
import re
import subprocess
import sys
import textwrap
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from icl.core import discovery, state, table
from icl.core.config import FIRST_SEED, SCALES, ConstantError
from icl.core.sealed import SealedError
from icl.evidence import freeze, ledger
from icl.evidence.ledger import Claim, Ledger
from icl.pipeline import figures, identity, overrides
from icl.pipeline.plan import Plan
from icl.report import compare, completion, counting, skeleton, verdict_files, whatif
from icl.report.page import constants

MISSING, MISUSED = 1, 2
"""Exit codes: a result is missing or could not be made; a name is unknown (also argparse's code)."""
REFERENCES = discovery.PACKAGE.parents[1] / "references.bib"


class Missing(Exception):
    """A result of the workflow is missing; the message has the command that makes it."""


class Answer(NamedTuple):
    """The output of a command, for programs and for people, and its exit code."""

    data: Any
    text: str
    code: int = 0


def planned(args: argparse.Namespace) -> Plan:
    """The plan that the options describe.

    Raises ConstantError for a misspelt constant and a value out of range.
    """
    config = {"scale": args.scale, "shards": args.shards, "constants": args.set, "variant": args.variant,
              "first_seed": args.first_seed}  # fmt: skip
    return Plan.of(config) if args.set or args.variant else Plan(args.scale, args.shards, first_seed=args.first_seed)


def resolved(word: str) -> tuple[Ledger, str, Claim | None]:
    """The paper, the figure (empty for a paper) and the claim with this name.

    Raises UnknownName if there is none.
    """
    claims = {claim.id: claim for paper in ledger.papers() for claim in paper.claims}
    if word in claims:
        return ledger.of_figure(claims[word].figure), claims[word].figure, claims[word]
    if word in discovery.papers():
        return ledger.of_paper(word), "", None
    name = ledger.aliases().get(word, word)
    if name in discovery.figures():
        return ledger.of_figure(name), name, None
    near = discovery.near(word, [*discovery.figures(), *ledger.aliases(), *discovery.papers(), *claims])
    advice = f"try {near}" if near.count(",") < 3 else "`python -m icl list` prints all names"
    raise discovery.UnknownName(f"{word!r}: no figure, paper or claim has this name; {advice}")


# Texts


def paragraph(label: str, text: str) -> list[str]:
    """A labelled text in lines that fit a terminal; no lines for an empty text."""
    return [textwrap.fill(text, 100, initial_indent=f"  {label:11}", subsequent_indent=" " * 13)] if text else []


def claim_lines(claim: Mapping[str, Any]) -> list[str]:
    """The lines of a claim in the terminal."""
    parts = {"it says": claim["says"], "formula": claim["formula"], "we test": claim["tested"],
             "premise": claim["premise"], "not shown": claim["not_shown"]}  # fmt: skip
    out = [f"{claim['id']} ({claim['kind']}; {claim['source']})"]
    out += [line for label, text in parts.items() for line in paragraph(label, text)]
    out += [line for condition in claim["conditions"] for line in paragraph("condition", condition)]
    since = [(label, text) for label, texts in claim["since_freeze"].items() for text in texts]
    out += [line for label, text in since for line in paragraph(label, text)]
    return out + [line for bound in claim["bounds"] for line in paragraph("bound", bound)]


def of_claim(claim: Claim) -> dict[str, Any]:
    """A claim as plain data, with its bounds in words."""
    bounds = [f"{bound.observable} ({bound.statistic}) {bound.words()}" for bound in claim.bounds]
    conditions = [f"{bound.observable} {bound.words()}" for bound in claim.conditions]
    return {
        **asdict(claim),
        "bounds": bounds,
        "conditions": conditions,
        "since_freeze": verdict_files.since_freeze(claim),
    }


def of_figure(plan: Plan, name: str) -> dict[str, Any]:
    """A figure as plain data: caption, claims with sources, trainings, and constants with grades."""
    target = ledger.target(name)
    sweeps = figures.sweeps(name, plan.scale, plan.changed)
    trainings = [
        {"sweep": sweep.name, "model": sweep.system, "runs": len(sweep.configs), "steps": sweep.snapshots[-1]}
        for sweep in sweeps.values()
    ]
    return {
        "figure": name, "paper": ledger.of_figure(name).title, "summary": target.summary, "caption": target.caption,
        "differences": target.differences, "command": plan.command(name), "results": at_hand(name),
        "claims": [of_claim(claim) for claim in ledger.claims(name)], "trainings": trainings,
        "constants": constants.rows(
            list(sweeps.values()), *(figures.sweeps(name, scale, {}) for scale in (plan.scale, "paper"))
        ),
    }  # fmt: skip


def at_hand(name: str) -> dict[str, str]:
    """The seeds of a figure's results in this folder: folder of results -> its seeds, as text."""
    found = {}
    for path in sorted(Path("results").glob(f"*/tables/{name}.parquet")):
        seeds = sorted({seed for seed in table.read(path)[0]["seed"].tolist() if seed != table.SUMMARY_SEED})
        found[path.parent.parent.name] = (
            f"{seeds[0]} to {seeds[-1]} ({len(seeds)})" if len(seeds) > 1 else str(seeds[0])
        )
    return found


def figure_lines(one: Mapping[str, Any]) -> list[str]:
    """The lines of `of_figure` in the terminal."""
    out = [one["figure"], *paragraph("paper", one["paper"]), *paragraph("summary", one["summary"])]
    out += [*paragraph("caption", one["caption"]), *paragraph("differs", one["differences"])]
    out += paragraph("made by", one["command"])
    out += [line for where, seeds in one["results"].items() for line in paragraph("results", f"{where}: seeds {seeds}")]
    for t in one["trainings"]:
        out += paragraph("trains", f"{t['sweep']}: {t['runs']} runs of {t['steps']} steps of {t['model']}")
    for claim in one["claims"]:
        out += ["", *claim_lines(claim)]
    out += ["", "constants (of the first run, or all values that a sweep has)"]
    for row in one["constants"]:
        value = "; ".join(row["values"])
        out.append(f"  {row['system']}.{row['name']:26} {value:>12}  {row['grade']:10} {row['source']}")
    return out


# Commands


def _list(args: argparse.Namespace) -> Answer:
    rows, lines = [], []
    for paper in ledger.papers():
        lines.append(f"{paper.paper:16} {paper.title}")
        for name in (name for name, key in discovery.figures().items() if key == paper.paper):
            summary = paper.targets[name].summary
            rows.append({"figure": name, "paper": paper.paper, "title": paper.title, "summary": summary})
            lines.append(f"  {name:24} {summary}")
    return Answer(rows, "\n".join(lines))


def _figures(args: argparse.Namespace) -> Answer:
    if args.paper not in discovery.papers():
        raise discovery.UnknownName(
            f"paper {args.paper!r}: no such paper; try {discovery.near(args.paper, discovery.papers())}"
        )
    names = [name for name, key in discovery.figures().items() if key == args.paper]
    return Answer(names, " ".join(names))


def _show(args: argparse.Namespace) -> Answer:
    paper, figure, claim = resolved(args.name)
    if claim is not None:
        one = {"figure": figure, "paper": paper.title, **of_claim(claim)}
        return Answer(
            one, "\n".join([*claim_lines(one), *paragraph("figure", figure), *paragraph("paper", paper.title)])
        )
    if figure:
        one = of_figure(planned(args), figure)
        return Answer(one, "\n".join(figure_lines(one)))
    about = inspect.getdoc(discovery.paper(paper.paper)) or ""
    names = {name: paper.targets[name].summary for name, key in discovery.figures().items() if key == paper.paper}
    claims = [of_claim(one) for one in paper.claims]
    lines = [paper.title, "", about, "", *(f"  {name:24} {summary}" for name, summary in names.items())]
    lines += [line for one in claims for line in ("", *claim_lines(one))]
    return Answer({"paper": paper.paper, "title": paper.title, "about": about, "cite": paper.cite, "figures": names,
                   "claims": claims}, "\n".join(lines))  # fmt: skip


def _cite(args: argparse.Namespace) -> Answer:
    text = REFERENCES.read_text(encoding="utf-8")
    known = dict(re.findall(r"^(?=@\w+\{(\w+),)(@.*?^\})", text, re.MULTILINE | re.DOTALL))
    cited = {}
    for paper in (resolved(word)[0] for word in args.names):
        if not paper.cite:
            raise ConstantError(f"papers/{paper.paper}/claims.yaml: cite is empty; there is nothing to cite")
        for key in paper.cite:
            if key not in known:
                raise ConstantError(f"papers/{paper.paper}/claims.yaml: cite: references.bib has no entry {key}")
            cited[key] = known[key]
    return Answer(list(cited.values()), "\n\n".join(cited.values()))


def _verdicts(args: argparse.Namespace) -> Answer:
    plan = planned(args)
    disk = verdict_files.on_disk(plan, [ledger.figure_name(word) for word in args.figures] or plan.figures)
    lines = [f"{one['figure']}\n{verdict_files.lines(one)}" for one in disk.verdicts]
    lines.append(counting.counts(disk.verdicts))
    if disk.missing and not args.figures:
        lines.append(f"{len(disk.missing)} figures are not made yet; `{plan.command('figures')}` makes them")
    elif disk.missing:
        lines.append(f"not made yet: {', '.join(disk.missing)}; `{plan.command(' '.join(disk.missing))}` makes them")
    lines += [f"not printed, because it is out of date or damaged: {problem}" for problem in disk.problems]
    code = MISSING if disk.problems or (args.figures and disk.missing) else 0
    return Answer(disk._asdict(), "\n".join(lines), code)


def _freeze(args: argparse.Namespace) -> Answer:
    count = freeze.write({name: identity.of_measuring(discovery.module(name).__name__) for name in discovery.figures()})
    return Answer({"claims": count, "date": freeze.frozen()["date"]}, f"froze {count} claims")


def _progress(args: argparse.Namespace) -> Answer:
    plan = planned(args)
    rows = state.unfinished(Path(plan.results))
    lines = [f"{row['sweep']} {row['shard']}: step {row['step']} of {row['steps']}" for row in rows]
    return Answer(rows, "\n".join(lines) or f"{plan.results} has no unfinished training")


def _open(args: argparse.Namespace) -> Answer:
    name, plan = ledger.figure_name(args.figure), planned(args)
    path = Path(plan.pictures(name)[0])
    if plan == Plan(SCALES[1]) and not path.is_file():
        # Without options, the newest picture at any scale.
        made = sorted(Path("figures").glob(f"*/{name}.png"), key=lambda one: one.stat().st_mtime)
        path = made[-1] if made else path
    if not path.is_file():
        raise Missing(f"{path}: not made yet; `{plan.command(name)}` makes it")
    page = Path("results", path.parent.name, "report/report.html")
    paths = [path, *([page] if page.is_file() else [])]
    # The paths are printed too, because a machine may have no viewer.
    opened = [webbrowser.open(one.resolve().as_uri()) for one in paths]
    return Answer({"picture": str(path), "opened": opened[0]}, "\n".join(map(str, paths)))


def _completion(args: argparse.Namespace) -> Answer:
    text = completion.script(COMMANDS)
    return Answer(text, text)


def _new_figure(args: argparse.Namespace) -> Answer:
    return _next_steps(skeleton.figure(args.paper, args.name, args.reused), args.name)


def _new_paper(args: argparse.Namespace) -> Answer:
    name = f"{args.key}_{'estimators' if args.no_training else 'training'}"
    return _next_steps(skeleton.paper(args.key, training=not args.no_training), name)


def _new_undo(args: argparse.Namespace) -> Answer:
    paths = [Path(os.path.relpath(path)) for path in skeleton.undo()]
    lines = [f"{'restored' if path.exists() else 'removed'} {path}" for path in paths]
    return Answer({"files": list(map(str, paths))}, "\n".join(lines))


def _next_steps(paths: list[Path], name: str) -> Answer:
    written = [os.path.relpath(path) for path in paths]
    lines = [f"wrote {path}" for path in written]
    lines += ["", f"make {name} SCALE=smoke      makes the figure, in seconds; smoke verdicts are always inconclusive",
              f"{python()} -m icl check {name}      runs every test of a figure on it, and its lint",
              f"{python()} -m icl new undo      removes it again"]  # fmt: skip
    return Answer({"figure": name, "files": written}, "\n".join(lines))


def python() -> str:
    """The running Python as a word of a command in the shell of this folder."""
    return os.path.relpath(sys.executable) if Path(sys.executable).is_relative_to(Path.cwd()) else "python"


def _check(args: argparse.Namespace) -> Answer:
    name = ledger.figure_name(args.figure)
    module = discovery.file(name)
    tests = ["tests/papers/test_contracts.py", "tests/evidence/test_freeze.py", "tests/report/test_gallery.py"]
    chosen = f"{name} or citation or freeze or has_its_reason"
    steps = {
        "tests of every figure, freeze and bibliography": ["pytest", "-q", *tests, "-k", chosen],
        "lint": ["ruff", "check", module],
        "format": ["ruff", "format", "--check", module],
    }
    passed = {}
    for words, command in steps.items():
        print(f"-- {words}", file=sys.stderr, flush=True)
        passed[words] = subprocess.run([sys.executable, "-m", *command], stdout=2, check=False).returncode == 0
    lines = [f"{'passed' if good else 'FAILED':8}{words}" for words, good in passed.items()]
    return Answer(passed, "\n".join(lines), 0 if all(passed.values()) else MISSING)


def _whatif(args: argparse.Namespace) -> Answer:
    plan, name = planned(args), ledger.figure_name(args.figure)
    picture, changes = whatif.whatif(plan, name)
    differ = compare.changed_verdicts(changes)
    numbers = [
        {
            "claim": one.claim,
            "observable": one.observable,
            "bound": one.bound,
            "default": one.theirs,
            "changed": one.ours,
        }
        for one in changes
    ]
    notes = whatif.notes(plan, name, changes)
    data = {"picture": str(picture), "command": plan.command(name), "verdicts": differ, "numbers": numbers,
            "notes": notes}  # fmt: skip
    lines = [f"{claim:10} {outcomes}" for claim, outcomes in differ.items()] or ["no verdict differs"]
    text = whatif.table(changes, ours=plan.folder, theirs=plan.scale)
    return Answer(data, "\n".join([f"picture   {picture}", *lines, "", text.rstrip(), "", *notes]))


def _constants(text: str) -> overrides.Overrides:
    """The value of --set: model -> constant -> value."""
    try:
        return overrides.checked(yaml.safe_load(text))
    except yaml.YAMLError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not {{model: {{constant: value}}}}") from error
    except ConstantError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


FROM = {"dest": "reused", "metavar": "FIGURE", "default": "", "help": "measure the training of this figure"}
UNTRAINED = {"action": "store_true", "help": "compare estimators on prompts, without a trained model"}
COMMANDS: dict[str, tuple[Callable[[argparse.Namespace], Answer], Mapping[str, Any], str]] = {
    "list": (_list, {}, "list all papers and figures, one line each"),
    "figures": (_figures, {"paper": None}, "print the names of a paper's figures"),
    "show": (_show, {"name": None}, "show a figure with its claims and constants, a claim, or a paper"),
    "freeze": (_freeze, {}, "freeze all claims and the code that measures them; later changes are marked as amended"),
    "cite": (_cite, {"names": "+"}, "print the BibTeX entries for figures, claims or papers"),
    "verdicts": (_verdicts, {"figures": "*"}, "print the verdicts on disk and the figures without any"),
    "progress": (_progress, {}, "print the progress of unfinished trainings"),
    "open": (_open, {"figure": None}, "open a figure's picture and the report, and print their paths"),
    "whatif": (_whatif, {"figure": None}, "make a figure with the default constants and those of --set, side by side"),
    "completion": (_completion, {}, "print shell code that completes make targets and names, for bash and zsh"),
    "check": (_check, {"figure": None}, "run the tests of every figure on one, and its lint"),
    "new figure": (
        _new_figure,
        {"paper": None, "name": None, "--from": FROM},
        "add a working example figure to a paper",
    ),
    "new paper": (
        _new_paper,
        {"key": None, "--no-training": UNTRAINED},
        "add a paper with a working example of model, figure and claim",
    ),
    "new undo": (_new_undo, {}, "remove what the last `new` wrote"),
}


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--json", action="store_true", help="machine-readable output")
    shared.add_argument("--scale", choices=SCALES, default="laptop", help="default: laptop")
    shared.add_argument("--set", type=_constants, default={}, metavar="CONSTANTS",
                        help="constants instead of the defaults: '{model: {constant: value}}'")  # fmt: skip
    shared.add_argument("--variant", default="", metavar="NAME", help="the name of the folder for --set")
    shared.add_argument("--first-seed", type=int, default=FIRST_SEED, metavar="N", help=f"default: {FIRST_SEED}")
    shared.add_argument("--shards", type=int, default=2, metavar="N", help="as in workflow/config.yaml; default: 2")
    top = argparse.ArgumentParser(
        prog="python -m icl", description=__doc__,
        epilog="Exit codes: 0 done, 1 a result is missing, out of date or damaged, 2 no such name or command.",
    )  # fmt: skip
    commands = {"": top.add_subparsers(dest="command", required=True, metavar="COMMAND")}
    for name, (run, arguments, words) in COMMANDS.items():
        group, _, last = name.rpartition(" ")
        if group not in commands:
            grouped = commands[""].add_parser(group, help="add a figure or a paper")
            commands[group] = grouped.add_subparsers(dest="what", required=True, metavar="WHAT")
        one = commands[group].add_parser(last, parents=[shared], help=words, description=words)
        one.set_defaults(run=run)
        for argument, how in arguments.items():
            one.add_argument(argument, **(how if isinstance(how, dict) else {"nargs": how}))
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    args = parser().parse_args(arguments)
    try:
        answer = args.run(args)
    except (Missing, whatif.RunFailed) as problem:
        print(problem, file=sys.stderr)
        return MISSING
    except (ConstantError, SealedError) as problem:
        print(problem, file=sys.stderr)
        return MISUSED
    try:
        print(json.dumps(answer.data, indent=2) if args.json else answer.text, flush=True)
    except BrokenPipeError:
        # The reader, such as head, has closed the pipe; without this, Python would report it again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    code: int = answer.code
    return code
