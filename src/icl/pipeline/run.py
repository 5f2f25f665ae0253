"""Run one job of a plan."""

from importlib import import_module
from pathlib import Path

from icl.core.config import ConstantError
from icl.core.problem import Problem
from icl.pipeline.places import taken
from icl.pipeline.plan import Plan


def run(plan: Plan, kind: str, name: str) -> None:
    """Run a job and write its files; each kind imports only what it needs.

    kind : of KINDS; name : a figure, or <figure>/<sweep>/<shard> for a training

    Raises Problem for damaged inputs and taken places, ConstantError for a name that is not in the
    plan.
    """
    figure, *training = name.split("/")
    if kind == "train" and tuple(training) not in plan.shards_of(figure):
        raise ConstantError(f"training {name!r}: is not in the plan")
    if lines := taken(map(Path, plan.outputs(kind, name))):
        raise Problem("\n".join(lines))
    import_module(f"icl.jobs.{kind}").run(plan, name)
