"""Run one job of a plan: its inputs and files, given to a function of `icl.jobs`."""

from pathlib import Path

from icl.core.config import ConstantError
from icl.evidence import ledger
from icl.pipeline.places import require_place
from icl.pipeline.plan import Plan

KINDS = ("train", "measure", "check", "draw")


def run(plan: Plan, kind: str, name: str) -> None:
    """Run a job and write its files; each kind imports only what it needs.

    kind : of KINDS; name : a figure, or <figure>/<sweep>/<shard> for a training

    Raises Problem for damaged inputs and for outputs whose place is taken, and ConstantError for a name that is not in
    the plan.
    """
    if kind == "train":
        from icl.jobs.train import train

        figure, *training = name.split("/")
        if tuple(training) not in plan.shards_of(figure):
            raise ConstantError(f"training {name!r}: is not in the plan")
        sweep, shard = training
        of_shard = plan.sweeps(figure)[sweep].shard(*map(int, shard.split("of")))
        weights = Path(plan.weights_file(sweep, shard))
        kept = [weights.with_name(f".{weights.stem}.finished.safetensors"), weights.with_suffix(".state.safetensors")]
        require_place(weights, *kept)
        return train(of_shard, weights, plan.training_fingerprint(of_shard))
    source, measurement = Path(plan.table_file(name)), plan.measurement_fingerprint(name)
    published = next((Path(path) for path in plan.published_files(name)), None)
    if kind == "measure":
        from icl.jobs.measure import measure

        files, sizes = [Path(path) for path in plan.run_files(name)], (plan.scale, ledger.size(name, plan.scale))
        observables, medians = ledger.declared(name), ledger.target(name).medians
        require_place(source)
        return measure(name, *sizes, plan.sweeps(name), files, observables, medians, source, measurement)
    of_figure = name, plan.scale, plan.folder
    if kind == "check":
        from icl.jobs.check import check

        claims, output, fingerprint = plan.claims(name), Path(plan.verdict_file(name)), plan.judging_fingerprint(name)
        require_place(output)
        return check(*of_figure, claims, source, measurement, published, output, fingerprint)
    from icl.jobs.draw import draw

    pictures, output = [Path(path) for path in plan.pictures(name)], Path(plan.record_file(name))
    fingerprint = plan.drawing_fingerprint(name)
    require_place(output, *pictures)
    return draw(*of_figure, source, measurement, published, pictures, plan.note(name), output, fingerprint)
