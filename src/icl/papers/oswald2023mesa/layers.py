"""One layer on a linear dynamical system, causal linear attention or mesa, with explicit derivatives.

The token at t holds z_t = (x_t, x_{t-1}) (zero before the first state). The linear layer depends on its weights only
through M_h = W_K' W_Q and U_h = P W_V of every head h. With the moments S_t = sum_{s <= t} z_s z_s',

    y_t = sum_h U_h S_t M_h z_t,

and its derivatives have the same form: for the error e_t, dU_h = sum_t e_t (S_t M_h z_t)' and
dM_h = sum_t (S_t U_h' e_t) z_t'. As in the paper, the four factors are trained.
"""

from typing import NamedTuple

from icl.core.lazy import Tensor, torch
from icl.models.optimisers import Params
from icl.papers.oswald2023mesa import causal_attention


def tokens(x: "Tensor") -> "Tensor":
    """Return z_t = (x_t, x_{t-1}) for t = 0 ... T - 1, with x_{-1} = 0: (n, T + 1, d) -> (n, T, 2 d)."""
    now = x[:, :-1]
    return torch.cat([now, torch.nn.functional.pad(now[:, :-1], (0, 0, 1, 0))], dim=-1)


class Maps(NamedTuple):
    """The products that determine a linear layer: M_h = W_K' W_Q, (H, 2 d, 2 d), and U_h = P W_V, (H, d, 2 d)."""

    key_query: "Tensor"
    value: "Tensor"


def products(weights: Params) -> Maps:
    """Return the products of the factors; leading axes stay."""
    return Maps(weights["key"].mT @ weights["query"], weights["output"] @ weights["value"])


def to_factors(weights: Params, d_maps: Maps) -> Params:
    """Return the derivatives with respect to the factors from those with respect to their products."""
    return {
        "key": weights["query"] @ d_maps.key_query.mT,
        "query": weights["key"] @ d_maps.key_query,
        "value": weights["output"].mT @ d_maps.value,
        "output": d_maps.value @ weights["value"].mT,
    }


class Linear:
    """Causal linear attention computed from its maps; arrays of all heads are (n, T, H, 2 d)."""

    def __init__(self, weights: Params, maps: Maps | None = None):
        self.weights, (key_query, value) = weights, maps or products(weights)
        self.heads, self.width = key_query.shape[0], key_query.shape[-1]
        self.key_query = key_query.flatten(0, 1)  # (H 2d, 2d)
        self.value = value.movedim(0, 1).flatten(1)  # (d, H 2d)
        self.d_key_query, self.d_value = torch.zeros_like(self.key_query), torch.zeros_like(self.value)

    def forward(self, z: "Tensor") -> "Tensor":
        """Return y, (n, T, d), for tokens z, (n, T, 2 d)."""
        self.z, self.read = z, self._past(z, z @ self.key_query.mT)
        return self.read @ self.value.mT

    def reverse(self, error: "Tensor") -> None:
        """Add the derivatives of sum(y * error) for the tokens of the last `forward`."""
        back = self._past(self.z, error @ self.value)
        self.d_value += error.flatten(0, 1).mT @ self.read.flatten(0, 1)
        self.d_key_query += back.flatten(0, 1).mT @ self.z.flatten(0, 1)

    def gradients(self) -> Params:
        """Return the derivatives added so far, with respect to the factors."""
        key_query = self.d_key_query.reshape(self.heads, self.width, self.width)
        value = self.d_value.reshape(-1, self.heads, self.width).movedim(1, 0)
        return to_factors(self.weights, Maps(key_query, value))

    def _past(self, z: "Tensor", vectors: "Tensor") -> "Tensor":
        # (sum_{s <= t} z_s z_s') v_t for the vectors v_t of all heads: (n, T, H 2d) -> the same.
        rows = vectors.reshape(len(z), -1, self.width)
        seen = causal_attention.lower_ones(z).repeat_interleave(self.heads, dim=0)
        return ((rows @ z.mT).mul_(seen) @ z).reshape(vectors.shape)


class Mesa:
    """The mesa layer; heads are the first axis, (H, n, T, .), and values include the output map, U_h z_s."""

    def __init__(self, weights: Params):
        self.weights = weights
        self.inputs = {"key": weights["key"], "query": weights["query"], "value": weights["output"] @ weights["value"]}
        self.d_weights = {name: torch.zeros_like(w) for name, w in self.inputs.items()}
        self.d_ridge = torch.zeros_like(weights["inverse ridge"])

    def forward(self, z: "Tensor") -> "Tensor":
        """Return y, (n, T, d), for tokens z, (n, T, 2 d)."""
        self.z = z.flatten(0, 1)
        keys, queries, values = ((self.z @ w.mT).reshape(len(w), *z.shape[:2], -1) for w in self.inputs.values())
        outputs, self.solved = causal_attention.mesa(keys, queries, values, 1 / self.weights["inverse ridge"][:, None])
        return outputs.sum(dim=0)

    def reverse(self, error: "Tensor") -> None:
        """Add the derivatives of sum(y * error) for the tokens of the last `forward`."""
        *d_inputs, d_ridge = causal_attention.mesa_reverse(self.solved, error.expand(len(self.d_ridge), *error.shape))
        for total, of_part in zip(self.d_weights.values(), d_inputs, strict=True):
            total += of_part.flatten(1, 2).mT @ self.z
        self.d_ridge += d_ridge.sum(dim=1)

    def gradients(self) -> Params:
        """Return the derivatives added so far, with respect to the factors and lambda = 1 / r."""
        d_value = self.d_weights["value"]
        return {
            "key": self.d_weights["key"],
            "query": self.d_weights["query"],
            "value": self.weights["output"].mT @ d_value,
            "output": d_value @ self.weights["value"].mT,
            "inverse ridge": -self.d_ridge / self.weights["inverse ridge"].square(),
        }


LAYERS = {"linear": Linear, "mesa": Mesa}
