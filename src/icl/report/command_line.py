"""Shows papers, figures, claims and verdicts, and adds new ones.

Exit codes: 0 done, 1 a result is missing or damaged or a check fails, 2 no such name.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from icl import __version__, registry
from icl.core import folders, plain_yaml
from icl.core.config import ConstantError
from icl.core.files import read_text, write_text
from icl.core.problem import Problem
from icl.evidence import ledger
from icl.pipeline import run, verify
from icl.pipeline.config import FIRST_SEED
from icl.pipeline.plan import Plan, check_reach

FAILED = 1
MISUSED = 2
app = typer.Typer(
    help=__doc__, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False
)
new = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.add_typer(new, name="new", help="Add a figure or a paper.")

AsJson = Annotated[bool, typer.Option("--json", help="machine-readable output")]
Scale = Annotated[str, typer.Option(help="paper, workstation, laptop or smoke")]
Set = Annotated[str, typer.Option("--set", help="other constants: '{model: {constant: value}}'")]
Variant = Annotated[str, typer.Option(help="the name of the folder for --set")]
FirstSeed = Annotated[int, typer.Option(help="the first seed of every training")]
Seeds = Annotated[
    int, typer.Option(help="the number of seeds of every training; 0: that of the scale")
]
Shards = Annotated[int, typer.Option(help="over how many jobs the run split every sweep")]
Config = Annotated[Any, typer.Option(parser=json.loads, help="the config of the workflow, as JSON")]
From = Annotated[str, typer.Option("--from", help="measure the first training of this figure")]
NoTraining = Annotated[bool, typer.Option("--no-training", help="compare estimators on prompts")]
Named = Annotated[list[str] | None, typer.Argument(metavar="FIGURE ...", show_default=False)]


def planned(
    scale: str,
    constants: str,
    variant: str = "",
    first_seed: int = FIRST_SEED,
    seeds: int = 0,
    names: Any = (),
    shards: int = Plan.shards,
) -> Plan:
    config = {
        "scale": scale,
        "shards": shards,
        "variant": variant,
        "first_seed": first_seed,
        "seeds": seeds,
        "constants": plain_yaml.load(constants, f"--set {constants!r}") or {},
    }
    plan = Plan.of(config)
    if plan.changed:
        _ = plan.trainings  # names constants without effect
        check_reach(plan, names)
    return plan


def _version(asked: bool) -> None:
    if asked:
        print(f"icl {__version__}")
        raise typer.Exit()


Version = typer.Option("--version", help="print the version", is_eager=True, callback=_version)


@app.callback()
def options(version: Annotated[bool, Version] = False) -> None:
    """Take the options before any command."""


def answer(data: Any, text: str, as_json: bool, code: int = 0) -> None:
    print(json.dumps(data, indent=2) if as_json else text.strip("\n"), flush=True)
    raise typer.Exit(code)


@app.command("list")
def list_everything(as_json: AsJson = False) -> None:
    """List all papers and figures, one line each."""
    from icl.report.formatting import rendered

    rows = [
        {
            "figure": name,
            "paper": key,
            "summary": ledger.target(name).summary,
            "module": registry.file(name),
        }
        for name, key in registry.figures().items()
    ]
    answer(rows, rendered("list.txt.j2", rows=rows), as_json)


@app.command()
def show(name: str, scale: Scale = "laptop", constants: Set = "", as_json: AsJson = False) -> None:
    """Show a figure with its claims and constants, a claim, or a paper."""
    from icl.report import descriptions, formatting

    figure = ledger.aliases().get(name, name)
    plan = planned(scale, constants, names=[figure] if figure in registry.figures() else [])
    data = descriptions.named(plan, name)
    answer(data, formatting.rendered("shown.txt.j2", one=data), as_json)


@app.command()
def history(claim: Annotated[str, typer.Argument()] = "", as_json: AsJson = False) -> None:
    """Print what changed in a claim since the first freeze, with its outcomes; without a name,
    in all claims.
    """
    from icl.evidence import history as claims
    from icl.report import history as report

    found = claims.read()
    if claim and claim not in found:
        raise folders.UnknownName(
            f"claim {claim!r}: has no history; try {folders.near(claim, found)}"
        )
    chosen = {claim: found[claim]} if claim else claims.withdrawn() | report.moved()
    data = {name: [one.plain() for one in events] for name, events in chosen.items()}
    answer(data, report.text(chosen), as_json)


@app.command()
def verdicts(
    figures: Named = None,
    scale: Scale = "laptop",
    constants: Set = "",
    variant: Variant = "",
    first_seed: FirstSeed = FIRST_SEED,
    seeds: Seeds = 0,
    shards: Shards = Plan.shards,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Verify the results on disk; print pictures and verdicts, and the commands that make what
    is missing.
    """
    from icl.report import cards, compare, entries, formatting, gallery, results

    names = [ledger.figure_name(word) for word in figures or ()]
    plan = (
        Plan.of(config)
        if config
        else planned(scale, constants, variant, first_seed, seeds, names, shards)
    )
    found = results.on_disk(plan, names or plan.figures)
    judged = {name: cards.of_record(record) for name, record in found.records.items()}
    held = gallery.held(plan, judged)
    differ = []
    agreement: dict[str, list[str]] = {}
    for name in judged:
        said = "has no verdict at this scale and with these seeds"
        if name in held:
            changes = list(compare.changes({name: found.records[name]}, {name: held[name]}))
            differ += [one for one in changes if one.is_turned]
            said = compare.agreement(changes)
        agreement.setdefault(said, []).append(name)
    text = formatting.rendered(
        "verdicts.txt.j2",
        plan=plan,
        judged=judged,
        names=names,
        found=found,
        differ=differ,
        agreement=agreement,
        counts=cards.counts(
            [card for of_figure in judged.values() for card in of_figure],
            [name for name in judged if entries.is_reduced(plan, name)],
        ),
    )
    data = {
        "verdicts": list(found.records.values()),
        "missing": found.missing,
        "problems": found.problems,
    }
    answer(data, text, as_json, FAILED if found.problems or (names and found.missing) else 0)


