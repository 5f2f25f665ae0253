"""Pruning of the one-layer model by removing rows of W_O (figures 14 and 15 and theorem 3 of Li et al. 2024)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from icl.core.lazy import Tensor, torch
from icl.core.runs import Runs
from icl.core.streams import stream
from icl.papers.li2024 import one_layer_evaluation
from icl.papers.li2024.one_layer import SYSTEM, Test
from icl.papers.li2024.one_layer_evaluation import Evaluation

SHARES = (0.2, 0.4, 0.6)
"""Fractions R of the large neurons in the claims on theorem 3 that remove the largest first."""
COUNTS = (0, 3, 6, 10, 13, 16, 19, 22, 26)
"""Numbers of pruned neurons at rates 0, 5, ..., 40 %, as on the published axis."""


@dataclass(frozen=True)
class Pruning:
    """The trained model as a sum over its neurons, any of which can be removed.

    norms : row norms of W_O, (runs, m); parts : contribution of each neuron to F, (runs, prompts, m)
    """

    prompts: Evaluation
    norms: np.ndarray
    parts: "Tensor"

    def without(self, removed: np.ndarray) -> dict[str, np.ndarray]:
        """Losses without the neurons in the mask `removed`, bool (runs, m).

        ``classification error`` and ``hinge loss``, (runs,) each, and ``wrong``, bool (runs, prompts).
        """
        logits = (self.parts * torch.from_numpy(~removed)[:, None]).sum(dim=-1)
        wrong = one_layer_evaluation.wrong(logits, self.prompts)
        return {
            "wrong": wrong,
            "classification error": wrong.mean(axis=-1),
            "hinge loss": one_layer_evaluation.hinge(logits, self.prompts),
        }

    def smallest(self, count: int | np.ndarray) -> np.ndarray:
        """Mask of the `count` neurons (one number, or one per run) of smallest norm."""
        rank = np.argsort(np.argsort(self.norms, axis=-1), axis=-1)
        mask: np.ndarray = rank < np.reshape(count, (-1, 1))
        return mask

    def largest(self, count: int) -> np.ndarray:
        """Mask of the `count` neurons of largest norm."""
        return ~self.smallest(self.norms.shape[1] - count)


def trained_pruning(runs: Runs, test: Test) -> Pruning:
    """Pruning of the trained model on out-of-domain prompts at full context length."""
    prompts = one_layer_evaluation.out_of_domain(runs.sweep.configs, test)
    weights = runs.last()
    parts = one_layer_evaluation.contributions(weights, prompts, test.context_length_test)
    return Pruning(prompts, weights["W_O"].norm(dim=-1).numpy(), parts)


def large_neurons(norms: np.ndarray) -> np.ndarray:
    """The neurons above the largest ratio of neighbouring sorted row norms of W_O: (runs, m) -> bool (runs, m)."""
    ordered = np.sort(norms, axis=-1)
    last_small = np.argmax(ordered[:, 1:] / ordered[:, :-1], axis=-1)
    large: np.ndarray = norms > np.take_along_axis(ordered, last_small[:, None], axis=-1)
    return large


def first_of(large: np.ndarray, keys: np.ndarray, share: float) -> np.ndarray:
    """The given fraction of each run's large neurons, smallest keys first: bool (runs, m)."""
    rank = np.argsort(np.argsort(np.where(large, keys, np.inf), axis=-1), axis=-1)
    mask: np.ndarray = rank < np.round(share * large.sum(axis=-1, keepdims=True))
    return mask


def rise_without_small(pruning: Pruning) -> np.ndarray:
    """The rise of the hinge loss without the small neurons (theorem 3): (runs,)."""
    large = large_neurons(pruning.norms)
    rise: np.ndarray = pruning.without(~large)["hinge loss"] - pruning.without(np.zeros_like(large))["hinge loss"]
    return rise


def least_rise_per_share(pruning: Pruning, shares: Sequence[float]) -> np.ndarray:
    """The least over `shares` R of the rise of the hinge loss without a fraction R of the large neurons, largest first,
    over R (theorem 3): (runs,).
    """
    large = large_neurons(pruning.norms)
    unpruned = pruning.without(np.zeros_like(large))["hinge loss"]
    pruned = [pruning.without(first_of(large, -pruning.norms, share))["hinge loss"] for share in shares]
    least: np.ndarray = np.min([(loss - unpruned) / share for loss, share in zip(pruned, shares, strict=True)], axis=0)
    return least


def random_masks(seeds: Sequence[int], neurons: int, count: int, draw: int) -> np.ndarray:
    """`count` random neurons per run, bool (runs, m); masks of one draw are nested in `count`."""
    ranks = [stream(SYSTEM, seed, "pruning", draw).permutation(neurons) for seed in seeds]
    return np.stack(ranks) < count
