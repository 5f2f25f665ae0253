# The plan: config, checked before any job runs, and what follows from it.
import shlex
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.utils import min_version, validate

from icl import calibration, outcome, settlement
from icl.calibrations import of as space_of
from icl.calibrations import spaces
from icl.dag import Plan, has_reference, measuring_code, training_code
from icl.figure import caption, is_animated, summary
from icl.files import settle_times
from icl.papers import of as paper
from icl.requests import Job, Requests, load
from icl.spec import ConstantError, digest

min_version("9.0")
validate(config, "../config.schema.yaml")

try:
    PLAN = Plan.of(config)
    for system in config["trials"]:
        space_of(system)
except ConstantError as error:
    raise WorkflowError(str(error)) from error

# What the jobs of an earlier run took, so what they ask for.
PEAKS = "workflow/peaks.csv"
REQUESTS = Requests(PLAN, load(Path(PEAKS)))

REFERENCED = [name for name in PLAN.figures if has_reference(name)]
ANIMATED = [name for name in PLAN.figures if is_animated(name)]
HIDDEN = [name for name in PLAN.figures if name not in REFERENCED]
SPACES = spaces()

# A virtual environment that is called but not activated still lends its own Python to the jobs. They write to logs, and
# are lent the terminal for their progress.
shell.prefix(
    f"set -euo pipefail; export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH; "
    "exec 9>&2; export ICL_TERMINAL=9; "
)


def unknown_target(wildcards):
    """Raise the error that Snakemake has no better words for than that no rule produces the target."""
    names = sorted(rule.name for rule in workflow.rules if not rule.has_wildcards())
    raise WorkflowError(
        f"target {wildcards.target!r}: there is none of this name; there are {', '.join(names)}"
    )


def settled(system):
    """A function of the wildcards: hash of both points of a comparison and of the code, known where it is asked for."""
    space = SPACES[system]
    return lambda wildcards: digest(
        [
            settlement.points(space, outcome.rows(system)),
            training_code(system),
            *(measuring_code(name) for name in space.fitted),
        ]
    )


def given_folder(wildcards):
    """The results folder that `against` names."""
    if not config["against"]:
        raise WorkflowError(
            "compare: name the other results by --config against=<results folder>"
        )
    return config["against"]


wildcard_constraints:
    scale="|".join(["paper", "laptop", "smoke"]),
    sweep="|".join(PLAN.trainings),
    shard=r"\d+of\d+",
    figure="|".join(PLAN.figures),


onstart:
    settle_times(Path("results") / PLAN.scale)
