"""Parts of the tables of planted violations that several papers share."""

from collections.abc import Callable, Mapping

import torch

from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.evidence import ledger
from icl.pipeline import figures
from tests.planted import UNTRAINED, Planted, with_weights


def at_laptop(figure: str, make: Callable[[Sweep], Runs]) -> dict[str, Runs]:
    """Make the runs of every sweep of the figure at the laptop scale."""
    return {name: make(sweep) for name, sweep in figures.sweeps(figure, "laptop", {}).items()}


def table(
    paper: str, others: Mapping[str, Planted], usual: Planted = UNTRAINED
) -> dict[str, dict[str, Planted]]:
    """Give every bound of the paper's claims the usual violation, or that in `others` by the first
    words of its observable.
    """

    def violation(observable: str) -> Planted:
        return next((p for words, p in others.items() if observable.startswith(words)), usual)

    return {
        claim.id: {bound.observable: violation(bound.observable) for bound in claim.bounds}
        for claim in ledger.of_paper(paper).claims
    }


def changed(change: Callable[[torch.Tensor], torch.Tensor], *only: str) -> Callable[[Runs], Runs]:
    """Return the same change of all weights, or of those that are named and exist."""

    def of_runs(runs: Runs) -> Runs:
        names = runs.weights.keys() & only if only else runs.weights
        return with_weights(runs, **{name: change(runs.weights[name]) for name in names})

    return of_runs
