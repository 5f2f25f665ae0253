"""Run one job of a plan."""

from importlib import import_module
from pathlib import Path

from icl.core.config import ConstantError
from icl.pipeline.places import require_place
from icl.pipeline.plan import Plan


def run(plan: Plan, kind: str, name: str) -> None:
    """Run a job and write its files; each kind imports only what it needs.

    kind : of KINDS; name : a figure, or <figure>/<sweep>/<shard> for a training

    Raises Problem for damaged inputs and for outputs whose place is taken, and ConstantError for a
    name that is not in the plan.
    """
    if kind == "train" and name not in plan.training_names(name.split("/")[0]):
        raise ConstantError(f"training {name!r}: is not in the plan")
    require_place(*map(Path, plan.outputs(kind, name)))
    import_module(f"icl.jobs.{kind}").run(plan, name)