@app.command()
def whatif(
    figure: str,
    constants: Set = "",
    scale: Scale = "laptop",
    variant: Variant = "",
    first_seed: FirstSeed = FIRST_SEED,
    seeds: Seeds = 0,
    as_json: AsJson = False,
) -> None:
    """Make a figure with the default constants and those of --set, and print every number and
    what differs.
    """
    from icl.report import compare
    from icl.report.whatif import compared, notes

    name = ledger.figure_name(figure)
    plan = planned(scale, constants, variant, first_seed, seeds, [name])
    picture, changes = compared(plan, name)
    differ = compare.changed_verdicts(changes)
    said = notes(plan, name, changes)
    numbers = [
        {
            "claim": one.claim,
            "default": one.theirs and one.theirs.plain(),
            "changed": one.ours and one.ours.plain(),
        }
        for one in changes
    ]
    outcomes = [f"{claim:10} {turned}" for claim, turned in differ.items()]
    table = compare.markdown(changes, plan.folder, plan.scale)
    lines = [f"picture   {picture}", *(outcomes or ["no verdict differs"]), "", table, *said]
    data = {"picture": str(picture), "command": plan.command(name), "verdicts": differ}
    answer(data | {"numbers": numbers, "notes": said}, "\n".join(lines), as_json)


@new.command("figure")
def new_figure(paper: str, name: str, reused: From = "") -> None:
    """Add a working example of a figure to a paper."""
    from icl.report import skeleton

    _written(skeleton.figure(paper, name, reused), name)


@new.command("paper")
def new_paper(key: str, no_training: NoTraining = False) -> None:
    """Add a paper with a working example of a model, a figure and a claim."""
    from icl.report import skeleton

    paths = skeleton.paper(key, training=not no_training)
    _written(paths, f"{key}_{'estimators' if no_training else 'training'}")


@new.command()
def undo() -> None:
    """Remove what the last `new` wrote."""
    from icl.report import skeleton

    paths, left = skeleton.undo()
    for path in paths:
        print("restored" if path.exists() else "removed", os.path.relpath(path))
    for path in left:
        print(f"left     {path} (delete it if you do not need it)")


