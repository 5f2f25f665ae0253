"""L-BFGS without a line search as a pair of pure functions over a leading run axis (see
`icl.models.optimisers`).
"""

from collections.abc import Sequence

from icl.core.lazy import Tensor, torch
from icl.models.optimisers import Optimiser, Params, packed


def lbfgs(learning_rates: Sequence[float], history: int) -> Optimiser:
    """L-BFGS (Nocedal and Wright 2006, algorithm 7.4) with one step size per run, on all weights of
    a run as one vector: w <- w - learning_rate H g, with H from the last `history` pairs s = w -
    w_before, y = g - g_before of positive curvature s'y. The first step is -learning_rate g /
    max(|g|_1, 1). Each call is one iteration, as in torch.optim.LBFGS with max_iter = 1.
    """

    def init(params: Params) -> Params:
        w = params["all"]
        pairs = {kind: w.new_zeros(len(w), history, w.shape[1]) for kind in ("s", "y")}
        return pairs | {"move": torch.zeros_like(w), "before": torch.zeros_like(w)}

    def update(
        params: Params, gradients: Params, state: Params, step: int
    ) -> tuple[Params, Params]:
        w, g, s, y, move = params["all"], gradients["all"], state["s"], state["y"], state["move"]
        rates = w.new_tensor(learning_rates)[:, None]
        if step == 0:
            move = -rates * g / g.abs().sum(dim=1, keepdim=True).clamp(min=1.0)
        else:
            change = g - state["before"]
            curved = ((change * move).sum(dim=1) > 1e-10)[:, None, None]
            s = torch.where(curved, torch.cat([s[:, 1:], move[:, None]], dim=1), s)
            y = torch.where(curved, torch.cat([y[:, 1:], change[:, None]], dim=1), y)
            move = -rates * _times_inverse_hessian(g, s, y, min(step, history))
        return {"all": w + move}, {"s": s, "y": y, "move": move, "before": g}

    return packed(Optimiser(init, update))


def _times_inverse_hessian(g: "Tensor", s: "Tensor", y: "Tensor", pairs: int) -> "Tensor":
    """H g by the two-loop recursion over the last `pairs` pairs, (runs, history, size); zero
    pairs have no effect.
    """
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
        g = (
            g
            + (weights[place] - inverse[:, place] * (y[:, place] * g).sum(dim=1, keepdim=True))
            * s[:, place]
        )
    return g
