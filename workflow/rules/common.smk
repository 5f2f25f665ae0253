# The plan from config and targets, checked before any job runs; an error is one line.
import errno
import fcntl
import os
import shlex
import shutil
import sys
from pathlib import Path

from snakemake.logging import logger
from snakemake.utils import min_version

try:
    from icl.core.config import SCALES, ConstantError, canonical
    from icl.core.folders import near
    from icl.core.files import reset_future_times
    from icl.evidence import ledger
    from icl.pipeline import environment
    from icl.pipeline import kernels
    from icl.pipeline.places import taken
    from icl.report.command_line import name_strays
    from icl.pipeline.config import check_typed
    from icl.pipeline.plan import Plan, check_reach, requested_figures
    from icl.pipeline.screen import Screen
    from icl.report.gallery import expected_costs
except ModuleNotFoundError as error:
    sys.exit(
        f"{sys.executable}: has no module {error.name}; run `make env`, then .venv/bin/snakemake"
    )

min_version("9.0")
# Of this process too, because jobs inherit it; a terminal without some letters shows others in their place.
environment.adopt(environment.known(os.environ))
sys.stdout.reconfigure(errors="replace")
name_strays()
SCREEN = Screen(
    logger,
    lambda: workflow.is_main_process
    and workflow.executor_plugin is not None
    and workflow.local_exec
    and not (workflow.dryrun or workflow.touch or workflow.output_settings.verbose),
)
if set("{}") & set(os.getcwd()):
    sys.exit(
        f"folder {os.getcwd()}: Snakemake takes braces for wildcards; rename the folder"
    )
try:
    check_typed(
        sys.argv[1:], workflow.config_settings.config_args, workflow.configfiles
    )
    PLAN = Plan.of(config)
    PLAN.trainings
    check_reach(PLAN, requested_figures(sys.argv[1:]))
    ONLY = [ledger.figure_name(word) for word in config["only"].split()] or PLAN.figures
except ConstantError as error:
    sys.exit(str(error))

# Captions for Snakemake's own report; as parameters of the rules, an edited caption would draw its figure again.
config["captions"] = {name: ledger.target(name).caption for name in PLAN.figures}
RESULTS, PICTURES = PLAN.results, PLAN.pictures_folder
EVERYTHING = [path for name in PLAN.figures for path in PLAN.chain(name)]
if lines := taken(map(Path, EVERYTHING)):
    sys.exit("\n".join(lines))

# Jobs use this Python even if its virtual environment is not activated, or that of environment.yml if Snakemake is to
# deploy it (--software-deployment-method conda). They write to logs;
# descriptor 9 is the terminal or log of the workflow, for the progress of trainings. Without the two thresholds, glibc
# returns the memory of every large tensor to the kernel.
deployed = {method.name for method in workflow.deployment_settings.deployment_method}
PYTHON = (
    f"PYTHONPATH={shlex.quote(str(Path(workflow.basedir) / 'src'))}"
    if "CONDA" in deployed
    else f"PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH"
)
CONFIG = shlex.quote(canonical(PLAN.plain())).replace("{", "{{").replace("}", "}}")
shell.prefix(
    f"set -euo pipefail; export {PYTHON}; "
    f"exec 9>&2; export ICL_PROGRESS=9; config={CONFIG}; "
    "export MALLOC_TRIM_THRESHOLD_=4000000000 MALLOC_MMAP_THRESHOLD_=4000000000; "
)


def free_name(name):
    """The name of a new rule; exits if another rule has it."""
    taken = {rule.name for rule in workflow.rules}
    if name in taken:
        sys.exit(
            f"target {name}: two targets have this name; rename the figure or alias"
        )
    return name


def unknown_target(wildcards):
    """Exit for a misspelt target; Snakemake tries this rule last."""
    target = wildcards.target
    if "=" in target:
        sys.exit(f"{target}: settings stand after --config, as in --config {target}")
    names = sorted(rule.name for rule in workflow.rules if not rule.has_wildcards())
    sys.exit(f"target {target!r}: no such target; try {near(target, names)}")


def other_folder(wildcards):
    """Exit for a file of another scale or variant than the config's."""
    scale = wildcards.folder.split("@")[0]
    advice = (
        f"; add --config scale={scale}"
        if scale in SCALES and scale != PLAN.scale
        else ""
    )
    path = "/".join(wildcards)
    sys.exit(
        f"file {path!r}: is not in {PLAN.folder}, the folder of this config{advice}"
    )


HOUR = 3600


def made_by(targets):
    """The figures that these targets make."""
    if not targets or {"figures", "report", "compare"} & set(targets):
        return PLAN.figures
    return requested_figures(targets)


wildcard_constraints:
    sweep="|".join(PLAN.trainings),
    shard=r"\d+of\d+",
    figure="|".join(PLAN.figures),


onsuccess:
    SCREEN.end()


onerror:
    # Snakemake records a failed job's outputs, which are those of an earlier run, as made by it.
    for job in workflow.scheduler.failed:
        workflow.persistence.started(job)
    SCREEN.end(
        (
            "stopped; trainings saved their state"
            if SCREEN.stopped
            else "not everything was made; what was made is kept"
        ),
        "run the same command again to continue",
    )


onstart:
    if getattr(
        workflow.executor_plugin, "name", ""
    ) == "slurm" and not shutil.which("sbatch"):
        sys.exit(
            "there is no sbatch here: start this profile where SLURM's commands are, or leave out --workflow-profile"
        )
    # One Snakemake at a time in a folder. The system releases this lock when the process ends, even if it is killed;
    # Snakemake's own lock, which the profiles turn off, would remain.
    try:
        # Without O_NOFOLLOW, a link in its place would lock the file that it names.
        flags = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW
        config["lock"] = os.open(".snakemake/icl.lock", flags, 0o600)
        fcntl.flock(config["lock"], fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit("another Snakemake runs in this folder; wait until it ends")
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR):
            sys.exit(
                ".snakemake/icl.lock: is a link or a folder; delete it and run again"
            )
        # Some network file systems have no locks.
        print(
            f"no lock here ({error.strerror}): start one Snakemake at a time",
            file=sys.stderr,
        )
    for folder in (Path(RESULTS), Path(PICTURES)):
        existing = next(path for path in (folder, *folder.parents) if path.exists())
        if not os.access(existing, os.W_OK):
            sys.exit(f"folder {existing}: cannot be written")
    reset_future_times(Path(RESULTS))
    for line in kernels.notes(Path(RESULTS)):
        print(line, file=sys.stderr)
    seconds, unknown = expected_costs(PLAN, made_by(workflow.dag_settings.targets))
    if seconds > HOUR / 2:
        print(
            f"{PLAN.folder}: about {seconds / HOUR:.1f} CPU hours if nothing is finished,"
            f" {seconds / HOUR / workflow.cores:.1f} on {workflow.cores} cores;"
            " a stopped training goes on later",
            *(
                [f"not counted, because never run: {', '.join(unknown)}"]
                * bool(unknown)
            ),
            sep="\n",
            file=sys.stderr,
        )
