"""What the figures of the one-layer model share: one training, the test prompts and the pruning of neurons."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from icl.core.config import Constants, constant, grid
from icl.core.lazy import lazy
from icl.core.runs import Runs
from icl.core.streams import stream
from icl.core.sweep import Sweep
from icl.papers.li2024 import one_layer

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = lazy("torch")

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


class Recorded(Sweep):
    """A training whose weights are kept at the epochs that the figures draw, whatever an epoch's number of steps."""

    def override(self, values: Mapping[str, Any]) -> Sweep:
        """The sweep with some constants replaced; see Sweep."""
        made = super().override(values)
        return replace(made, snapshots=recorded(made.test))


def recorded(test: one_layer.Test) -> tuple[int, ...]:
    """The steps at which figures 8 to 11 look at the weights; the last ends the training."""
    return tuple(sorted({e * test.epoch_steps for e in EPOCHS} | {e * test.long_epoch_steps for e in LONG_EPOCHS}))


def trained(scale: str, **test: Any) -> Sweep:
    """The one training that figures 8 to 11, 14, 15, 27 and 28 share; `test` sets constants of its evaluation."""
    tested = replace(one_layer.Test(prompts=PROMPTS[scale]), **test)
    return Recorded(
        name="li_icl",
        system="li_icl",
        configs=grid(one_layer.Config, seed=range(SEEDS[scale])),
        snapshots=recorded(tested),
        test=tested,
    )


def logits(runs: Runs, prompts: one_layer.Evaluation, context_length: int) -> "Tensor":
    """F of the trained model from the first `context_length` contexts: (runs, prompts)."""
    return one_layer.contributions(runs.last(), prompts, context_length).sum(dim=-1)


def wrong_curve(runs: Runs, prompts: one_layer.Evaluation, lengths: Sequence[int]) -> np.ndarray:
    """Whether the trained model is wrong, for each context length: bool (lengths, runs, prompts)."""
    return np.stack([one_layer.wrong(logits(runs, prompts, n), prompts) for n in lengths])


@dataclass(frozen=True)
class Pruning:
    """The trained model with neurons left out.

    norms : row norms of W_O, (runs, m); parts : contribution of each neuron to F, (runs, prompts, m)
    """

    prompts: one_layer.Evaluation
    norms: np.ndarray
    parts: "Tensor"

    def without(self, removed: np.ndarray) -> dict[str, np.ndarray]:
        """What follows when `removed`, bool (runs, m), marks the neurons that are left out.

        ``classification error`` and ``hinge loss``, (runs,) each, and ``wrong``, bool (runs, prompts).
        """
        left = (self.parts * torch.from_numpy(~removed)[:, None]).sum(dim=-1)
        wrong = one_layer.wrong(left, self.prompts)
        return {
            "wrong": wrong,
            "classification error": wrong.mean(axis=-1),
            "hinge loss": one_layer.hinge(left, self.prompts),
        }

    def smallest(self, count: int | np.ndarray) -> np.ndarray:
        """The mask of the `count` neurons (one number, or one per run) of smallest norm."""
        rank = np.argsort(np.argsort(self.norms, axis=-1), axis=-1)
        mask: np.ndarray = rank < np.reshape(count, (-1, 1))
        return mask

    def largest(self, count: int) -> np.ndarray:
        """The mask of the `count` neurons of largest norm."""
        return ~self.smallest(self.norms.shape[1] - count)


def pruning(runs: Runs, test: one_layer.Test) -> Pruning:
    """Pruning of the trained model on out-of-domain prompts at full context length."""
    prompts = one_layer.out_of_domain(runs.sweep.configs, test)
    weights = runs.last()
    parts = one_layer.contributions(weights, prompts, test.context_length_test)
    return Pruning(prompts, weights["W_O"].norm(dim=-1).numpy(), parts)


def random_masks(seeds: Sequence[int], neurons: int, count: int, draw: int) -> np.ndarray:
    """`count` random neurons per run, bool (runs, m); masks of one draw are nested in `count`."""
    ranks = [stream(one_layer.SYSTEM, seed, "pruning", draw).permutation(neurons) for seed in seeds]
    return np.stack(ranks) < count


def only(runs: Mapping[str, Runs]) -> Runs:
    """The runs of a figure that has a single sweep."""
    (found,) = runs.values()
    return found
