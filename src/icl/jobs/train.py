"""Train one shard of a sweep; an interrupted training continues from its last saved state."""

from pathlib import Path
from typing import TYPE_CHECKING

from icl.core import provenance, runs, state, training
from icl.core.files import link_or_copy
from icl.core.sweep import Sweep

if TYPE_CHECKING:
    from icl.pipeline.plan import Plan


def run(plan: "Plan", name: str) -> None:
    """Train <figure>/<sweep>/<shard>."""
    figure, sweep, shard = name.split("/")
    of_shard = plan.sweeps(figure)[sweep].shard(*map(int, shard.split("of")))
    train(of_shard, Path(plan.weights_file(sweep, shard)), plan.training_fingerprint(of_shard))


def train(
    sweep: Sweep, weights: Path, fingerprint: str, device: str = "", seconds: float = 20
) -> None:
    """Train a sweep, or a shard of it, and write its weights and losses.

    fingerprint : of the code and constants; seconds : time between saved states
    """
    # Snakemake removes a job's outputs before it starts the job. A second name preserves weights
    # that a job finished after its Snakemake had ended.
    finished, saved = runs.beside(weights)
    name = f"{sweep.name} {weights.stem}"
    if runs.is_current(finished, fingerprint):
        print(f"{name}: was finished before", flush=True)
    else:
        device = device or provenance.device()
        last = sweep.snapshots[-1]
        # Before the training: it does not use what is edited or committed while it runs.
        about = provenance.about(fingerprint=fingerprint)
        start = state.load_state(saved, fingerprint) or training.start(sweep, device)
        print(f"{name}: from step {start.step} to {last}", flush=True)
        after_step = state.watched(name, last, saved, fingerprint, seconds)
        trained = training.train(sweep, start, device=device, after_step=after_step)
        runs.save(finished, trained, about | {"cpu_seconds": start.cpu_seconds})
    link_or_copy(finished, weights)
    saved.unlink(missing_ok=True)
