"""A figure's sweeps, table, verdicts and note, as the workflow makes them, without its files."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from icl import registry
from icl.core.config import SCALES, ConstantError
from icl.core.note import Note
from icl.core.runs import Runs
from icl.core.sweep import Overrides, Sweep, applicable, applied, reductions
from icl.core.table import Table
from icl.evidence import judging, ledger
from icl.jobs.measure import measured


def sweeps(
    name: str, scale: str, constants: Overrides, first_seed: int = 0, seeds: int = 0
) -> dict[str, Sweep]:
    """Return the sweeps of a figure by name, with the user's constants and seeds from `first_seed`
    on.

    seeds : their number; 0: that of the scale

    Raises ConstantError for an unknown scale or constant, or a value out of range.
    """
    if scale not in SCALES:
        raise ConstantError(f"scale = {scale!r}: must be one of {', '.join(SCALES)}")
    made = applied(registry.figure(name).sweeps(ledger.size(name, scale)), constants, first_seed)
    if seeds == 0:
        return made
    return {
        key: with_seeds(one, range(first := min(one.seeds), first + seeds))
        for key, one in made.items()
    }


def with_seeds(sweep: Sweep, seeds: Sequence[int]) -> Sweep:
    """Return the sweep with these seeds; unchanged if nothing is random."""
    if not sweep.is_random:
        return sweep
    settings = dict.fromkeys(replace(config, seed=0) for config in sweep.configs)
    return replace(
        sweep, configs=tuple(replace(config, seed=seed) for config in settings for seed in seeds)
    )


def measure(name: str, runs: Mapping[str, Runs], scale: str) -> Table:
    """Return the figure's table: see `icl.jobs.measure.measured`."""
    size = ledger.size(name, scale)
    medians = ledger.target(name).medians
    return measured(registry.figure(name), runs, scale, size, ledger.declared(name), medians)


def judge(name: str, table: Table) -> list[judging.Verdict]:
    """Return the verdicts on the figure's claims that are judged at the table's scale."""
    return judging.verdicts(ledger.claims(name, table.scale), table)


def note(name: str, scale: str, constants: Overrides, seeds: int = 0) -> Note:
    """Return the scale, its reductions against the paper scale, and the changed constants."""
    ours = sweeps(name, scale, constants, seeds=seeds)
    papers = sweeps(name, "paper", constants)
    reduced = dict.fromkeys(
        one for key, sweep in ours.items() for one in reductions(sweep, papers[key])
    )
    values = {
        constant: value
        for sweep in ours.values()
        for constant, value in applicable(sweep, constants).items()
    }
    most = max((len(set(sweep.seeds)) for sweep in ours.values() if sweep.is_random), default=0)
    one = "one of " if registry.figure(name).draws_one_run else ""
    seeded = f"{one}{most} {'seed' if most == 1 else 'seeds'}" if most else "exact: no randomness"
    changed = tuple(f"{constant} = {value}" for constant, value in values.items())
    return Note(f"{scale} scale, {seeded}", tuple(reduced), changed)
