"""The mesa layer from one Cholesky factor, and linear attention in its reduced form.

Both at the paper's size: 256 sequences of 50 positions, 4 and 2 heads, keys of size 20. Each side returns the
derivatives of all its inputs by automatic differentiation:

    mesa     against one batched solve per position, and against a Cholesky factorisation position by position
    linear   the full gradient of the loss from the 20 rows of a token that matter, against the literal tokens of 40

CPU time of one thread, the minimum of several alternating repeats.

    python -m benchmarks mesa_layer
"""

from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.timing import Row, least
from icl.papers.oswald2023mesa import one_layer as system
from icl.papers.oswald2023mesa.layers import mesa
from tests.oracles import oswald2023mesa as oracle

BATCH, HEADS, POSITIONS, KEYS, VALUES = 256, 4, 50, 20, 10
REPEATS = 4
# The number of sequences per chunk, on either side; more would not fit in the cache.
PART_SIZE = 32


def differentiated(layer: Callable[..., Tensor], inputs: list[Tensor], weight: Tensor) -> None:
    """Automatic differentiation through a layer."""
    for *part, of_part in zip(*(x.split(PART_SIZE) for x in inputs), weight.split(PART_SIZE), strict=True):
        leaves = [x.detach().requires_grad_() for x in part]
        torch.autograd.grad((layer(*leaves) * of_part).sum(), leaves)


def literal_gradient(weights: dict[str, Tensor], x: Tensor) -> None:
    """The loss of linear attention from literal tokens and its derivatives by automatic differentiation."""
    for part in x.split(PART_SIZE):
        leaves = {name: w.detach().requires_grad_() for name, w in weights.items()}
        loss = (oracle.outputs(leaves, part).clamp(-4, 4) - part[:, 1:]).square().sum() / 2
        torch.autograd.grad(loss, list(leaves.values()))


def reduced_gradient(weights: dict[str, Tensor], x: Tensor, config: system.Config) -> None:
    """The same loss and derivatives by the package."""
    system.loss_and_gradient({name: w[None] for name, w in weights.items()}, {"x": x[None]}, [config])


def main() -> list[Row]:
    """Rows (name, value, target)."""
    rng = torch.Generator().manual_seed(0)
    inputs = [torch.randn(BATCH, HEADS, POSITIONS, n, generator=rng) for n in (KEYS, KEYS, VALUES)]
    inputs.append(torch.ones(BATCH, HEADS))
    weight = torch.randn(BATCH, HEADS, POSITIONS, VALUES, generator=rng)
    config = system.Config(init_std=0.1)
    weights = {name: w[0] for name, w in system.init([config]).items()}
    x = torch.from_numpy(system.sample([config], 0)["x"])[0]
    sides: dict[str, Callable[[], None]] = {
        "mesa, ours": lambda: differentiated(mesa, inputs, weight),
        "batched solve": lambda: differentiated(oracle.mesa_by_position, inputs, weight),
        "loop": lambda: differentiated(oracle.ridge_regressions, inputs, weight),
        "linear, ours": lambda: reduced_gradient(weights, x, config),
        "literal tokens": lambda: literal_gradient(weights, x),
    }
    seconds = least({name: (side, 1) for name, side in sides.items()}, REPEATS)
    return [
        (
            "mesa layer: batched solve per position / ours, at least",
            seconds["batched solve"] / seconds["mesa, ours"],
            3.0,
        ),
        ("mesa layer: loop over positions / ours, at least", seconds["loop"] / seconds["mesa, ours"], 6.0),
        ("mesa layer: CPU ms per gradient, ours", 1e3 * seconds["mesa, ours"], None),
        ("linear-SA: literal tokens / ours, at least", seconds["literal tokens"] / seconds["linear, ours"], 1.4),
        ("linear-SA: CPU ms per gradient, ours", 1e3 * seconds["linear, ours"], None),
    ]
