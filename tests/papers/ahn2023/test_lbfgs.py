"""L-BFGS: the same steps as torch's, run by run, with a full and an overflowing history."""

import pytest
import torch

from icl.papers.ahn2023.lbfgs import lbfgs

RATES, STEPS = (0.1, 0.3), 20


def quartic(w: torch.Tensor) -> torch.Tensor:
    """Not convex at the origin, so some pairs have negative curvature."""
    return 0.25 * w.pow(4).sum() - 0.5 * w[0].square() + w[1:].square().sum() + w.prod()


@pytest.mark.parametrize("history", [3, 40])
def test_steps_are_those_of_torch(history: int) -> None:
    start = torch.randn(2, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    optimiser, params = lbfgs(RATES, history), {"w": start}
    state = optimiser.init(params)
    for step in range(STEPS):
        w = params["w"].clone().requires_grad_()
        (slope,) = torch.autograd.grad(quartic(w[0]) + quartic(w[1]), [w])
        params, state = optimiser.update(params, {"w": slope}, state, step)
    for run, rate in enumerate(RATES):
        w, never = start[run].clone().requires_grad_(), {"tolerance_grad": 0, "tolerance_change": -float("inf")}
        method = torch.optim.LBFGS([w], rate, max_iter=1, history_size=history, **never)

        def closure(w: torch.Tensor = w) -> float:
            w.grad = torch.autograd.grad(quartic(w), [w])[0]
            return float(quartic(w).detach())

        for _ in range(STEPS):
            method.step(closure)
        # Sums of some ten numbers in another order, in twenty steps.
        torch.testing.assert_close(params["w"][run], w.detach(), rtol=1e-9, atol=1e-11)
