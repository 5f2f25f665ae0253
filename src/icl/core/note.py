"""What a caption says of its run: scale, what is smaller than in the paper, changed constants."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Note:
    """The parts of the note.

    scale : "laptop scale, 20 seeds"; reduced : (what, its value here, its value in the paper)
    further : phrases on changed constants, the run that is drawn, and seeds
    """

    scale: str
    reduced: tuple[tuple[str, str, str], ...] = ()
    further: tuple[str, ...] = ()

    def _joined(self, reduced: str) -> str:
        return "; ".join([self.scale, *([reduced] if self.reduced else []), *self.further])

    @property
    def full(self) -> str:
        """The note with every reduction, as in "reduced: steps 4500 of 500000"."""
        parts = ", ".join(f"{what} {here} of {there}" for what, here, there in self.reduced)
        return self._joined(f"reduced: {parts}")

    @property
    def brief(self) -> str:
        """The note that only says whether anything is reduced."""
        return self._joined("reduced (see the report)")

    @property
    def compared(self) -> str:
        """The note with pairs of values, as in "steps 4500 / 500000"."""
        pairs = ", ".join(f"{what} {here} / {there}" for what, here, there in self.reduced)
        return self._joined(f"reduced, our value / that of the paper scale: {pairs}")
