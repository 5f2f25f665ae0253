"""Sweeps of the chain-of-thought figures: the training that they share, and constants that a figure varies or fixes."""

from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from typing import Any, ClassVar

from icl.core.config import grid
from icl.core.sweep import Sweep
from icl.papers.li2025.one_layer import SYSTEM, Config, Test

# Twenty seeds train in seconds, so that the laptop scale is the paper scale but for the smoke test.
SEEDS = {"paper": 20, "laptop": 20, "smoke": 2}
STEPS = {"paper": 1000, "laptop": 1000, "smoke": 40}
QUERIES = {"paper": 1000, "laptop": 1000, "smoke": 16}
SNAPSHOTS = 20


def shared_training(scale: str, test: type[Test] = Test, **constants: Any) -> Sweep:
    """The one training that figures 17 to 20 share, with the constants of a figure's test."""
    steps = STEPS[scale]
    return Sweep(
        name="li_cot",
        system=SYSTEM,
        configs=grid(Config, seed=range(SEEDS[scale])),
        snapshots=tuple(range(0, steps + 1, steps // SNAPSHOTS)),
        test=test(**({"queries": QUERIES[scale]} | constants)),
    )


class Varied(Test):
    """Test constants that are refused unless the prompts of every variation of them exist.

    So a figure that varies what its prompts are drawn from refuses impossible constants before anything trains.
    """

    VARIATIONS: ClassVar[tuple[Mapping[str, float], ...]] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        for change in self.VARIATIONS:
            self.variation(change)

    def variation(self, change: Mapping[str, float]) -> Test:
        """These constants with some of them changed.

        Raises ConstantError if they cannot be.
        """
        return Test(**(asdict(self) | dict(change)))


@cache
def varied_test(**constants: tuple[float, ...]) -> type[Varied]:
    """A Test that is refused unless prompts exist for every value of each of these constants, one varied at a time."""

    class EveryValue(Varied):
        VARIATIONS = tuple({name: value} for name, values in constants.items() for value in values)

    return EveryValue


@cache
def pinned(**values: float) -> type[Config]:
    """A Config with constants that are what they are, whatever a user asks for.

    For constants that fix shapes: a figure that varies one has a sweep per value, and each must keep its own, as a
    sweep keeps the constants that it varies itself.
    """

    class Pinned(Config):
        def __post_init__(self) -> None:
            for name, value in values.items():
                object.__setattr__(self, name, value)
            super().__post_init__()

    return Pinned
