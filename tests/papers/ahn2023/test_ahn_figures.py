"""The oracle of structured stacks and the descents beside it, against derivatives, literal stacks and known numbers."""

from collections.abc import Callable

import numpy as np
import pytest

from icl.papers.ahn2023 import ahn_layers, trainings
from icl.papers.ahn2023 import linear_attention as system
from icl.papers.ahn2023.linear_attention import SKEWED, Config
from icl.papers.ahn2023.trainings import Structured

STACK = Structured(np.array([-0.4, -0.7, -1.7]), np.array([0.3, 0.2]))


def test_the_oracle_is_the_loss_of_a_stack_with_the_structure() -> None:
    config = Config(parametrisation="relaxed")
    g = system.fresh(config, 50)
    values = np.linalg.eigvalsh(np.moveaxis(g[0].numpy(), -1, 0))
    wanted = system.losses_over(STACK.blocks(5), g, config)
    assert trainings.structured_loss(STACK, values)[0] == pytest.approx(float(wanted), rel=1e-12)


def test_the_oracle_has_the_right_derivatives() -> None:
    g, step = trainings.spectra(Config(), 30), 1e-6
    _, slope = trainings.structured_loss(STACK, g)
    for part, own in enumerate(STACK):
        for place in range(len(own)):
            moved = [[*STACK], [*STACK]]
            for sign, side in zip((1, -1), moved, strict=True):
                side[part] = own + sign * step * np.eye(len(own))[place]
            up, down = (trainings.structured_loss(Structured(*side), g)[0] for side in moved)
            # Central differences of a smooth function of order one.
            assert (up - down) / (2 * step) == pytest.approx(slope[part][place], rel=1e-6)


@pytest.mark.parametrize(("layers", "expected"), [(1, 0.144), (2, -1.015), (3, -2.01)])
def test_the_least_losses_without_p_are_the_known_ones(layers: int, expected: float) -> None:
    """One layer has d(d + 1)/(n + d + 1) = 30/26; the others were found on 40 000 other spectra, to 3 %."""
    g = trainings.spectra(Config(), 20000)
    found = np.log(trainings.structured_loss(trainings.best_sparse(layers, g), g)[0])
    assert found == pytest.approx(expected, abs=0.06)


@pytest.mark.parametrize(
    ("kind", "choose", "expected"),
    [
        ("GD", ahn_layers._coarsest, (0.826, 0.530, 0.358, 0.221)),
        ("PGD", ahn_layers._coarsest, (0.176, -0.619, -1.131, -1.339)),
        ("GD", ahn_layers._finest, (0.811, 0.498, 0.329, 0.192)),
        ("PGD", ahn_layers._finest, (0.148, -0.688, -1.308, -1.808)),
    ],
)
def test_descents_have_the_losses_of_the_published_code(
    kind: str, choose: Callable[..., float], expected: tuple[float, ...]
) -> None:
    config = Config(parametrisation="sparse", spectrum=SKEWED)
    config = ahn_layers._shorter(config) if choose is ahn_layers._coarsest else config
    g = system.fresh(config, 5000)
    for depth, wanted in zip((1, 2, 3, 4), expected, strict=True):
        rate = choose(kind, depth, config, 2000)
        found = float(np.log(system.losses_over(ahn_layers._steps(kind, rate, depth, config), g, config)))
        # Both are means over 5000 prompts; the last PGD step is chosen close to where losses start to explode.
        assert found == pytest.approx(wanted, abs=0.12 if wanted < -1 else 0.04)
