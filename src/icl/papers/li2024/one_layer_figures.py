"""What the figures of the one-layer model share: one training, the epochs that they draw, and the model's errors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from icl.core.config import Constants, constant, grid
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.papers.li2024 import one_layer, one_layer_evaluation
from icl.papers.li2024.one_layer_evaluation import Evaluation

if TYPE_CHECKING:
    from torch import Tensor

# Ten seeds train in seconds, so that the laptop scale is the paper scale but for the smoke test.
SEEDS = {"paper": 10, "laptop": 10, "smoke": 2}
PROMPTS = {"paper": 1000, "laptop": 1000, "smoke": 40}


@dataclass(frozen=True)
class Schedule(Constants):
    """What the published figures draw."""

    drawn_neurons: int = constant(
        5, "published", "points per epoch and sign in figures 10 and 11, by fitting the pictures", at_least=1
    )
    random_prunings: int = constant(20, "ours", "random orders per run in figure 14", at_least=1)


SCHEDULE = Schedule()
EPOCHS = tuple(range(0, 401, 20))
SCATTER_EPOCHS = (0, 100, 200, 300, 400)
LONG_EPOCHS = tuple(range(0, 201, 20))


class EpochSweep(Sweep):
    """A training whose weights are kept at the epochs that the figures draw, whatever an epoch's number of steps."""

    def override(self, values: Mapping[str, Any]) -> Sweep:
        """The sweep with some constants replaced; see Sweep."""
        changed = super().override(values)
        return replace(changed, snapshots=drawn_steps(changed.test))


def drawn_steps(test: one_layer.Test) -> tuple[int, ...]:
    """The steps at which figures 8 to 11 look at the weights; the last ends the training."""
    return tuple(sorted({e * test.epoch_steps for e in EPOCHS} | {e * test.long_epoch_steps for e in LONG_EPOCHS}))


def shared_training(scale: str, **test: Any) -> Sweep:
    """The one training that figures 8 to 11, 14, 15, 27 and 28 share; `test` sets constants of its evaluation."""
    tested = replace(one_layer.Test(prompts=PROMPTS[scale]), **test)
    return EpochSweep(
        name="li_icl",
        system="li_icl",
        configs=grid(one_layer.Config, seed=range(SEEDS[scale])),
        snapshots=drawn_steps(tested),
        test=tested,
    )


def trained(runs: Mapping[str, Runs]) -> Runs:
    """The shared training with its weights in the axes of the patterns and of q."""
    (only,) = runs.values()
    return replace(only, weights=one_layer.in_axes(only.weights, only.sweep.configs))


def logits(runs: Runs, prompts: Evaluation, context_length: int) -> "Tensor":
    """F of the trained model from the first `context_length` contexts: (runs, prompts)."""
    return one_layer_evaluation.contributions(runs.last(), prompts, context_length).sum(dim=-1)


def wrong_curve(runs: Runs, prompts: Evaluation, lengths: Sequence[int]) -> np.ndarray:
    """Whether the trained model is wrong, for each context length: bool (lengths, runs, prompts)."""
    return np.stack([one_layer_evaluation.wrong(logits(runs, prompts, n), prompts) for n in lengths])


def embeddings_by_epoch(runs: Runs) -> dict[int, dict[str, np.ndarray]]:
    """Epoch of figures 10 and 11 -> norms and angles of the rows of W_O W_V (see one_layer_evaluation.embeddings)."""
    config, steps = runs.sweep.configs[0], runs.sweep.test.epoch_steps
    return {epoch: one_layer_evaluation.embeddings(runs.at(epoch * steps), config) for epoch in SCATTER_EPOCHS}