def _written(paths: list[Path], name: str) -> None:
    from icl.report.formatting import rendered

    print(rendered("new.txt.j2", paths=map(os.path.relpath, paths), name=name).rstrip())


@app.command()
def review(figure: str) -> None:
    """Run the tests of every figure on one, its lint, and look for violations and reasons that
    its claims need.
    """
    from icl.evidence import freeze
    from icl.report import formatting

    name = ledger.figure_name(figure)
    module = registry.file(name)
    claims = [claim.id for claim in ledger.claims(name)]
    pytest = ["pytest", "-q", "tests/papers/test_contracts.py", "-k", name]
    steps = [pytest, ["ruff", "check", module], ["ruff", "format", "--check", module]]
    steps += [["pytest", "-q", *PAGES]]
    passed = {
        " ".join(step): not subprocess.run([sys.executable, "-m", *step], check=False).returncode
        for step in steps
    }
    paper = ledger.of_figure(name).paper
    planted = f"`python -m tests.planted {paper}`"
    advice = f"{planted}, then `make gallery_text` was run: {' '.join(PAGES)}"
    passed[advice] = passed.pop(" ".join(steps[-1]))
    violations = Path("tests/papers", paper, "planted.py")
    text = read_text(violations)
    listed = formatting.planted()
    bare = [claim for claim in claims if claim not in listed and f'"{claim}"' not in text]
    moved = "the bounds and texts of the freeze, or a new id"
    for what, lacking in (
        (f"a violation in {violations}", bare),
        (moved, [claim for claim in freeze.moved() if claim in claims]),
    ):
        said = [f"every claim has {what}", *(f"{claim} has none" for claim in lacking)]
        passed["; ".join(said)] = not lacking
    print("\n".join(f"{'passed' if good else 'FAILED':8}{step}" for step, good in passed.items()))
    raise typer.Exit(0 if all(passed.values()) else FAILED)


@app.command()
def freeze() -> None:
    """Freeze all claims and the code that measures them; from then on no claim may change."""
    from icl.evidence import freeze as ledger_freeze
    from icl.pipeline import fingerprint

    codes = {name: fingerprint.of_measuring(registry.module(name)) for name in registry.figures()}
    print(f"froze {ledger_freeze.write(codes)} claims")


@app.command(hidden=True)
def job(kind: str, name: str, config: Config) -> None:
    """Run a job of the workflow: train FIGURE/SWEEP/SHARD, measure, judge or draw FIGURE."""
    run.run(Plan.of(config), kind, name)


@app.command("verify", hidden=True)
def verify_results(
    config: Config, everything: Annotated[bool, typer.Option("--all")] = False
) -> None:
    """Check results on disk; with --all, missing figures count as problems."""
    plan = Plan.of(config)
    names = [
        name
        for name in plan.figures
        if everything or any(map(os.path.exists, plan.own_files(name)))
    ]
    problems = list(verify.figures(plan, names))
    print(*problems, f"{len(names)} figures checked, {len(problems)} problems", sep="\n")
    if everything and not problems:
        print(f"pictures  {plan.pictures_folder}/")
        print("next      `make verdicts`, `make compare`, `make report`")
    raise typer.Exit(bool(problems))


def _verified(plan: Plan, names: Iterable[str], complete: bool = True) -> Any:
    """Return the figures' results; raises Problem for a damaged one, or a missing one of a complete
    set.
    """
    from icl.report import results

    found = results.on_disk(plan, names)
    missing = map(plan.verdict_file, found.missing if complete else ())
    if problems := [*found.problems, *(f"{path}: is missing; run again" for path in missing)]:
        raise Problem("\n".join(problems))
    return found


@app.command(hidden=True)
def compare(config: Config, figures: Named = None, against: str = "") -> None:
    """Print the changes against another results folder, or hold the results at hand against the
    gallery.
    """
    from icl.report import compare, gallery, results

    plan = Plan.of(config)
    ours = _verified(plan, figures or plan.figures, complete=bool(figures or against)).records
    if against:
        theirs = results.of_folder(Path(against), plan.folder)
        named = {name: one for name, one in theirs.items() if name in ours or not figures}
        print(compare.summary(compare.changes(ours, named)))
    else:
        print(compare.beside(ours, gallery.held(plan, ours)))


