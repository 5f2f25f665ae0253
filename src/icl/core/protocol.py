"""The interface that a model's module must define for the training loop.

Every array and tensor has the run axis first: entry r belongs to ``configs[r]``. No operation mixes runs, so a run has
the same values alone and in a batch, and a diverging run changes no other.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from icl.core.lazy import Tensor

if TYPE_CHECKING:
    import numpy as np


class System(Protocol):
    """The module of a trainable model.

    SYSTEM : the name that sweeps, constants and random streams use
    UNTRAINED : names of the weights that are not trained
    Config : constants of the training (`icl.core.config.RunConfig` with more fields)
    Evaluation : constants of the evaluation, which training does not depend on

    A module defines `loss`, of which the loop differentiates the sum over runs, or `loss_and_gradient`, for a gradient
    that is derived by hand.

    Optional: ``SHARDS``, over how many jobs a sweep is split by default (else one), for a model whose runs take long;
    ``RESOURCES``, what such a job requests from a cluster, ``{"mem_mb": ..., "runtime": minutes}``; and
    ``is_random(configs) -> bool``, for a model whose runs may not depend on their seeds.
    """

    SYSTEM: str
    UNTRAINED: tuple[str, ...]
    Config: type
    Evaluation: type

    def init(self, configs: Sequence[Any], device: str = "cpu") -> "dict[str, Tensor]":
        """Return the initial weights: name -> tensor (runs, ...)."""
        ...

    def sample(self, configs: Sequence[Any], step: int) -> "dict[str, np.ndarray]":
        """Batch `step` of every run: name -> array (runs, ...); a function of each run's seed and the step alone."""
        ...

    def loss(self, params: "dict[str, Tensor]", batch: "dict[str, Tensor]", configs: Sequence[Any]) -> "Tensor":
        """Return the training loss of every run, (runs,)."""
        ...

    def loss_and_gradient(
        self, params: "dict[str, Tensor]", batch: "dict[str, Tensor]", configs: Sequence[Any]
    ) -> "tuple[Tensor, dict[str, Tensor]]":
        """Return the training loss of every run, (runs,), and its gradient in every trained weight."""
        ...

    def optimiser(self, configs: Sequence[Any]) -> Any:
        """Return the gradient method: ``init(params)`` returns its state, ``update(params, gradients, state, step)``
        the next params and state.

        See `icl.models.optimisers.Optimiser`. Steps count from 0; every tensor of the state is (runs, ...).
        """
        ...
