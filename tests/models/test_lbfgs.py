"""L-BFGS: the same steps as torch's, run by run, with a full and an overflowing history."""

import pytest
import torch

from icl.models.lbfgs import lbfgs
from icl.models.optimisers import Params


def quartic(w: torch.Tensor) -> torch.Tensor:
    """Not convex at the origin, so some pairs have negative curvature."""
    return 0.25 * w.pow(4).sum() - 0.5 * w[0].square() + w[1:].square().sum() + w.prod()


def our_steps(start: torch.Tensor, rates: list[float], history: int, count: int) -> torch.Tensor:
    optimiser = lbfgs(rates, history)
    params: Params = {"w": start}
    state = optimiser.init(params)
    for step in range(count):
        w = params["w"].clone().requires_grad_()
        (slope,) = torch.autograd.grad(sum(quartic(run) for run in w), [w])
        params, state = optimiser.update(params, {"w": slope}, state, step)
    return params["w"]


@pytest.mark.parametrize("history", [3, 40])
def test_steps_are_those_of_torch(history: int) -> None:
    start = torch.randn(2, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rates = [0.1, 0.3]
    found = our_steps(start, rates, history, 20)
    for run, rate in enumerate(rates):
        w = start[run].clone().requires_grad_()
        method = torch.optim.LBFGS(
            [w], rate, max_iter=1, history_size=history, tolerance_grad=0, tolerance_change=-float("inf")
        )

        def closure(w: torch.Tensor = w) -> float:
            w.grad = torch.autograd.grad(quartic(w), [w])[0]
            return float(quartic(w).detach())

        for _ in range(20):
            method.step(closure)
        # Sums of some ten numbers in another order, in twenty steps.
        torch.testing.assert_close(found[run], w.detach(), rtol=1e-9, atol=1e-11)


def test_runs_do_not_mix() -> None:
    start = torch.randn(2, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    alone = our_steps(start[:1], [0.2], 4, 10)
    torch.testing.assert_close(our_steps(start, [0.2, 5.0], 4, 10)[0], alone[0], rtol=1e-12, atol=1e-13)