@app.command()
def arithmetic(
    against: Annotated[str, typer.Argument(metavar="FILE")] = "", as_json: AsJson = False
) -> None:
    """Print this machine's processor, settings and digests of operations; with a table, an earlier
    answer in JSON, or a figure of the gallery, name the first operation that differs.
    """
    from icl.core import arithmetic, table
    from icl.report import gallery

    ours = arithmetic.record()
    theirs: Any = None
    if against.endswith(".parquet"):
        theirs = table.read_plain(Path(against))[1].get("arithmetic")
    elif against.endswith(".json"):
        with suppress(ValueError):
            theirs = json.loads(read_text(Path(against)))
    elif against:
        figure = ledger.figure_name(against)
        known = (line for line in gallery.read(gallery.FIGURES) if line["figure"] == figure)
        theirs = next((line["about"].get("arithmetic") for line in known), None)
    if against and not (isinstance(theirs, dict) and "operations" in theirs):
        raise Problem(f"{against}: records no arithmetic")
    first = arithmetic.first_difference(ours, theirs) if theirs else ""
    lines = [f"{ours['processor']}, {ours['units']}, {ours['threads']} threads"]
    lines += [str(ours["settings"])]
    lines += [f"{name:30} {value}" for name, value in ours["operations"].items()]
    lines += [f"all {arithmetic.digest(ours)}"]
    lines += [f"first differs in: {first}" if first else f"the same as {against}"] if theirs else []
    answer(ours, "\n".join(lines), as_json, FAILED if first else 0)


@app.command(hidden=True)
def report(config: Config, against: str = "") -> None:
    """Write the report from the results on disk, with the changes against another results folder
    if one is named.
    """
    from icl.report import compare, entries, page, results

    plan = Plan.of(config)
    found = _verified(plan, plan.figures, complete=False)
    path = Path(plan.results, "report.html")
    others = results.of_folder(Path(against), plan.folder) if against else None
    changes = () if others is None else compare.changes(found.records, others)
    made = entries.from_disk(plan, found.records, changes)
    write_text(path, page.html(made, "../../", plan.folder, found.missing, against))
    print(f"report    {path}: {len(made)} of {len(plan.figures)} figures")


@app.command(hidden=True)
def gallery(config: Config, figures: Named = None) -> None:
    """Update these figures in the gallery, and its pages."""
    from icl.report import gallery, page

    plan = Plan.of(config)
    if plan.changed:
        raise ConstantError("gallery: shows the default constants; leave constants out of --config")
    records = _verified(plan, figures or ()).records
    ours = [{"figure": one, "scale": plan.scale, **records[one]} for one in records]
    others = gallery.updated(plan, records)[1] if records else []
    refused = [*gallery.unclean(ours), *gallery.mixtures(others)]
    refused += gallery.larger_samples(plan, records)
    if refused:
        what = "gallery: shows results of one clean revision, one machine and all seeds"
        raise Problem("\n".join([what, *refused]))
    gallery.update(plan, records)
    print("\n".join(f"wrote {path}" for path in page.write_gallery()))


PAGES = (
    "tests/papers/test_planted.py::test_the_pages_show_the_violations",
    "tests/report/test_page.py::test_the_committed_pages_are_current",
)
"""The tests of the committed pages, which show every figure with its claims and violations."""


def name_strays() -> None:
    """Name what lies among the modules but cannot be imported."""
    if strays := [repr(str(path.relative_to(folders.PACKAGE))) for path in folders.strays()]:
        said = f"not read, because these are no names of modules: {', '.join(strays)}"
        print(said, file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command; a Problem ends it with its message instead of a traceback."""
    try:
        name_strays()
        app(arguments, prog_name="icl" if Path(sys.argv[0]).name == "icl" else "python -m icl")
    except Problem as problem:
        print(problem, file=sys.stderr)
        sys.exit(MISUSED if isinstance(problem, ConstantError) else FAILED)
