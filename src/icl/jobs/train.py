"""Train one shard of a sweep; an interrupted training continues from its last saved state."""

from pathlib import Path

from icl.core import provenance, runs, state, training
from icl.core.files import link_or_copy
from icl.core.sweep import Sweep


def train(sweep: Sweep, weights: Path, fingerprint: str, device: str = "", seconds: float = 20) -> None:
    """Train a sweep, or a shard of it, and write its weights and losses.

    fingerprint : of the code and constants; seconds : time between saved states
    """
    # Snakemake removes a job's outputs before it starts the job. A second name preserves weights that a job finished
    # after its Snakemake had ended.
    finished = weights.with_name(f".{weights.stem}.finished.safetensors")
    saved = weights.with_suffix(".state.safetensors")
    if runs.is_current(finished, fingerprint):
        print(f"{sweep.name} {weights.stem}: was finished before", flush=True)
    else:
        device, last = device or provenance.device(), sweep.snapshots[-1]
        start = state.load_state(saved, fingerprint) or training.start(sweep, device)
        print(f"{sweep.name} {weights.stem}: from step {start.step} to {last}", flush=True)
        after_step = state.watched(f"{sweep.name} {weights.stem}", last, saved, fingerprint, seconds)
        trained = training.train(sweep, start, device=device, after_step=after_step)
        runs.save(finished, trained, provenance.about(fingerprint=fingerprint, cpu_seconds=start.cpu_seconds))
    link_or_copy(finished, weights)
    saved.unlink(missing_ok=True)
