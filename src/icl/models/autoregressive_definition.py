"""The autoregressive layer by its definition: E_t E_t* at every position, gradients by automatic differentiation.

Zheng et al. 2024, section 3: y_t is the first block of W^PV E_t E_t* W^KQ e_t / (t - 1).
"""

from collections.abc import Sequence

import numpy as np

from icl.core.lazy import Tensor, torch
from icl.models.optimisers import Params


def loss_and_gradient(weights: Params, sequences: Sequence[np.ndarray]) -> "tuple[Tensor, Params]":
    """L of each run over its sequences, complex (m, T, d), and its gradient; weights as in `autoregressive.init`."""
    values, slopes = [], []
    for run, x in enumerate(sequences):
        leaves = [weights[name][run].detach().requires_grad_() for name in ("KQ", "PV")]
        key_query, projection_value = (torch.view_as_complex(leaf) for leaf in leaves)
        with torch.enable_grad():
            value = loss(*embedded(key_query, projection_value), torch.from_numpy(x).to(key_query.dtype))
        slopes.append(torch.autograd.grad(value, leaves))
        values.append(value.detach().double())
    key_query, projection_value = (torch.stack(part) for part in zip(*slopes, strict=True))
    return torch.stack(values), {"KQ": key_query, "PV": projection_value}


def embedded(key_query: "Tensor", projection_value: "Tensor") -> "tuple[Tensor, Tensor]":
    """W^KQ and W^PV, (3 d, 3 d) each, from the parts that multiply tokens (x_t; x_{t-1}); the rest is zero."""
    d = len(projection_value)
    return (
        torch.nn.functional.pad(key_query, (d, 0, d, 0)),
        torch.nn.functional.pad(projection_value, (d, 0, 0, 2 * d)),
    )


def loss(key_query: "Tensor", projection_value: "Tensor", x: "Tensor") -> "Tensor":
    """1/2 sum_t E |y_t - x_{t+1}|^2 for full matrices (3 d, 3 d) over sequences x (m, T, d)."""
    residual = predictions(key_query, projection_value, x) - x[:, 2:]
    return (residual.real.square() + residual.imag.square()).sum() / (2 * len(x))


def predictions(key_query: "Tensor", projection_value: "Tensor", x: "Tensor") -> "Tensor":
    """y_t, t = 2 ... T - 1, each from its own E_t E_t* / (t - 1): (m, T - 2, d)."""
    d = x.shape[2]
    tokens = torch.cat([torch.zeros_like(x), x, torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], dim=1)], dim=2)
    embedding = tokens.mT  # E, (m, 3 d, T)
    outputs = []
    for t in range(2, x.shape[1]):
        prefix = embedding[..., :t]
        gram = prefix @ prefix.mH / (t - 1)
        outputs.append((projection_value @ gram @ key_query @ prefix[..., -1:])[:, :d, 0])
    return torch.stack(outputs, dim=1)


def layer_of_blocks(key_query: np.ndarray, projection_value: np.ndarray, x: np.ndarray) -> np.ndarray:
    """y_t, t = 2 ... T - 1, of the literal layer with the blocks A and B: (m, T, d) -> (m, T - 2, d)."""
    d = len(key_query)
    full = np.zeros((2 * d, 2 * d), complex), np.zeros((d, 2 * d), complex)
    full[0][d:, :d], full[1][:, :d] = key_query, projection_value
    parts = embedded(*(torch.from_numpy(part) for part in full))
    return predictions(*parts, torch.from_numpy(x)).numpy()
