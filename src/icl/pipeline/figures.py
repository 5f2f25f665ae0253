"""A figure's trainings, table, verdicts and note.

A figure is a value (see `icl.core.figure`) in ``FIGURES`` of a module in a paper's folder. Caption, observables, claims
and bounds are in the paper's claims.yaml.
"""

from collections.abc import Mapping
from typing import Any

from icl.core import discovery
from icl.core.config import SCALES, ConstantError
from icl.core.runs import Runs
from icl.core.sweep import Sweep, reduction
from icl.core.table import Table
from icl.evidence import judging, ledger
from icl.pipeline import measuring
from icl.pipeline.overrides import Overrides, applicable, applied


def is_animated(name: str) -> bool:
    """Whether the figure has `frames(table)`, the pictures of an animation."""
    return discovery.figure(name).frames is not None


def draws_one_run(name: str) -> bool:
    """Whether the figure draws a single run, and all of them by `draw_runs(table)`."""
    return discovery.figure(name).draw_runs is not None


def sweeps(name: str, scale: str, constants: Overrides, first_seed: int = 0) -> dict[str, Sweep]:
    """The sweeps of a figure by name, with the user's constants and seeds starting at `first_seed`.

    Raises ConstantError for an unknown scale, an unknown constant or a value out of range.
    """
    if scale not in SCALES:
        raise ConstantError(f"scale = {scale!r}: must be one of {', '.join(SCALES)}")
    return applied(discovery.figure(name).sweeps(scale), constants, first_seed)


def trainings(figures: Mapping[str, Mapping[str, Sweep]], constants: Overrides) -> dict[str, tuple[str, Sweep]]:
    """Every training that the figures need: sweep name -> (a figure that defines it, the sweep).

    figures : figure -> its sweeps, with the user's constants

    Raises ConstantError if two figures use the same name for different trainings, and for constants without effect: of
    a system that no figure uses, or varied by every sweep of their system.
    """
    needed: dict[str, tuple[str, Sweep]] = {}
    for name, of_figure in figures.items():
        for sweep in of_figure.values():
            first, known = needed.setdefault(sweep.name, (name, sweep))
            if known is not sweep and _training(known) != _training(sweep):
                raise ConstantError(f"sweep {sweep.name}: {first} and {name} use this name for different trainings")
    systems = {sweep.system for _, sweep in needed.values()}
    for word in sorted(set(constants) - systems):
        raise ConstantError(f"constants of {word}: no such model; try {discovery.near(word, sorted(systems))}")
    for system_name, values in constants.items():
        of_system = [sweep for _, sweep in needed.values() if sweep.system == system_name]
        for name, value in values.items():
            if all(sweep.varied(name) for sweep in of_system):
                raise of_system[0].varies(name, value)
    return needed


def _training(sweep: Sweep) -> tuple[Any, ...]:
    """What the trained weights depend on."""
    return sweep.name, sweep.system, sweep.configs, sweep.snapshots


def measure(name: str, runs: Mapping[str, Runs], scale: str) -> Table:
    """The figure's table as measured by the workflow: see `measuring.measure`."""
    return measuring.measure(name, runs, scale, ledger.declared(name), ledger.target(name).medians)


def check(name: str, table: Table) -> list[judging.Verdict]:
    """The verdicts on the figure's claims."""
    return judging.verdicts(judging.questions(ledger.claims(name), table.scale), table)


def note(name: str, scale: str, constants: Overrides) -> str:
    """The scale and its reductions against the paper scale, for the caption and the metadata of the pictures."""
    made, papers = sweeps(name, scale, constants), sweeps(name, "paper", constants)
    return note_of(made, papers, scale, constants, draws_one_run(name))


def note_of(
    ours: Mapping[str, Sweep], papers: Mapping[str, Sweep], scale: str, constants: Overrides, one: bool = False
) -> str:
    """The same note from a figure's sweeps at this scale and at the paper's; one : a single run is drawn."""
    words: list[str] = []
    for key, sweep in ours.items():
        words += [word for word in reduction(sweep, papers[key]) if word not in words]
    values = {name: value for sweep in ours.values() for name, value in applicable(sweep, constants).items()}
    seeds = max((len(set(sweep.seeds)) for sweep in ours.values() if sweep.is_random), default=0)
    phrases = (
        [f"{scale} scale, " + (f"{'one of ' * one}{seeds} seeds" if seeds else "exact: no randomness")]
        + (words and ["reduced: " + ", ".join(words)])
        + [f"{name} = {value}" for name, value in values.items()]
    )
    return "; ".join(phrases)
