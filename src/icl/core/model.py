"""A model as a value: what the training loop, the plan and the files need to know of it.

Every array and tensor has the run axis first: entry r belongs to ``configs[r]``. No operation mixes
runs, so a run has the same values alone and in a batch, and a diverging run changes no other.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from icl.core.lazy import Tensor

Configs = Sequence[Any]


def _nothing(configs: Configs, *_: Any) -> dict[str, Any]:
    return {}


@dataclass(frozen=True, eq=False)
class Model:
    """A model that sweeps train, or, without `optimiser`, whose constants and seeds alone are used.

    name : in the user's constants and in random streams
    config : constants of the training (`icl.core.config.RunConfig` with more fields)
    evaluation : constants of the evaluation, which training does not depend on
    init : (configs, device) -> initial weights, name -> tensor (runs, ...)
    sample : (configs, step) -> batch `step` of every run, name -> array (runs, ...); a function of
        each run's seed and the step alone
    optimiser : configs -> an `icl.models.optimisers.Optimiser`; steps count from 0, and every
        tensor of its state is (runs, ...)
    loss : (weights, batch, configs) -> training loss of every run, (runs,), of whose sum the loop
        takes the gradient
    loss_and_gradient : the same with the gradient in every weight, for one that is derived by hand;
        in place of `loss`
    shards : over how many jobs a sweep is split by default; more than one for a model whose runs
        take long
    is_random : configs -> whether the runs depend on their seeds
    """

    name: str
    config: type
    evaluation: type
    init: Callable[..., dict[str, Tensor]] = _nothing
    sample: Callable[..., Mapping[str, Any]] = _nothing
    optimiser: Callable[[Configs], Any] | None = None
    loss: Callable[..., Tensor] | None = None
    loss_and_gradient: Callable[..., tuple[Tensor, dict[str, Tensor]]] | None = None
    shards: int = 1
    is_random: Callable[[Configs], bool] = lambda configs: True

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules of its constants and functions, which the trained weights depend on."""
        functions = self.init, self.sample, self.optimiser, self.loss, self.loss_and_gradient
        parts = [self.config, self.evaluation, *(one for one in functions if one)]
        return tuple(sorted({part.__module__ for part in parts}))

    @property
    def constants(self) -> frozenset[str]:
        """The names of its constants, which a user can change."""
        every = *fields(self.config), *fields(self.evaluation)
        return frozenset(field.name for field in every) - {"seed"}
