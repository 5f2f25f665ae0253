# The plan: config, checked before any job runs, and what follows from it.
import shlex
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.utils import min_version, validate

from icl.core.config import ConstantError, canonical
from icl.core.files import settle_times
from icl.evidence import ledger
from icl.pipeline import lock
from icl.pipeline.plan import Plan, scale_of, unreachable

min_version("9.0")
validate(config, "../config.schema.yaml")

try:
    PLAN = Plan.of(config)
    asked = [
        word
        for word in sys.argv[1:]
        if word in ledger.aliases() or word in PLAN.figures
    ]
    if unused := unreachable(PLAN, asked):
        raise ConstantError(
            f"constants of {', '.join(unused)}: change nothing in {', '.join(asked)}"
        )
except ConstantError as error:
    raise WorkflowError(str(error)) from error

# For the captions of Snakemake's own report; as parameters of the rules they would draw figures again when edited.
config["captions"] = {name: ledger.target(name).caption for name in PLAN.figures}
RESULTS, PICTURES = PLAN.results, PLAN.pictures_folder

# A virtual environment that is called but not activated: jobs take its Python too. They write to logs; the bar of a
# training goes to the terminal.
shell.prefix(
    f"set -euo pipefail; export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH; "
    "exec 9>&2; export ICL_PROGRESS=9; "
)


def unknown_target(wildcards):
    """Raise the error that names near matches of a target that no rule has."""
    from icl.core.discovery import near

    names = [rule.name for rule in workflow.rules if not rule.has_wildcards()]
    raise WorkflowError(
        f"target {wildcards.target!r}: there is none of this name; there is {near(wildcards.target, sorted(names))}"
    )


def other_folder(wildcards):
    """Raise the error for a file of another scale or variant than the config's."""
    path = f"{wildcards.top}/{wildcards.rest}"
    scale = scale_of(path)
    advice = f"; add --config scale={scale}" if scale not in ("", PLAN.scale) else ""
    raise WorkflowError(f"file {path!r}: no rule makes it in {PLAN.folder}{advice}")


def given_folder(wildcards):
    """The results folder that `against` names."""
    if not config["against"]:
        raise WorkflowError(
            "compare: name the other results by --config against=<results folder>"
        )
    return config["against"]


wildcard_constraints:
    sweep="|".join(PLAN.trainings),
    shard=r"\d+of\d+",
    figure="|".join(PLAN.figures),


onstart:
    settle_times(Path(RESULTS))
    lock.record()


onsuccess:
    lock.forget()


onerror:
    lock.forget()
