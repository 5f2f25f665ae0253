"""The published training of Cheng, Chen and Sra 2024 as it stands in their code, which only tests use."""

from collections.abc import Sequence

from icl.models.optimisers import Optimiser, Params, Schedule, adam, on_changed_gradients
from icl.papers.cheng2024.normalised_steps import layer_norms, per_layer, slowness

# The gradient of a layer is clipped at this number over the square that slows it: Adam's own epsilon.
CLIP = 1e-8


def clipped(learning_rates: Sequence[float], schedule: Schedule, momentum: float) -> Optimiser:
    """Adam on gradients that were clipped, layer by layer, at 1e-8 / (9 - i)^2."""

    def short(gradients: Params) -> Params:
        norms = layer_norms(gradients)
        factor = (CLIP / slowness(norms.shape[1]) / norms).clamp(max=1)
        return {name: g * per_layer(factor, g) for name, g in gradients.items()}

    return on_changed_gradients(adam(learning_rates, schedule, momentum, momentum), short)
