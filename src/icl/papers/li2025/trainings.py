"""Sweeps of the chain-of-thought figures: the shared training, and constants that a figure varies or fixes."""

from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from typing import Any, ClassVar

from icl.core.config import grid
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.papers.li2025.one_layer import SYSTEM, Config, Test

# Twenty seeds train in seconds, so the laptop scale equals the paper scale.
SEEDS = {"paper": 20, "laptop": 20, "smoke": 2}
STEPS = {"paper": 1000, "laptop": 1000, "smoke": 40}
QUERIES = {"paper": 1000, "laptop": 1000, "smoke": 16}
SNAPSHOTS = 20


def shared_training(scale: str, test: type[Test] = Test, **constants: Any) -> Sweep:
    """The training shared by figures 17 to 20, with the test constants of a figure."""
    steps = STEPS[scale]
    return Sweep(
        name="li_cot",
        system=SYSTEM,
        configs=grid(Config, seed=range(SEEDS[scale])),
        snapshots=tuple(range(0, steps + 1, steps // SNAPSHOTS)),
        test=test(**({"queries": QUERIES[scale]} | constants)),
    )


def drawn(trained: Runs) -> int:
    """Index of the run that a figure draws, as the published pictures show one: that of the inferred seed, or the first
    run if this seed was not trained.
    """
    seeds, seed = trained.sweep.seeds, trained.sweep.test.drawn_seed
    return seeds.index(seed) if seed in seeds else 0


class Varied(Test):
    """Test constants that raise ConstantError unless prompts exist for all their variations.

    So a figure that varies the distribution of its prompts rejects impossible constants before training.
    """

    VARIATIONS: ClassVar[tuple[Mapping[str, float], ...]] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        for change in self.VARIATIONS:
            self.variation(change)

    def variation(self, change: Mapping[str, float]) -> Test:
        """These constants with some values changed.

        Raises ConstantError for invalid values.
        """
        return Test(**(asdict(self) | dict(change)))


@cache
def varied_test(**constants: tuple[float, ...]) -> type[Varied]:
    """A Test that raises ConstantError unless prompts exist for all these values, varied one constant at a time."""

    class EveryValue(Varied):
        VARIATIONS = tuple({name: value} for name, values in constants.items() for value in values)

    return EveryValue


@cache
def pinned(**values: float) -> type[Config]:
    """A Config with fixed values that users cannot change.

    This is for constants that set tensor shapes. A figure that varies one has a sweep per value, and each sweep must
    keep its value.
    """

    class Pinned(Config):
        def __post_init__(self) -> None:
            for name, value in values.items():
                object.__setattr__(self, name, value)
            super().__post_init__()

    return Pinned
