"""L-BFGS without a line search as a pair of pure functions over a leading run axis (see `icl.models.optimisers`)."""

from collections.abc import Sequence

from icl.core.lazy import torch
from icl.models.optimisers import Optimiser, Params


def lbfgs(learning_rates: Sequence[float], history: int) -> Optimiser:
    """L-BFGS (Nocedal and Wright 2006, algorithm 7.4) with one step size per run, on weights (runs, size), as `packed`
    makes them: w <- w - learning_rate H g, with H from the last `history` pairs s = w - w_before, y = g - g_before of
    positive curvature s'y. The first step is -learning_rate g / max(|g|_1, 1). Each call is one iteration, as in
    torch.optim.LBFGS with max_iter = 1.
    """

    def init(params: Params) -> Params:
        pairs = {f"{kind}/{n}": w.new_zeros(len(w), history, *w.shape[1:]) for n, w in params.items() for kind in "sy"}
        return pairs | {f"{kind}/{n}": torch.zeros_like(w) for n, w in params.items() for kind in ("move", "before")}

    def update(params: Params, gradients: Params, state: Params, step: int) -> tuple[Params, Params]:
        new: Params = {}
        new_state: Params = {}
        rates = next(iter(params.values())).new_tensor(learning_rates)[:, None]
        for name, w in params.items():
            g, s, y, move = gradients[name], state[f"s/{name}"], state[f"y/{name}"], state[f"move/{name}"]
            if step:
                change = g - state[f"before/{name}"]
                curved = ((change * move).sum(dim=1) > 1e-10)[:, None, None]
                s = torch.where(curved, torch.cat([s[:, 1:], move[:, None]], dim=1), s)
                y = torch.where(curved, torch.cat([y[:, 1:], change[:, None]], dim=1), y)
                move = -rates * _times_inverse_hessian(g, s, y, min(step, history))
            else:
                move = -rates * g / g.abs().sum(dim=1, keepdim=True).clamp(min=1.0)
            new[name] = w + move
            new_state |= {f"s/{name}": s, f"y/{name}": y, f"move/{name}": move, f"before/{name}": g}
        return new, new_state

    return Optimiser(init, update)


def _times_inverse_hessian(g: "torch.Tensor", s: "torch.Tensor", y: "torch.Tensor", pairs: int) -> "torch.Tensor":
    """H g by the two-loop recursion over the last `pairs` pairs, (runs, history, size); zero pairs have no effect."""
    curvature = (s * y).sum(dim=2, keepdim=True)
    inverse = torch.where(curvature > 0, 1 / curvature, 0.0)
    newest = range(s.shape[1] - 1, s.shape[1] - 1 - pairs, -1)
    weights = {}
    for place in newest:
        weights[place] = inverse[:, place] * (s[:, place] * g).sum(dim=1, keepdim=True)
        g = g - weights[place] * y[:, place]
    length = y[:, -1].square().sum(dim=1, keepdim=True)
    g = torch.where(length > 0, curvature[:, -1] / length, 1.0) * g
    for place in reversed(newest):
        g = g + (weights[place] - inverse[:, place] * (y[:, place] * g).sum(dim=1, keepdim=True)) * s[:, place]
    return g
