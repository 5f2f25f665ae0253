"""Run one job of a plan: its inputs and files, given to a function of `icl.jobs`."""

from pathlib import Path

from icl.evidence import ledger
from icl.pipeline.plan import Plan

KINDS = ("train", "measure", "check", "draw")


def run(plan: Plan, kind: str, name: str) -> None:
    """Run a job and write its files; each kind imports only what it needs.

    kind : of KINDS; name : a figure, or <figure>/<sweep>/<shard> for a training

    Raises Problem for damaged inputs, and ConstantError for a name that is not in the plan.
    """
    if kind == "train":
        from icl.jobs.train import train

        figure, sweep, shard = name.split("/")
        of_shard = plan.sweeps(figure)[sweep].shard(*map(int, shard.split("of")))
        return train(of_shard, Path(plan.weights_file(sweep, shard)), plan.training_fingerprint(of_shard))
    source, measurement = Path(plan.table_file(name)), plan.measurement_fingerprint(name)
    published = next((Path(path) for path in plan.published_files(name)), None)
    if kind == "measure":
        from icl.jobs.measure import measure

        weights, observables = [Path(path) for path in plan.run_files(name)], ledger.declared(name)
        medians = ledger.target(name).medians
        return measure(name, plan.scale, plan.sweeps(name), weights, observables, medians, source, measurement)
    of_figure = name, plan.scale, plan.folder
    if kind == "check":
        from icl.jobs.check import check

        claims, output, fingerprint = plan.claims(name), Path(plan.verdict_file(name)), plan.judging_fingerprint(name)
        return check(*of_figure, claims, source, measurement, published, output, fingerprint)
    from icl.jobs.draw import draw

    pictures, output = [Path(path) for path in plan.pictures(name)], Path(plan.record_file(name))
    fingerprint = plan.drawing_fingerprint(name)
    return draw(*of_figure, source, measurement, published, pictures, plan.note(name), output, fingerprint)
