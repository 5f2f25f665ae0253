"""What the chain-of-thought figures share: the training, constants that a figure varies or
fixes, and conditions.
"""

from functools import cache
from typing import Any

from icl.evidence import errors
from icl.figure import Rows, Runs, Sweep, grid
from icl.papers.li2025.one_layer import MODEL, Config, Evaluation

# Twenty seeds train in seconds, so the laptop scale equals the paper scale.
SEEDS = {"paper": 20, "laptop": 20, "smoke": 2}
STEPS = {"paper": 1000, "laptop": 1000, "smoke": 40}
QUERIES = {"paper": 1000, "laptop": 1000, "smoke": 16}
SNAPSHOTS = 20
LAST_STEPS = 50
"""The final loss is a mean over this many steps."""


def shared_training(
    scale: str, test: type[Evaluation] = Evaluation, **constants: Any
) -> list[Sweep]:
    """Return the training shared by figures 17 to 20, with the test constants of a figure."""
    configs, steps = grid(Config, seed=range(SEEDS[scale])), STEPS[scale]
    snapshots = tuple(range(0, steps + 1, steps // SNAPSHOTS))
    return [
        Sweep(
            "li_cot", MODEL, configs, snapshots, test(**({"queries": QUERIES[scale]} | constants))
        )
    ]


def drawn(trained: Runs) -> int:
    """Index of the run that a figure draws: that of the inferred seed, or the first if this seed
    was not trained.
    """
    seeds, seed = trained.sweep.seeds, trained.sweep.test.drawn_seed
    return seeds.index(seed) if seed in seeds else 0


def drawn_run(trained: Runs) -> Rows:
    """Return the row with the seed of the run that a figure draws."""
    return errors.drawn_run(trained.sweep.seeds, drawn(trained))


@cache
def varied_test(**constants: tuple[float, ...]) -> type[Evaluation]:
    """Return an Evaluation that raises ConstantError unless prompts exist for all these values,
    varied one constant at a time.
    """

    class Varied(Evaluation):
        def __post_init__(self) -> None:
            super().__post_init__()
            for name, values in constants.items():
                for value in values:
                    self.variation(**{name: value})

    return Varied


@cache
def pinned(**values: float) -> type[Config]:
    """Return a Config with fixed values that users cannot change: a figure that varies a constant
    that sets tensor shapes has a sweep per value.
    """

    class Pinned(Config):
        def __post_init__(self) -> None:
            for name, value in values.items():
                object.__setattr__(self, name, value)
            super().__post_init__()

    return Pinned


def conditions(trained: Runs) -> dict[str, Any]:
    """Conditions of theorem 4 on the training: l_tr alpha of order one or more, and the mean
    loss of the last steps.
    """
    examples = [
        config.context_length * config.relevant_fraction for config in trained.sweep.configs
    ]
    loss = trained.losses[:, -LAST_STEPS:].mean(axis=1)
    return {"training examples times alpha": examples, "training loss at the end": loss}
