"""`python -m icl`: shows papers, figures, claims and verdicts, adds new ones, and runs the jobs of the workflow."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from icl.core.problem import Problem
from icl.pipeline import run, verify
from icl.pipeline.plan import Plan

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
Config = Annotated[Any, typer.Option(parser=json.loads, help="the config of the workflow, as JSON")]


@app.command(hidden=True)
def job(kind: str, name: str, config: Config) -> None:
    """Run a job of the workflow: train SWEEP/SHARD, measure, check or draw FIGURE."""
    run.run(Plan.of(config), kind, name)


@app.command("verify", hidden=True)
def verify_results(config: Config, everything: Annotated[bool, typer.Option("--all")] = False) -> None:
    """Check results on disk; with --all, missing figures count as problems."""
    plan = Plan.of(config)
    names = [name for name in plan.figures if everything or any(Path(path).exists() for path in plan.own_files(name))]
    problems = list(verify.figures(plan, names))
    print("\n".join([*problems, f"{len(names)} figures checked, {len(problems)} problems"]))
    raise typer.Exit(bool(problems))


def main() -> None:
    """Run one command; a Problem ends it with one line instead of a traceback."""
    try:
        app()
    except Problem as problem:
        sys.exit(str(problem))
